"""What is claimed to be proved. `tests/spec/test_prover.py` shows each claim."""

from nullblock.spec.invariants import INVARIANTS
from nullblock.spec.kernel import RULES
from nullblock.spec.prover import jobs as jobs  # importing the machine registers every rule

UNPROVED: dict[str, str] = {}
"""Rules, operations and invariants that are not claimed, each with the reason."""

UNREACHED: dict[str, str] = {
    "schedule_running_requests: adopt": "only the waiting phase looks prefixes up",
    "schedule_running_requests: skip": "whoever runs has work while one step at a time is in flight",
    "schedule: skip": "whoever runs has work while one step at a time is in flight",
}
"""Rules in the text of an operation that can never fire there, each with the reason."""


def proved_invariants() -> frozenset[str]:
    """IDs of the invariants that hold at first and that every rule keeps."""
    return frozenset(INVARIANTS) - UNPROVED.keys()


def proved_rules() -> frozenset[str]:
    """Names of the rules that keep every invariant."""
    return frozenset(RULES) - UNPROVED.keys()
