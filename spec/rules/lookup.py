"""Looking a waiting request's prefix up, and being given slots or not."""

from nullblock.spec.aligned import would_shrink
from nullblock.spec.encoder import is_planned, is_taken, refers_to_any
from nullblock.spec.fields import NEW, PREEMPTED, RESUMED, RUN_PHASE, RUNNING, WAIT_PHASE
from nullblock.spec.gate import fits, fits_whole
from nullblock.spec.groups import has_prefix
from nullblock.spec.hybrid import (
    agreed,
    has_blocks,
    has_cached,
    holds_nothing,
    wanted,
)
from nullblock.spec.in_turn import hits_nothing
from nullblock.spec.kernel import (
    State,
    Value,
    both,
    either,
    ensure,
    ite,
    least,
    neg,
    require,
    rule,
)
from nullblock.spec.later import left
from nullblock.spec.loaded import was_loaded_whole
from nullblock.spec.nulls import is_passed_over
from nullblock.spec.planning import plans_nothing
from nullblock.spec.remote import goes_on, keeps_what_it_has, loads_later
from nullblock.spec.rules.aligned import begin_turn
from nullblock.spec.rules.drafts import grant_drafts
from nullblock.spec.rules.encoder import forget_plan
from nullblock.spec.rules.in_turn import begin_round, forget_rounds
from nullblock.spec.rules.junctions import note_junction
from nullblock.spec.rules.later import fill_on, meet, pad_drafts, take_slot
from nullblock.spec.rules.loads import ask_remote, forget_offer, take_loaded
from nullblock.spec.rules.waiting import leave_first_place, leave_head, leave_line
from nullblock.spec.sessions import has_more_places, may_hold, may_stand_twice, runs_already
from nullblock.spec.slots import filled, slots
from nullblock.spec.state import (
    has_no_tokens,
    is_cached,
    is_head,
    loads_states,
    lookup_over,
    may_admit,
    may_chunk,
    start,
    to_enter,
    tokens_to_admit,
    tokens_to_run,
    turn,
)
from nullblock.spec.waiting import has_to_wait

CHUNKS_ARE_LOOKED_UP = "no lookup drops a hit of chunks, or ends within one of their blocks"
"""The guard of a lookup that raises."""
TOKENS_ARE_LOOKED_UP = "whoever is looked up has tokens, or is hit by less than nothing"
"""That of a lookup which raises for an empty prompt."""
STATES_ARE_COMPUTED = "no states are loaded of which only those at ends of steps are kept"
"""The guard of a load that raises."""


def _forget_lookup(s: State) -> None:
    s.looking = 0
    s.nhit = 0
    s.span = 0
    s.holds_some = 0
    s.na = 0
    s.nevict = 0
    s.evset = s.k.empty("B")
    forget_rounds(s)
    forget_offer(s)


def _grant(s: State, r: Value) -> None:
    s.sched[r] = s.asked
    s.budget -= s.asked
    s.used += s.asked
    take_slot(s)
    s.asked = 0
    forget_plan(s)


@rule("WAIT-6", "R")
def begin_lookup(s: State, r: Value) -> None:
    """Only the head of the waiting queue is looked at, and only while the queue is served.

    Source: Scheduler.schedule, waiting phase.
    """
    require(s.phase == WAIT_PHASE, "the waiting phase is open")
    require(s.looking == 0, "no lookup is open")
    require(s.asked == 0, "nobody is being given slots")
    require(may_admit(s), "the waiting queue is served")
    require(is_head(s, r), "the request is the head of the queue")
    require(neg(either(has_to_wait(s, r), s.awaits[r] != 0)), "it waits for nothing but its turn")
    if s.k.stumbles:
        require(hits_nothing(s, r), CHUNKS_ARE_LOOKED_UP)
    if not s.k.sem.reject_unservable:
        require(either(hits_nothing(s, r), has_prefix(s, r)), TOKENS_ARE_LOOKED_UP)
    if may_stand_twice(s):
        done = both(s.comp[r] != 0, s.ntok[r] <= s.comp[r])
        require(neg(both(runs_already(s, r), done)), "there is something to do")
    s.looking = 1
    s.lr = r
    if s.k.connector:
        s.holds_some = ite(holds_nothing(s, r), 0, 1)
    if s.k.spans:
        if both(s.k.in_turn, neg(hits_nothing(s, r))):
            begin_round(s, r)
        else:
            s.span = agreed(s, r)
            note_junction(s, r)
            ask_remote(s, r)


@rule("HASH-15", "RB")
def look(s: State, r: Value, b: Value) -> None:
    """Each hit extends the prefix by one block.

    Source: FullAttentionManager.find_longest_cache_hit.
    """
    require(s.looking == 1, "a lookup is open")
    require(r == s.lr, "for this request")
    require(neg(lookup_over(s, r)), "the scan is not over")
    if s.k.windowed:
        require(neg(is_passed_over(s, r)), "the next token sees the block")
    require(is_cached(s, b, wanted(s, r, s.nhit)), "the block is the first with the wanted hash")
    if s.ref[b] == 0:
        s.nevict += 1
        s.evset = s.k.add(s.evset, b)
    s.hit[s.nhit] = b
    s.nhit += 1


@rule("HASH-16", "R")
def end_lookup(s: State, r: Value) -> None:
    """A lookup ends at the first miss or at its cap, never earlier.

    Source: FullAttentionManager.find_longest_cache_hit.
    """
    require(s.looking == 1, "a lookup is open")
    require(r == s.lr, "for this request")
    require(lookup_over(s, r), "the scan is over")
    s.looking = 2
    if not s.k.spans:
        ask_remote(s, r)


@rule("RUN-3", "RI")
def ask_to_run(s: State, r: Value, n: Value) -> None:
    """A running request asks for its tokens when the index reaches it; the number is fixed before
    anybody is preempted.

    Source: Scheduler.schedule, running phase.
    """
    require(s.phase == RUN_PHASE, "the running phase is open")
    require(s.asked == 0, "nobody is being given slots")
    require(s.leaving == 0, "nobody is half-way out")
    require(s.halted == 0, "no request has preempted itself")
    require(s.at < s.nr, "a running request is left")
    require(r == s.run[s.at], "it is the one at the index")
    require(left(s) > 0, "budget is left")
    if s.k.encodes:
        require(is_planned(s, r), "its encoder inputs are planned")
    require(n == tokens_to_run(s, r), "the number of tokens is the one decided")
    require(n != 0, "there is something to do")
    if s.k.aligns:
        require(neg(would_shrink(s, r, n)), "no table has places too many")
    s.actor = r
    s.asked = n
    s.goal = least(s.comp[r], s.k.max_len) + n
    begin_turn(s)


def _hold_or_hit(s: State, r: Value) -> None:
    """What r holds and what it hits would be in its table twice.

    Source: SingleTypeKVCacheManager.get_num_blocks_to_allocate, which asserts it. In vllm-0.22.1 a
    session that lacks all that was loaded waits with its blocks, and may hit them.
    """
    if s.k.connector:
        ensure(either(s.nhit == 0, s.holds_some == 0), "whoever holds blocks hits none")
    if may_stand_twice(s):
        ensure(either(s.nhit == 0, neg(runs_already(s, r))), "nor does who runs")


@rule("WAIT-7", "RI")
def ask_to_enter(s: State, r: Value, n: Value) -> None:
    """A waiting request asks for its tokens once its prefix is looked up.

    Source: Scheduler.schedule, waiting phase.
    """
    require(s.looking == 2, "the lookup is over")
    require(s.asked == 0, "nobody is being given slots")
    require(r == s.lr, "for this request")
    require(s.na == 0, "no hit is adopted yet")
    require(may_chunk(s, r), "it may be cut, or need not be")
    require(neg(loads_states(s, r)), STATES_ARE_COMPUTED)
    require(fits_whole(s, r), "the whole sequence fits, where that is reserved")
    if s.k.encodes:
        require(is_planned(s, r), "its encoder inputs are planned")
    require(n == tokens_to_admit(s, r), "the number of tokens is the one decided")
    require(n >= 1, "there is something to do")
    if s.k.aligns:
        require(neg(would_shrink(s, r, n)), "no table has places too many")
    _hold_or_hit(s, r)
    s.actor = r
    s.asked = n
    s.goal = least(start(s, r), s.k.max_len) + n
    begin_turn(s)


def _stay(s: State) -> None:
    _forget_lookup(s)
    forget_plan(s)
    s.asked = 0
    s.blocked = 1


@rule("WAIT-8", "R")
def hold_back(s: State, r: Value) -> None:
    """A head that may not be chunked, or whose whole sequence does not fit, ends the waiting phase
    and keeps its place.

    Source: Scheduler.schedule, waiting phase; KVCacheManager.allocate_slots. Nobody behind it is
    tried: head-of-line blocking is total.
    """
    require(s.looking == 2, "the lookup is over")
    require(r == s.lr, "for this request")
    require(s.asked == 0, "it has not asked for slots")
    require(s.na == 0, "no hit is adopted")
    require(neg(loads_states(s, r)), STATES_ARE_COMPUTED)
    require(either(loads_later(s, r), to_enter(s, r) > 0), "there is something to do")
    require(
        neg(both(may_chunk(s, r), fits_whole(s, r), neg(has_no_tokens(s, r)))), "it may not enter"
    )
    if s.k.encodes:
        planned = either(neg(may_chunk(s, r)), is_planned(s, r), plans_nothing(s, r))
        require(planned, "its encoder inputs are planned")
        turned_away = both(may_chunk(s, r), neg(has_no_tokens(s, r)))
        require(either(neg(turned_away), neg(refers_to_any(s, r))), "it refers to no embeddings")
    if both(may_chunk(s, r), neg(has_no_tokens(s, r))):
        _hold_or_hit(s, r)
    _stay(s)


@rule("WAIT-10", "R")
def give_up(s: State, r: Value) -> None:
    """A head whose slots are not free ends the waiting phase and keeps its place; nobody is
    preempted for it.

    Source: Scheduler.schedule, waiting phase.
    """
    require(s.looking == 2, "the lookup is over")
    require(turn(s, r), "the request is being given slots")
    require(s.na == 0, "no hit is adopted")
    holds = neg(holds_nothing(s, r))
    loaded = was_loaded_whole(s, r)
    keeps = either(may_hold(s, r), runs_already(s, r), keeps_what_it_has(s, r), loaded)
    require(either(neg(holds), keeps), "it holds nothing")
    require(neg(fits(s, r)), "its slots are not free")
    if s.k.encodes:
        require(neg(refers_to_any(s, r)), "it refers to no embeddings")
    _stay(s)


@rule("RUN-4", "R")
def schedule_running(s: State, r: Value) -> None:
    """A running request is scheduled once its table has room for every token it was granted.

    Source: Scheduler.schedule, running phase.
    """
    require(s.phase == RUN_PHASE, "the running phase is open")
    require(turn(s, r), "the request is being given slots")
    require(s.leaving == 0, "nobody is half-way out")
    require(has_blocks(s, r, slots(s)), "it has room")
    if s.k.caching:
        require(has_cached(s, r, filled(s, r)), "the blocks it fills are cached")
    if s.k.encodes:
        require(is_taken(s, r), "the encoder inputs it needs have their room")
    grant_drafts(s, r)
    meet(s, r)
    _grant(s, r)
    s.at += 1


@rule("WAIT-9", "R")
def admit(s: State, r: Value) -> None:
    """An admitted request joins the end of the running list; it counts as new, or as resumed if it
    was preempted before.

    Source: Scheduler.schedule, waiting phase.
    """
    require(s.phase == WAIT_PHASE, "the waiting phase is open")
    require(may_admit(s), "the waiting queue is served")
    require(s.looking == 2, "the lookup is over")
    require(r == s.lr, "for this request")
    require(turn(s, r), "the request is being given slots")
    require(s.na == s.nhit, "every hit is adopted")
    require(has_blocks(s, r, slots(s)), "it has room")
    if s.k.caching:
        require(has_cached(s, r, filled(s, r)), "the blocks it fills are cached")
    if s.k.encodes:
        require(is_taken(s, r), "the encoder inputs it needs have their room")
    require(goes_on(s, r), "it has not ended")
    if may_stand_twice(s):
        require(neg(runs_already(s, r)), "it does not run")
    require(neg(loads_later(s, r)), "it need not wait for a load")
    s.fresh[r] = RESUMED if s.stage[r] == PREEMPTED else NEW
    s.stage[r] = RUNNING
    if has_more_places(s, r):
        leave_first_place(s, r)
    else:
        s.rank[r] = 0
        s.nwait -= 1
        s.waitset = s.k.remove(s.waitset, r)
        leave_line(s, r)
    leave_head(s, r)
    s.run[s.nr] = r
    s.ix[r] = s.nr
    s.nr += 1
    s.adm += 1
    s.since[r] = s.nframe
    if s.k.several:
        s.comp[r] += least(s.span, 0)
    take_loaded(s, r)
    pad_drafts(s, r)
    fill_on(s, r)
    _grant(s, r)
    _forget_lookup(s)
