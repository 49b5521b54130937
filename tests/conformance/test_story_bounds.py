"""What is told of a violation never costs its verdict, and takes a bounded time."""

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from alterations import first
from traces import BUSY, documents, trace_of, unsealed

from nullblock.conformance.checker import check, fast, story, variants
from nullblock.conformance.checker.replay import Replay
from nullblock.conformance.cli import main
from nullblock.spec.kernel import Broken, Disabled
from nullblock.spec.profiles import PROFILES, VLLM_0_22_1

LABEL = "vllm-0.22.1"
WITH_DRAFTS: dict[str, Any] = {
    "config": {"block_size": 4, "num_blocks": 12, "num_spec_tokens": 2},
    "events": [
        {"op": "add", "id": "a", "prompt": [1, 2, 3], "max_tokens": 9},
        {"op": "step"},
        {"op": "draft", "tokens": {"a": [7]}},
        {"op": "step", "n": 3},
    ],
}


def violating(tmp_path: Path) -> tuple[Path, int]:
    """A small trace with a wrong decision, and its line."""
    lines = documents(trace_of(BUSY))
    at = first(lines, "schedule", lambda line: line["step"] == 5)
    lines[at]["tokens"][0] += 1
    path = tmp_path / "trace"
    path.write_bytes(unsealed(lines))
    return path, at + 1


def sought(path: Path, line: int, fired: int, rule: str | None = "RUN-2") -> Any:
    """What comes of other semantics."""
    file = str(path)
    return variants.seek(path, line, file, VLLM_0_22_1, LABEL, rule, fired)


@pytest.fixture
def too_many(tmp_path: Path) -> tuple[Path, int]:
    """A trace in which more drafts are proposed than there may be, which only some rules mind, and
    the line; behind it stands a decision that none explains.
    """
    lines = documents(trace_of(WITH_DRAFTS))
    at = first(lines, "draft", lambda line: line["counts"] == [1])
    lines[at]["counts"] = [3]
    path = tmp_path / "trace"
    path.write_bytes(unsealed(lines))
    return path, at + 1


def told(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> Any:
    """What a check that ends with 1 prints."""
    assert main(["check", "--json", *arguments]) == 1
    return json.loads(capsys.readouterr().out)["first"]


def test_what_the_rules_refuse_outside_a_step_is_a_violation(
    too_many: tuple[Path, int], capsys: pytest.CaptureFixture[str]
) -> None:
    """More drafts than there may be: by the rule that refuses them, and no traceback."""
    path, line = too_many
    found = told(["--profile", "normative", str(path)], capsys)
    assert (found["line"], found["rule"]) == (line, "DRAFT-7")
    assert found["what"] == "whether what 'draft' tells can be"
    assert found["expected"].startswith("no: DRAFT-7 propose is not enabled")


def test_where_only_other_rules_refuse_it_the_verdict_is_told(
    too_many: tuple[Path, int], capsys: pytest.CaptureFixture[str]
) -> None:
    """What looks for a profile that explains a violation comes to ones that refuse a record."""
    path, line = too_many
    found = told([str(path)], capsys)
    assert found["line"] == line + 1
    assert found["explanation"]["untried"] == 0 and found["explanation"]["variants"] == []


@pytest.mark.parametrize("error", [Broken("a promise"), KeyError(3)])
def test_a_text_that_fails_without_a_rule_is_inconclusive(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No rule of the text says so, so the engine is not to blame."""

    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(Replay, "_abort", fail)
    path = tmp_path / "trace"
    path.write_bytes(trace_of(BUSY))
    verdict = check(path)
    assert verdict.verdict == "INCONCLUSIVE"
    assert verdict.missing == [
        "what the rules say to a record of kind 'abort', where their text raises "
        f"{type(error).__name__}"
    ]


@pytest.mark.parametrize("error", [Disabled("POOL-12", "why"), RuntimeError("odd")])
def test_a_variant_that_fails_costs_no_other_its_turn(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever it raises: those before and behind it are judged."""
    path, line = violating(tmp_path)
    module: Any = sys.modules["nullblock.conformance.checker.check"]
    judge, names = module.check, []

    def failing(path: Path, semantics: Any, name: str, **options: Any) -> Any:
        names.append(name)
        if len(names) % 2:
            raise error
        return judge(path, semantics, name, **options)

    monkeypatch.setattr(module, "check", failing)
    found = sought(path, line, 50)
    assert found.names == () and found.untried == 0
    assert len(names) > 50 and found.tried == "single switch of this one"


def test_a_story_that_fails_leaves_the_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The decision is told, and that the rest is this program's fault."""

    def fail(_: object) -> None:
        raise ZeroDivisionError("by nothing")

    monkeypatch.setattr(story, "explain", fail)
    path, line = violating(tmp_path)
    assert main(["check", "--json", "--page", str(tmp_path / "page"), str(path)]) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["verdict"], found["first"]["line"]) == ("VIOLATION", line)
    assert (
        "nullblock itself failed at it: please report ZeroDivisionError"
        in (found["first"]["story"])
    )
    assert found["first"]["explanation"] is None


def test_as_many_switches_are_tried_as_can_be_afforded(tmp_path: Path) -> None:
    """The same ones each time, those that have to do with the rule first; the others are counted,
    in the story too.
    """
    path, line = violating(tmp_path)
    every = len(list(variants._switches(VLLM_0_22_1, LABEL, None)))
    some = sought(path, line, variants.AFFORDED // 2)
    assert 0 < some.untried < every
    assert some.tried == f"single switch of this one of the {every - some.untried} tried"
    none = sought(path, line, variants.AFFORDED * 100)
    assert (none.tried, none.untried) == ("", every)
    name, _ = next(variants._switches(VLLM_0_22_1, LABEL, "POOL-12"))
    assert name != next(variants._switches(VLLM_0_22_1, LABEL, None))[0]


def test_it_is_said_how_many_were_not_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the semantics is not cleared by those that were."""
    monkeypatch.setattr(variants, "AFFORDED", 300)
    verdict = check(violating(tmp_path)[0])
    assert verdict.first is not None and verdict.first.explanation is not None
    assert verdict.first.explanation.untried > 10
    told = "\n".join(verdict.first.story)
    assert f"{verdict.first.explanation.untried} switches were not tried" in told
    assert "is to blame" not in told


def test_switches_are_judged_by_the_text_as_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To erase it for each took minutes. That the trace is long enough for it, profiles show."""
    erased: Counter[bool] = Counter()
    erase = fast.Machine.erase

    def counted(self: fast.Machine) -> None:
        erased[self.k.sem in PROFILES.values()] += 1
        erase(self)

    monkeypatch.setattr(fast.Machine, "erase", counted)
    monkeypatch.setattr(fast, "AFTER", 4)
    path, line = violating(tmp_path)
    sought(path, line, 50)
    assert set(erased) == {True}
