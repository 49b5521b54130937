"""Remote KV: readings that plug in at named points of the core.

A KV connector knows what other engines have computed. Asked for a request that is about to enter,
it says how many tokens beyond the local hit it can load. A load within the step counts as a hit
does. One that takes longer gives the request its blocks, and lets it wait for the report that the
load has ended. Workers name blocks that were not loaded; and after the end of a request its blocks
may be kept until they are sent.

Where there is no connector, each reading says what the core says, and whoever cares for that
alone need not read on. The rules: `nullblock.spec.rules.loads`, `nullblock.spec.rules.remote`.
"""

from nullblock.spec.catalogue import clause
from nullblock.spec.fields import (
    ANEW,
    AWAY,
    BOTH_WAYS,
    GRAMMAR,
    IDLE,
    INPUT,
    KEPT,
    LEAVING,
    LOAD,
    REMOTE,
    RUNNING,
    SEND,
    UNBORN,
    WHOLLY,
)
from nullblock.spec.groups import raises_when_looked_up
from nullblock.spec.kernel import State, Value, both, either, ite, least, neg
from nullblock.spec.lost import is_short
from nullblock.spec.sizes import cached_of, hit_tokens


def goes_on(s: State, r: Value) -> Value:
    """Whether r has arrived and not ended. One that has ended may be known for its blocks."""
    if not s.k.connector:
        return s.stage[r] != UNBORN
    return both(s.stage[r] != UNBORN, s.stage[r] != KEPT)


@clause("REMOTE-1")
def offered(s: State, r: Value) -> Value:
    """A connector loads what the remote side holds beyond the local hit: all tokens, or if the
    load ends within the step all but the last, which is computed to sample from it.

    Each is offered once. Whoever was loaded already keeps what it has. Source:
    KVConnectorBase_V1.get_num_new_matched_tokens, Scheduler.schedule, waiting phase.
    """
    most = s.ntok[r] - ite(s.k.loads_over_steps(r), 0, 1)
    n = least(s.remote[r], most) - hit_tokens(s)
    return ite(both(s.comp[r] == 0, n > 0, neg(is_offered_nothing(s, r))), n, 0)


@clause("REMOTE-41")
def is_offered_nothing(s: State, r: Value) -> Value:
    """For whoever refuses prefix hits nothing is loaded, whatever the remote side holds or does
    not know yet.

    Source: Scheduler.schedule, waiting phase: skip_reading_prefix_cache. Only in vllm-0.32.0.
    """
    return s.k.skip_read(r) if s.k.sem.unread_unloaded else False


@clause("REMOTE-2")
def is_unsure(s: State, r: Value) -> Value:
    """Whoever has nothing computed is passed over while the remote side does not know yet what it
    holds.

    Source: Scheduler.schedule, waiting phase. What is cached is looked up first.
    """
    if not s.k.connector:
        return False
    raises = raises_when_looked_up(s, r)
    return both(s.comp[r] == 0, s.unsure[r] != 0, neg(either(is_offered_nothing(s, r), raises)))


def keeps_what_it_has(s: State, r: Value) -> Value:
    """Whether r, whose turn it is, has computed tokens, loaded ones, and is not looked up."""
    return both(s.comp[r] != 0, s.nhit == 0) if s.k.connector else False


def gives_back(s: State, r: Value) -> Value:
    """Whether r, who stays in its queue, gives back what was loaded."""
    return both(s.leaving == ANEW, r == s.leaver) if s.k.connector else False


def last_way(s: State) -> Value:
    """The greatest number of where somebody may be on the way to."""
    return ANEW if s.k.connector else AWAY


def last_stage(s: State) -> Value:
    """The greatest number of a stage."""
    return KEPT if s.k.connector else LEAVING


def was_loaded(s: State, r: Value) -> Value:
    """Whether r, who waits, is loaded or was, and so has tokens that count as computed."""
    if not s.k.connector:
        return False
    return either(s.awaits[r] == REMOTE, s.comp[r] != 0)


def _is_loaded_for(s: State, r: Value) -> Value:
    return both(s.looking == 2, r == s.lr, s.ext > 0)


@clause("REMOTE-3")
def loads_later(s: State, r: Value) -> Value:
    """For a load that takes longer than the step a request asks for the blocks to load into, and
    computes nothing.

    The budget does not bind it, nor whether chunks are allowed. Source: Scheduler.schedule,
    waiting phase: load_kv_async.
    """
    if not s.k.connector:
        return False
    return both(_is_loaded_for(s, r), s.k.loads_over_steps(r))


def loaded_at_once(s: State, r: Value) -> Value:
    """Tokens that are loaded for r within the step."""
    if not s.k.connector:
        return 0
    return ite(both(_is_loaded_for(s, r), neg(s.k.loads_over_steps(r))), s.ext, 0)


def most_awaited(s: State) -> Value:
    """The greatest number of what may be awaited."""
    if s.k.connector:
        return REMOTE
    return INPUT if s.k.sessions else GRAMMAR


def awaits_load(s: State, r: Value) -> Value:
    """Whether r waits for a load."""
    return s.awaits[r] == REMOTE if s.k.connector else False


def is_loading(s: State, r: Value) -> Value:
    """Whether a load writes to the blocks of r, who waits for it, and that is minded: in
    vllm-0.22.1 and later not if r stops by an output, as that does not look at who is loaded.
    """
    minded = either(s.k.sem.transfers_end_apart, s.phase == IDLE)
    return both(s.awaits[r] == REMOTE, s.came[r] == 0, minded)


@clause("REMOTE-4")
def stays(s: State, r: Value) -> Value:
    """The blocks of a request that ends are kept while a load writes to them, and until they are
    sent, where the connector says so.

    Source: Scheduler.finish_requests, _free_request, _connector_finished.
    """
    if not s.k.connector:
        return False
    return either(is_loading(s, r), s.k.delays_free(r))


@clause("REMOTE-5")
def ends_all(s: State, r: Value, way: Value) -> Value:
    """Kept blocks go when all that they are kept for has ended.

    Source: Scheduler._update_from_kv_xfer_finished. In vllm-0.22.1 they go with the first report,
    and a second one raises.
    """
    if not s.k.sem.transfers_end_apart:
        return True
    return neg(both(s.kept_for[r] == BOTH_WAYS, way != BOTH_WAYS))


def keeps_blocks(s: State) -> Value:
    """Whether more requests are known than run or stand in a queue: blocks of some are kept after
    their end.

    Source: Scheduler.has_finished_requests. In vllm-0.22.1 a session that waits in no queue counts
    as well, and each who has ended and stands in the skipped queue makes up for one.
    """
    if not s.k.connector:
        return False
    return s.k.count("R", lambda r: s.stage[r] != UNBORN, by="known") > s.nr + s.nwait


def lacks_blocks(s: State, r: Value) -> Value:
    """Whether r takes nothing of the update that is applied, for want of blocks."""
    return s.k.mem(s.missing, r) if s.k.connector else False


def caches_at_once(s: State, r: Value) -> Value:
    """Whether blocks are cached when the slots are given: not while they are loaded."""
    return both(s.k.caching, neg(loads_later(s, r)))


def is_found_waiting(s: State, r: Value) -> Value:
    """Whether a report concerns r, who does not run, and that has not been seen yet.

    Source: Scheduler._handle_invalid_blocks: in vllm-0.22.1 only who waits for a load.
    """
    waits = s.awaits[r] == REMOTE
    if s.k.sem.failed_loads_start_over:
        waits = either(s.stage[r] < RUNNING, s.stage[r] == KEPT)
    return both(waits, neg(s.k.mem(s.seen, r)), is_short(s, r))


def anybody_waiting_short(s: State) -> Value:
    """Whether there is such a request."""
    return s.k.exists("R", lambda r: is_found_waiting(s, r), by="short")


def is_found_running(s: State, i: Value) -> Value:
    """Whether a report concerns the running request at index i, and that has not been seen yet."""
    inside = both(0 <= i, i < s.nr)
    return both(inside, neg(s.k.mem(s.seen, s.run[i])), is_short(s, s.run[i]))


def anybody_running_short(s: State) -> Value:
    """Whether there is such a request."""
    return s.k.exists("I", lambda i: is_found_running(s, i), by="seats of the short")


def next_running(s: State) -> Value:
    """The index of the one that is dealt with next: the first, or where they start over the last,
    so that the queue keeps their order.
    """
    return s.k.first(
        "I",
        lambda i: is_found_running(s, i),
        lambda i: ite(s.k.sem.failed_loads_start_over, -i, i),
        by="seats of the short",
    )


def next_evicted(s: State) -> Value:
    """The block that leaves the prefix cache next, of those that are to."""
    return s.k.first("B", lambda b: s.evict[b] != 0, lambda b: s.k.evicting(s, b), by="evict")


def anything_to_evict(s: State) -> Value:
    """Whether there is one."""
    return s.k.exists("B", lambda b: s.evict[b] != 0, by="evict")


def starts_over(s: State, r: Value) -> Value:
    """Whether r, whose load has ended, gives all its blocks back."""
    if s.k.sem.failed_loads_start_over:
        return s.failed[r] == WHOLLY
    return both(s.failed[r] != 0, s.comp[r] == 0)


@clause("REMOTE-8")
def counted_on(s: State, r: Value) -> Value:
    """What was loaded counts as computed, but for the last token: it is computed again, to sample
    from it.

    Source: Scheduler._update_waiting_for_remote_kv. In vllm-0.22.1 all that is left of a load that
    failed counts: whoever lacks nothing but what others compute again has no token to compute.
    """
    if both(s.failed[r] != 0, neg(s.k.sem.failed_loads_leave_a_token)):
        return s.comp[r]
    return least(s.comp[r], s.ntok[r] - 1)


def cached_when_loaded(s: State, t: Value) -> Value:
    """Blocks of table t that are cached when the load of its request has ended.

    Source: Scheduler._update_waiting_for_remote_kv. In vllm-0.22.1 the block of the last token is
    among them, though that is computed again.
    """
    return cached_of(s, t, tokens_when_loaded(s, s.k.owner(t)))


def tokens_when_loaded(s: State, r: Value) -> Value:
    """Tokens of r whose blocks are cached then."""
    return counted_on(s, r) if s.k.sem.last_block_cached_last else s.comp[r]


def computes_no_more(s: State, r: Value) -> Value:
    """Whether r holds blocks that it lacks the content of, and gives them back before it computes:
    it lost all that was loaded, starts over, ends, or has ended.
    """
    if not s.k.connector:
        return False
    ends = either(s.k.mem(s.missing, r), s.stage[r] == KEPT)
    return either(ends, s.failed[r] == WHOLLY, both(s.stage[r] == LEAVING, s.k.mem(s.seen, r)))


def is_received(s: State, r: Value) -> Value:
    """Whether a load writes to the blocks of r, who waits for it or has ended, so that its end may
    be reported.
    """
    kept = both(s.stage[r] == KEPT, either(s.kept_for[r] == LOAD, s.kept_for[r] == BOTH_WAYS))
    return either(both(s.awaits[r] == REMOTE, s.came[r] == 0), kept)


def is_sent(s: State, r: Value) -> Value:
    """Whether blocks of r are kept until they are sent, so that that may be reported."""
    return both(s.stage[r] == KEPT, either(s.kept_for[r] == SEND, s.kept_for[r] == BOTH_WAYS))


def is_transferring(s: State) -> Value:
    """Whether something is loaded or sent, or the remote side has to look first what it holds."""
    if not s.k.connector:
        return False
    return s.k.exists(
        "R", lambda r: either(is_received(s, r), is_sent(s, r), s.unsure[r] != 0), by="transfers"
    )


def next_lost(s: State) -> Value:
    """Who ends next of those that lack blocks."""
    return s.k.first("R", lambda r: s.k.mem(s.missing, r), lambda r: s.k.failing(s, r), by="lost")


def anybody_lost(s: State) -> Value:
    """Whether somebody lacks blocks."""
    return s.k.exists("R", lambda r: s.k.mem(s.missing, r), by="lost")
