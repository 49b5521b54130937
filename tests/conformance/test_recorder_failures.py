"""What goes wrong in the recorder stays there: one warning, and the same decisions."""

import logging
import time
from pathlib import Path
from typing import Any

import pytest
from recorded_engine import ended, engine, request

from nullblock.conformance.adapters.vllm.alike import Alike
from nullblock.conformance.adapters.vllm.filling import Edges
from nullblock.conformance.adapters.vllm.look import Look
from nullblock.conformance.adapters.vllm.observe import Observer
from nullblock.conformance.adapters.vllm.outcomes import Outcomes
from nullblock.conformance.adapters.vllm.sink import Sink
from nullblock.conformance.adapters.vllm.steps import Steps
from nullblock.conformance.trace.records import End, Lost
from nullblock.reference.request import RequestStatus


def test_a_failure_of_the_recorder_is_not_one_of_the_engine(
    where: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever goes wrong in the recorder: one warning, a sealed trace, the same decisions."""

    def decisions() -> list[Any]:
        made = engine()
        made.add(request("a"))
        made.add(request("b", prompt=9))
        taken = [
            step for _ in range(2) for step in (made.schedule(), made.update({"a": [1], "b": [1]}))
        ]
        made.scheduler.shutdown()
        return taken

    plain = decisions()
    broken = (
        *((Look, "add"), (Look, "schedule"), (Look, "update"), (Observer, "counts")),
        *((Observer, "add"), (Observer, "tell"), (Steps, "schedule")),
        *((Steps, "before_update"), (Outcomes, "update"), (Outcomes, "_filled")),
        *((Edges, "filling"), (Sink, "put")),
    )
    for number, (kind, name) in enumerate(broken, start=2):

        def fail(*_: Any, **__: Any) -> None:
            raise OSError("no space left")

        with monkeypatch.context() as context:
            context.setattr(kind, name, fail)
            caplog.clear()
            with caplog.at_level(logging.WARNING):
                assert decisions() == plain
        assert [r.getMessage().partition(": ")[0] for r in caplog.records] == ["nullblock"]
        if kind is not Sink:
            found = ended(where.with_name(f"t-{number}.jsonl"))
            assert found[-2] == Lost(reason="OSError") and isinstance(found[-1], End)


@pytest.mark.parametrize("call", ["schedule", "update", "abort"])
def test_an_interrupt_is_nothing_that_the_engine_did(
    call: str, where: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It goes on to whoever interrupted; the recording ends, and says why."""

    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    made = engine()
    made.add(request("a"))
    made.schedule()
    inside = {"schedule": "_make_cached_request_data", "update": "_update_request_with_output"}
    monkeypatch.setattr(made.scheduler, inside.get(call, "_free_request"), interrupt)
    calls = {
        "schedule": made.schedule,
        "update": lambda: made.update({"a": [1]}),
        "abort": lambda: made.scheduler.finish_requests("a", RequestStatus.FINISHED_ABORTED),
    }
    with caplog.at_level(logging.WARNING), pytest.raises(KeyboardInterrupt):
        calls[call]()
    assert [r.getMessage().partition(" (")[2] for r in caplog.records] == ["KeyboardInterrupt: )"]
    found = ended(where)
    assert found[-2] == Lost(reason="KeyboardInterrupt") and isinstance(found[-1], End)


def test_what_fails_in_the_writers_thread_is_told_once(
    where: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It tells what the engine's thread has left waiting; if that fails, all is as above, and
    nothing behind the failure is told.
    """
    monkeypatch.setenv("NULLBLOCK_TRACE_FLUSH_SECONDS", "0.05")
    made = engine()
    made.add(request("a", max_tokens=9))
    for _ in range(2):
        made.schedule()
        made.update({"a": [1]})

    def fail(*_: Any, **__: Any) -> None:
        raise OSError("no space left")

    while made.scheduler._tape.waiting:
        time.sleep(0.01)
    monkeypatch.setattr(Outcomes, "update", fail)
    monkeypatch.setattr(Alike, "output", lambda *_: None)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            made.schedule()
            made.update({"a": [1]})
        found = ended(where)
        made.schedule()
        made.scheduler.shutdown()
    assert len(caplog.records) == 1 and not made.scheduler._tape.running
    assert caplog.messages[0].startswith("nullblock: recording decisions has failed and stops")
    assert [type(r).__name__ for r in found[1:]] == [
        *("Add", "Schedule", "Output", "Update", "Schedule", "Output", "Update"),
        *("Schedule", "Lost", "End"),
    ]


def test_a_recording_that_cannot_begin_does_not_keep_the_engine_from_it(
    where: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A folder that is not there costs a warning."""
    monkeypatch.setenv("NULLBLOCK_TRACE", str(where.parent / "missing" / "t.jsonl"))
    made = engine()
    made.add(request("a"))
    assert made.schedule()["order"] == ["a"]
    assert len(caplog.records) == 1
    monkeypatch.setenv("NULLBLOCK_TRACE_STATE_EVERY", "often")
    monkeypatch.setenv("NULLBLOCK_TRACE", str(where))
    assert engine().schedule()["order"] == []
