"""Minimal scenarios of faults of the block pool: a few requests bring a pool into a state in which
the same kind of fault shows.
"""

import json
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest
from alterations import ALTERATIONS
from altered import judge
from fields import alterations
from traces import documents, unsealed
from violations import Lines

from nullblock.conformance import bundled, driver, scenario
from nullblock.conformance.checker import Verdict, check
from nullblock.conformance.checker.decisions import Mismatch
from nullblock.conformance.checker.replay import Replay
from nullblock.conformance.checker.verdict import Scenario
from nullblock.conformance.engines import make_engine
from nullblock.conformance.lockstep.taped_states import StateTape
from nullblock.conformance.minimal import planted
from nullblock.conformance.minimal.ask import ask
from nullblock.conformance.minimal.words import Words, named, part
from nullblock.conformance.trace import source
from nullblock.conformance.trace.configured import header
from nullblock.conformance.trace.records import Record, Schedule, State, Update
from nullblock.spec.profiles import VLLM_0_22_1

FIELDS = {
    "schedule.new.blocks": 2,
    "schedule.cached.blocks": 2,
    "schedule.state.num_free": 1,
    "update.state.num_free": 0,
    "state.requests.blocks": 1,
    "state.free_queue": 2,
    "state.ref_cnt": 1,
    "state.chains": 1,
}
"""Fields that tell of the pool, and how many requests it takes to show that one is wrong."""
FEW = 2


@cache
def crowded() -> Lines:
    """The whole bundled recording in which blocks are scarce."""
    with bundled.CROWDED.open("rb") as stream:
        return documents(b"\n".join(source.lines(stream)))


def late(folder: Path, field: str) -> Path:
    """That recording, its last decision or state that has a field altered there."""
    kind, *_ = field.split(".")
    lines = crowded()
    for at in range(len(lines) - 1, 0, -1):
        if lines[at]["ev"] != kind:
            continue
        for _, (told,) in alterations([lines[at]], tuple(field.split(".")), 1):
            path = folder / "trace"
            path.write_bytes(unsealed([*lines[:at], told]))
            return path
    raise AssertionError(f"no {field}")


def asked(path: Path) -> tuple[Verdict, Scenario]:
    """The verdict on a trace, and its minimal scenario."""
    verdict = check(path, deep=False)
    answer = ask(verdict, path)
    assert answer is not None and answer.document is not None, answer
    return verdict, answer


def told_of(document: dict[str, Any]) -> Lines:
    """The trace of a scenario, whole states included, as lines."""
    taken = scenario.from_dict(document)
    records: list[Record] = [header(taken.config, "spec", "0", "vllm-0.22.1", VLLM_0_22_1)]
    engine = make_engine("spec", taken.config, VLLM_0_22_1)
    tape = StateTape(engine, taken, records.append, tagged_keys=False)
    for _ in driver.run(taken, tape, dump="none"):
        pass
    lines: Lines = [json.loads(msgspec.json.encode(record)) for record in records]
    for key in ("sealed", "config_sha256"):
        lines[0].pop(key, None)
    return lines


@pytest.mark.parametrize("field", FIELDS)
def test_a_late_fault_of_the_pool_takes_a_few_requests(field: str, tmp_path: Path) -> None:
    """After a thousand steps it is shown by a few requests; and the trace of that scenario, so
    altered at its end, breaks the same rule there and none before.
    """
    verdict, answer = asked(late(tmp_path, field))
    assert answer.document is not None and "not of the trace" in answer.note
    adds = [e for e in answer.document["events"] if e["op"] == "add"]
    assert len(adds) == FIELDS[field], answer
    assert verdict.first is not None and verdict.first.step > 1000
    lines = told_of(answer.document)
    kind = field.partition(".")[0]
    last = max(i for i, line in enumerate(lines) if line["ev"] == kind)
    assert judge(lines).verdict == "CONFORMS", judge(lines)
    rules = set()
    for other in _others(lines[last], field):
        found = judge([*lines[:last], other]).first
        rules |= {found.rule} if found is not None and found.line == last + 1 else set()
    assert verdict.first.rule in rules


def _others(line: dict[str, Any], field: str) -> Lines:
    """A record with one occurrence of a field altered, in each way that tests know of."""
    found = [told[0] for _, told in alterations([line], tuple(field.split(".")), 9)]
    if field == "state.requests.blocks":
        for row in (other := json.loads(json.dumps(line)))["requests"]:
            row["blocks"] = [[*row["blocks"][0], 0]]
        found.append(other)
    if field == "schedule.cached.blocks":
        found.append(line | {"cached": line["cached"] | {"blocks": []}})
    return found


@pytest.mark.parametrize("name", ["a hit is another block", "an added block is another"])
def test_it_shows_the_decision_that_the_fault_is_in(name: str, tmp_path: Path) -> None:
    """What is run last does what the fault is about: it hits, or a request grows."""
    _, _, suits, alter = ALTERATIONS[name]
    lines = [json.loads(json.dumps(line)) for line in crowded()[:2000]]
    at = max(i for i, x in enumerate(lines) if x["ev"] == "schedule" and suits(x))
    alter(lines[at])
    path = tmp_path / "trace"
    path.write_bytes(unsealed(lines[: at + 1]))
    _, answer = asked(path)
    assert answer.document is not None
    last = [x for x in told_of(answer.document) if x["ev"] == "schedule"][-1]
    if "hit" in name:
        assert last["new"][0]["computed"] > 0
    else:
        assert last["cached"]["blocks"]
    assert sum(e["op"] == "add" for e in answer.document["events"]) <= FEW


def test_without_planted_scenarios_it_takes_the_requests_of_the_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The requests are not those of the trace because they are planted."""
    path = tmp_path / "trace"
    lines = crowded()
    at = [i for i, x in enumerate(lines) if x["ev"] == "schedule" and x.get("new")][9]
    *_, (_, told) = alterations(lines[: at + 1], ("schedule", "state", "num_free"), 10**6)
    path.write_bytes(unsealed(told))
    assert "not of the trace" in asked(path)[1].note
    monkeypatch.setattr(planted, "applies", lambda *_: False)
    assert "not of the trace" not in asked(path)[1].note


def test_a_name_is_not_that_of_another_fault() -> None:
    """The parts of blocks, the way of a difference, the record and the entry tell faults apart."""
    replay = Replay(
        header(scenario.from_dict(SMALL).config, "spec", "0", "", VLLM_0_22_1), VLLM_0_22_1
    )
    of = part(replay.s, {2})
    step, update = Schedule(step=1, ids=[], tokens=[]), Update(step=1, ids=[], tokens=[])
    queue = "the free queue", [1, 2, 3, 4]
    names = [
        named(Mismatch("QUEUE-10", *queue, [1, 2, 4, 3]), step, of),
        named(Mismatch("QUEUE-10", *queue, [1, 2, 4, 3]), update, of),
        named(Mismatch("QUEUE-10", *queue, [2, 1, 3, 4]), step, of),
        named(Mismatch("QUEUE-10", *queue, [1, 2, 3]), step, of),
        named(Mismatch("QUEUE-10", *queue, [1, 3, 4]), step, of),
        named(Mismatch("QUEUE-10", *queue, [1, 2, 3, 4, 4]), step, of),
        named(Mismatch("QUEUE-10", *queue, [1, 2, 3, 99]), step, of),
        named(Mismatch("QUEUE-10", *queue, [1, 2, 3, 5]), step, of),
        named(Mismatch("POOL-2", "the reference counts", [(1, 1)], []), step, of),
        named(Mismatch("POOL-2", "the reference counts", [(1, 1)], [(1, 2)]), step, of),
        named(Mismatch("HASH-12", "the cached blocks", [(1, 1)], []), step, of),
        named(Mismatch("HASH-12", "the cached blocks", [(1, 1)], [(1, 2)]), step, of),
        named(Mismatch("QUEUE-4", "the number of free blocks", 3, 4), step, of),
        named(Mismatch("QUEUE-4", "the number of free blocks", 3, 2), step, of),
    ]
    assert len(set(names)) == len(names)
    again = Mismatch("QUEUE-10", "the free queue", [3, 4, 1], [4, 3, 1])
    assert named(again, step, of) == names[0]


SMALL: dict[str, Any] = {"config": {"block_size": 4, "num_blocks": 9}, "events": []}


NOBODYS = {
    "a field that steps do not have": (
        Words("QUEUE-10", "the free queue, in schedule", (("another order", "free", "free"),)),
        Schedule(step=1, ids=[], tokens=[]),
    ),
    "a rule that does not decide it": (
        Words("POOL-10", "the blocks of request, in state", (("one too many", "the null block"),)),
        State(step=1, running=[], waiting=[], requests=[]),
    ),
}
"""Names that no fault has: of the second one the field can be altered so, by another rule."""


@pytest.mark.parametrize("name", NOBODYS)
def test_no_scenario_is_planted_for_what_the_rules_do_not_find(name: str) -> None:
    """Where the rules do not find a fault so named, none is claimed, and the effort is bounded."""
    told = header(scenario.from_dict(SMALL).config, "spec", "0", "", VLLM_0_22_1)
    assert planted.planted(told.config, *NOBODYS[name], VLLM_0_22_1) is None
