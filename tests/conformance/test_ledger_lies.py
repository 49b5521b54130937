"""A lie in the evidence of the ledger changes its words and the exit code."""

import json
from pathlib import Path
from typing import Any

import pytest
from ledger_evidence import Lie, altered

from nullblock.conformance.cli import main
from nullblock.conformance.ledger import evidence as file
from nullblock.conformance.ledger.evidence import dump, load
from nullblock.conformance.ledger.judge import judge
from nullblock.conformance.ledger.markdown import markdown
from nullblock.conformance.ledger.words import Word


def unproved(r: dict[str, Any]) -> None:
    """An obligation is open."""
    text = named(r["proofs"]["texts"], "push_new")
    del text["proved"]["POOL-3"]
    text["left"] = [{"what": "POOL-3", "policy": "fcfs", "status": "unknown"}]


def refuted(r: dict[str, Any]) -> None:
    """An obligation has a counterexample."""
    unproved(r)
    named(r["proofs"]["texts"], "push_new")["left"][0]["status"] = "refuted"


def unguarded(r: dict[str, Any]) -> None:
    """The machine fires a rule where it may not."""
    text = named(r["proofs"]["texts"], "schedule")
    text["left"] = [{"what": "look is enabled", "policy": "fcfs", "status": "unknown"}]


def lost(r: dict[str, Any]) -> None:
    """An obligation has vanished."""
    del named(r["proofs"]["texts"], "wipe")["proved"]["POOL-3"]


def unreached(r: dict[str, Any]) -> None:
    """A text assumes what contradicts itself."""
    named(r["proofs"]["texts"], "wipe")["reached"] = False


def witness(r: dict[str, Any]) -> None:
    """A scope does not reach what it promises."""
    scope = named(r["scopes"]["scopes"], "core")
    scope["reached"].remove("preempts-another")


def cut(r: dict[str, Any]) -> None:
    """A scope was not searched to the end."""
    named(r["scopes"]["scopes"], "twins")["complete"] = False


def dropped(r: dict[str, Any]) -> None:
    """A scope was not searched."""
    r["scopes"]["scopes"].pop()


def broken(r: dict[str, Any]) -> None:
    """A scope has a counterexample."""
    story = dict(r["departures"]["departures"][0]["story"], breaks="POOL-3")
    named(r["scopes"]["scopes"], "core")["story"] = story


def violated(r: dict[str, Any]) -> None:
    """A recorded run does something else."""
    r["traces"]["traces"][0]["verdict"] = "VIOLATION"


def differs(r: dict[str, Any]) -> None:
    """The real engine does something else."""
    r["lockstep"]["differences"] = 1


def unranked(r: dict[str, Any]) -> None:
    """A text of the ranking argument is open."""
    text = r["ranking"]["texts"][0]
    text["left"] = [{"what": "is_lower", "policy": "fcfs", "status": "unknown"}]


def starved(r: dict[str, Any]) -> None:
    """A scope has a lasso."""
    fallen = r["liveness"]["conditions"][0]["found"]["LIVE-1"]
    named(r["liveness"]["scopes"], "core")["found"]["LIVE-1"] = fallen


def uncertain(r: dict[str, Any]) -> None:
    """A scope of liveness does not reach what it promises."""
    named(r["liveness"]["scopes"], "core")["missing"] = ["preempts-another"]


def event(r: dict[str, Any]) -> None:
    """A stream breaks a law."""
    named(r["streams"]["streams"], "full.msgpack").update(verdict="VIOLATION", breaks="EVENT-2")


def named(found: list[dict[str, Any]], name: str) -> dict[str, Any]:
    """The entry of that name."""
    return next(x for x in found if x["name"] == name)


@pytest.mark.parametrize(
    ("lie", "row", "engine", "said"),
    [
        (unproved, "POOL-3", "Z3", Word.OPEN),
        (unproved, "POOL-10", "Z3", Word.OPEN),  # the rule
        (unproved, "RUN-8", "Z3", Word.OPEN),  # its proof assumes the other
        (refuted, "POOL-3", "Z3", Word.REFUTED),
        (unguarded, "POOL-3", "Z3", Word.OPEN),
        (lost, "POOL-3", "Z3", Word.OPEN),
        (unreached, "POOL-3", "Z3", Word.OPEN),
        (witness, "POOL-3", "explorer", Word.EMPTY),
        (cut, "POOL-3", "explorer", Word.EMPTY),
        (dropped, "RUN-20", "explorer", Word.EMPTY),
        (broken, "POOL-3", "explorer", Word.REFUTED),
        (broken, "POOL-1", "explorer", Word.EMPTY),
        (violated, "POOL-10", "traces", Word.REFUTED),
        (differs, "POOL-10", "lockstep", Word.REFUTED),
        (unranked, "LIVE-7", "Z3", Word.OPEN),
        (unproved, "LIVE-7", "Z3", Word.OPEN),  # it assumes the invariants
        (starved, "LIVE-1", "explorer", Word.REFUTED),
        (uncertain, "LIVE-2", "explorer", Word.EMPTY),
        (event, "EVENT-7", "streams", Word.REFUTED),
    ],
)
def test_a_lie_changes_the_word_and_the_exit_code(
    lie: Lie,
    row: str,
    engine: str,
    said: Word,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Evidence that does not bear out a claim takes the word away, in every output, and ends the
    command with 1.
    """
    path = tmp_path / "evidence.json"
    path.write_bytes(dump(altered(lie)))
    monkeypatch.setattr(file, "FILE", path)
    assert main(["ledger", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    cell = named([{"name": s["id"], **s} for s in found["statements"]], row)["shown"][engine]
    assert cell["word"] == said and not cell["shown"] and cell["because"]
    assert any(row in line for line in found["shortfalls"]) or said == Word.REFUTED
    assert main(["ledger"]) == 1
    assert found["shortfalls"][0][:40] in capsys.readouterr().out
    assert f"**{said}**" in markdown(judge(load()))


@pytest.mark.parametrize(
    ("lie", "line"),
    [
        (lambda r: r["departures"]["departures"][0].pop("story"), "unfit-prompt: it does not"),
        (lambda r: r["departures"]["departures"].pop(0), "unfit-prompt: it is not recorded"),
        (
            lambda r: r["departures"]["departures"][0].update(normative_passes=False),
            "unfit-prompt: normative does not pass",
        ),
        (lambda r: r["mutants"]["mutants"][0].update(noticed=[]), "nobody notices it"),
        (lambda r: r["mutants"]["mutants"].pop(0), "touch-keeps-queue is not recorded"),
        (lambda r: r["traces"]["traces"].pop(0), "no verdict is recorded"),
        (lambda r: r.pop("traces"), "no evidence of traces is recorded"),
        (lambda r: r["liveness"]["conditions"].pop(0), "condition pool is not recorded"),
        (
            lambda r: r["liveness"]["conditions"][0].update(found={}),
            "condition pool: nobody starves without it",
        ),
        (lambda r: r["liveness"]["scopes"].pop(0), "no search of pair is recorded"),
        (lambda r: r["streams"]["streams"].clear(), "no true stream"),
        (lambda r: r["ranking"]["texts"].pop(0), "no proof of step: a step begins"),
    ],
)
def test_what_is_no_cell_counts_too(lie: Lie, line: str) -> None:
    """Departures, mutants and traces that are not borne out, or not there, are shortfalls."""
    assert any(line in shortfall for shortfall in judge(altered(lie)).shortfalls)
