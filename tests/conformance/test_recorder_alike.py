"""Calls that wait to be told are told as if each had been told at once."""

import json
from collections import Counter, deque
from pathlib import Path
from typing import Any

import pytest
from recorded_engine import Recorded, ended, engine, request
from traces import BUSY

from nullblock.conformance import driver, scenario
from nullblock.conformance.adapters import reference as adapter
from nullblock.conformance.adapters.vllm import tape, turns
from nullblock.conformance.adapters.vllm.alike import Alike
from nullblock.conformance.adapters.vllm.filling import Edges, Ring, tokens_on
from nullblock.conformance.adapters.vllm.recording import Recording
from nullblock.conformance.adapters.vllm.telling import Teller
from nullblock.conformance.errors import OutOfScope
from nullblock.conformance.trace.records import Error
from nullblock.reference.request import RequestStatus
from nullblock.reference.sched.async_scheduler import AsyncScheduler
from nullblock.reference.sched.scheduler import Scheduler
from nullblock.spec.profiles import profile

DATA = Path(__file__).parent.parent / "oracle" / "data" / "scenarios.json"
SCENARIOS: dict[str, dict[str, Any]] = json.loads(DATA.read_text()) | {"busy": BUSY}


class Odd(Scheduler):
    """In some steps it tells what is not so: of tokens, outputs, blocks, or the common prefix."""

    def schedule(self) -> Any:
        """See ``SchedulerInterface``."""
        decided = super().schedule()
        self.decided = getattr(self, "decided", 0) + 1
        cached = decided.scheduled_cached_reqs
        if self.decided == 11:
            cached.num_computed_tokens[1] += 1
        if self.decided == 17:
            cached.num_output_tokens[0] -= 1
        if self.decided == 23:
            cached.new_block_ids[2] = ([3, 4],)
        if self.decided == 29:
            decided.num_common_prefix_blocks[0] += 1
        if self.decided == 35:
            decided.num_scheduled_tokens[cached.req_ids[0]] += 1
        return decided


class RecordedOdd(Recording, Odd):
    """It, recorded."""


class OddDrafts(Scheduler):
    """In every third step with drafts it tells what is not so: of what is computed, of tokens."""

    def schedule(self) -> Any:
        """See ``SchedulerInterface``."""
        decided = super().schedule()
        cached = decided.scheduled_cached_reqs
        if decided.scheduled_spec_decode_tokens and cached.req_ids:
            self.drafted = getattr(self, "drafted", 0) + 1
            if self.drafted % 3 == 1:
                cached.num_computed_tokens[0] += 1
            if self.drafted % 3 == 2:
                decided.num_scheduled_tokens[cached.req_ids[0]] += 1
        return decided


class RecordedOddDrafts(Recording, OddDrafts):
    """It, recorded."""


def play(path: Path, block_size: int) -> list[str]:
    """The lines of a run of decodes in which something else happens now and then."""
    made = engine(num_blocks=200, max_model_len=200)
    assert made.scheduler.block_size == block_size
    alive = ["a", "b", "c"]
    for number, id in enumerate(alive):
        made.add(request(id, prompt=3 + number, max_tokens=90))
    for step in range(70):
        if step == 31:
            made.add(request("d", prompt=9, max_tokens=90))
            alive.append("d")
        if step == 44:
            made.scheduler.finish_requests("b", RequestStatus.FINISHED_ABORTED)
            alive.remove("b")
        if step == 52:
            made.reset_prefix_cache(False)
        made.schedule()
        made.update({id: [9 + step] for id in alive})
    made.scheduler.shutdown()
    return path.read_text().splitlines()[1:-1]


@pytest.mark.parametrize("kind", [Recorded, RecordedOdd])
@pytest.mark.parametrize("every", ["0", "5"])
@pytest.mark.parametrize("flush", ["3600", "0.001"])
def test_what_waits_is_told_as_if_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type, every: str, flush: str
) -> None:
    """With and without waiting, a recording has the same lines: whatever interrupts a run, when
    the writer comes by, and whatever the engine tells that is not so.
    """
    monkeypatch.setattr(adapter, "Scheduler", kind)
    monkeypatch.setenv("NULLBLOCK_TRACE_STATE_EVERY", every)
    monkeypatch.setenv("NULLBLOCK_TRACE_FLUSH_SECONDS", flush)
    alike = Counter[bool]()
    schedule = Alike.schedule

    def counted(self: Alike, seen: Any) -> Any:
        record = schedule(self, seen)
        alike[record is not None] += 1
        return record

    lines = []
    for name, most, look in (("waiting", tape.MOST, counted), ("at once", 1, lambda *_: None)):
        monkeypatch.setenv("NULLBLOCK_TRACE", str(tmp_path / f"{name}.jsonl"))
        monkeypatch.setattr(Alike, "schedule", look)
        monkeypatch.setattr(tape, "MOST", most)
        lines.append(play(tmp_path / f"{name}.jsonl", 4))
    assert lines[0] == lines[1]
    assert alike.total() == 70 and alike[True] > 40


class RecordedAhead(Recording, AsyncScheduler):
    """The reference's asynchronous scheduler, recorded."""


def taped(name: str, path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str] | None:
    """The lines of a recorded scenario; None where the reference does not play it."""
    monkeypatch.setenv("NULLBLOCK_TRACE", str(path))
    taken = scenario.from_dict(SCENARIOS[name])
    try:
        made: Any = adapter.create(taken.config, profile("vllm-0.22.1"))
        deque(driver.run(taken, made, dump="none"), maxlen=0)
    except OutOfScope:
        return None
    made.scheduler.shutdown()
    return path.read_text().splitlines()[1:-1]


def test_whatever_is_played_is_told_as_if_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arrivals and ends, chunks, preemptions, drafts, sessions, ids that return, several groups,
    ahead of the model and in step: nothing that was seen is changed by what comes after it.
    """
    monkeypatch.setattr(adapter, "Scheduler", Recorded)
    monkeypatch.setattr(adapter, "AsyncScheduler", RecordedAhead)
    monkeypatch.setenv("NULLBLOCK_TRACE_FLUSH_SECONDS", "3600")
    waited = Counter[int]()
    tell = Teller.tell

    def counted(self: Teller) -> None:
        waited[len(self.waiting)] += 1
        tell(self)

    monkeypatch.setattr(Teller, "tell", counted)
    played = 0
    for name in SCENARIOS:
        lines = []
        for most in (tape.MOST, 1):
            with monkeypatch.context() as context:
                context.setattr(tape, "MOST", most)
                lines.append(taped(name, tmp_path / f"{name}-{most}.jsonl", monkeypatch))
        assert lines[0] == lines[1], name
        played += lines[0] is not None
    together = sum(calls * times for calls, times in waited.items() if calls > 2)
    assert played > 40 and together > 600, (played, waited)


def turnover(path: Path, ahead: bool) -> list[str]:
    """The lines of a run in which requests end, and others come, at last with ids of
    those that have just ended.
    """
    ways: dict[str, Any] = {"async_scheduling": True, "queue_depth": 2} if ahead else {}
    made = engine(num_blocks=200, max_model_len=200, max_num_seqs=6, **ways)
    flying, running = deque[list[str]](), list[str]()
    for step in range(60):
        for number in range(6 - len(made.scheduler.requests)):
            ended = [id for id in running if id not in made.scheduler.requests]
            id = ended[-1] if ended and step > 40 else f"{step}-{number}"
            most = 4 + step * 3 % 11 + number
            if step > 40:
                most = 1 if len(made.scheduler.requests) == 5 else 25
            made.add(request(id, prompt=3 + step % 5, max_tokens=most))
        made.schedule()
        running = [request.request_id for request in made.scheduler.running]
        flying.append(running)
        if len(flying) > ahead:
            made.update({id: [9] for id in flying.popleft()})
    made.scheduler.shutdown()
    return path.read_text().splitlines()[1:-1]


@pytest.mark.parametrize("ahead", [False, True])
def test_who_ends_and_who_comes_is_told_as_whatever_else_happens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ahead: bool
) -> None:
    """A step that differs only by requests that have ended, and by new ones, has the record that
    a look at each request gives it.
    """
    monkeypatch.setattr(adapter, "Scheduler", RecordedOdd)
    monkeypatch.setattr(adapter, "AsyncScheduler", RecordedAhead)
    turned, kinds = turns.turned, Counter[tuple[bool, bool]]()

    def counted(*seen_and_before: Any) -> Any:
        step = turned(*seen_and_before)
        if step is not None:
            kinds[bool(step.gone), len(step.ids) > len(seen_and_before[0].known)] += 1
        return step

    lines = []
    for way in ("turns", "a look"):
        path = tmp_path / f"{way}.jsonl"
        monkeypatch.setenv("NULLBLOCK_TRACE", str(path))
        monkeypatch.setattr(turns, "turned", counted if way == "turns" else lambda *_: None)
        lines.append(turnover(path, ahead))
    assert lines[0] == lines[1]
    assert kinds[True, True] > 10 and kinds.total() > 20, kinds


@pytest.mark.parametrize("kind", [Recorded, RecordedOddDrafts])
def test_whatever_is_played_is_told_as_by_a_look_at_each_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type
) -> None:
    """Chunks, preemptions, drafts, sessions, ids that return: what is told quickly, too; and
    whatever the engine tells of drafts that is not so.
    """
    monkeypatch.setattr(adapter, "Scheduler", kind)
    monkeypatch.setattr(adapter, "AsyncScheduler", RecordedAhead)
    turned, quick = turns.turned, Counter[bool]()

    def counted(*seen_and_before: Any) -> Any:
        step = turned(*seen_and_before)
        quick[seen_and_before[0].drafts is not None] += step is not None
        return step

    for name in SCENARIOS:
        lines = []
        for way in ("turns", "a look"):
            monkeypatch.setattr(turns, "turned", counted if way == "turns" else lambda *_: None)
            lines.append(taped(name, tmp_path / f"{name}-{way}.jsonl", monkeypatch))
        assert lines[0] == lines[1], name
    assert quick[False] > 50 and quick[True] > 5, quick


def test_what_waits_is_told_before_an_exception(
    where: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine raises with a run of steps untold: the error stands behind them."""
    monkeypatch.setenv("NULLBLOCK_TRACE_FLUSH_SECONDS", "3600")
    made = engine()
    made.add(request("a", max_tokens=20))
    for _ in range(6):
        made.schedule()
        made.update({"a": [9]})

    def fail(*_: Any) -> None:
        raise ValueError

    monkeypatch.setattr(Scheduler, "schedule", fail)
    with pytest.raises(ValueError):
        made.schedule()
    found = ended(where)
    assert [r.step for r in found if hasattr(r, "ids") and hasattr(r, "new")] == [*range(1, 7)]
    assert found[-2] == Error(during="schedule", type="ValueError")


@pytest.mark.parametrize("size", [1, 2, 16, 256])
def test_a_ring_tells_what_positions_tell(size: int) -> None:
    """Who opens and fills a block so many steps later, looked up or computed."""
    at, edges = bytes(range(3, 250, 7)), Edges(size)
    ring = Ring(at, size)
    for many in (0, 1, 5, 255, 256, 300):
        later = tokens_on(at, many)
        for told, computed in (
            (ring.opening(many), edges.opening(later)),
            (ring.filling(many), edges.filling(later)),
        ):
            assert told == [place for place, one in enumerate(computed) if one]
