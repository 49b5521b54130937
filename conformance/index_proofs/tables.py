"""Claims about block tables: they rest on invariants of the specification, taken from its text.

A step writes the keys and values of tokens that are not computed yet. Blocks may be shared, so why
do two requests never write one slot? Because of those who hold a block at most one has still to
compute it (TABLE-12). That invariants hold is for the specification to show (`nullblock prove`).
"""

from collections.abc import Iterator

import z3  # type: ignore[import-untyped]

from nullblock.conformance.index_proofs.claim import Arithmetic, Claim, Problem
from nullblock.conformance.index_proofs.numbers import Term
from nullblock.conformance.index_proofs.places import below
from nullblock.spec.fields import FIELDS, RUNNING
from nullblock.spec.invariants import INVARIANTS
from nullblock.spec.kernel import State
from nullblock.spec.profiles import NORMATIVE
from nullblock.spec.prover.environment import SymbolicEnv
from nullblock.spec.prover.paths import attached
from nullblock.spec.prover.prover import Prover
from nullblock.spec.prover.symbols import SORTS, SymbolicState, TermMap, sort_of

IN_TABLE, HAS_ROOM, WRITER = "TABLE-2", "TABLE-8", "TABLE-12"


def _any_state() -> tuple[State, dict[str, Term]]:
    """A state about which nothing is known, and what its invariants say."""
    s: State = SymbolicState()
    s.k = SymbolicEnv(False, NORMATIVE)
    for field, sort in FIELDS.items():
        constant = s.k.const(field, sort_of(sort))
        setattr(s, field, TermMap(constant) if ">" in sort else constant)
    with attached(Prover(NORMATIVE, stop_at_first=False)):
        said = {id: INVARIANTS[id](s) for id in (IN_TABLE, HAS_ROOM, WRITER)}
        return s, said


BLOCK, REQUEST = SORTS["B"], SORTS["R"]
NUMBER = z3.Function("number", BLOCK, z3.IntSort())
"""What a kernel calls a block."""


def _numbered(blocks: Term) -> Term:
    """Blocks have numbers of their own, below that of all blocks, and 0 is the null block's."""
    b, c = z3.Consts("b c", BLOCK)
    own = z3.ForAll([b, c], z3.Implies(NUMBER(b) == NUMBER(c), b == c))
    return z3.And(own, z3.ForAll([b], z3.And(0 < NUMBER(b), NUMBER(b) < blocks)))


class Written:
    """A token that a step computes: its request, its position, its slot."""

    def __init__(self, a: Arithmetic, s: State, name: str, size: Term) -> None:
        self.request = r = z3.Const(name, REQUEST)
        token, start = z3.Ints(f"{name}_token {name}_query_start")
        self.position = a.token_position(s.comp[r], token, start)
        self.column = a.block_index(self.position, size)
        block = NUMBER(s.tab[r, self.column])
        self.slot = a.slot_index(block, a.block_offset(self.position, size), size)
        self.scheduled = z3.And(
            s.stage[r] == RUNNING,
            s.comp[r] >= 0,
            below(token - start, s.sched[r]),
        )
        # The specification's words for sizes, in the kernels' arithmetic.
        self.sizes = z3.And(
            s.k.full(s.comp[r]) == a.block_index(s.comp[r], size),
            s.k.blocks(s.comp[r] + s.sched[r]) == a.blocks_for(s.comp[r] + s.sched[r], size),
        )


def _small(s: State, one: Written, other: Written) -> Iterator[Term]:
    """A world of two blocks, and of two requests that compute three tokens each."""
    b, c, x = z3.Consts("some_block another_block any_block", BLOCK)
    r = z3.Const("any_request", REQUEST)
    yield z3.ForAll([x], z3.Or(x == b, x == c))
    yield z3.ForAll([r], z3.Or(r == one.request, r == other.request))
    for r in one.request, other.request:
        yield z3.And(s.tlen[r] == 2, s.comp[r] == 0, s.sched[r] == 3)


def writes_in_table(a: Arithmetic) -> Problem:
    s, said = _any_state()
    size, blocks = z3.Ints("block_size num_blocks")
    one = Written(a, s, "request", size)
    slots = blocks * size
    return Problem(
        {
            HAS_ROOM: said[HAS_ROOM],
            "the step computes the token": one.scheduled,
            "blocks are numbered": _numbered(blocks),
            "a block has room for a token": size > 0,
            "sizes are what they are called": one.sizes,
        },
        z3.And(below(one.column, s.tlen[one.request]), size <= one.slot, one.slot < slots),
        (HAS_ROOM, "the step computes the token", "blocks are numbered"),
    )


def writes_differ(a: Arithmetic) -> Problem:
    s, said = _any_state()
    size, blocks = z3.Ints("block_size num_blocks")
    one, other = (Written(a, s, name, size) for name in ("request", "other"))
    two = z3.Or(one.request != other.request, one.position != other.position)
    return Problem(
        {
            IN_TABLE: said[IN_TABLE],
            HAS_ROOM: said[HAS_ROOM],
            WRITER: said[WRITER],
            "the step computes both tokens": z3.And(one.scheduled, other.scheduled),
            "they are two": two,
            "blocks are numbered": _numbered(blocks),
            "a block has room for a token": size > 0,
            "sizes are what they are called": z3.And(one.sizes, other.sizes),
        },
        one.slot != other.slot,
        (IN_TABLE, WRITER, "they are two", "blocks are numbered"),
        examples=(*_small(s, one, other), size == 2),
    )


CLAIMS = (
    Claim(
        "writes-in-table",
        "Every token that a step computes has a block in its request's table, and its slot is one"
        " of the pool's, not of the null block's.",
        writes_in_table,
    ),
    Claim(
        "writes-differ",
        "No two tokens that a step computes have one slot.",
        writes_differ,
    ),
)
