"""The plugin beside the real ``SchedulerConfig``: which class each setting gives.

Runs where vLLM is.
Prints a JSON object: setting to the names of the resolved class and of the one it decides by.
"""

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "oracle"), str(ROOT / ".src"), str(Path(__file__).parent)]

import torchless  # noqa: E402  (found from here on)

torchless.install()

import vllm  # noqa: E402
from vllm.v1.core.sched.scheduler import Scheduler  # noqa: E402


class Theirs(Scheduler):
    """A scheduler of somebody's own."""


def real(name: str) -> Any:
    """A module of ``vllm.config`` as it is, where torchless puts an inert one."""
    path = Path(vllm.__file__).parent / "config" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"vllm.config.{name}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def main() -> None:
    """Register twice, as vLLM may, and resolve."""
    real("utils")
    config = real("scheduler").SchedulerConfig
    before = set(sys.modules)
    plain = config.get_scheduler_cls
    from nullblock.conformance.adapters.vllm.plugin import register

    register()
    register()
    found: dict[str, Any] = {"changed": config.get_scheduler_cls is not plain}
    ours = {m for m in set(sys.modules) - before if m.startswith("nullblock.conformance.adapters")}
    found["imported"] = sorted(m.rpartition(".")[2] for m in ours)
    settings: dict[str, dict[str, Any]] = {
        "async": {"async_scheduling": True},
        "sync": {"async_scheduling": False},
        "class": {"scheduler_cls": Theirs},
        "path": {"scheduler_cls": "record_plugin.Theirs"},
        "ours": {"scheduler_cls": "nullblock.conformance.adapters.vllm.RecordingAsyncScheduler"},
    }
    for name, values in settings.items():
        made = config(max_model_len=64, is_encoder_decoder=False, **values)
        kind = made.get_scheduler_cls()
        assert kind is made.get_scheduler_cls()
        found[name] = [base.__name__ for base in kind.__mro__[:4]]
    print(json.dumps(found))


if __name__ == "__main__":
    main()
