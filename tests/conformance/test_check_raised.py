"""What is said of an engine that raised: no rule is broken, and every output says so alike."""

import json
import re
from html import unescape
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from alterations import first
from bases import HELD
from traces import BUSY, documents, trace_of, unsealed

from nullblock.conformance.checker import check
from nullblock.conformance.cli import main
from nullblock.spec.profiles import NORMATIVE

HALVES = ("schedule", "update")
RULE = re.compile(r"\b[A-Z]+-[1-9][0-9]*\b")


EMPTY: dict[str, Any] = {
    "config": {"block_size": 4, "num_blocks": 12},
    "events": [{"op": "add", "id": "a", "prompt": [], "max_tokens": 4}, {"op": "step"}],
}
"""vLLM raises for an empty prompt."""
REUSED: dict[str, Any] = {
    "config": {"long_prefill_token_threshold": 3, "async_scheduling": True},
    "events": [
        {"op": "add", "id": "a", "prompt": [1, 2, 3, 4], "max_tokens": 1},
        *[{"op": "step"}] * 2,
        {"op": "abort", "ids": ["a"]},
        {"op": "add", "id": "a", "prompt": [1], "max_tokens": 1},
        {"op": "drain"},
    ],
}
"""A number is given to the next owner while a step is in flight for it: vLLM raises where its
token comes. The step before, which computed a part of the prompt, had none.
"""


@pytest.fixture(params=HALVES)
def raised(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A recording that ends with an exception of the engine, where the rules go on."""
    lines = documents(trace_of(BUSY))
    at = first(lines, request.param, lambda line: line["step"] == 5)
    error = {"ev": "error", "during": request.param, "type": "ValueError"}
    path = tmp_path / request.param
    path.write_bytes(unsealed([*lines[:at], error]))
    return path


def without_evidence(found: Any) -> str:
    """A document's text but for the counts of the rules that fired."""
    return json.dumps({k: v for k, v in found.items() if k != "rules"})


def test_json_names_the_exception_and_no_rule(
    raised: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`rule` is null, `raised` the exception; nothing else names a rule."""
    assert main(["check", "--json", str(raised)]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["verdict"] == "VIOLATION"
    assert (found["first"]["rule"], found["first"]["raised"]) == (None, "ValueError")
    assert not RULE.search(without_evidence(found))


def test_a_decision_has_no_exception(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A wrong decision has a rule and no exception."""
    lines = documents(trace_of(BUSY))
    lines[first(lines, "schedule")]["tokens"][0] += 1
    (tmp_path / "wrong").write_bytes(unsealed(lines))
    assert main(["check", "--json", str(tmp_path / "wrong")]) == 1
    told = json.loads(capsys.readouterr().out)["first"]
    assert (told["rule"], told["raised"]) == ("RUN-1", None)


def test_junit_names_the_exception_and_no_rule(raised: Path, tmp_path: Path) -> None:
    """The message says which half of which step raised what; nothing names a rule."""
    report = tmp_path / "report.xml"
    assert main(["check", "--junit", str(report), str(raised)]) == 1
    assert not RULE.search(report.read_text())
    failure = ElementTree.parse(report).getroot().find(".//failure")
    assert failure is not None
    for words in ("step 5", f"{raised.name} raises", "ValueError"):
        assert words in str(failure.get("message"))


def test_text_and_page_name_the_exception_and_no_rule(
    raised: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """So do what people read; the page's evidence, at its end, has the rules that fired."""
    page = tmp_path / "page.html"
    assert main(["check", "--page", str(page), str(raised)]) == 1
    out = capsys.readouterr().out
    assert f"{raised.name} raises: the engine raised ValueError" in out and not RULE.search(out)
    fault = page.read_text().partition("What the verdict rests on")[0]
    assert f"{raised.name} raises: the engine raised ValueError</h2>" in fault
    assert not RULE.search(fault.partition("</style>")[2])


def test_the_scenario_is_the_whole_run(
    raised: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The rules do not raise, so that nothing says what may be left out: all is there that was
    asked before, up to the half that raised, and the note says so.
    """
    target = tmp_path / "fault.json"
    assert main(["check", "--json", "--scenario", str(target), str(raised)]) == 1
    found = json.loads(capsys.readouterr().out)
    assert not RULE.search(without_evidence(found))
    note = found["scenario"]["note"]
    steps = 4 if raised.name == "schedule" else 5
    assert f"all 3 requests and {steps} steps" in note and "nothing more" not in note
    events = json.loads(target.read_text())["events"]
    assert sum(event["op"] == "add" for event in events) == 3
    halves = [event for event in events if event["op"] in ("step", *HALVES)]
    assert halves[-1]["op"] == ("schedule" if raised.name == "schedule" else "step")
    assert main(["run", "--profile", "vllm-0.22.1", "--dump", "none", str(target)]) == 0
    last = json.loads(capsys.readouterr().out.splitlines()[-2])
    assert last["ev"] == raised.name


def test_advice_is_true_of_the_scenario(raised: Path) -> None:
    """What to do next speaks of the scenario of the whole run, and of the traceback."""
    found = check(raised).first
    assert found is not None and found.rule is None and found.explanation is not None
    told = found.explanation.next
    assert told[0].startswith("look for the traceback of ValueError in the server's log")
    assert "scenario of the whole run" in told[1] and "minimal" not in " ".join(told)


def test_a_profile_that_raises_there_is_told(tmp_path: Path) -> None:
    """vLLM raises for an empty prompt, and by its own profile that is explained; whoever judges it
    by the normative rules, which refuse such a request, is told that profile and that switch.
    """
    path = tmp_path / "empty"
    path.write_bytes(trace_of(EMPTY))
    assert check(path).verdict == "CONFORMS"
    found = check(path, NORMATIVE, "normative").first
    assert found is not None and found.rule is None and found.explanation is not None
    told = found.explanation.next
    assert told[0].startswith("with any of these the rules raise there, too: ")
    assert "--profile vllm-0.22.1" in told[0] and "reject_unservable=false" in told[0]


def test_what_the_step_before_sampled_is_not_taken_for_what_this_one_did(tmp_path: Path) -> None:
    """The rules raise where the token comes, and not before."""
    path = tmp_path / "reused"
    path.write_bytes(trace_of(REUSED))
    assert b'"during":"update"' in path.read_bytes()
    assert check(path).verdict == "CONFORMS"


EXPLAINED = {"schedule": (EMPTY, 1), "update": (REUSED, 2)}
"""Exceptions of vLLM that its own profile explains, and in which step they are."""


@pytest.mark.parametrize("during", HALVES)
def test_an_exception_that_the_rules_explain_is_told(
    during: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The trace conforms all the same; every output names the exception, its place, and why the
    rules raise there, too.
    """
    scenario, step = EXPLAINED[during]
    path, report, page = (tmp_path / name for name in ("trace", "report.xml", "page.html"))
    path.write_bytes(trace_of(scenario))
    error = next(line for line in documents(path.read_bytes()) if line["ev"] == "error")
    assert main(["check", "--json", str(path)]) == 0
    found = json.loads(capsys.readouterr().out)["raised"]
    assert (found["type"], found["during"], found["step"]) == (error["type"], during, step)
    assert found["rules"] and RULE.match(found["rules"])
    assert main(["check", "--junit", str(report), "--page", str(page), str(path)]) == 0
    told = (
        f"the run ended by an exception: {error['type']}, raised during {during} in step {step}",
        f"the rules of vllm-0.22.1 raise there, too: {found['rules']}",
        "next: --profile normative may show where it went wrong",
    )
    out = ElementTree.parse(report).getroot().findtext(".//system-out")
    for text in (capsys.readouterr().out, str(out), unescape(page.read_text())):
        for line in told:
            assert line in text


def test_what_a_violation_tells_is_not_told_twice(
    raised: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The story names the exception; programs find it where it is in every verdict."""
    assert main(["check", str(raised)]) == 1
    assert "the run ended by" not in capsys.readouterr().out
    assert main(["check", "--json", str(raised)]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["raised"] == {
        **{"type": "ValueError", "during": raised.name, "step": found["first"]["step"]},
        **{"rules": None, "next": None},
    }


@pytest.mark.parametrize(
    ("header", "during", "at"),
    [
        ({}, "abort", " after step 4"),
        ({"features": ["telepathy"]}, "schedule", ""),
        ({"start": "unknown"}, "update", ""),
    ],
)
def test_an_exception_is_named_whatever_is_not_known(
    header: dict[str, Any],
    during: str,
    at: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Of another call than the two that decide, and where no step is known; a run that ended well
    has none.
    """
    lines = documents(trace_of(BUSY))
    step = first(lines, "schedule", lambda line: line["step"] == 5)
    error = {"ev": "error", "during": during, "type": "ValueError"}
    path = tmp_path / "trace"
    path.write_bytes(unsealed([lines[0] | header, *lines[1:step], error]))
    assert main(["check", str(path)]) == 3
    told = capsys.readouterr().out
    assert f"  the run ended by an exception: ValueError, raised during {during}{at}\n" in told
    assert "normative" not in told
    path.write_bytes(trace_of(BUSY))
    assert main(["check", "--json", str(path)]) == 0
    assert json.loads(capsys.readouterr().out)["raised"] is None


def reset_that_raised(tmp_path: Path, **fields: Any) -> Path:
    """The trace of such a reset, with other fields in its last record; None: without."""
    *lines, error, _ = documents(trace_of(HELD))
    assert error["during"] == "reset" and error["reset_running"] is True
    told = {k: v for k, v in (error | fields).items() if v is not None}
    path = tmp_path / "reset"
    path.write_bytes(unsealed([*lines, told]))
    return path


def test_a_reset_that_raised_is_explained(tmp_path: Path) -> None:
    """By the rule that it fails where blocks are held; what to do is to reset later."""
    verdict = check(reset_that_raised(tmp_path))
    assert verdict.verdict == "CONFORMS" and verdict.raised is not None
    assert str(verdict.raised.rules).startswith("LIFE-10: blocks are held still")
    assert str(verdict.raised.next).startswith("reset when no load")


def test_a_reset_that_had_no_cause_to_raise_is_no_conforming_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One that leaves alone who runs only fails. Why there is no scenario is told as it is."""
    target = tmp_path / "fault.json"
    path = reset_that_raised(tmp_path, reset_running=False)
    assert main(["check", "--json", "--scenario", str(target), str(path)]) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["first"]["rule"], found["first"]["raised"]) == (None, "RuntimeError")
    assert "left, as blocks are held" in found["first"]["expected"]
    assert found["scenario"]["note"] == "none: no scenario is made of sessions"


def test_what_a_reset_was_asked_may_not_be_told(tmp_path: Path) -> None:
    """Then nothing is said of it."""
    verdict = check(reset_that_raised(tmp_path, reset_running=None))
    assert verdict.verdict == "INCONCLUSIVE"
    assert verdict.missing == ["what was asked when reset raised RuntimeError"]
