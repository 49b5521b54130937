"""Steps that wait to be told are told as if each had been told at once."""

from pathlib import Path
from typing import Any

import pytest
from test_recorder import Recorded, engine, request

from nullblock.conformance.adapters import reference as adapter
from nullblock.conformance.adapters.vllm.alike import Alike
from nullblock.conformance.adapters.vllm.filling import Edges, Ring, tokens_on
from nullblock.conformance.adapters.vllm.recording import Recording
from nullblock.reference.request import RequestStatus
from nullblock.reference.sched.scheduler import Scheduler


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
        return decided


class RecordedOdd(Recording, Odd):
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
    looked: list[bool] = []
    schedule = Alike.schedule

    def counted(alike: Alike, decided: Any) -> bool:
        looked.append(schedule(alike, decided))
        return looked[-1]

    lines = []
    for name, look in (("waiting", counted), ("at once", lambda *_: False)):
        monkeypatch.setenv("NULLBLOCK_TRACE", str(tmp_path / f"{name}.jsonl"))
        monkeypatch.setattr(Alike, "schedule", look)
        lines.append(play(tmp_path / f"{name}.jsonl", 4))
    assert lines[0] == lines[1]
    assert len(looked) == 70 and looked.count(True) > 40


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
