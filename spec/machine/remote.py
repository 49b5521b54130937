"""Loops over the rules of remote KV."""

from nullblock.spec.cache_events import stored
from nullblock.spec.deferred import is_due
from nullblock.spec.fields import HANDED, KEPT, LOAD, MOVED, REMOTE, SEND, UNBORN
from nullblock.spec.kernel import State, Value, both, either, loop, neg
from nullblock.spec.lost import first_own, has_own, is_own
from nullblock.spec.machine.blocks import free, know_end
from nullblock.spec.machine.encoder import ENCODER_LOOP, let_inputs_go
from nullblock.spec.machine.loaded import let_all_left_behind_go
from nullblock.spec.remote import (
    anybody_running_short,
    anybody_waiting_short,
    anything_to_evict,
    cached_when_loaded,
    ends_all,
    loads_later,
    next_evicted,
    next_running,
    starts_over,
    stays,
)
from nullblock.spec.rules.deferred import take_back
from nullblock.spec.rules.loads import (
    claim,
    doubt,
    end_load,
    find_short,
    lack,
    learn,
    lose_load,
)
from nullblock.spec.rules.lookup import admit
from nullblock.spec.rules.queues import forget, requeue
from nullblock.spec.rules.remote import (
    await_load,
    end_one_way,
    evict_lacking,
    forget_kept,
    give_back,
    go_on_loaded,
    keep,
    let_kept_go,
    mark_lacking,
    publish_loaded,
    report_unloaded,
    start_over,
    uncache_lacking,
    wait_anew,
)
from nullblock.spec.sizes import full_of
from nullblock.spec.waiting import next_waiting

REPORT_LOOP = (
    HANDED
    | MOVED
    | ENCODER_LOOP
    | {"comp", "due", "ph", "drop", "prev", "run", "nr", "ix", "stage"}
)


def admit_or_load(s: State, r: Value) -> None:
    """r has its slots: it runs, or waits until they are loaded (REMOTE-3)."""
    if loads_later(s, r):
        await_load(s, r)
    else:
        admit(s, r)


def let_loaded_go_on(s: State, r: Value) -> None:
    """The load of r, whose turn it is, has ended: what came is cached, or all is given back."""
    if starts_over(s, r):
        give_back(s, r)
        free(s, r)
        wait_anew(s, r)
    else:
        if s.k.caching:
            for t in s.k.tables(r):
                publish_what_came(s, t)
        go_on_loaded(s, r)


def publish_what_came(s: State, t: Value) -> None:
    """Cache what was loaded (REMOTE-14)."""
    first = s.ncached[t]
    for _ in loop(
        s,
        until=lambda: s.ncached[t] >= cached_when_loaded(s, t),
        decreases=lambda: cached_when_loaded(s, t) - s.ncached[t],
        changes=frozenset({"hsh", "hstamp", "hclock", "ncached"}),
    ):
        publish_loaded(s, t)
    know_end(s, t)
    s.k.tell(stored, s, t, first)


def part(s: State, r: Value) -> None:
    """r, who is leaving for good, gives its blocks back, or they are kept (REMOTE-4)."""
    for t in s.k.tables(r):
        let_all_left_behind_go(s, t)
    if stays(s, r):
        keep(s, r)
    else:
        free(s, r)
        forget(s, r)


def transferred(s: State, r: Value, way: Value) -> None:
    """One of what r's kept blocks were kept for has ended (REMOTE-5)."""
    if ends_all(s, r, way):
        let_kept_go(s, r, way)
        free(s, r)
        forget_kept(s, r)
    else:
        end_one_way(s, r, way)


def received(s: State, r: Value) -> Value:
    """The load of r has ended. Returns False, and changes nothing, where none was under way."""
    if s.stage[r] == KEPT:
        transferred(s, r, LOAD)
        return True
    if either(s.awaits[r] != REMOTE, s.stage[r] == UNBORN):
        return False
    end_load(s, r)
    return True


def sent(s: State, r: Value) -> Value:
    """The blocks of r are sent. Returns False, and changes nothing, where they were not kept."""
    if s.stage[r] != KEPT:
        return False
    transferred(s, r, SEND)
    return True


def remote_holds(s: State, r: Value, n: Value) -> None:
    """The remote side is known to hold n tokens of r (REMOTE-10)."""
    learn(s, r, n)


def remote_looks(s: State, r: Value) -> None:
    """The remote side does not know yet what it holds of r (REMOTE-11)."""
    doubt(s, r)


def take_due_back(s: State) -> None:
    """Release what waited for the step whose output comes (REMOTE-44)."""
    for _ in loop(
        s,
        until=lambda: neg(is_due(s)),
        decreases=lambda: s.offto - s.offfrom,
        changes=HANDED | {"off", "offuntil", "offlen", "offfrom", "offto"},
    ):
        take_back(s, s.off[s.offfrom])


def report_failed(s: State, blocks: list[Value]) -> None:
    """With the output that comes it is reported that blocks were not loaded: whoever counts on
    them does so no longer (REMOTE-6, REMOTE-7).
    """
    take_due_back(s)
    for b in blocks:
        report_unloaded(s, b)
    for _ in loop(
        s,
        until=lambda: neg(anybody_waiting_short(s)),
        decreases=lambda: s.k.count("R", lambda r: s.stage[r] != UNBORN) - s.k.card(s.seen),
        changes=REPORT_LOOP,
    ):
        fall_back_waiting(s, next_waiting(s))
    for _ in loop(
        s,
        until=lambda: neg(anybody_running_short(s)),
        decreases=lambda: s.k.count("R", lambda r: s.stage[r] != UNBORN) - s.k.card(s.seen),
        changes=REPORT_LOOP,
    ):
        fall_back_running(s, next_running(s))
    evict_together(s)


def find(s: State, r: Value) -> None:
    """r counts on blocks that were not loaded."""
    find_short(s, r)
    if not s.k.sem.failed_loads_start_over:
        for _ in loop(
            s,
            until=lambda: neg(has_own(s, r)),
            decreases=lambda: s.k.count("I", lambda i: is_own(s, r, i)),
            changes=frozenset({"claimed"}),
        ):
            claim(s, r, first_own(s, r))


def fall_back_waiting(s: State, r: Value) -> None:
    """r, who does not run, loses what was to be loaded, or a part."""
    find(s, r)
    lose_load(s, r)
    uncache_what_lacks(s, r)


def fall_back_running(s: State, i: Value) -> None:
    """The running request at index i starts over, or goes back, or ends with this update."""
    r = s.run[i]
    find(s, r)
    if both(s.k.sem.failed_loads_start_over, neg(s.k.fails_loads)):
        start_over(s, i)
        uncache_what_lacks(s, r)
        let_inputs_go(s, r)
        free(s, r)
        requeue(s, r)
    else:
        lack(s, r)
        uncache_what_lacks(s, r)
        mark_what_lacks(s, r)


def uncache_what_lacks(s: State, r: Value) -> None:
    """Take the hashes back of what was computed from blocks that were not loaded."""
    if s.k.sem.failed_loads_start_over:
        for t in s.k.tables(r):
            uncache_table(s, t)


def uncache_table(s: State, t: Value) -> None:
    """The same of one table (REMOTE-35)."""
    computed = full_of(s, t, s.comp[s.k.owner(t)])
    for _ in loop(
        s,
        until=lambda: s.ncached[t] <= computed,
        decreases=lambda: s.ncached[t] - computed,
        changes=frozenset({"hsh", "hstamp", "ncached"}),
    ):
        uncache_lacking(s, t)


def mark_what_lacks(s: State, r: Value) -> None:
    """In vllm-0.22.1 that is done where failed loads fail requests."""
    if both(s.k.fails_loads, neg(s.k.sem.failed_loads_start_over)):
        for _ in loop(
            s,
            until=lambda: s.cutoff >= s.tlen[r],
            decreases=lambda: s.tlen[r] - s.cutoff,
            changes=frozenset({"evict", "cutoff"}),
        ):
            mark_lacking(s, r)


def evict_together(s: State) -> None:
    """Evict what was marked."""
    for _ in loop(
        s,
        until=lambda: neg(anything_to_evict(s)),
        decreases=lambda: s.k.count("B", lambda b: s.evict[b] != 0),
        changes=frozenset({"hsh", "hstamp", "evict", "evicted"}),
    ):
        evict_lacking(s, next_evicted(s))
