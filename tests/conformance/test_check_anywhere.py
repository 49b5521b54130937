"""Wherever a recording is cut before a state that tells everything, the rest can be judged."""

import io
import itertools
import math
from pathlib import Path
from typing import Any

import msgspec
import pytest
from altered import judge
from bases import Lines, as_recorded
from traces import read, unsealed

from nullblock.conformance.checker import check, fast
from nullblock.conformance.checker.chains import Chain
from nullblock.conformance.checker.replay import Replay
from nullblock.conformance.trace.records import Gap, Record, State
from nullblock.spec.profiles import VLLM_0_22_1

FEW = 3
OWNER = "what a step in flight owes to an earlier owner of request number"


def written_out(lines: Lines) -> list[Any]:
    """The records that the lines stand for, short forms as whole ones."""
    return read(unsealed(lines))


def from_there(records: list[Any], at: int) -> bytes:
    """The trace that begins with the record at that index."""
    header = msgspec.structs.replace(records[0], start="unknown")
    lines: list[Record] = [header, *records[at:]]
    return b"".join(msgspec.json.encode(line) + b"\n" for line in lines)


def with_states() -> list[str]:
    """The recordings that may be begun with at several states. Others are of few steps."""
    return [
        name
        for name, lines in as_recorded().items()
        if sum(line["ev"] == "state" for line in lines) > FEW
    ]


@pytest.mark.parametrize("name", with_states())
def test_every_state_is_one_to_begin_with(name: str) -> None:
    """Chunks, preempted requests, drafts, outputs in flight of requests that are gone: whatever
    the state tells, all that follows is explained, later states among it.
    """
    records = written_out(as_recorded()[name])
    places = [i for i, record in enumerate(records) if isinstance(record, State)]
    assert len(places) > FEW
    for at in places:
        verdict = check(Path("trace"), stream=io.BytesIO(from_there(records, at)), deep=False)
        told = " ".join(verdict.missing)
        assert verdict.verdict == "CONFORMS" or told.startswith(OWNER), (at, verdict)


@pytest.mark.parametrize("after", [0, math.inf])
@pytest.mark.parametrize("name", with_states())
def test_after_a_gap_nothing_is_left_of_what_was_known(
    name: str, after: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is lost between two states, all that follows the second one is explained: by the
    erased form from the first step on, and by the text.
    """
    monkeypatch.setattr(fast, "AFTER", after)
    records = written_out(as_recorded()[name])
    places = [i for i, record in enumerate(records) if isinstance(record, State)]
    for before, at in itertools.pairwise(places):
        lines: list[Record] = [*records[: before + 1], Gap(records=at - before - 1), *records[at:]]
        data = b"".join(msgspec.json.encode(line) + b"\n" for line in lines)
        verdict = check(Path("trace"), stream=io.BytesIO(data), deep=False)
        assert verdict.first is None, (at, verdict)
        told = " ".join(verdict.missing)
        assert told == f"{at - before - 1:,} records that the recorder lost" or OWNER in told


def test_what_a_gap_leaves_behind_is_forgotten() -> None:
    """Who was to be rejected, and what sessions were sent, may be of others by then."""
    header, *records = written_out(as_recorded()["sessions"])
    state = next(record for record in records if isinstance(record, State))
    replay = Replay(msgspec.structs.replace(header, start="unknown"), VLLM_0_22_1)
    gone = max(request.id for request in state.requests) + 1
    k = replay.k
    k.talk.sent[gone], k.talk.told[gone] = {}, None
    k.talk.by_stop_id.add(gone)
    k.refused, k.refused_next = [(gone, "before")], [(gone, "behind")]
    k.chains[gone] = Chain(())
    k.owed_unknown.add(gone)
    replay.take(state)
    kept = (*k.talk.sent, *k.talk.told, *k.talk.by_stop_id, *k.chains, *k.owed_unknown)
    assert gone not in kept
    assert k.refused == k.refused_next == []


def test_most_have_several_states() -> None:
    """All but those of few steps."""
    assert len(with_states()) >= 16


def test_some_have_requests_that_are_gone_in_flight() -> None:
    """What is special about them is there."""
    states = [line for line in as_recorded()["four-in-flight"] if line["ev"] == "state"]
    assert any("gone" in step for state in states for step in state["in_flight"])


def test_a_number_of_somebody_gone_may_come_back_too_soon() -> None:
    """In vllm-0.22.1 a new owner of an id gets what is in flight for the old one: what that is,
    a state does not tell.
    """
    lines = as_recorded()["four-in-flight"]
    at = next(
        i
        for i, line in enumerate(lines)
        if line["ev"] == "state" and any("gone" in step for step in line["in_flight"])
    )
    gone = next(step for step in lines[at]["in_flight"] if "gone" in step)["gone"][0]
    add = {"ev": "add", "id": gone, "prompt": 1, "max_tokens": 1, "arrival": 0.0, "chain": []}
    header = lines[0] | {"start": "unknown"}
    verdict = judge([header, lines[at], add, *lines[at + 1 :]])
    assert verdict.verdict == "INCONCLUSIVE"
    assert verdict.missing == [f"{OWNER} {gone}"]


def crowded(name: str) -> tuple[Lines, int]:
    """A recording, and where its last state of several requests is; 0: there is none."""
    lines = [*as_recorded()[name]]
    states = [i for i, line in enumerate(lines) if line["ev"] == "state"]
    return lines, max((i for i in states if len(lines[i]["requests"]) > 1), default=0)


@pytest.mark.parametrize("name", [name for name in with_states() if crowded(name)[1] > 1])
def test_requests_stand_in_order_of_arrival(name: str) -> None:
    """Two that change places are a violation there, whatever else the state tells of them."""
    lines, at = crowded(name)
    assert lines[0]["start"] == "empty"
    requests = lines[at]["requests"]
    lines[at] = {**lines[at], "requests": [*requests[:-2], requests[-1], requests[-2]]}
    verdict = judge(lines)
    assert verdict.first is not None
    assert (verdict.first.line, verdict.first.rule) == (at + 1, "LIFE-1")
    assert verdict.first.actual == [q["id"] for q in lines[at]["requests"]]


def test_where_judging_began_by_priority_their_order_is_not_compared() -> None:
    """There the rules have them arrive by number, whatever order the engine has them in."""
    records = written_out(as_recorded()["heap"])
    places = [i for i, record in enumerate(records) if isinstance(record, State)]
    for i in places:
        records[i] = msgspec.structs.replace(records[i], requests=records[i].requests[::-1])
    data = from_there(records, places[0])
    assert len(places) > 1 and len(records[places[1]].requests) > 1
    assert check(Path("trace"), stream=io.BytesIO(data), deep=False).verdict == "CONFORMS"
