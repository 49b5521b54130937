"""A recording that begins in the middle of a run: what the recorder learns then."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest
from recorded_engine import Recorded, engine, records, request

from nullblock.conformance.adapters import reference as adapter
from nullblock.conformance.adapters.vllm.recording import Recording
from nullblock.conformance.trace.records import Schedule

CALLS: dict[str, Callable[[Any], Any]] = {
    "add_request": lambda made: made.add_request(SimpleNamespace(request_id="a")),
    "schedule": lambda made: made.schedule(),
    "update_from_output": lambda made: made.update_from_output(None, None),
    "finish_requests": lambda made: made.finish_requests(["a"], None),
}


class Engine:
    """Has a connector and a session, and notes what was noted of the connector in each call."""

    def __init__(self) -> None:
        self.connector = SimpleNamespace()
        self.requests = {"a": SimpleNamespace(is_finished=lambda: False)}
        self.noted: list[Any] = []

    def called(self, *_: Any) -> list[Any]:
        """Any of its methods."""
        answers = self._nullblock_connector  # type: ignore[attr-defined]
        self.noted += [*answers._asked, *answers._ended]
        return []

    add_request = schedule = update_from_output = finish_requests = called


class RecordedEngine(Recording, Engine):
    """The same, recorded."""


@pytest.mark.parametrize("name", CALLS)
def test_what_a_connector_said_before_is_not_told(name: str) -> None:
    """A call that a recording before this one did not come to tell has left it behind."""
    made: Any = RecordedEngine()
    made._tape = MagicMock(running=True, inside=False, waiting_for_start=False, unreturned=0)
    made._nullblock_connector._asked = [{"id": "a"}]
    made._nullblock_connector._ended = [("a", True)]
    CALLS[name](made)
    assert made.noted == []


def test_what_a_session_holds_is_not_given_out_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Content keeps its number until as many blocks as there are have been given out: those that
    a session has kept since before the recording began are not among them.
    """
    monkeypatch.setattr(adapter, "Scheduler", Recorded)
    made: Any = engine()
    made.add(request("s", prompt=9, resumable=True, max_tokens=1))
    made.schedule()
    made.update({"s": [7]})
    scheduler = made.scheduler
    scheduler.start_recording(str(tmp_path / "late.jsonl"))
    made.add(request("s", prompt=9, resumable=True))
    made.schedule()
    given_out = scheduler._tape.observer.chains.given_out
    scheduler.shutdown()
    (step,) = (r for r in records(tmp_path / "late.jsonl") if isinstance(r, Schedule))
    ((table,),) = (new.blocks for new in step.new)
    assert given_out == len(table) - 3 > 0
