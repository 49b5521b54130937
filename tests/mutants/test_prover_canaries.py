"""The prover notices the planted defects that an invariant forbids: an obligation stays open.

Only the rule or the operation concerned is proved, so that each takes seconds. What is asserted is
the report: which obligation, of which text; a text that cannot be followed counts as no notice.
`test_matrix.py` runs the prover whole.
"""

import re
from dataclasses import dataclass

import pytest

from nullblock.conformance.strength.mutants import BY_NAME, POOL, Mutant
from nullblock.conformance.strength.plant import ask, planted
from nullblock.spec.prover import prove

UNREADABLE = "the text cannot be followed"


@dataclass(frozen=True, slots=True)
class Notice:
    """Where the prover notices a defect."""

    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


NOTICED: dict[str, Notice] = {
    "touch-keeps-queue": Notice("adopt", "POOL-3"),
    "hash-survives-reuse": Notice("push_new", "TABLE-5"),
    "admit-after-preemption": Notice("begin_lookup", "ALLOC-2"),
    "budget-off-by-one": Notice("ask_to_run", "ALLOC-3"),
    "hit-without-reference": Notice("adopt", "POOL-2"),
    "hit-covers-last-token": Notice("look", "ALLOC-2"),
    "evict-most-recent": Notice("push_new", "HASH-4"),
    "preempt-oldest": Notice("preempt", "PREEMPT-5"),
    "victim-to-back": Notice("requeue", "WAIT-15"),
    "withdrawn-tokens-lost": Notice("preempt", "RUN-11"),
    "withdrawn-hashes-stay": Notice("pop_block", "HASH-6"),
    "victim-freed-late": Notice("pop_block", "QUEUE-4"),
    "hits-not-charged": Notice("schedule_waiting_requests", "a loop's invariant holds again"),
    "half-block-cached": Notice("publish", "HASH-5"),
    "placeholder-stays": Notice("take_token", "UPD-19"),
    "stale-token-taken": Notice("preempt_for_reset", "UPD-20"),
    "one-step-too-many": Notice("ask_to_run", "RUN-26"),
    "placeholder-cached": Notice("publish_known", "DRAFT-18"),
    "token-for-a-namesake": Notice("add_request", "UPD-20"),
}
UNNOTICED: dict[str, tuple[str, str]] = {
    "free-forward": ("pop_block", "its text moves a table up in a loop over blocks; see below"),
    "reserve-ignored": ("ask_to_enter", "no invariant forbids it: a choice of policy"),
    "latest-duplicate": ("look", "any block with the hash holds the same content"),
    "stop-before-eos": ("go_on", "the reason for which a request stops is no part of the state"),
    "worker-not-told": ("advance", "the output is read from the state, and changes none"),
}
"""Defects that the prover is not claimed to notice: the text changed, and why."""

PARENTS_FIRST = Mutant(
    "parents-first",
    "a table's blocks queue in the order of the table, so parents are evicted before children",
    (
        (
            POOL,
            "        s.stamp[b] = s.back\n        s.back += 1\n",
            "        s.stamp[b] = s.front\n        s.front -= 1\n",
        ),
    ),
)
"""What `free-forward` does to the free queue, without its loop."""


def open_obligations(mutant: Mutant, *names: str) -> list[str]:
    """The first obligation left open of these texts with the defect planted."""
    with planted(mutant) as folder:
        done = ask(folder, "-m", "nullblock.spec.prover", "--fast", *names)
    assert done.stderr == "" and done.returncode in (0, 1), done.stderr
    assert re.search(r"^\d+ obligations, \d+ proved, ", done.stdout, re.M), done.stdout
    found = re.findall(r"^open: (.*) \((?:fcfs|priority)\)$", done.stdout, re.M)
    assert (done.returncode == 1) == bool(found), done.stdout
    return found


@pytest.mark.parametrize("name", NOTICED)
def test_a_defect_is_noticed(name: str) -> None:
    """With the defect planted, the obligation that forbids it stays open."""
    notice = NOTICED[name]
    assert open_obligations(BY_NAME[name], notice.where) == [str(notice)]


def test_blocks_that_queue_parents_first_are_noticed() -> None:
    """The order in which a table is released is pinned: a child would outlive its parent."""
    assert open_obligations(PARENTS_FIRST, "pop_block") == ["pop_block: HASH-4"]


@pytest.mark.parametrize("where", sorted({n.where for n in NOTICED.values()}))
def test_without_a_defect_nothing_is_noticed(where: str) -> None:
    """Everything is proved of these texts in the specification as it is, or else a notice would
    mean nothing.
    """
    assert prove(where, stop_at_first=True).open == []


@pytest.mark.parametrize("name", UNNOTICED)
def test_what_is_not_claimed_to_be_noticed_is_not(name: str) -> None:
    """The texts that the other defects change are proved nevertheless, or cannot be followed: the
    claim is neither too small nor too large.
    """
    found = open_obligations(BY_NAME[name], UNNOTICED[name][0])
    assert all(UNREADABLE in line for line in found)


def test_no_defect_is_left_out() -> None:
    """Of every mutant it is said whether the prover notices it."""
    assert set(NOTICED) | set(UNNOTICED) == set(BY_NAME)
    assert not set(NOTICED) & set(UNNOTICED)
