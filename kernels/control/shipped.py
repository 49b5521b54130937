"""In which sizes and types the control kernels are launched, and what is meant to be so in them."""

from nullblock.kernels.checks.findings import Allowed, Kind

EXAMPLES = ()

_ANY_SLOT = (
    "where an entry stands depends on who is faster; what is found does not (`cache.py`), and tests"
    " compare that"
)
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
        for kernel in (
            "schedule_kernel",
            "waiting_phase_kernel",
            "running_phase_kernel",
            "_insert_kernel",
        )
        for tensor in ("cache.slots", "cache.slot")
    ),
)
