"""One step, decided by one launch: running requests, admissions, what is told (RUN-5)."""

import triton
import triton.language as tl

from nullblock.kernels.arguments import Backend, use_triton
from nullblock.kernels.control.decision import decide_step, decide_torch
from nullblock.kernels.control.running_phase import running_phase, schedule_running_torch
from nullblock.kernels.control.state import State
from nullblock.kernels.control.waiting_phase import schedule_waiting_torch, waiting_phase


def schedule(state: State, backend: Backend = "auto") -> None:
    """Decide a step: what is decided stands in `Decision` and the control words.

    Nothing of it waits for the device. Bits in the error word say that the decision means nothing.
    """
    if not use_triton(state.arrays.words, backend):
        return schedule_torch(state)
    schedule_kernel[(1,)](state.arrays, state.sizes, num_warps=state.sizes.num_warps)


def schedule_torch(state: State) -> None:
    """The three phases."""
    schedule_running_torch(state)
    schedule_waiting_torch(state)
    decide_torch(state)


@triton.jit
def schedule_kernel(a, z: tl.constexpr):
    """One program."""
    running_phase(a, z)
    waiting_phase(a, z)
    decide_step(a, z)
