"""The verdict: what conforms, and that every decision is really looked at."""

import copy
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from alterations import ALTERATIONS, DRAFT_ALTERATIONS, first
from traces import BUSY, documents, trace_of, unsealed
from violations import drafted

from nullblock.conformance import bundled
from nullblock.conformance.checker import Verdict, check
from nullblock.conformance.trace import source
from nullblock.spec.catalogue import catalogue

Lines = list[dict[str, Any]]


def judge(lines: Lines, profile: str | None = None) -> Verdict:
    """The verdict on a trace of these lines, without a seal."""
    from nullblock.spec.profiles import PROFILES

    chosen = None if profile is None else PROFILES[profile]
    stream = io.BytesIO(unsealed(copy.deepcopy(lines)))
    return check(Path("trace"), chosen, profile or "", stream=stream)


@pytest.fixture(scope="module")
def recorded() -> Lines:
    """The first 1,500 steps that vLLM decided under the Mooncake workload."""
    with bundled.TRACE.open("rb") as stream:
        text = b"\n".join(source.lines(stream))
    lines = documents(text)
    last = next(i for i, line in enumerate(lines) if line.get("step") == 1500)
    return lines[:last]


@pytest.fixture(scope="module")
def busy() -> Lines:
    """A small trace with every kind of event."""
    return documents(trace_of(BUSY))


def test_the_real_vllm_conforms() -> None:
    """Every decision of the bundled recording is the rules' own, and most rules had a say."""
    verdict = check(bundled.TRACE)
    assert (verdict.verdict, verdict.profile) == ("CONFORMS", "vllm-0.22.1")
    assert verdict.steps == 5000
    assert verdict.decisions > 10_000
    assert len(verdict.rules) == 34
    assert verdict.rules["PREEMPT-2"] == 135
    assert verdict.exit_code == 0


def test_the_real_vllm_conforms_in_a_crowd() -> None:
    """So is every decision under PRIORITY in a pool too small, with hundreds of preemptions."""
    verdict = check(bundled.CROWDED)
    assert (verdict.verdict, verdict.profile) == ("CONFORMS", "vllm-0.22.1")
    assert (verdict.steps, verdict.rules["PREEMPT-2"]) == (1174, 283)
    assert {"WAIT-10", "LIFE-5"} <= verdict.rules.keys()


def test_the_real_vllm_conforms_with_drafts() -> None:
    """So is every decision where drafts are proposed, taken and rejected, and requests end among
    them.
    """
    verdict = check(bundled.DRAFTED)
    assert (verdict.verdict, verdict.profile) == ("CONFORMS", "vllm-0.22.1")
    assert (verdict.steps, verdict.rules["DRAFT-9"], verdict.rules["DRAFT-10"]) == (397, 1876, 144)


@pytest.mark.parametrize("engine", ["spec", "reference"])
@pytest.mark.parametrize("profile", ["normative", "vllm-0.22.1"])
def test_our_engines_conform(engine: str, profile: str) -> None:
    """A trace of an engine of ours conforms to the profile that it followed."""
    verdict = judge(documents(trace_of(BUSY, engine, profile)))
    assert (verdict.verdict, verdict.first) == ("CONFORMS", None)
    assert verdict.profile == profile


@pytest.mark.parametrize("name", ALTERATIONS | DRAFT_ALTERATIONS)
def test_an_altered_decision_is_a_violation_there(recorded: Lines, name: str) -> None:
    """One decision of a real recording is changed: VIOLATION on that line, by that rule."""
    rule, kind, suits, alter = (ALTERATIONS | DRAFT_ALTERATIONS)[name]
    recorded = drafted() if name in DRAFT_ALTERATIONS else recorded
    at = first(recorded, kind, suits)
    lines = copy.deepcopy(recorded[: at + 3])
    alter(lines[at])
    assert lines[at] != recorded[at]
    verdict = judge(lines)
    assert verdict.verdict == "VIOLATION", verdict
    assert verdict.first is not None
    assert (verdict.first.line, verdict.first.rule) == (at + 1, rule)
    assert verdict.first.step == max(
        line["step"] for line in lines[: at + 1] if line["ev"] == "schedule"
    )
    assert verdict.first.expected != verdict.first.actual
    assert verdict.first.rule in "\n".join(verdict.first.story)
    assert verdict.exit_code == 1


def test_the_unaltered_beginning_conforms(recorded: Lines) -> None:
    """What the alterations start from conforms: it is they that are noticed."""
    assert judge(recorded).verdict == judge(drafted()).verdict == "CONFORMS"


def numbers(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where there are numbers and truth values inside a record."""
    if isinstance(value, dict):
        items: Any = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    else:
        return [path] if isinstance(value, int) else []
    return [found for key, inner in items for found in numbers(inner, (*path, key))]


def changed(line: dict[str, Any], path: tuple[Any, ...]) -> dict[str, Any]:
    """A record with one number changed, or one truth value turned."""
    line = copy.deepcopy(line)
    inside: Any = line
    for key in path[:-1]:
        inside = inside[key]
    old = inside[path[-1]]
    inside[path[-1]] = (not old) if isinstance(old, bool) else old + 1
    return line


DECISIONS = ("schedule", "update", "abort", "reset", "state")


def test_every_number_in_every_decision_counts(busy: Lines) -> None:
    """Whichever number of whichever decision changes, the trace does not conform, and the line
    that is named is that one.
    """
    rules, judged = {s.id for s in catalogue()}, 0
    for at, line in enumerate(busy):
        if line["ev"] not in DECISIONS:
            continue
        for path in numbers(line):
            if path in (("step",), ("reset_running",)) or path[0] == "asked":
                continue  # the order of records, and inputs
            lines = [*busy[:at], changed(line, path), *busy[at + 1 :]]
            verdict = judge(lines)
            assert verdict.verdict == "VIOLATION", (at, path)
            assert verdict.first is not None
            assert verdict.first.line == at + 1, (at, path)
            assert verdict.first.rule in rules
            judged += 1
    assert judged > 300


@pytest.mark.parametrize("depth", [2, 3])
def test_an_update_is_of_its_own_step(depth: int) -> None:
    """With several steps in flight, a wrong update is told as that of the step it is of, and a
    step that raises as the one that would have come.
    """
    scenario = {
        "config": {"async_scheduling": True, "queue_depth": depth},
        "events": [
            {"op": "add", "id": "a", "prompt": {"range": [0, 8]}, "max_tokens": 9},
            {"op": "add", "id": "b", "prompt": {"range": [50, 58]}, "max_tokens": 3},
            {"op": "run"},
        ],
    }
    lines = documents(trace_of(scenario))
    at = first(lines, "update", lambda line: line.get("finish"))
    scheduled = max(line["step"] for line in lines[:at] if line["ev"] == "schedule")
    assert lines[at]["step"] == scheduled - depth + 1 == 3
    lines[at]["finish"][0]["reason"] = "stop"
    found = judge(lines[: at + 1]).first
    assert found is not None and found.step == 3
    assert found.story[0].startswith(f"step 3 (in its update, after step {scheduled}): ")
    for during, step in (("update", 3), ("schedule", scheduled + 1)):
        raises = {"ev": "error", "during": during, "type": "ValueError"}
        found = judge([*lines[:at], raises]).first
        assert found is not None and found.step == step, during
        assert found.what == f"{during} raises"
        story = "\n".join(found.story)
        assert (
            f"the traceback of ValueError in the server's log: the engine raised it in step {step}"
            in story
        )
        assert "goes on" in str(found.expected)
        assert "compare with the settings" not in story and "nullblock rules" not in story


def test_a_departure_is_a_violation_of_normative() -> None:
    """vLLM lets an unservable request in; judged by the normative rules that is a violation."""
    scenario = {
        "config": {"block_size": 4, "num_blocks": 4, "max_num_batched_tokens": 8},
        "events": [
            {"op": "add", "id": "a", "prompt": {"range": [0, 8]}, "max_tokens": 100},
            {"op": "step", "n": 2},
        ],
    }
    lines = documents(trace_of(scenario, semantics="vllm-0.22.1"))
    assert judge(lines).verdict == "CONFORMS"
    verdict = judge(lines, "normative")
    assert verdict.first is not None
    assert (verdict.verdict, verdict.first.rule) == ("VIOLATION", "LIFE-2")
    assert verdict.profile == "normative"


def renamed(lines: Lines, name: Callable[[int], int]) -> Lines:
    """The trace with other block ids, and a header that says so."""
    lines = copy.deepcopy(lines)
    lines[0]["block_ids"] = "opaque"
    for line in lines:
        tables = [new["blocks"] for new in line.get("new", [])]
        tables += [pair[1] for pair in (line.get("cached") or {}).get("blocks", [])]
        for table in tables:
            table[0] = [name(b) for b in table[0]]
        if line["ev"] == "evict":
            line["blocks"] = [name(b) for b in line["blocks"]]
    return lines


def test_block_ids_may_be_renamed_one_to_one(busy: Lines) -> None:
    """Under a renaming a trace conforms; where two blocks share a name it does not."""
    assert judge(renamed(busy, lambda b: 1000 - 7 * b)).verdict == "CONFORMS"
    verdict = judge(renamed(busy, lambda b: 1 if b == 2 else b))
    assert verdict.first is not None
    assert (verdict.verdict, verdict.first.rule) == ("VIOLATION", "POOL-10")


def test_memory_holds_the_requests_alive_only(recorded: Lines) -> None:
    """After hundreds of requests the replay remembers those that have not ended."""
    from nullblock.conformance.checker.replay import Replay
    from nullblock.conformance.trace.reader import TraceReader
    from nullblock.spec.profiles import PROFILES
    from nullblock.spec.state import live

    stream = io.BytesIO(unsealed(copy.deepcopy(recorded)))
    records = (located.record for located in TraceReader(Path("trace"), stream=stream))
    replay = Replay(next(records), PROFILES["vllm-0.22.1"])  # type: ignore[arg-type]
    for record in records:
        replay.take(record)
    s = replay.s
    alive = {r for r in replay.k.requests if live(s, r)}
    assert set(replay.k.requests) - alive <= set(s.finished)
    assert {r for r, _ in s.tab} <= set(replay.k.requests)
    ended = [r for r in range(max(alive)) if r not in replay.k.requests]
    assert len(ended) > 50 and not any(r in s.npre or r in s.arr for r in ended)
