"""``nullblock explore``: what it prints, what it returns, what it writes."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nullblock.conformance import exploration
from nullblock.conformance.cli import main
from nullblock.conformance.commands import explore as explore_command
from nullblock.conformance.scenario import load
from nullblock.spec.departures import DEPARTURES
from nullblock.spec.explorer.model import Scope
from nullblock.spec.explorer.scopes import STANDARD

SCOPES: dict[str, Scope] = {
    d.name: d.scope for d in DEPARTURES if d.name in ("next-owner", "one-spelling")
}


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two small scopes in place of the standard ones."""
    monkeypatch.setattr(explore_command, "STANDARD", SCOPES)


def test_every_scope_passes_in_normative(capsys: pytest.CaptureFixture[str]) -> None:
    """By default all scopes are searched in normative, and 0 says that all of them pass."""
    assert main(["explore", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["profile"] == "normative" and document["counterexample"] is None
    assert [s["name"] for s in document["scopes"]] == list(SCOPES)
    for s in document["scopes"]:
        assert s["complete"] and s["missing"] == []
        assert s["states"] > 1 and s["transitions"] > s["states"]
        assert s["states_per_second"] > 0 and s["seconds"] >= 0
        assert set(s["witnesses"]) >= SCOPES[s["name"]].witnesses


def test_the_table_shows_every_scope(capsys: pytest.CaptureFixture[str]) -> None:
    """Without --json a table: states, transitions, rate, and that the scope passes."""
    assert main(["explore", "next-owner"]) == 0
    said = capsys.readouterr()
    assert "next-owner" in said.out and "passes" in said.out and "states/s" in said.out
    assert "one-spelling" not in said.out
    assert said.err == ""


def test_scopes_are_searched_in_the_order_given(capsys: pytest.CaptureFixture[str]) -> None:
    """Named scopes only, each once."""
    assert main(["explore", "one-spelling", "next-owner", "one-spelling", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [s["name"] for s in document["scopes"]] == ["one-spelling", "next-owner"]


def test_a_counterexample_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """In vllm-0.22.1 the search ends with a counterexample, its story on standard output."""
    assert main(["explore", "next-owner", "--profile", "vllm-0.22.1"]) == 1
    out = capsys.readouterr().out
    assert "A shortest counterexample in scope next-owner" in out
    assert "  1. add a\n" in out and "a waits: 1 prompt token, max_tokens 2" in out
    assert "is broken: " in out


def test_a_counterexample_is_in_the_document(capsys: pytest.CaptureFixture[str]) -> None:
    """As JSON: the scope, what broke, its sentence, the actions, the values and the story."""
    assert main(["explore", "--set", "frames_match_request=false", "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    found = document["counterexample"]
    assert document["profile"] == "normative, frames_match_request=false"
    assert found["scope"] == document["scopes"][-1]["name"] == "next-owner"
    assert found["actions"] == ["add a", "schedule", "abort a", "add a"]
    assert found["rule"] == "UPD-20" and found["after"] is None
    assert found["sentence"].startswith("A token in flight that a request is owed is one of those")
    assert found["values"] and found["sentence"] in found["story"]


def test_a_vacuous_pass_is_none(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A scope that does not reach what it promises fails, and what it missed is named."""
    scope = replace(SCOPES["next-owner"], witnesses=frozenset({"three-at-once", "stop-length"}))
    monkeypatch.setattr(explore_command, "STANDARD", {"next-owner": scope})
    assert main(["explore"]) == 1
    assert "vacuous: next-owner never reached three-at-once\n" in capsys.readouterr().out
    assert main(["explore", "--json"]) == 1
    (found,) = json.loads(capsys.readouterr().out)["scopes"]
    assert found["missing"] == ["three-at-once"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nowhere"], "no 'nowhere': choose from one-spelling, next-owner"),
        (["--departures", "nothing"], "no 'nothing': choose from unfit-prompt, "),
        (["--profile", "vllm-9"], "no profile 'vllm-9': choose from normative, vllm-0.22.1"),
        (["--set", "speed=true"], "'speed=true' is not SWITCH=true or SWITCH=false"),
        (["--departures", "--profile", "vllm-0.22.1"], "--departures has its own profiles"),
        (["--departures", "--save", "x.json"], "name the one departure"),
        (["--save", "no/such/folder/x.json"], "no/such/folder/x.json: there is no such folder"),
        (["--save", "."], ".: is a folder"),
    ],
)
def test_mistakes_get_one_line(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A mistake on the command line: 2, one line that names what there is, and no search."""
    assert main(["explore", *arguments]) == 2
    said = capsys.readouterr()
    assert said.out == "" and says in said.err
    assert said.err.count("\n") == 1


def test_the_list_says_what_scopes_are_for(capsys: pytest.CaptureFixture[str]) -> None:
    """--list searches nothing: names and purposes, of scopes or of departures."""
    assert main(["explore", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(SCOPES)
    assert all(SCOPES[line.split()[0]].purpose in line for line in lines)
    assert main(["explore", "--list", "--departures", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in listed] == [d.name for d in DEPARTURES]


def test_a_scope_that_a_profile_does_not_have_is_left_out(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where all scopes are searched one line names it, and why; where it is asked for, that is a
    mistake on the command line.
    """
    name = "lossy-groups"
    monkeypatch.setattr(explore_command, "STANDARD", SCOPES | {name: STANDARD[name]})
    asked = ["explore", "--profile", "vllm-0.22.1", "--json"]
    assert main(asked) == 1
    said = capsys.readouterr()
    assert name not in [s["name"] for s in json.loads(said.out)["scopes"]]
    assert said.err == (
        f"left out: scope {name} is lossy: of several groups no report of blocks that were not "
        "loaded is taken in this profile\n"
    )
    for more in ([], ["--liveness"]):
        assert main([*asked, name, *more]) == 2
        said = capsys.readouterr()
        assert said.out == "" and said.err.count("\n") == 1
        assert "in this profile: name other scopes" in said.err


def test_standard_scopes_are_what_is_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command searches the standard scopes: each has a purpose and witnesses."""
    monkeypatch.undo()
    assert explore_command.STANDARD is STANDARD
    assert all(scope.purpose and scope.witnesses for scope in STANDARD.values())


def test_a_saved_counterexample_is_a_scenario(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`nullblock run` replays what --save writes, and shows the same course."""
    path = tmp_path / "found.json"
    arguments = ["explore", "--departures", "unfit-prompt", "--save", str(path), "--json"]
    assert main(arguments) == 0
    trace = json.loads(capsys.readouterr().out)["departures"][0]["trace"]
    assert len(load(path).events) == len(trace)
    ran = ["run", str(path), "--profile", "vllm-0.22.1", "--engine"]
    lines = {}
    for engine in ("spec", "reference"):
        assert main([*ran, engine]) == 0
        lines[engine] = capsys.readouterr().out.splitlines()
        steps = [json.loads(line) for line in lines[engine]]
        assert [s["total"] for s in steps if s["ev"] == "schedule"] == [0]
    assert len(lines["spec"]) == len(lines["reference"])
    assert [p.name for p in tmp_path.iterdir()] == ["found.json"]


def test_nothing_is_saved_where_nothing_is_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a counterexample the file is left as it was, and that is said."""
    path = tmp_path / "kept.json"
    path.write_text("mine")
    assert main(["explore", "next-owner", "--save", str(path)]) == 0
    assert path.read_text() == "mine"
    assert "is not written: there is no counterexample" in capsys.readouterr().err


def test_departures_are_found(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each with its switch, upstream, what it breaks, the trace, a story; normative passes. Those
    that are asked about here are one in ten.
    """
    some = DEPARTURES[::10]
    monkeypatch.setattr(explore_command, "DEPARTURES", some)
    assert main(["explore", "--departures", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in document["departures"]] == [d.name for d in some]
    for row, d in zip(document["departures"], some, strict=True):
        assert (row["switch"], row["upstream"], row["breaks"]) == (d.switch, d.upstream, d.breaks)
        assert row["normative"] == "passes" and row["states"] > 0 and row["sentence"] == d.story
        assert row["trace"][0].startswith("add ") and row["breaks"] in row["story"]


def test_the_departures_have_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    """One line and sentence each; a single one is told in full."""
    assert main(["explore", "--departures", "one-spelling", "empty-prompt"]) == 0
    out = capsys.readouterr().out
    assert "one-spelling" in out and "HASH-18" in out and "44701" in out
    assert "add a" not in out
    assert main(["explore", "--departures", "one-spelling"]) == 0
    assert "  3. step\n" in capsys.readouterr().out


@pytest.mark.parametrize("mended", ["is not found", "is found in normative too"])
def test_a_departure_that_is_gone_is_a_failure(
    mended: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """If vllm-0.22.1 no longer breaks it, or normative does, the command says 1."""
    defect = next(d for d in DEPARTURES if d.name == "unfit-prompt")
    if mended == "is not found":
        false = replace(defect, breaks="HASH-18")
    else:
        false = replace(defect, scope=replace(defect.scope, witnesses=frozenset({"reset"})))
    monkeypatch.setattr(explore_command, "DEPARTURES", (false,))
    assert main(["explore", "--departures", "--json"]) == 1
    (row,) = json.loads(capsys.readouterr().out)["departures"]
    if mended == "is not found":
        assert row["trace"] == [] and row["story"] == ""
    else:
        assert row["normative"] == "vacuous: never reached reset"


def test_an_interrupted_search_ends_quietly(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Ctrl-C: 130, nothing printed, nothing half written."""

    def interrupted(*args: Any, **kwargs: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(exploration, "explore", interrupted)
    assert main(["explore", "--save", str(tmp_path / "x.json")]) == 130
    said = capsys.readouterr()
    assert said.out == said.err == "" and list(tmp_path.iterdir()) == []


def test_progress_is_for_terminals(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a terminal the search says on standard error how far it is; JSON stays clean."""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    assert main(["explore", "next-owner", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["counterexample"] is None
    with exploration.progress("somewhere") as progress:
        assert progress is not None
        progress(12, 34)
    monkeypatch.setattr("sys.stderr.isatty", lambda: False, raising=False)
    with exploration.progress("somewhere") as progress:
        assert progress is None


def test_a_lasso_is_a_counterexample_too(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where no state breaks a statement, somebody who is never served is still found."""
    defect = next(d for d in DEPARTURES if d.name == "start-over")
    monkeypatch.setattr(explore_command, "STANDARD", {"start-over": defect.scope})
    monkeypatch.setattr("nullblock.spec.explorer.search.INVARIANTS", {})
    assert main(["explore", "--profile", "vllm-0.22.1", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)["counterexample"]
    assert found["rule"] == "LIFE-15" and found["values"] == ["a is never served"]
    assert "lead back to the same state" in found["story"]
