"""Schedulers of vLLM that write down what they are asked and what they decide.

    NULLBLOCK_TRACE=/var/tmp/traces vllm serve … \\
        --scheduler-cls nullblock.conformance.adapters.vllm.RecordingAsyncScheduler

(``RecordingScheduler`` with ``--no-async-scheduling``; where nullblock is installed as a plugin of
vLLM, the variable alone is enough.) Recording changes no decision. If it fails it stops, with one
warning, and serving goes on.
"""

from functools import lru_cache
from typing import Any

from vllm import __version__, _version  # type: ignore[import-not-found,unused-ignore]
from vllm.v1.core.sched.async_scheduler import (  # type: ignore[import-not-found,unused-ignore]
    AsyncScheduler,
)
from vllm.v1.core.sched.scheduler import (  # type: ignore[import-not-found,unused-ignore]
    Scheduler,
)

from nullblock.conformance.adapters.vllm.recording import Recording
from nullblock.conformance.adapters.vllm.words import logger

VERSION = (__version__, getattr(_version, "__commit_id__", None))


class RecordingScheduler(Recording, Scheduler):  # type: ignore[misc,unused-ignore]
    """vLLM's ``Scheduler``, recorded."""

    engine_version, engine_name = VERSION, "vllm"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if getattr(self.scheduler_config, "async_scheduling", False):
            logger.warning(
                "vLLM schedules asynchronously, and RecordingScheduler is the synchronous one: "
                "use RecordingAsyncScheduler, or --no-async-scheduling"
            )


class RecordingAsyncScheduler(Recording, AsyncScheduler):  # type: ignore[misc,unused-ignore]
    """vLLM's ``AsyncScheduler``, recorded."""

    engine_version, engine_name = VERSION, "vllm"


@lru_cache
def recording(kind: type) -> type:
    """The recording subclass of a scheduler class; a class that records is itself."""
    if issubclass(kind, Recording):
        return kind
    ready = {Scheduler: RecordingScheduler, AsyncScheduler: RecordingAsyncScheduler}
    if kind in ready:
        return ready[kind]
    body = {
        "__module__": __name__,
        "__doc__": f"``{kind.__module__}.{kind.__qualname__}``, recorded.",
        "engine_version": VERSION,
        "engine_name": "vllm",
    }
    return type(f"Recording{kind.__name__}", (Recording, kind), body)
