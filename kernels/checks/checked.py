"""``with checked():`` every kernel launched inside is looked at for what the interpreter hides."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import triton

from nullblock.kernels.checks.findings import Allowed, KernelDefects, Report, Site


@contextmanager
def watched(
    *,
    seed: int = 0,
    allow: Sequence[Allowed] = (),
    without_barrier: Site | None = None,
    narrow: bool = False,
    **tensors: Any,
) -> Iterator[Report]:
    """Look at every kernel that is launched inside, and collect what is found.

    Each launch runs twice from the same start: as it is, with its accesses compared; and with
    programs and the lanes of atomics shuffled, and arbitrary values in lanes that are masked off,
    which must come to the same bits. Memory ends as the first of the two left it.

    ``seed`` is of the shuffling and the arbitrary values. ``allow`` lists what is meant to be so.
    ``without_barrier`` names the line of a ``tl.debug_barrier()`` that counts as removed.
    ``narrow``: blocks that have fewer lanes than the launch has threads count as what they are on
    a device, where several threads hold a lane; the interpreter is often given small ones.
    ``tensors`` are those that kernels reach by other ways than their arguments. On a device
    nothing is checked, and the report says so. Raises ValueError for tensors on a device.
    """
    report = Report(seed=seed, allow=tuple(allow), interpreted=triton.knobs.runtime.interpret)
    if not report.interpreted:
        yield report
        return
    # It wraps classes that exist in the interpreter alone.
    from nullblock.kernels.checks.interpreter import Interpreter

    try:
        with Interpreter(report, without_barrier, tensors, narrow).installed():
            yield report
    except KernelDefects:
        raise
    except Exception as error:
        if report.findings:
            error.add_note(f"what was found until then: {report}")
        raise


@contextmanager
def checked(*, seed: int = 0, allow: Sequence[Allowed] = (), **tensors: Any) -> Iterator[Report]:
    """As `watched`, and raise `KernelDefects` at the end if anything was found."""
    with watched(seed=seed, allow=allow, **tensors) as report:
        yield report
    report.raise_if_any()
