"""In which sizes and types the control kernels are launched, and what is meant to be in them."""

import torch

from nullblock.kernels.checks.findings import Allowed, Kind
from nullblock.kernels.control.compact import compact_queue
from nullblock.kernels.control.decision import decide
from nullblock.kernels.control.evict import evict_blocks
from nullblock.kernels.control.exchange import Rings, new_exchange
from nullblock.kernels.control.intake import intake
from nullblock.kernels.control.lookup import look_up
from nullblock.kernels.control.queues import unqueue
from nullblock.kernels.control.release import release_rows
from nullblock.kernels.control.reset import reset_prefix_cache
from nullblock.kernels.control.running_phase import schedule_running
from nullblock.kernels.control.schedule import schedule
from nullblock.kernels.control.sizes import Sizes
from nullblock.kernels.control.state import State, new_state
from nullblock.kernels.control.take import take_blocks
from nullblock.kernels.control.tell import tell
from nullblock.kernels.control.touch import touch_blocks
from nullblock.kernels.control.update import update
from nullblock.kernels.control.waiting_phase import schedule_waiting

META = torch.device("meta")


def _state(max_num_seqs: int, **switches: bool) -> State:
    sizes = Sizes(
        num_blocks=1 << 17,
        block_size=16,
        max_num_seqs=max_num_seqs,
        max_model_len=8192,
        max_num_scheduled_tokens=8192,
        num_rows=2 * max_num_seqs,
        **switches,
    )
    return new_state(sizes, META, seed=0)


def steps_256() -> None:
    """At most 256 requests, FCFS: whole steps, with what comes in and goes out."""
    state, rings = _state(256), Rings()
    exchange = new_exchange(state.sizes, rings, META)
    sampled = torch.empty(256, dtype=torch.int32, device=META)
    intake(state, exchange, rings, "triton")
    schedule(state, "triton")
    tell(state, exchange, rings, "triton")
    update(state, exchange, rings, sampled, "triton")


def steps_1024() -> None:
    """1024, PRIORITY, and freed blocks without a hash go first."""
    schedule(_state(1024, priority=True, freed_unhashed_first=True), "triton")


def steps_4096() -> None:
    """4096, FCFS."""
    schedule(_state(4096), "triton")


def single_phases() -> None:
    """What a step consists of, and what may come between steps, a launch each."""
    state = _state(256)
    some = torch.empty(100, dtype=torch.int32, device=META)
    schedule_running(state, "triton")
    schedule_waiting(state, "triton")
    decide(state, "triton")
    take_blocks(state, 100, "triton")
    touch_blocks(state, some, "triton")
    release_rows(state, some, "triton")
    unqueue(state, "triton")
    look_up(state, some, "triton")
    evict_blocks(state, some, "triton")
    reset_prefix_cache(state, True, "triton")
    compact_queue(state, "triton")


EXAMPLES = (steps_256, steps_1024, steps_4096, single_phases)

_ANY_SLOT = (
    "where an entry stands depends on who is faster; what is found does not (cache.py), and tests"
    " compare that"
)
_INSERTING = ("schedule_kernel", "waiting_phase_kernel", "running_phase_kernel", "_insert_kernel")
ALLOWED = (
    Allowed(
        Kind.BARRIER,
        "claim_slots",
        "cache.slots",
        "a lane looks whether a slot is free, and its compare-and-swap looks again",
        ("volatile load", "atomic"),
    ),
    *(
        Allowed(Kind.ORDER, kernel, tensor, _ANY_SLOT)
        for kernel in _INSERTING
        for tensor in ("cache.slots", "cache.slot")
    ),
)
