"""A recorded engine of the reference, requests for it, and what was recorded."""

import time
from pathlib import Path
from typing import Any

from nullblock.conformance.adapters import reference as adapter
from nullblock.conformance.adapters.vllm.recording import Recording
from nullblock.conformance.engine import NewRequest
from nullblock.conformance.scenario_format import Config
from nullblock.conformance.trace.reader import TraceReader
from nullblock.reference.sched.scheduler import Scheduler
from nullblock.spec.profiles import profile


class Recorded(Recording, Scheduler):
    """The reference's scheduler, recorded."""

    engine_version = ("1.2.3+local", "abc")


def engine(**config: Any) -> Any:
    """An engine of the reference over whatever scheduler is in place."""
    return adapter.create(Config(block_size=4, **config), profile("vllm-0.22.1"))


def request(id: str, prompt: int = 6, **others: Any) -> NewRequest:
    """A request, unlike others in nothing but what is said."""
    fields: dict[str, Any] = {
        "prompt": list(range(prompt)),
        "max_tokens": 3,
        "min_tokens": 0,
        "priority": 0,
        "arrival": 5.0,
        "lora": None,
        "salt": None,
        "stop": None,
        "eos": None,
        "skip_cache_read": None,
    }
    return NewRequest(id=id, **fields | others)


def records(path: Path) -> list[Any]:
    """What was recorded."""
    return [located.record for located in TraceReader(path)]


def ended(path: Path) -> list[Any]:
    """What was recorded, once the writer has sealed it."""
    for _ in range(1000):
        if path.exists() and b'"ev":"end"' in path.read_bytes():
            return records(path)
        time.sleep(0.01)
    raise AssertionError(f"{path} is not sealed")
