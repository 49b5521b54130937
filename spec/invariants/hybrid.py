"""Tables of several KV-cache groups. Of one group there is nothing to say here."""

from nullblock.spec.fields import LEAVING
from nullblock.spec.hybrid import all_hits
from nullblock.spec.invariants.ledger import invariant
from nullblock.spec.kernel import State, Value, both, either, implies
from nullblock.spec.mamba import for_tokens
from nullblock.spec.sizes import tokens_of
from nullblock.spec.state import turn


@invariant("GROUP-15")
def hit_covers_every_group(s: State) -> Value:
    """A prefix hit covers the same tokens in every group, and never the last token. Upstream:
    46453.
    """
    if not s.k.several:
        return True
    return both(
        both(implies(s.looking == 0, s.span == 0), s.overshot == 0),
        implies(s.looking == 2, s.nhit == all_hits(s, s.lr)),
        implies(
            s.looking != 0,
            both(s.nhit <= all_hits(s, s.lr), either(s.span == 0, s.span < s.ntok[s.lr])),
        ),
    )


@invariant("GROUP-16")
def tables_grow_together(s: State) -> Value:
    """The tables of a request reach equally far: none has a block beyond the end of another, and
    as many tokens are cached of each, unless it is being given slots, or leaves, at this moment.
    Upstream: 45856.
    """
    if not s.k.several:
        return True

    def reaches(t: Value, u: Value) -> Value:
        ahead = s.k.lookahead if s.k.aligns else 0
        return tokens_of(s, t, for_tokens(s, t) - 1) < tokens_of(s, u, for_tokens(s, u)) + ahead

    def alike(t: Value) -> Value:
        first = s.k.table(s.k.owner(t), 0)
        return both(
            either(s.tlen[t] == 0, reaches(t, first)),
            either(s.tlen[first] == 0, reaches(first, t)),
            tokens_of(s, t, s.ncached[t]) == tokens_of(s, first, s.ncached[first]),
        )

    def is_busy(r: Value) -> Value:
        return either(turn(s, r), s.stage[r] == LEAVING, both(s.open != 0, r == s.taker))

    return s.k.forall("T", lambda t: either(is_busy(s.k.owner(t)), alike(t)))


@invariant("GROUP-17")
def blocks_keep_to_their_group(s: State) -> Value:
    """A block that several tables hold is in the same group for all of them: no layer reads what
    another group's layers wrote. Upstream: 44409.
    """
    if not s.k.several:
        return True
    return s.k.forall(
        "TTB",
        lambda t, u, b: implies(
            both(s.pos[t, b] >= 0, s.pos[u, b] >= 0), s.k.group(t) == s.k.group(u)
        ),
    )
