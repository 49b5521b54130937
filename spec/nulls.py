"""Runs of null blocks: how many of them are passed over, adopted or dropped, one behind the other.

The null block stands for each block that no token sees. Whatever is done to one is done to all
that stand in a row, at once: of a long prompt that is most of its blocks.
"""

from nullblock.spec.groups import in_table, passed, passed_over_to
from nullblock.spec.hybrid import (
    all_hits,
    hit_place,
    hit_table,
    hits_of,
    next_token,
    nulls_before_load,
    pending,
)
from nullblock.spec.in_turn import looked_from
from nullblock.spec.kernel import State, Value, both, either, ite, least


def is_passed_over(s: State, r: Value) -> Value:
    """Whether the next token of r does not see the block that its lookup comes to next."""
    return num_passed_over(s, r) > 0 if s.k.windowed else False


def num_passed_over(s: State, r: Value) -> Value:
    """How many blocks of a table, from the one that the lookup of r comes to next, its next token
    does not see.
    """
    if not s.k.several:
        own, nulls = passed_over_to(s, r), nulls_before_load(s, r) if s.k.spans else 0
        return ite(own > nulls, own, nulls) - s.nhit
    if s.nhit >= all_hits(s, r):
        return 0
    t = hit_table(s, r, s.nhit)
    nulls = nulls_before_load(s, t) if s.k.connector else passed(s, t, next_token(s))
    own = passed(s, t, looked_from(s, t)) if s.k.in_turn else 0
    return least(ite(own > nulls, own, nulls), hits_of(s, t)) - hit_place(s, r, s.nhit)


def num_padding(s: State, t: Value) -> Value:
    """How many null blocks table t adopts, from the next hit on, which is one."""
    behind = s.k.first(
        "I",
        lambda i: both(s.na < i, either(i >= s.na + pending(s, t), s.hit[i] != s.k.NULL)),
        lambda i: i,
        by="padding",
    )
    return behind - s.na


def held_to(s: State, t: Value) -> Value:
    """The place behind which table t has null blocks only, its last one being one."""
    last = s.k.first(
        "I", lambda i: both(in_table(s, t, i), i < s.tlen[t] - 1), lambda i: -i, by=("last", t)
    )
    return 0 if last is None else last + 1
