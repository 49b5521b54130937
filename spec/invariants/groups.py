"""Tables of layers that see only a part of the past. Of others there is nothing to say here."""

from nullblock.spec.fields import RUNNING
from nullblock.spec.groups import in_table, is_null, passed
from nullblock.spec.invariants.ledger import invariant, within
from nullblock.spec.kernel import State, Value, both, either, implies, neg
from nullblock.spec.state import turn


def seen_from(s: State, tokens: Value) -> Value:
    """The first block that the token after so many sees; where a chunk begins within its block,
    that the last token of the block sees: what is before that, nobody will ever look at.
    """
    return passed(s, s.k.tokens(s.k.full(tokens) + 1) - 1 if s.k.chunk else tokens)


@invariant("GROUP-8")
def seen_is_held(s: State) -> Value:
    """A running request holds a block for whatever its next token sees of what is computed: the
    null block stands only where all have passed. Upstream: 47728.
    """
    if not s.k.windowed:
        return True
    return s.k.forall(
        "RI",
        lambda r, i: implies(
            both(s.stage[r] == RUNNING, within(0, i, s.tlen[r]), is_null(s, r, i)),
            i < seen_from(s, s.comp[r]),
        ),
    )


@invariant("GROUP-9")
def nulls_come_first(s: State) -> Value:
    """In a table no block stands before the null block, unless its request gives blocks back at
    this moment.
    """
    if not s.k.windowed:
        return True
    return s.k.forall(
        "RI",
        lambda r, i: implies(
            both(within(1, i, s.tlen[r]), is_null(s, r, i), neg(turn(s, r))), is_null(s, r, i - 1)
        ),
    )


@invariant("GROUP-10")
def null_block_is_apart(s: State) -> Value:
    """The null block is never cached, never free and nobody's."""
    if not s.k.windowed:
        return True
    return both(
        s.hsh[s.k.NULL] == s.k.NOHASH,
        s.stamp[s.k.NULL] == 0,
        s.ref[s.k.NULL] == 0,
        s.k.forall("R", lambda r: neg(s.k.mem(s.own[s.k.NULL], r))),
    )


@invariant("GROUP-11")
def hit_goes_on(s: State) -> Value:
    """A prefix hit has, for whatever the next token sees, a block that carries the wanted hash."""
    if not s.k.windowed:
        return True
    return implies(
        both(s.looking == 2, s.na == 0),
        s.k.forall(
            "I",
            lambda i: implies(
                within(seen_from(s, s.k.tokens(s.nhit)), i, s.nhit),
                both(s.hit[i] != s.k.NULL, s.hsh[s.hit[i]] == s.k.want(s.lr, i)),
            ),
        ),
    )


@invariant("GROUP-12")
def holds_what_it_may(s: State) -> Value:
    """A request holds no more blocks at once than its layers' part of the past and one step
    take.
    """
    if not s.k.windowed:
        return True
    return s.k.forall(
        "R",
        lambda r: either(
            s.tlen[r] == 0, s.k.count("I", lambda i: in_table(s, r, i)) <= s.k.most_held
        ),
    )
