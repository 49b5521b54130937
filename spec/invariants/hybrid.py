"""Tables of several KV-cache groups. Of one group there is nothing to say here."""

from nullblock.spec.cross import is_cross
from nullblock.spec.fields import LEAVING, REMOTE
from nullblock.spec.groups import is_null
from nullblock.spec.hybrid import all_hits, of_all
from nullblock.spec.in_turn import ASKING, hit_by
from nullblock.spec.invariants.ledger import invariant
from nullblock.spec.kernel import State, Value, both, either, implies, ite
from nullblock.spec.mamba import for_tokens
from nullblock.spec.sizes import full_of, kept_behind, tokens_of
from nullblock.spec.state import is_tried, turn


@invariant("GROUP-15")
def hit_covers_every_group(s: State) -> Value:
    """A prefix hit covers the same tokens in every group, and never the last token. Upstream:
    46453.
    """
    if not s.k.several:
        return True
    return both(
        implies(s.looking == 0, s.span == 0),
        either(
            s.looking == 0, s.looking == ASKING, of_all(s, s.lr, lambda t: hit_by(s, t) == s.span)
        ),
        implies(s.looking == 2, s.nhit == all_hits(s, s.lr)),
        implies(
            s.looking != 0,
            both(s.nhit <= all_hits(s, s.lr), either(s.span == 0, s.span < s.ntok[s.lr])),
        ),
    )


@invariant("GROUP-16")
def tables_grow_together(s: State) -> Value:
    """The tables that a request has for its tokens reach equally far: none has a block beyond the
    end of another, and as many tokens are cached of each, unless it is being given slots, or
    leaves, at this moment. Upstream: 45856. What is cached where something may be loaded REMOTE-53
    says.
    """
    if not s.k.several:
        return True

    def reaches(t: Value, u: Value) -> Value:
        ahead = s.k.lookahead if s.k.aligns else 0
        return tokens_of(s, t, for_tokens(s, t) - 1) < tokens_of(s, u, for_tokens(s, u)) + ahead

    def alike(t: Value) -> Value:
        first = s.k.table(s.k.owner(t), 0)
        return either(
            both(
                either(s.tlen[t] == 0, reaches(t, first)),
                either(s.tlen[first] == 0, reaches(first, t)),
                either(s.k.connector, cached_tokens(s, t) == cached_tokens(s, first)),
            ),
            either(is_cross(s, t), is_cross(s, first)),
        )

    return s.k.forall("T", lambda t: either(is_busy(s, s.k.owner(t)), alike(t)))


def is_busy(s: State, r: Value) -> Value:
    """Whether r is being given slots, leaves, or takes a token at this moment."""
    return either(turn(s, r), s.stage[r] == LEAVING, both(s.open != 0, r == s.taker))


def cached_tokens(s: State, t: Value) -> Value:
    """Tokens in the blocks that count as cached of table t, but for one that is cached behind
    where a hit may end (GROUP-18).
    """
    tokens = tokens_of(s, t, s.ncached[t])
    further = tokens % s.k.span_unit
    is_behind = both(kept_behind(s, t) == 1, further == s.k.size_of(t))
    return ite(is_behind, tokens - further, tokens)


@invariant("REMOTE-53")
def more_is_cached_of_nulls(s: State) -> Value:
    """Where something may be loaded, more tokens count as cached of one table of a request than of
    another only where the null block stands for them, unless they are being cached, or taken back,
    at this moment.
    """
    if not (s.k.several and s.k.connector):
        return True

    def is_taken_back(t: Value) -> Value:
        r = s.k.owner(t)
        return both(s.k.mem(s.seen, r), s.ncached[t] > full_of(s, t, s.comp[r]))

    def moves(r: Value) -> Value:
        goes_back = s.k.exists("G", lambda g: is_taken_back(s.k.table(r, g)))
        return either(is_busy(s, r), both(is_tried(s, r), s.awaits[r] == REMOTE), goes_back)

    def alike(t: Value, u: Value) -> Value:
        fewer = cached_tokens(s, t) <= cached_tokens(s, u)
        return either(fewer, is_null(s, t, s.ncached[t] - 1))

    return s.k.forall(
        "TT",
        lambda t, u: either(s.k.owner(t) != s.k.owner(u), moves(s.k.owner(t)), alike(t, u)),
    )


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
