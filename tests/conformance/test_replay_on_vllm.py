"""Workloads on the real vLLM: our engines decide the same, and the recorder's traces conform."""

from pathlib import Path
from typing import Any

import pytest
import workload_files
from test_replay import decisions, plan
from workload_files import write

from nullblock.conformance.adapters.replay_vllm import VllmError
from nullblock.conformance.checker.check import check
from nullblock.conformance.replaying.run import replay
from nullblock.spec.profiles import VLLM_0_22_1

pytestmark = pytest.mark.oracle

PRELOAD = Path(__file__).parents[1] / "oracle" / "preload.py"
SIZES = "num_blocks=400,max_num_batched_tokens=512,max_num_seqs=8"
CASES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "fcfs": ("mooncake", f"vllm-sync,{SIZES}", {}),
    "priority, eos": ("mooncake", f"vllm-sync,{SIZES},policy=priority", {"ends_by_eos": True}),
    "odd blocks": ("mooncake", f"vllm-sync,{SIZES},block_size=24", {}),
    "asynchronous": ("mooncake", f"vllm,{SIZES}", {}),
    "asynchronous, eos": ("mooncake", f"vllm,{SIZES}", {"ends_by_eos": True}),
    "three in flight": ("mooncake", f"vllm,{SIZES},queue_depth=3", {"ends_by_eos": True}),
    "agents": ("packed", f"vllm,{SIZES}", {"users": 2, "gap": 1.0}),
    "lengths alone": ("azure", f"vllm-sync,{SIZES}", {"speed": 10.0}),
}


@pytest.mark.parametrize(("format", "config", "pace"), CASES.values(), ids=CASES)
def test_the_real_engine_decides_the_same(
    tmp_path: Path, oracle_python: Path, format: str, config: str, pace: dict[str, Any]
) -> None:
    """The reference gives the figures of vLLM 0.22.1 under the same workload, though the one
    hashes tokens and the other is told chain numbers; the recording conforms."""
    path = write(tmp_path / "w", workload_files.FILES[format]())
    found = {}
    for engine in ("vllm", "reference"):
        trace = tmp_path / f"{engine}.jsonl.zst"
        asked = plan(
            path, engine, config, pace=pace, trace=trace, python=oracle_python, preload=PRELOAD
        )
        result = replay(asked, lambda figures: None)
        assert result.figures.totals.finished == result.figures.totals.arrived > 0
        found[engine] = decisions(result)
        verdict = check(trace, VLLM_0_22_1)
        assert verdict.verdict == "CONFORMS", (engine, verdict)
    assert found["vllm"] == found["reference"]


def test_an_environment_without_vllm_is_told(tmp_path: Path, oracle_python: Path) -> None:
    """Without what --preload prepares, the oracle's environment cannot import vLLM: one line."""
    path = write(tmp_path / "w", workload_files.azure(3))
    broken = write(tmp_path / "preload.py", "raise RuntimeError('not today')\n")
    for preload, says in ((None, "No module named"), (broken, "not today")):
        asked = plan(path, "vllm", "vllm-sync", python=oracle_python, preload=preload)
        with pytest.raises(VllmError, match=says) as caught:
            replay(asked, lambda figures: None)
        assert "\n" not in str(caught.value)


RAISES = """
import sys
sys.path.insert(0, {folder!r})
import torchless
torchless.install()
from vllm.v1.core.sched.scheduler import Scheduler
schedule, steps = Scheduler.schedule, []
def third_raises(self):
    steps.append(1)
    if len(steps) == 3:
        raise LookupError("no more")
    return schedule(self)
Scheduler.schedule = third_raises
"""


def test_what_the_real_engine_raises_ends_the_replay(tmp_path: Path, oracle_python: Path) -> None:
    """An exception in vLLM's scheduler is a result, and the trace ends with it."""
    path = write(tmp_path / "w", workload_files.azure())
    preload = write(tmp_path / "preload.py", RAISES.format(folder=str(PRELOAD.parent)))
    trace = tmp_path / "t.jsonl.zst"
    config = f"vllm-sync,{SIZES}"
    asked = plan(path, "vllm", config, python=oracle_python, preload=preload, trace=trace)
    result = replay(asked, lambda figures: None)
    assert result.raised == "LookupError: no more" and result.figures.totals.steps == 2
    verdict = check(trace, VLLM_0_22_1)
    assert verdict.verdict == "VIOLATION" and verdict.first is not None
    assert verdict.first.actual == "it raised LookupError"
