"""What the prover takes for granted about sizes, sets, hashes and requests.

Each axiom is written once, in the words of the kernel, and runs on both environments: the prover
quantifies it, and `tests/spec/test_axioms.py` evaluates the same text on integers, sets and chains
of blocks. Not listed here: `SymbolicEnv.first` (a non-empty finite set has a least member).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import z3  # type: ignore[import-untyped]

from nullblock.spec.kernel import Value, both, either, implies, ite, neg
from nullblock.spec.prover.symbols import sort_of

Text = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Axiom:
    """A statement about the environment `k` and members of `sorts`."""

    name: str
    sentence: str
    sorts: tuple[str, ...]
    text: Text
    triggers: Text | None = None
    """Terms whose appearance makes Z3 instantiate the axiom. None: there is nothing to
    instantiate.
    """


def counted(k: Any, members: Value, x: Value, new: Value, inside: bool) -> Value:
    """Adding x to a set, or removing it, changes the cardinality by one if it changes the set."""
    if inside:
        return k.card(new) == k.card(members) + ite(k.mem(members, x), 0, 1)
    return k.card(new) == k.card(members) - ite(k.mem(members, x), 1, 0)


SIZES = (
    Axiom(
        "blocks-monotone",
        "More tokens need no fewer blocks.",
        ("I", "I"),
        lambda k, i, j: implies(i <= j, k.blocks(i) <= k.blocks(j)),
        lambda k, i, j: (k.blocks(i), k.blocks(j)),
    ),
    Axiom(
        "full-monotone",
        "More tokens fill no fewer blocks.",
        ("I", "I"),
        lambda k, i, j: implies(i <= j, k.full(i) <= k.full(j)),
        lambda k, i, j: (k.full(i), k.full(j)),
    ),
    Axiom(
        "tokens-monotone",
        "More blocks hold no fewer tokens.",
        ("I", "I"),
        lambda k, i, j: implies(i <= j, k.tokens(i) <= k.tokens(j)),
        lambda k, i, j: (k.tokens(i), k.tokens(j)),
    ),
    Axiom(
        "nothing",
        "No tokens need, fill and are no blocks.",
        (),
        lambda k: both(k.blocks(0) == 0, k.full(0) == 0, k.tokens(0) == 0),
    ),
    Axiom(
        "whole-blocks",
        "The tokens of whole blocks need and fill just these blocks.",
        ("I",),
        lambda k, i: both(k.blocks(k.tokens(i)) == i, k.full(k.tokens(i)) == i),
        lambda k, i: (k.tokens(i),),
    ),
    Axiom(
        "filled",
        "Filled blocks hold no more than the tokens there are; none is filled without need.",
        ("I",),
        lambda k, i: both(k.tokens(k.full(i)) <= i, k.full(i) <= k.blocks(i)),
        lambda k, i: (k.full(i),),
    ),
)

SETS = tuple(
    axiom
    for s in "RB"
    for axiom in (
        Axiom(
            f"card-{s}",
            "A cardinality is not negative, and a set that has one has a member.",
            ("{" + s + "}",),
            lambda k, S: both(k.card(S) >= 0, implies(k.card(S) > 0, k.mem(S, k.some(S)))),
            lambda k, S: (k.card(S),),
        ),
        Axiom(
            f"member-{s}",
            "A set with a member is not empty.",
            ("{" + s + "}", s),
            lambda k, S, x: implies(k.mem(S, x), k.card(S) >= 1),
            lambda k, S, x: (k.mem(S, x), k.card(S)),
        ),
        Axiom(
            f"empty-{s}",
            "The empty set has no members.",
            (),
            lambda k, s=s: k.card(k.empty(s)) == 0,
        ),
    )
)

HASHES = (
    Axiom(
        "chain",
        "The hash of a block determines its depth and the hash before it.",
        ("T", "I"),
        lambda k, t, i: implies(
            i >= 0,
            both(
                k.valid(k.want(t, i)),
                k.par(k.want(t, i)) == ite(i == 0, k.ROOT, k.want(t, i - 1)),
                k.depth(k.want(t, i)) == i + 1,
            ),
        ),
        lambda k, t, i: (k.want(t, i),),
    ),
    Axiom(
        "parent",
        "Before a chain hash stands another one, or ROOT.",
        ("H",),
        lambda k, h: implies(k.valid(h), either(k.valid(k.par(h)), k.par(h) == k.ROOT)),
        lambda k, h: (k.par(h),),
    ),
    Axiom(
        "no-hash",
        "NOHASH and ROOT are no chain hashes.",
        (),
        lambda k: neg(either(k.valid(k.NOHASH), k.valid(k.ROOT))),
    ),
)

REQUESTS = (
    Axiom(
        "prompt",
        "A prompt has no negative length.",
        ("R",),
        lambda k, r: k.prompt_len(r) >= 0,
        lambda k, r: (k.prompt_len(r),),
    ),
    Axiom(
        "output",
        "A request asks for at least one token.",
        ("R",),
        lambda k, r: k.max_tokens(r) >= 1,
        lambda k, r: (k.max_tokens(r),),
    ),
    Axiom(
        "order",
        "No two requests have the same place in a PRIORITY queue.",
        ("R", "R"),
        lambda k, r, q: implies(k.order(r) == k.order(q), r == q),
        lambda k, r, q: (k.order(r), k.order(q)),
    ),
    Axiom(
        "configuration",
        "Budget, places and lengths are at least one; the pool may be empty, not negative; nor are"
        " drafts and the slots for them.",
        (),
        lambda k: both(
            *(k.budget >= 1, k.max_seqs >= 1, k.max_len >= 1, k.usable >= 0),
            *(k.num_spec >= 0, k.lookahead >= 0),
        ),
    ),
)

AXIOMS: tuple[Axiom, ...] = SIZES + SETS + HASHES + REQUESTS


def formula(axiom: Axiom, k: Any) -> Any:
    """The axiom as a Z3 formula over the environment `k`."""
    names = [z3.Const(f"ax{n}", sort_of(s)) for n, s in enumerate(axiom.sorts)]
    body = axiom.text(k, *names)
    if not names:
        return body
    assert axiom.triggers is not None, f"{axiom.name} has variables and no triggers"
    terms = axiom.triggers(k, *names)
    return z3.ForAll(
        names, body, patterns=[terms[0] if len(terms) == 1 else z3.MultiPattern(*terms)]
    )
