"""What is claimed to be proved. `tests/spec/test_prover.py` shows each claim."""

from nullblock.spec.invariants import INVARIANTS
from nullblock.spec.kernel import RULES
from nullblock.spec.machine import events as events  # importing the machine registers every rule
from nullblock.spec.machine import schedule as schedule
from nullblock.spec.machine import update as update
from nullblock.spec.prover.report import Report

UNPROVED: dict[str, str] = {}
"""Rules, operations and invariants of which nothing is claimed, each with the reason."""

UNREACHED: dict[str, str] = {
    "schedule_running_requests: adopt": "only the waiting phase looks prefixes up",
}
"""Rules in the text of an operation that can never fire there, each with the reason."""


def proved_invariants() -> frozenset[str]:
    """IDs of the invariants that hold at first and that every rule keeps."""
    return frozenset(INVARIANTS) - UNPROVED.keys()


def proved_rules() -> frozenset[str]:
    """Names of the rules that keep every invariant."""
    return frozenset(RULES) - UNPROVED.keys()


def broken(report: Report) -> list[str]:
    """The claims that a report does not bear out, one line each."""
    unclaimed = UNPROVED.keys()
    lines = [
        f"not proved: {o}"
        for o in report.open
        if o.where not in unclaimed and o.what not in unclaimed
    ]
    return lines + [f"shows nothing: {v}" for v in report.vacuous if v not in UNREACHED]
