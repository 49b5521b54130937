"""What the project claims to have proved, line by line: `python -m nullblock.spec.theorems`.

A line is a claim in words; what shows it is named by ID, and everything else in the table follows:
the sentence from the catalogue, the engine, what it rests on and what is taken for granted.
"""

from dataclasses import dataclass

from nullblock.spec.catalogue import CATALOGUE, Statement, catalogue
from nullblock.spec.explorer.liveness import SERVED
from nullblock.spec.explorer.transitions import CLAIMS, TRANSITIONS
from nullblock.spec.invariants import INVARIANTS
from nullblock.spec.prover.jobs import UNPROVED
from nullblock.spec.theorems import linked_list
from nullblock.spec.theorems.theorem import THEOREMS

PER_RULE = "Z3, unbounded: the first state, and every rule"
BOUNDED = "explorer: exhaustive to the standard scopes"
PROVED = INVARIANTS.keys() - UNPROVED.keys()


@dataclass(frozen=True, slots=True)
class Line:
    """A claim, and the IDs of what shows it."""

    claim: str
    ids: tuple[str, ...]


LINES = tuple(
    Line(claim, tuple(ids.split()))
    for claim, ids in (
        ("a reference count is never negative", "POOL-1"),
        ("a block, other than the null block, is in the free queue iff its count is 0", "POOL-3"),
        ("a reference count is the number of holders", "POOL-2 TABLE-4"),
        ("free + held + null = all blocks", "THEOREM-3"),
        ("no block is twice in a table, or in the queue", "TABLE-2 QUEUE-2"),
        ("the queue is first in, first out, with removals", "QUEUE-1 QUEUE-2 THEOREM-10"),
        ("linked-list surgery, for any number of blocks", "THEOREM-9"),
        ("a hash map entry names a block that carries that hash", "HASH-2 HASH-3 HASH-8"),
        ("a hashed block holds that content", "TABLE-5 HASH-18"),
        ("no cached block is an orphan (full attention)", "HASH-4 HASH-17 HASH-19"),
        ("a miss implies a miss at every later block (full attention)", "THEOREM-1"),
        ("a lookup returns a prefix, whatever is cached", "THEOREM-2"),
        ("under a sliding window the miss implies nothing", "THEOREM-13"),
        ("equal chain hash, equal prefix", "THEOREM-4"),
        ("references along a chain (the open conjecture: it holds)", "THEOREM-5"),
        ("publish after write", "HASH-5 HASH-6 THEOREM-7"),
        ("no block is cached for a token that is not known", "HASH-21"),
        ("allocation is all or nothing, and uses what it predicted", "THEOREM-12"),
        ("computed tokens stay within known ones, and reset with the blocks", "RUN-29 RUN-17"),
        ("computed tokens grow by what is granted", "UPD-14"),
        ("a step's tokens stay within the budget, each at least one", "RUN-11 RUN-23"),
        ("no more run than max_num_seqs", "RUN-8"),
        ("no admission in a step that preempted", "PREEMPT-6 THEOREM-11"),
        ("nobody is scheduled and preempted in one step", "PREEMPT-7"),
        ("FCFS: running and waiting stay in arrival order", "WAIT-15 PREEMPT-5 RUN-22 RUN-24"),
        ("while budget is left nobody with work is passed over", "RUN-28"),
        ("finished requests hold nothing", "TABLE-7 THEOREM-8"),
        ("block tables are append-only while running", "TABLE-10"),
        ("an output is taken once, by whom it was scheduled for", "UPD-15 UPD-23 THEOREM-6"),
        ("a step that finds somebody to serve makes progress", "RUN-20"),
        ("everybody is served in the end", SERVED),
    )
)


@dataclass(frozen=True, slots=True)
class Row:
    """What is known of one statement."""

    claim: str
    id: str
    sentence: str
    engine: str
    rests_on: tuple[str, ...]
    assumes: tuple[str, ...]

    @property
    def word(self) -> str:
        """What may be said of it: proved for any size, or shown by one counterexample."""
        if self.engine == BOUNDED:
            return ""
        return "proved: " if self.engine.startswith("Z3") else "shown: "


def row(claim: str, id: str) -> Row:
    """What is known of a statement."""
    sentence = CATALOGUE[id].sentence
    if id == linked_list.ID:
        return Row(claim, id, sentence, linked_list.ENGINE, (), linked_list.ASSUMES)
    if id in THEOREMS:
        known = THEOREMS[id]
        return Row(claim, id, sentence, known.engine, known.rests_on, known.assumes)
    return Row(claim, id, sentence, PER_RULE if id in PROVED else BOUNDED, (), ())


def rows() -> tuple[Row, ...]:
    """Every line of the audit, a statement each."""
    catalogue()
    return tuple(row(line.claim, id) for line in LINES for id in line.ids)


def bounded() -> list[Statement]:
    """The invariants of which nothing but bounded search is known."""
    apart = {*TRANSITIONS, *CLAIMS, *UNPROVED, SERVED} - THEOREMS.keys()
    return [s for s in catalogue() if s.id in apart]


def markdown() -> str:
    """The audit as a page."""
    lines = [
        "# Theorems",
        "",
        "What is shown of the specification in the normative profile, and how. Generated:",
        "`python -m nullblock.spec.theorems > spec/THEOREMS.md`; a test holds the page to that.",
        "*Proved* is said of what holds for any number of blocks, requests and tokens, *shown* of",
        "a counterexample that was found; the rest says how far it was searched. Proofs are of",
        "one group of layers that see all of the past, of models without an encoder, and take no",
        "adapters to be capped.",
        "",
        "| claim | statement | says | shown by | rests on | takes for granted |",
        "|---|---|---|---|---|---|",
    ]
    for r in rows():
        cells = (
            *(r.claim, r.id, r.sentence, r.word + r.engine),
            ", ".join(r.rests_on) or "–",
            "; ".join(r.assumes) or "–",
        )
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    left = ", ".join(s.id for s in bounded()) or "none"
    lines += ["", f"Of the invariants, {left} are exhaustive to the standard scopes only.", ""]
    return "\n".join(lines)
