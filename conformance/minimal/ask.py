"""A minimal scenario for a verdict, if there is one."""

from pathlib import Path

from nullblock.conformance.checker.verdict import Scenario, Verdict
from nullblock.conformance.minimal.history import Impossible
from nullblock.conformance.minimal.search import Progress, minimal
from nullblock.spec.profiles import Semantics


def ask(verdict: Verdict, path: Path | None, progress: Progress | None = None) -> Scenario | None:
    """A scenario that shows the fault of a VIOLATION, or why there is none; None for any other
    verdict.

    Args:
        path: the trace; None for one that cannot be read again.

    Raises `OSError` where the trace cannot be read.
    """
    first, replay = verdict.first, verdict.replay
    if verdict.verdict != "VIOLATION" or first is None or first.mismatch is None:
        return None
    if path is None:
        return Scenario(None, "none: the trace is read again for it; save it to a file")
    assert replay is not None
    semantics: Semantics = replay.k.sem
    try:
        found = minimal(
            *(path, first.line, first.file, first.step, first.mismatch, semantics),
            *(progress, replay.s),
        )
    except Impossible as reason:
        return Scenario(None, f"none: {reason}")
    return Scenario(found.document, found.note)
