"""Taking and releasing blocks: `allocate_slots` and `free`."""

from nullblock.spec.aligned import is_aligned
from nullblock.spec.cache_events import stored, stored_again
from nullblock.spec.deferred import awaits_steps
from nullblock.spec.fields import HANDED
from nullblock.spec.gate import fits
from nullblock.spec.groups import is_null, is_padding
from nullblock.spec.hybrid import is_for
from nullblock.spec.kernel import State, Value, both, either, loop, neg
from nullblock.spec.machine.aligned import grow
from nullblock.spec.machine.groups import let_outlived_go
from nullblock.spec.machine.loaded import adopt_and_load, take_to_be_loaded
from nullblock.spec.remote import caches_at_once
from nullblock.spec.rules.deferred import put_off
from nullblock.spec.rules.groups import drop_nulls, pad
from nullblock.spec.rules.pool import (
    adopt,
    pop_block,
    publish,
    publish_again,
    publish_end,
    push_new,
    uncache,
)
from nullblock.spec.sizes import full_of
from nullblock.spec.slots import hashable, lacks_end, lacks_state, place_again, room
from nullblock.spec.state import lru


def allocate_slots(s: State, r: Value) -> Value:
    """Give the actor r room for what it asked: hits first, then new blocks, then hashes. False,
    if they do not fit; nothing has changed then but for blocks that r has given back (GROUP-6).

    The three phases of KVCacheManager.allocate_slots (ALLOC-1, POOL-11, POOL-10, HASH-12), each
    for one table of r after the other.
    """
    for t in s.k.tables(r):
        let_outlived_go(s, t)
    if not fits(s, r):
        return False
    for t in s.k.tables(r):
        adopt_and_load(s, t)
    for t in s.k.tables(r):
        adopt_hits(s, t)
    for t in s.k.tables(r):
        take_to_be_loaded(s, t)
    for t in s.k.tables(r):
        take_missing(s, t)
    if caches_at_once(s, r):
        for t in s.k.tables(r):
            publish_filled(s, t)
    return True


def adopt_hits(s: State, t: Value) -> None:
    """Take what the actor's table t is hit by (POOL-11, GROUP-5)."""
    for _ in loop(
        s,
        until=lambda: either(s.na >= s.nhit, neg(is_for(s, t))),
        decreases=lambda: s.nhit - s.na,
        changes=HANDED | {"na", "nevict", "evset", "comp"},
        keep=lambda: fits(s, s.k.owner(t)),
    ):
        if is_padding(s):
            pad(s, t)
        else:
            adopt(s, t, s.hit[s.na])


def take_missing(s: State, t: Value) -> None:
    """Take new blocks until the actor's table t has room (POOL-10)."""
    if is_aligned(s, t):
        grow(s, t)
        return
    for _ in loop(
        s,
        until=lambda: s.tlen[t] >= room(s, t),
        decreases=lambda: room(s, t) - s.tlen[t],
        changes=HANDED,
        keep=lambda: fits(s, s.k.owner(t)),
    ):
        push_new(s, t, lru(s))


def publish_filled(s: State, t: Value) -> None:
    """Cache the blocks of the actor's table t that this step fills (HASH-12)."""
    first = s.ncached[t]
    for _ in loop(
        s,
        until=lambda: s.ncached[t] >= hashable(s, t),
        decreases=lambda: hashable(s, t) - s.ncached[t],
        changes=frozenset({"hsh", "hstamp", "hclock", "ncached", "anew"}),
    ):
        publish(s, t)
    know_end(s, t)
    s.k.tell(stored, s, t, first)
    cache_again(s, t)


def know_end(s: State, t: Value) -> None:
    """The block of table t in which its prompt ends is known by that before it is full
    (GROUP-67).
    """
    if lacks_end(s, t):
        publish_end(s, t)


def cache_again(s: State, t: Value) -> None:
    """The state of table t that its prompt can be hit by is cached though it was evicted
    (GROUP-71).
    """
    if lacks_state(s, t):
        i = place_again(s, t)
        publish_again(s, t)
        s.k.tell(stored_again, s, t, i)


def free(s: State, r: Value) -> None:
    """Release every block of a request that leaves, of each table the last one first (POOL-12);
    what is put off from the last table on (REMOTE-54).
    """
    if both(s.k.several, awaits_steps(s, r)):
        for t in s.k.tables_from_behind(r):
            free_table(s, t)
    for t in s.k.tables(r):
        free_table(s, t)


def free_table(s: State, t: Value) -> None:
    """Release the blocks of a table, the last one first."""
    for _ in loop(
        s,
        until=lambda: s.tlen[t] == 0,
        decreases=lambda: s.tlen[t],
        changes=HANDED,
        keep=lambda: both(s.tlen[t] >= 0, settled(s, t)),
    ):
        if is_null(s, t, s.tlen[t] - 1):
            drop_nulls(s, t)
        elif awaits_steps(s, s.k.owner(t)):
            put_off(s, t, s.tab[t, s.tlen[t] - 1])
        else:
            pop_block(s, t, s.tab[t, s.tlen[t] - 1])


def settled(s: State, t: Value) -> Value:
    """No hash of table t's blocks names content that is not computed, where the profile asks for
    that.
    """
    if not s.k.sem.withdraw_uncaches:
        return True
    return s.ncached[t] <= full_of(s, t, s.comp[s.k.owner(t)])


def withdraw(s: State, v: Value) -> None:
    """Take back the hashes of blocks that v was to fill in this step (PREEMPT-3)."""
    if s.k.sem.withdraw_uncaches:
        for t in s.k.tables(v):
            withdraw_table(s, t)


def withdraw_table(s: State, t: Value) -> None:
    """Take back the hashes of blocks of table t that were to be filled in this step."""
    v = s.k.owner(t)
    for _ in loop(
        s,
        until=lambda: s.ncached[t] <= full_of(s, t, s.comp[v]),
        decreases=lambda: s.ncached[t] - full_of(s, t, s.comp[v]),
        changes=frozenset({"hsh", "hstamp", "ncached"}),
    ):
        uncache(s, t)
