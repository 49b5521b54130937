"""Readings of a state that rules and machine share; `s.k` has constants, facts, quantifiers."""

from nullblock.spec import encoder, later, repetition, sessions, waiting
from nullblock.spec.aligned import cut_first, cut_last
from nullblock.spec.catalogue import clause
from nullblock.spec.drafts import behind, placeholders, reach
from nullblock.spec.fields import (
    CONTINUE,
    EOS,
    ERROR,
    LEAVING,
    LENGTH,
    STOP_ID,
    STOPPED,
    STOPPED_BY_ID,
    WAIT_PHASE,
)
from nullblock.spec.hybrid import all_hits, held_at_most, wanted
from nullblock.spec.kernel import State, Value, both, either, ite, least, neg
from nullblock.spec.later import is_ready
from nullblock.spec.nulls import is_passed_over
from nullblock.spec.pooling import pools
from nullblock.spec.remote import goes_on, keeps_what_it_has, loaded_at_once, loads_later
from nullblock.spec.sessions import chain, continues, max_tokens, num_output, prompt
from nullblock.spec.sizes import reached


def in_queue(s: State, b: Value) -> Value:
    """Whether block b stands in the free queue."""
    return s.stamp[b] != 0


@clause("QUEUE-10")
def lru(s: State) -> Value:
    """The block that is given out next is the one at the front of the free queue.

    Source: FreeKVCacheBlockQueue.popleft.
    """
    return s.k.first("B", lambda b: in_queue(s, b), lambda b: s.stamp[b], by="stamp")


def is_lru(s: State, b: Value) -> Value:
    """Whether b is `lru(s)`."""
    return s.k.is_first("B", b, lambda c: in_queue(s, c), lambda c: s.stamp[c], by="stamp")


@clause("HASH-10")
def cached(s: State, h: Value) -> Value:
    """Among several blocks with one hash, a lookup finds the one that was cached first.

    Source: BlockHashToBlockMap.get_one_block.
    """
    return s.k.first("B", lambda b: s.hsh[b] == h, lambda b: s.hstamp[b], by=("hsh", h))


def is_cached(s: State, b: Value, h: Value) -> Value:
    """Whether b is `cached(s, h)`."""
    return s.k.is_first("B", b, lambda c: s.hsh[c] == h, lambda c: s.hstamp[c], by=("hsh", h))


def is_hit(s: State, h: Value) -> Value:
    """Whether some block carries hash h."""
    return s.k.exists("B", lambda b: s.hsh[b] == h, by=("hsh", h))


def live(s: State, r: Value) -> Value:
    """Whether the engine knows request r."""
    return both(goes_on(s, r), s.stage[r] != LEAVING)


def is_waiting(s: State, r: Value) -> Value:
    """Whether r stands in the waiting queue."""
    return s.rank[r] != 0


def place(s: State, r: Value) -> Value:
    """What orders the waiting queue: place of arrival, or priority, arrival time and id."""
    return sessions.order(s, r) if s.k.priority else s.rank[r]


@clause("WAIT-1")
def head(s: State) -> Value:
    """The request considered next is the front of the queue (FCFS) or the least by priority,
    arrival time, id (PRIORITY).

    Source: RequestQueue.peek_request, Request.__lt__.
    """
    if s.k.skips:
        return waiting.next_in_line(s)
    if s.k.sem.resumes_await_output:
        return s.k.first("R", lambda r: is_ready(s, r), lambda r: place(s, r), by="ready")
    return s.k.first("R", lambda r: is_waiting(s, r), lambda r: place(s, r), by="rank")


def is_head(s: State, r: Value) -> Value:
    """Whether r is `head(s)`."""
    if s.k.skips:
        return waiting.is_next(s, r)
    if s.k.sem.resumes_await_output:
        return s.k.is_first("R", r, lambda q: is_ready(s, q), lambda q: place(s, q), by="ready")
    return s.k.is_first("R", r, lambda q: is_waiting(s, q), lambda q: place(s, q), by="rank")


def is_tried(s: State, r: Value) -> Value:
    """Whether r is the request that the waiting phase tries next, and has not begun to."""
    return both(s.phase == WAIT_PHASE, s.looking == 0, s.asked == 0, may_admit(s), is_head(s, r))


def index_of(s: State, r: Value) -> Value:
    """Where the running request r stands in the running list."""

    def stands(i: Value) -> Value:
        return both(0 <= i, i < s.nr, s.run[i] == r)

    return s.k.first("I", stands, lambda i: i, by=("run", r))


def standing(s: State, i: Value) -> Value:
    """What orders the running list for PREEMPT-1: the least is the victim."""
    r = s.run[i]
    n = sessions.num_taken(s, r)
    return s.k.behind(r, n) if s.k.sem.victim_by_id else s.k.negligible(r, n, i)


def is_victim(s: State, i: Value) -> Value:
    """Whether the running request at index i is the one to preempt (PREEMPT-1)."""
    inside = both(0 <= i, i < s.nr)
    if not s.k.priority:
        return both(inside, i == s.nr - 1)
    return s.k.is_first(
        "I", i, lambda j: both(0 <= j, j < s.nr), lambda j: standing(s, j), by="victim"
    )


@clause("PREEMPT-1")
def victim(s: State) -> Value:
    """The victim is the last running request (FCFS) or the one that comes last by priority,
    arrival time and id (PRIORITY).

    Source: Scheduler.schedule, running phase. In vllm-0.22.1 the id takes no part: of equals the
    first in the list goes, which is next in the queue, so two of them may take turns for ever.
    """
    if not s.k.priority:
        return s.nr - 1
    return s.k.first(
        "I", lambda j: both(0 <= j, j < s.nr), lambda j: standing(s, j), by="victim", known=s.at
    )


def start(s: State, r: Value) -> Value:
    """Tokens of r that need not be computed: what is computed, or what the pending hits cover."""
    return reached(s, r) + loaded_at_once(s, r)


def cut(s: State, n: Value) -> Value:
    """The long-prefill threshold, if one is set and n is more; else n."""
    most = later.threshold(s)
    return ite(both(0 < most, most < n), most, n)


@clause("RUN-1")
def chunk(s: State, n: Value) -> Value:
    """A request gets at most the long-prefill threshold, if one is set, and at most what is left
    of the budget.

    The threshold binds decodes and prefills alike. Source: Scheduler.schedule, both phases.
    """
    return least(cut(s, n), later.left(s))


@clause("RUN-25")
def last_in_flight(s: State, r: Value) -> Value:
    """Scheduling ahead passes over a request that gets all it may still get from steps in flight.

    Source: Scheduler.schedule, running phase. In vllm-0.22.1 one output in flight counts, however
    many there are, so that with three steps in flight some compute what nobody takes.
    """
    if not s.k.asynchronous:
        return False
    end = prompt(s, r) + max_tokens(s, r)
    if s.k.sem.stop_check_counts_frames:
        return both(s.ph[r] > 0, s.ntok[r] + s.ph[r] >= end)
    return both(placeholders(s, r) > 0, s.comp[r] + 2 - placeholders(s, r) >= end)


@clause("RUN-2")
def tokens_to_run(s: State, r: Value) -> Value:
    """A running request gets the tokens it is behind, those in flight that are scheduled ahead and
    drafts included, as far as chunk, budget and max_model_len - 1 allow, without which a model
    does that makes no tokens (RUN-44).

    Source: Scheduler.schedule, running phase. In vllm-0.22.1 the number may be negative for a
    prompt longer than max_model_len.
    """
    return cut_last(s, r, s.comp[r], uncut_to_run(s, r))


def uncut_to_run(s: State, r: Value) -> Value:
    """The same as its encoder inputs are planned for it."""
    if either(last_in_flight(s, r), later.sits_out(s, r)):
        return 0
    n = least(chunk(s, behind(s, r)), later.beyond(s) - 1 - s.comp[r])
    return encoder.granted(s, r, cut_first(s, r, s.comp[r], later.granted(s, n)))


def to_enter(s: State, r: Value) -> Value:
    """Tokens that a waiting request would get, were there room for them in the step."""
    done = start(s, r)
    return s.ntok[r] - done + later.padding(s, r, done)


@clause("WAIT-2")
def tokens_to_admit(s: State, r: Value) -> Value:
    """A waiting request gets the tokens that no hit covers, as far as chunk and budget allow.

    Source: Scheduler.schedule, waiting phase. There is no max_model_len clamp here.
    """
    if loads_later(s, r):
        return s.ext
    return cut_last(s, r, start(s, r), uncut_to_admit(s, r))


def uncut_to_admit(s: State, r: Value) -> Value:
    """The same as its encoder inputs are planned for it."""
    return encoder.granted(s, r, cut_first(s, r, start(s, r), chunk(s, to_enter(s, r))))


def has_no_tokens(s: State, r: Value) -> Value:
    """Whether r, who waits, would compute nothing of what it has to compute."""
    nothing = encoder.gets_nothing(s, r)
    if not s.k.split:
        return nothing
    return either(nothing, both(to_enter(s, r) > 0, tokens_to_admit(s, r) == 0))


def loads_states(s: State, r: Value) -> Value:
    """Whether states would be loaded for r of which only those at ends of steps are kept.

    Source: Scheduler.schedule, waiting phase, which asserts that none are where a prefill is cut
    to whole blocks, for whoever gets as far as that.
    """
    if not s.k.split or s.k.sem.long_tables_stay:
        return False
    return both(s.ext > 0, may_chunk(s, r), neg(encoder.gets_nothing(s, r)))


@clause("WAIT-4")
def may_chunk(s: State, r: Value) -> Value:
    """With chunked prefill off, a request that the threshold has not cut must fit the budget that
    is left.

    Source: Scheduler.schedule, waiting phase. A threshold still cuts a long prompt into chunks.
    """
    if s.k.chunked:
        return later.may_pad(s, r, start(s, r))
    uncut = either(loads_later(s, r), cut(s, to_enter(s, r)) <= later.left(s))
    return both(uncut, later.may_pad(s, r, start(s, r)))


@clause("WAIT-5")
def may_admit(s: State) -> Value:
    """The waiting queue is served only if nothing was preempted, the engine is unpaused, the head
    is not stuck, and budget and a running place are left.

    Source: Scheduler.schedule, waiting phase. Head-of-line blocking is total.
    """
    return both(
        s.turned == 0,
        later.is_open(s),
        s.blocked == 0,
        later.left(s) > 0,
        later.seats(s) < s.k.max_seqs,
        later.anybody_ready(s),
    )


@clause("HASH-11")
def lookup_over(s: State, r: Value) -> Value:
    """A lookup scans from the left to the first miss, over the full blocks of all tokens but the
    last.

    Source: FullAttentionManager.find_longest_cache_hit, get_computed_blocks; the last token must
    be computed to sample.
    """
    if s.k.spans:
        return s.nhit >= all_hits(s, r)
    if not s.k.caching:
        return True
    if keeps_what_it_has(s, r):
        return True
    if is_passed_over(s, r):
        return False
    return either(
        continues(s, r),
        s.k.skip_read(r),
        s.nhit >= s.k.full(s.ntok[r] - 1),
        neg(is_hit(s, wanted(s, r, s.nhit))),
        is_dropped(s, r),
    )


@clause("DRAFT-11")
def is_dropped(s: State, r: Value) -> Value:
    """For an EAGLE-like method the last hit is none: its block is computed again, for what the
    draft needs to know of it.

    Source: FullAttentionManager.find_longest_cache_hit.
    """
    if not s.k.eagle:
        return False
    return either(s.nhit + 1 >= s.k.full(s.ntok[r] - 1), neg(is_hit(s, chain(s, r, s.nhit + 1))))


def longest(s: State, r: Value) -> Value:
    """The most tokens of r that can ever have to be in the cache: the last token sampled is
    never computed.
    """
    return least(prompt(s, r) + max_tokens(s, r), s.k.max_len) - 1


@clause("LIFE-11")
def servable(s: State, r: Value) -> Value:
    """A request can be served if its prompt is neither empty nor as long as max_model_len, and if
    all it may grow to fits the pool and, where it may not be cut, the budget.

    Source: our decision; vLLM's front end checks the prompt's length, its scheduler nothing.
    """
    return both(can_serve(s, r, prompt(s, r), max_tokens(s, r)), encoder.encodable(s, r))


def can_serve(s: State, r: Value, tokens: Value, outputs: Value) -> Value:
    """Whether r can be served with a prompt of so many tokens, and at most so many outputs."""
    most = least(tokens + outputs, s.k.max_len) - 1
    return both(
        1 <= tokens,
        tokens < s.k.max_len,
        held_at_most(s, r, reach(s, most)) <= s.k.usable,
        either(
            s.k.chunked, most <= s.k.budget, both(0 < s.k.threshold, s.k.threshold <= s.k.budget)
        ),
    )


@clause("UPD-4")
def check_stop(s: State, r: Value) -> Value:
    """A request stops on eos, then on a stop id, then at max_model_len or max_tokens; below
    min_tokens only the length limits count.

    Source: check_stop. In vllm-0.22.1 not even they count below min_tokens (upstream PR 51299);
    vllm-0.32.0 leaves it to the sampler that no such token comes.
    """
    if pools(s, r):
        return STOPPED
    if waiting.is_rejected(s, r):
        return ERROR
    at_limit = either(s.ntok[r] >= s.k.max_len, num_output(s, r) >= max_tokens(s, r))
    if s.k.sem.min_tokens_hold_stops:
        if num_output(s, r) < s.k.min_tokens(r):
            return LENGTH if s.k.sem.length_before_min_tokens and at_limit else CONTINUE
    kind = s.k.last_token(s, r)
    if kind == EOS:
        return STOPPED
    if kind == STOP_ID:
        return STOPPED_BY_ID
    return LENGTH if at_limit else repetition.check_repetition(s, r)


def turn(s: State, r: Value) -> Value:
    """Whether r is being given slots."""
    return both(s.asked != 0, r == s.actor)


def at_rest(s: State) -> Value:
    """Nobody is half-way out, looked up, or asking."""
    return both(s.leaving == 0, s.looking == 0, s.asked == 0)


def kept(s: State, r: Value) -> Value:
    """Tokens of r whose content is computed, in flight, or promised by the open step."""
    return ite(turn(s, r), s.goal, s.comp[r] + s.sched[r])
