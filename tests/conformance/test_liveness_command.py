"""``nullblock explore --liveness``: what it prints, what it returns, what it writes."""

import json
from pathlib import Path
from typing import Any

import pytest

from nullblock.conformance import liveness
from nullblock.conformance.cli import main
from nullblock.conformance.scenario import load
from nullblock.spec.departures import DEPARTURES
from nullblock.spec.liveness.fairness import Assumption
from nullblock.spec.liveness.preconditions import PRECONDITIONS
from nullblock.spec.liveness.properties import PROPERTIES
from nullblock.spec.liveness.scopes import CONTENDED
from nullblock.spec.prover.jobs import claimed

Json = dict[str, Any]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few small scopes in place of all."""
    names = ("unfit-prompt", "start-over", "next-owner")
    few = {d.name: d.scope for d in DEPARTURES if d.name in names}
    monkeypatch.setattr(liveness, "SCOPES", {"pair": CONTENDED["pair"], **few})


def said(capsys: pytest.CaptureFixture[str], *arguments: str, code: int) -> Json:
    """What the command says in JSON."""
    assert main(["explore", "--liveness", "--json", *arguments]) == code
    document: Json = json.loads(capsys.readouterr().out)
    return document


def test_in_normative_every_statement_holds(capsys: pytest.CaptureFixture[str]) -> None:
    """All scopes by default, each statement with what was looked at, and what was assumed."""
    document = said(capsys, code=0)
    assert [s["name"] for s in document["scopes"]] == list(liveness.SCOPES)
    assert set(document["assumed"]) == {a.value for a in Assumption}
    assert document["story"] == ""
    for scope in document["scopes"]:
        assert scope["complete"] and scope["lasso"] is None and scope["missing"] == []
        assert [f["id"] for f in scope["statements"]] == list(PROPERTIES)
        assert all(f["holds"] for f in scope["statements"])
    pair = {f["id"]: f for f in document["scopes"][0]["statements"]}
    assert pair["LIVE-1"]["states"] and pair["LIVE-1"]["steps"] and pair["LIVE-1"]["components"]


def test_the_tables_say_what_holds_and_what_is_assumed(capsys: pytest.CaptureFixture[str]) -> None:
    """Scopes, statements, assumptions."""
    assert main(["explore", "--liveness", "pair", "start-over"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "pair" in out and "start-over" in out and "LIVE-2" in out
    assert "exhaustive" in out and "the engine goes on taking steps" in out


def test_a_lasso_is_told_and_saved(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """In vllm-0.22.1: the way into the cycle, the cycle, why it is fair; the scenario that is
    written goes round three times, and the engines run it.
    """
    path = tmp_path / "lasso.json"
    document = said(capsys, "start-over", "--profile", "vllm-0.22.1", "--save", str(path), code=1)
    lasso = document["scopes"][0]["lasso"]
    assert lasso["breaks"] == "LIVE-2" and lasso["cycle"] == ["step", "step"]
    assert {row["action"]: row["taken"] for row in lasso["fairness"]} == {"step": 2}
    assert "so for ever" in document["story"] and "taken 2: the engine" in document["story"]
    events = load(path).events
    assert len(events) == len(lasso["stem"]) + 3 * len(lasso["cycle"])
    for engine in ("spec", "reference"):
        arguments = ["--engine", engine, "--profile", "vllm-0.22.1", str(path)]
        assert main(["run", *arguments]) == 0
        lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        preempted = [r["preempted"] for r in lines if "num_scheduled_tokens" in r]
        turn = preempted[-2:]
        assert sorted(turn) == [[], ["a"]]
        assert preempted[-6:] == turn * 3
    assert main(["explore", "--liveness", "start-over", "--profile", "vllm-0.22.1"]) == 1
    out = capsys.readouterr().out
    assert "A lasso in scope start-over" in out and "Why this may go on for ever" in out


def test_without_a_lasso_nothing_is_saved(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """One line says so."""
    path = tmp_path / "none.json"
    assert main(["explore", "--liveness", "start-over", "--save", str(path)]) == 0
    assert "is not written" in capsys.readouterr().err and not path.exists()


def test_an_assumption_can_be_dropped(capsys: pytest.CaptureFixture[str]) -> None:
    """Without steps everybody starves; what is assumed is said."""
    document = said(capsys, "pair", "--without", "steps", code=1)
    assert "steps" not in document["assumed"]
    assert "step" not in document["scopes"][0]["lasso"]["cycle"]


def test_the_preconditions(capsys: pytest.CaptureFixture[str]) -> None:
    """Each with the setting that violates it alone, and its lasso; one of them is told whole."""
    document = said(capsys, "--preconditions", "pool", "ranks", code=0)
    rows = {row["name"]: row for row in document["preconditions"]}
    assert list(rows) == ["pool", "ranks"]
    assert all(row["alone"] and row["lasso"] for row in rows.values())
    assert rows["ranks"]["lasso"]["breaks"] == "LIVE-2" and len(document["not_needed"]) == 6
    assert main(["explore", "--liveness", "--preconditions", "budget"]) == 0
    assert "so for ever" in capsys.readouterr().out
    assert main(["explore", "--liveness", "--preconditions", "--list"]) == 0
    listed = capsys.readouterr().out
    assert all(p.name in listed for p in PRECONDITIONS)


def test_the_ranking_argument(capsys: pytest.CaptureFixture[str]) -> None:
    """Named texts, with every obligation."""
    document = said(capsys, "--ranking", "step: skip", code=0)
    assert document["shows_nothing"] == []
    rows = document["obligations"]
    assert {row["status"] for row in rows} == {"proved"}
    assert {row["where"] for row in rows} == {"step: skip"}
    assert {row["policy"] for row in rows} == {"fcfs", "priority"}
    assert main(["explore", "--liveness", "--ranking", "end_reset"]) == 0
    assert f"1 of {len(claimed())}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["--liveness", "nowhere"], "nowhere"),
        (["--liveness", "--without", "luck"], "choose from steps"),
        (["--without", "steps"], "needs --liveness"),
        (["--ranking"], "needs --liveness"),
        (["--liveness", "--departures"], "readable form"),
        (["--liveness", "--compiled"], "readable form"),
        (["--liveness", "--preconditions", "--profile", "vllm-0.22.1"], "has its own"),
        (["--liveness", "--preconditions", "--save", "x.json"], "name the one"),
        (["--liveness", "--ranking", "nothing"], "nothing"),
        (["--liveness", "--ranking", "--profile", "vllm-0.22.1"], "invariants of normative"),
    ],
)
def test_mistakes_get_one_line(
    arguments: list[str], what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2, and a line that names the place and the remedy."""
    assert main(["explore", *arguments]) == 2
    err = capsys.readouterr().err
    assert what in err and err.count("\n") == 1
