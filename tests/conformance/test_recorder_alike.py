"""Calls that wait to be told are told as if each had been told at once."""

import json
import random
from collections import Counter, deque
from itertools import compress
from pathlib import Path
from typing import Any

import pytest
from recorded_engine import Recorded, ended, engine, request
from traces import BUSY

from nullblock.conformance import driver, scenario
from nullblock.conformance.adapters import reference as adapter
from nullblock.conformance.adapters.vllm import tape, turns
from nullblock.conformance.adapters.vllm.alike import Alike
from nullblock.conformance.adapters.vllm.filling import Edges, Filling, Ring, tokens_on
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


class Silent(Scheduler):
    """In every third step it does not say what somebody got."""

    def update_from_output(self, *decided_and_sampled: Any) -> Any:
        """See ``SchedulerInterface``."""
        result = super().update_from_output(*decided_and_sampled)
        self.updated = getattr(self, "updated", 0) + 1
        if self.updated % 3 == 0:
            for of_client in result.values():
                del of_client.outputs[0]
        return result


class RecordedSilent(Recording, Silent):
    """It, recorded."""


def test_who_got_nothing_fills_no_block_in_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though later steps have filled more by the time that it is told."""
    monkeypatch.setattr(adapter, "Scheduler", RecordedSilent)
    monkeypatch.setenv("NULLBLOCK_TRACE_FLUSH_SECONDS", "3600")
    lines = []
    for way in ("in a run", "one by one"):
        monkeypatch.setenv("NULLBLOCK_TRACE", str(tmp_path / f"{way}.jsonl"))
        if way == "one by one":
            monkeypatch.setattr(Alike, "schedule", lambda *_: None)
        lines.append(play(tmp_path / f"{way}.jsonl", 4))
    assert lines[0] == lines[1]
    assert sum('"gone"' in line for line in lines[0]) > 20


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
    schedule, kinds = Alike.schedule, Counter[tuple[bool, bool]]()

    def counted(self: Alike, seen: Any) -> Any:
        record = schedule(self, seen)
        if record is not None:
            kinds["gone" in record, "ids" in record] += 1
        return record

    lines = []
    for way in ("in a run", "one by one", "a look"):
        path = tmp_path / f"{way}.jsonl"
        monkeypatch.setenv("NULLBLOCK_TRACE", str(path))
        monkeypatch.setattr(Alike, "schedule", counted if way == "in a run" else lambda *_: None)
        if way == "a look":
            monkeypatch.setattr(turns, "turned", lambda *_: None)
        lines.append(turnover(path, ahead))
    assert lines[0] == lines[1] == lines[2]
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
    turned, schedule, quick = turns.turned, Alike.schedule, Counter[str]()

    def counted(*seen_and_before: Any) -> Any:
        step = turned(*seen_and_before)
        quick["drafts" if seen_and_before[0].drafts else "turned"] += step is not None
        return step

    def in_a_run(self: Alike, seen: Any) -> Any:
        record = schedule(self, seen)
        quick["in a run"] += record is not None and not seen.alike
        return record

    for name in SCENARIOS:
        lines = []
        for way, turn, run in (
            ("in a run", counted, in_a_run),
            ("one by one", counted, lambda *_: None),
            ("a look", lambda *_: None, lambda *_: None),
        ):
            monkeypatch.setattr(turns, "turned", turn)
            monkeypatch.setattr(Alike, "schedule", run)
            lines.append(taped(name, tmp_path / f"{name}-{way}.jsonl", monkeypatch))
        assert lines[0] == lines[1] == lines[2], name
    assert quick["in a run"] > 50 and quick["turned"] > 50 and quick["drafts"] > 5, quick


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
    ids, fillings = list(map(str, at)), [Filling(n, None, (), 0) for n in at]
    ring = Ring(at, size, ids, fillings)
    for many in (0, 1, 5, 255, 256, 300):
        later = tokens_on(at, many)
        for told, computed in (
            (ring.opening(many), edges.opening(later)),
            (ring.filling(many), edges.filling(later)),
        ):
            assert told == (list(compress(ids, computed)), list(compress(fillings, computed)))


@pytest.mark.parametrize("size", [1, 4, 16, 256])
def test_a_ring_knows_who_comes_and_ends(size: int) -> None:
    """As one that is made anew of those who are there then; rows given out stay as they are."""
    draw = random.Random(size)
    there = [(n, draw.randrange(600)) for n in range(12)]
    each = {n: Filling(n, None, (), 0) for n in range(200)}

    def made(many: int) -> Ring:
        """Of those who are there, so many steps later."""
        at = bytes((place + many) & 255 for _, place in there)
        return Ring(at, size, [str(n) for n, _ in there], [each[n] for n, _ in there])

    ring = made(0)
    for many in range(1, 150):
        before = ring.opening(many), ring.filling(many)
        copies = [(row.ids.copy(), row.fillings.copy()) for row in before]
        for _ in range(draw.randrange(min(3, len(there)))):
            n, place = there.pop(draw.randrange(len(there)))
            ring.end(str(n), place + many, many)
        if draw.random() < 0.8:
            position = draw.randrange(600)
            there.append((12 + many, position - many))
            ring.come(str(12 + many), each[12 + many], position, many)
        assert list(before) == copies
        for later in range(3):
            assert ring.opening(many + later) == made(many).opening(later)
            assert ring.filling(many + later) == made(many).filling(later)
