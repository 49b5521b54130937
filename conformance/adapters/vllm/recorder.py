"""Schedulers of vLLM that write down what they are asked and what they decide.

    NULLBLOCK_TRACE=/var/tmp/serve.jsonl.gz vllm serve … --no-async-scheduling \\
        --scheduler-cls nullblock.conformance.adapters.vllm.recorder.RecordingScheduler

``NULLBLOCK_TRACE`` names a file (``.jsonl``, ``.jsonl.gz``) or else a folder, which gets parts;
``{pid}`` in it becomes the process number. Without it nothing is recorded. With
``NULLBLOCK_TRACE_STATE_EVERY=N`` the whole state is recorded too, every N steps.

Recording changes no decision. If it fails it stops, with one warning, and serving goes on.
"""

from vllm import __version__, _version  # type: ignore[import-not-found,unused-ignore]
from vllm.v1.core.sched.async_scheduler import (  # type: ignore[import-not-found,unused-ignore]
    AsyncScheduler,
)
from vllm.v1.core.sched.scheduler import (  # type: ignore[import-not-found,unused-ignore]
    Scheduler,
)

from nullblock.conformance.adapters.vllm.recording import Recording

VERSION = (__version__, getattr(_version, "__commit_id__", None))


class RecordingScheduler(Recording, Scheduler):  # type: ignore[misc,unused-ignore]
    """vLLM's ``Scheduler``, recorded."""

    engine_version = VERSION


class RecordingAsyncScheduler(Recording, AsyncScheduler):  # type: ignore[misc,unused-ignore]
    """vLLM's ``AsyncScheduler``, recorded."""

    engine_version = VERSION
