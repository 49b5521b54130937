"""The recorder: runs inside vLLM, imports the standard library and msgspec, which vLLM brings.

``pip install --no-deps nullblock`` beside vLLM is enough for it. The schedulers are imported on
first use, since they need vLLM; RECORDING.md says how to use them.
"""

from typing import Any

_SCHEDULERS = ("RecordingScheduler", "RecordingAsyncScheduler", "recording")
__all__ = list(_SCHEDULERS)


def __getattr__(name: str) -> Any:
    if name not in _SCHEDULERS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from nullblock.conformance.adapters.vllm import recorder

    return getattr(recorder, name)
