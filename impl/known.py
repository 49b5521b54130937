"""Which decision switches the fast engine knows both values of; the others it refuses by name."""

from nullblock.spec.profiles import NORMATIVE, PROFILES, Semantics
from nullblock.spec.switches import switches

ONE_VALUE = (
    "min_tokens_hold_stops",
    "tells_common_prefix",
    "lone_prefill_uncut",
    "grants_not_negative",
    "resumes_await_output",
    "admission_watermark",
    "resets_report_preempted",
)
"""It does what they say in the normative profile, and nothing else."""


def unknown(semantics: Semantics) -> str:
    """The first switch that is set to a value that this engine does not know, as it is set; empty
    if there is none.
    """
    values, normative = switches(semantics), switches(NORMATIVE)
    others = (f"{n}={str(values[n]).lower()}" for n in ONE_VALUE if values[n] != normative[n])
    return next(others, "")


def refuse_unknown(semantics: Semantics) -> None:
    """Raise ValueError for a switch that is set to a value that this engine does not know."""
    found = unknown(semantics)
    if found:
        raise ValueError(f"the switch {found} is not known: the spec and the reference know it")


KNOWN = {name: semantics for name, semantics in PROFILES.items() if not unknown(semantics)}
"""The profiles that this engine can follow."""
