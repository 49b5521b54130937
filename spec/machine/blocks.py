"""Taking and releasing blocks: `allocate_slots` and `free`."""

from nullblock.spec.cache_events import stored
from nullblock.spec.fields import HANDED
from nullblock.spec.groups import is_null, is_padding
from nullblock.spec.kernel import State, Value, both, loop
from nullblock.spec.machine.groups import let_outlived_go
from nullblock.spec.rules.groups import drop_null, pad
from nullblock.spec.rules.pool import adopt, pop_block, publish, push_new, uncache
from nullblock.spec.state import fits, hashable, lru, room


def allocate_slots(s: State, r: Value) -> Value:
    """Give the actor r room for what it asked: hits first, then new blocks, then hashes. False,
    and no change, if they do not fit.

    The three phases of KVCacheManager.allocate_slots (ALLOC-1, POOL-11, POOL-10, HASH-12).
    """
    let_outlived_go(s, r)
    if not fits(s, r):
        return False
    for _ in loop(
        s,
        until=lambda: s.na >= s.nhit,
        decreases=lambda: s.nhit - s.na,
        changes=HANDED | {"na", "nevict", "evset", "comp"},
        keep=lambda: fits(s, r),
    ):
        if is_padding(s):
            pad(s, r)
        else:
            adopt(s, r, s.hit[s.na])
    for _ in loop(
        s,
        until=lambda: s.tlen[r] >= room(s),
        decreases=lambda: room(s) - s.tlen[r],
        changes=HANDED,
        keep=lambda: fits(s, r),
    ):
        push_new(s, r, lru(s))
    if s.k.caching:
        first = s.ncached[r]
        for _ in loop(
            s,
            until=lambda: s.ncached[r] >= hashable(s, r),
            decreases=lambda: hashable(s, r) - s.ncached[r],
            changes=frozenset({"hsh", "hstamp", "hclock", "ncached"}),
        ):
            publish(s, r)
        s.k.tell(stored, s, r, first)
    return True


def free(s: State, r: Value) -> None:
    """Release every block of a request that leaves, last one first (POOL-12)."""
    for _ in loop(
        s,
        until=lambda: s.tlen[r] == 0,
        decreases=lambda: s.tlen[r],
        changes=HANDED,
        keep=lambda: both(s.tlen[r] >= 0, settled(s, r)),
    ):
        if is_null(s, r, s.tlen[r] - 1):
            drop_null(s, r)
        else:
            pop_block(s, r, s.tab[r, s.tlen[r] - 1])


def settled(s: State, r: Value) -> Value:
    """No hash of r's blocks names content that is not computed, where the profile asks for
    that.
    """
    return s.ncached[r] <= s.k.full(s.comp[r]) if s.k.sem.withdraw_uncaches else True


def withdraw(s: State, v: Value) -> None:
    """Take back the hashes of blocks that v was to fill in this step (PREEMPT-3)."""
    if s.k.sem.withdraw_uncaches:
        for _ in loop(
            s,
            until=lambda: s.ncached[v] <= s.k.full(s.comp[v]),
            decreases=lambda: s.ncached[v] - s.k.full(s.comp[v]),
            changes=frozenset({"hsh", "hstamp", "ncached"}),
        ):
            uncache(s, v)
