"""Tables of layers that see only a part of the past. Of others there is nothing to say here."""

from nullblock.spec.aligned import is_aligned
from nullblock.spec.fields import AWAY, RUNNING, WAIT_PHASE
from nullblock.spec.groups import (
    chunk,
    held_alone,
    in_table,
    is_null,
    most_held,
    passed,
    to_take,
)
from nullblock.spec.hybrid import hit_place, hit_table, next_token, wanted
from nullblock.spec.invariants.ledger import invariant, within
from nullblock.spec.kernel import State, Value, both, either, implies, least, neg
from nullblock.spec.mamba import beside
from nullblock.spec.sizes import full_of, needed, tokens_of
from nullblock.spec.state import turn


def seen_from(s: State, t: Value, tokens: Value) -> Value:
    """The first block of table t that the token after so many sees. Where there are no other
    layers, and a chunk begins within its block, it is the block that the last token of the block
    sees: what is before that, nobody will ever look at.
    """
    if both(chunk(s, t), not s.k.several):
        return passed(s, t, tokens_of(s, t, full_of(s, t, tokens) + 1) - 1)
    return passed(s, t, tokens)


@invariant("GROUP-8")
def seen_is_held(s: State) -> Value:
    """A running request holds a block for whatever its next token sees of what is computed: the
    null block stands only where all have passed. Upstream: 47728.
    """
    if not s.k.windowed:
        return True
    return s.k.forall(
        "TI",
        lambda t, i: implies(
            both(
                both(s.stage[s.k.owner(t)] == RUNNING, neg(is_aligned(s, t))),
                both(within(0, i, s.tlen[t]), is_null(s, t, i)),
            ),
            i < seen_from(s, t, s.comp[s.k.owner(t)]),
        ),
    )


def parts_with(s: State, t: Value) -> Value:
    """Whether the request of table t ends at this moment, and gives back what no token would see
    (REMOTE-52).
    """
    return both(s.leaving == AWAY, s.k.owner(t) == s.leaver) if s.k.connector else False


@invariant("GROUP-9")
def nulls_come_first(s: State) -> Value:
    """In a table no block stands before the null block, unless its request gives blocks back at
    this moment, or it keeps the states at ends of steps alone.
    """
    if not s.k.windowed:
        return True
    return s.k.forall(
        "TI",
        lambda t, i: implies(
            both(
                both(within(1, i, s.tlen[t]), is_null(s, t, i)),
                neg(either(is_aligned(s, t), turn(s, s.k.owner(t)), parts_with(s, t))),
            ),
            is_null(s, t, i - 1),
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
        s.k.forall("T", lambda t: neg(s.k.mem(s.own[s.k.NULL], t))),
    )


def hit_is_seen(s: State, i: Value) -> Value:
    """Whether the next token sees hit i."""
    if s.nhit == 0:
        return False
    return seen_from(s, hit_table(s, s.lr, i), next_token(s)) <= hit_place(s, s.lr, i)


@invariant("GROUP-11")
def hit_goes_on(s: State) -> Value:
    """A prefix hit has, for whatever the next token sees, a block that carries the wanted hash."""
    if either(not s.k.windowed, s.looking != 2, s.na != 0):
        return True
    return s.k.forall(
        "I",
        lambda i: implies(
            both(0 <= i, i < s.nhit, hit_is_seen(s, i)),
            both(s.hit[i] != s.k.NULL, s.hsh[s.hit[i]] == wanted(s, s.lr, i)),
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
        "T",
        lambda t: either(
            s.tlen[t] == 0,
            s.k.count("I", lambda i: in_table(s, t, i)) <= most_held(s, t, s.tlen[t]),
        ),
    )


def has_room_ahead(s: State, r: Value) -> Value:
    """Whether what r takes at once, until all its tokens are computed, is free."""

    def takes(t: Value) -> Value:
        lacks = needed(s, t, least(s.ntok[r], s.k.max_len)) - s.tlen[t]
        return to_take(s, t, lacks, held_alone(s, t))

    if not s.k.several:
        return takes(r) <= s.nfree
    return s.k.sum_over("G", lambda g: takes(s.k.table(r, g))) <= s.nfree


@invariant("GROUP-37")
def admitted_has_room(s: State) -> Value:
    """With the gate, whoever has just been admitted finds room for all its tokens, as long as
    nobody else takes any. Of drafts, loads and states at ends of steps the gate knows nothing.
    """
    if not (s.k.windowed and s.k.reserve) or s.k.aligns or s.k.connector or s.k.drafts:
        return True
    return s.k.forall(
        "R",
        lambda r: implies(
            both(s.phase == WAIT_PHASE, s.asked == 0, s.fresh[r] != 0, s.ix[r] == s.nr - 1),
            has_room_ahead(s, r),
        ),
    )


@invariant("GROUP-33")
def states_are_held(s: State) -> Value:
    """A table that keeps the states at ends of steps alone ends with that of the last step and
    those beside, unless its request gets slots, or leaves, at this moment.
    """
    if not s.k.aligns:
        return True

    def is_kept(t: Value, i: Value) -> Value:
        return both(is_aligned(s, t), within(s.tlen[t] - 1 - beside(s, t), i, s.tlen[t]), 0 <= i)

    return s.k.forall(
        "TI",
        lambda t, i: implies(
            both(is_kept(t, i), s.stage[s.k.owner(t)] == RUNNING, neg(turn(s, s.k.owner(t)))),
            neg(is_null(s, t, i)),
        ),
    )
