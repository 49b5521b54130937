"""A mutant judges the bundled recordings of the real vLLM: it has noticed the defect if it rejects
one.
"""

from functools import cache
from pathlib import Path

from nullblock.conformance.checker import check
from nullblock.spec.mutation.forks import LATE, Json, with_defect
from nullblock.spec.mutation.generate import Defect
from nullblock.spec.profiles import PROFILES

BUNDLED = Path(__file__).parents[1] / "bundled"
SECONDS = 60.0
NEVER_ENDS = "never ends"
RAISES = "raises"
RAISED = ("Disabled: ", "Broken: ", "KeyError: ")
"""How the checker fails whose rules do not explain a recording: a guard or a promise objects, or
the world was not told what it is asked for.
"""
FEW = 2


@cache
def traces() -> tuple[Path, ...]:
    """The smallest recordings, and those with drafts: others show little more, and take longer."""
    every = sorted(BUNDLED.glob("*.jsonl.zst"), key=lambda p: p.stat().st_size)
    few = [p for p in every if not p.name.startswith("drafted")][:FEW]
    return tuple(p for p in every if p in few or p.name.startswith("drafted"))


def judge(defect: Defect | None) -> Json:
    """Which recording is rejected first, by which rule, at which step; nothing if none is."""

    def work() -> Json:
        for path in traces():
            verdict = check(path, PROFILES["vllm-0.22.1"], deep=False)
            first = verdict.first
            if verdict.verdict == "VIOLATION" and first is not None:
                return {"by": first.rule, "trace": path.name.split(".")[0], "step": first.step}
            if verdict.verdict != "CONFORMS":
                return {"by": verdict.verdict, "trace": path.name.split(".")[0], "step": 0}
        return {}

    said = with_defect(defect, work, SECONDS)
    if said.get("failed", "").startswith(RAISED):
        return {"by": RAISES}
    return {"by": NEVER_ENDS} if said == LATE else said
