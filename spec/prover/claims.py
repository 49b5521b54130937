"""What is claimed to be proved. `tests/spec/test_prover.py` shows each claim."""

from nullblock.spec.invariants import INVARIANTS
from nullblock.spec.kernel import RULES
from nullblock.spec.machine import events as events  # importing the machine registers every rule
from nullblock.spec.machine import schedule as schedule
from nullblock.spec.machine import update as update
from nullblock.spec.prover.jobs import UNPROVED as UNPROVED
from nullblock.spec.prover.report import Report

SHIFTS = "if both(i < s.at, either(s.k.sem.victim_shifts_index, s.sched[v] != 0))"
UNREACHED: dict[str, str] = {
    "schedule_running_requests: adopt": "only the waiting phase looks prefixes up",
}
"""Rules in the text of an operation that can never fire there, each with the reason."""

DEAD: dict[tuple[str, str], str] = {
    ("publish", "if i < s.tlen[t]: no"): "a complete table has every block that the step fills",
    ("publish_known", "if i < s.tlen[t]: no"): "what is computed has a slot",
    ("preempt", f"{SHIFTS}: yes"): (
        "a victim before the index is not the one that asks, and under FCFS there is none"
    ),
    ("finish", "guard: it stops"): "the check says that it goes on",
    ("finish_waiting", "guard: it stops"): "the check says that it goes on",
    ("cut_off", "guard: it stops"): "the check says that it goes on",
    ("cut_off", "if waiting.is_rejected(s, r): yes"): "a grammar sees what has come as a whole",
    ("go_on", "guard: it does not stop"): "the check says that it stops",
    ("read_on", "guard: it does not stop"): "the check says that it stops",
    ("look", "guard: the scan is not over"): "without caching it is over at once",
    ("ask_to_run", "guard: there is something to do"): "its last token is in flight",
    ("hold_back", "guard: it may not enter"): "nothing keeps it out",
    ("pass_by", "guard: it waits for something else than its turn"): (
        "who awaits a grammar is skipped already, and no adapters are capped"
    ),
}
"""Ways through a rule that nothing goes, each with the reason: by the rule, and by the guard or
decision on the way that contradicts the rest.
"""
IMPLIED: dict[str, str] = {
    "POOL-1": "POOL-2 says that a reference count is a cardinality",
}
"""Invariants that follow from the others, each with the reason."""


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
