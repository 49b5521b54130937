"""Recordings that end otherwise than by their owner's word: where a part is full when the engine
raises, and before they have begun.
"""

from pathlib import Path
from typing import Any

import pytest
from recorded_engine import engine, records, request
from traces import documents

from nullblock.conformance.adapters import reference as adapter
from nullblock.conformance.adapters.vllm import tape
from nullblock.conformance.adapters.vllm.look import Look
from nullblock.conformance.adapters.vllm.recording import Recording
from nullblock.conformance.checker.check import check
from nullblock.conformance.checker.verdict import Verdict
from nullblock.conformance.trace.records import Error, State
from nullblock.reference.sched.async_scheduler import AsyncScheduler
from nullblock.reference.sched.scheduler import Scheduler
from nullblock.spec.profiles import VLLM_0_22_1


class RecordedAhead(Recording, AsyncScheduler):
    """The reference's scheduler that schedules ahead of the outputs, recorded."""

    engine_version = ("1.2.3+local", "abc")


def raise_in_an_update(made: Any) -> None:
    """Steps in flight are forgotten, as often as there is one: an output comes too often for its
    request, and vLLM asserts that it does not.
    """
    for _ in range(3):
        made.schedule()
        made.reset_prefix_cache(True)
    made.schedule()
    for _ in range(3):
        made.update({"a": [1]})


@pytest.mark.parametrize("later", [True, False])
def test_no_part_begins_in_a_call_that_raised(
    later: bool, where: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A part that is full when the engine raises is the last one: what the engine's state is by
    then is half of what the call does. Where a recorder began another part all the same, its
    state is compared with nothing.
    """
    monkeypatch.setenv("NULLBLOCK_TRACE", str(where.with_name("parts")))
    monkeypatch.setenv("NULLBLOCK_TRACE_PART_MB", "0.0001")
    monkeypatch.setenv("NULLBLOCK_TRACE_STATE_EVERY", "1")
    monkeypatch.setattr(tape, "SNAPSHOTS", 0)
    monkeypatch.setattr(adapter, "AsyncScheduler", RecordedAhead)
    if not later:
        monkeypatch.setattr(tape, "NEVER", 0)
    made = engine(num_blocks=12, async_scheduling=True)
    made.add(request("a", max_tokens=9))
    with pytest.raises(AssertionError):
        raise_in_an_update(made)
    made.scheduler.shutdown()
    (folder,) = where.with_name("parts").iterdir()
    found = records(folder)
    assert (type(found[-2]) is Error) is later
    assert type(found[-2]) in (Error, State)
    verdict = judged(folder)
    assert (verdict.verdict, verdict.missing) == ("CONFORMS", []), verdict.first
    assert verdict.raised is not None and verdict.raised.rules


def fail(*_: Any) -> None:
    """Whatever is called."""
    raise OSError("no space left")


def judged(where: Path) -> Verdict:
    """The verdict on a recording of the reference."""
    return check(where, VLLM_0_22_1, "vllm-0.22.1")


def unbegun(where: Path) -> Any:
    """An engine whose recording waits until a step that it did not see has come back."""
    made = engine()
    made.scheduler.stop_recording()
    where.unlink()
    made.add(request("a"))
    made.schedule()
    made.scheduler.start_recording(str(where))
    assert not where.read_bytes()
    return made


def test_a_recording_that_never_began_says_so(where: Path) -> None:
    """It is a header, and no damaged trace."""
    unbegun(where).scheduler.shutdown()
    header, end = documents(where.read_bytes())
    assert (header["ev"], header["start"], end["ev"]) == ("header", "unknown", "end")
    verdict = judged(where)
    assert verdict.verdict == "INCONCLUSIVE" and "state" in verdict.missing[0]


def test_an_exception_before_it_began_is_told(
    where: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """How the run ended is known, whatever is not."""
    made = unbegun(where)
    monkeypatch.setattr(Scheduler, "update_from_output", fail)
    with pytest.raises(OSError, match="no space left"):
        made.update({"a": [1]})
    assert [line["ev"] for line in documents(where.read_bytes())] == ["header", "error", "end"]
    verdict = judged(where)
    assert verdict.verdict == "INCONCLUSIVE" and verdict.raised is not None
    assert (verdict.raised.type, verdict.raised.during) == ("OSError", "update")


def test_a_failure_before_it_began_is_told(where: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The recorder's own, too."""
    made = unbegun(where)
    monkeypatch.setattr(Look, "schedule", fail)
    made.schedule()
    made.scheduler.shutdown()
    assert [line["ev"] for line in documents(where.read_bytes())] == ["header", "lost", "end"]
    (missing,) = judged(where).missing
    assert "after the recorder gave up (OSError)" in missing
