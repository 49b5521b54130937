"""What lines after vllm-0.22.1 do otherwise: readings that plug in at named points of the core.

Each asks a switch of `nullblock.spec.profiles` first, and where that is off says what the core
says. Whoever cares for one line that has them all off need not read on. What later lines write is
in `nullblock.spec.rules.later`.
"""

from nullblock.spec import remote
from nullblock.spec.aligned import is_aligned, lacking_states, whole_blocks
from nullblock.spec.catalogue import clause
from nullblock.spec.fields import INPUT, PAUSED_ALL, PAUSED_NEW, UNPAUSED, WAIT_PHASE
from nullblock.spec.groups import cap, in_all, sees_part
from nullblock.spec.kernel import State, Value, both, either, ite, least, neg
from nullblock.spec.mamba import is_mamba
from nullblock.spec.sizes import blocks_of, needed


@clause("WAIT-30")
def may_resume(s: State, r: Value) -> Value:
    """A request preempted with output in flight waits until that has arrived, unless it is
    worthless; those behind it are served meanwhile.

    So no position is sampled twice. Source: Scheduler.schedule, waiting phase:
    num_stale_output_tokens. Only in vllm-0.32.0.
    """
    if not s.k.sem.resumes_await_output:
        return True
    return either(s.stale[r] == 0, s.tossed[r] != 0)


def is_ready(s: State, r: Value) -> Value:
    """Whether r waits for nothing but its turn (WAIT-30)."""
    return both(s.rank[r] != 0, may_resume(s, r))


def anybody_ready(s: State) -> Value:
    """Whether a request waits that may be served (WAIT-5, WAIT-30)."""
    if s.k.sem.resumes_await_output:
        if not s.k.skips:
            return s.k.exists("R", lambda r: is_ready(s, r), by="ready")
    return s.nline > 0


def counts_flight(s: State) -> Value:
    """Whether tokens of steps in flight are counted for each request."""
    return either(s.k.sem.resumes_await_output, s.k.sem.windows_await_outputs)


@clause("WAIT-60")
def is_open(s: State) -> Value:
    """While no new requests are admitted, those that wait with blocks are; at other times they
    come first.

    Source: Scheduler.schedule, waiting phase: kv_holding_waiting. Only in vllm-0.32.0.
    """
    if not s.k.sem.holders_wait_apart:
        return s.pause == UNPAUSED
    held = s.k.exists("R", lambda r: both(s.skip[r] != 0, neg(s.k.mem(s.passed, r))), by="skip")
    return either(s.pause == UNPAUSED, both(s.pause == PAUSED_NEW, held))


@clause("WAIT-61")
def seats(s: State) -> Value:
    """A session that waits for its next chunk keeps its place among those that run.

    Source: Scheduler.schedule, waiting phase: num_waiting_for_streaming_input. Only in
    vllm-0.32.0.
    """
    if not s.k.sem.pausing_sessions_keep_seats:
        return s.nr
    return s.nr + num_pausing(s)


def num_pausing(s: State) -> Value:
    """How many sessions wait for their next chunk, in a queue or in none."""
    return s.k.count("R", lambda r: s.awaits[r] == INPUT) if s.k.sessions else 0


def num_with_work(s: State) -> Value:
    """How many requests there is work for (LIFE-16): of those that wait, while no new ones are
    admitted, only such as have blocks. A session that pauses is taken off, in a queue or in none.

    Source: Scheduler.get_num_unfinished_requests.
    """
    held = s.k.count("R", lambda r: s.skip[r] != 0)
    waiting = ite(s.pause == UNPAUSED, s.nwait, held) - num_pausing(s)
    return ite(s.pause == PAUSED_ALL, 0, s.nr + waiting)


@clause("UPD-40")
def is_stale(s: State, r: Value) -> Value:
    """The next output of a request is stale if it was in flight when the request was preempted: it
    was given up as a placeholder then.

    Source: Scheduler.update_from_output: output_is_stale. Only in vllm-0.32.0.
    """
    return s.stale[r] > 0 if s.k.sem.resumes_await_output else False


def is_worthless(s: State, r: Value) -> Value:
    """Whether the next output of a request is stale and came of what a reset has forgotten."""
    if s.k.sem.resumes_await_output:
        return both(s.stale[r] > 0, s.tossed[r] != 0)
    return False


def discarded(s: State, r: Value) -> Value:
    """What a line tells of output in flight that is not what it was when it was scheduled: outputs
    to be dropped, or tokens that are stale.
    """
    return s.stale[r] if s.k.sem.resumes_await_output else s.drop[r]


@clause("RUN-40")
def threshold(s: State) -> Value:
    """A request that nobody competes with is not cut at the long-prefill threshold.

    Requests that wait and cannot be served count as well. Source: Scheduler.schedule:
    num_eligible_reqs. Only in vllm-0.32.0.
    """
    if s.k.sem.lone_prefill_uncut:
        return ite(s.nr + s.nwait <= 1, 0, s.k.threshold)
    return s.k.threshold


@clause("DRAFT-42")
def left(s: State) -> Value:
    """What a step has left for a request: of its budget, and of max_num_batched_tokens, where a
    draft model takes a place for each request besides.

    Source: Scheduler.schedule: input_budget, draft_slots. Only in vllm-0.32.0.
    """
    if not s.k.sem.drafting_takes_slots:
        return s.budget
    if s.k.draft_slots == 0:
        return s.budget
    granted = s.limit - s.budget
    n = least(s.budget, s.k.batched - granted - s.slots - s.k.draft_slots)
    return ite(n > 0, n, 0)


@clause("DRAFT-41")
def padding(s: State, r: Value, done: Value) -> Value:
    """Whoever is admitted with one token to compute, into a step without prefills, is scheduled
    with placeholders for as many drafts as there may be: then all requests of the step have
    equally many tokens.

    A hit has to leave it one token, or another request has to decode in the step; and
    max_model_len has to leave room for them and the token that is sampled. Where steps are cut to
    whole blocks none of them may be cut (GROUP-29). Source: Scheduler.schedule, waiting phase:
    pad_spec_decode. Only in vllm-0.32.0.
    """
    n = uncut_padding(s, r, done)
    if not s.k.split:
        return n
    most = threshold(s)
    asked = ite(both(0 < most, most < 1 + n), most, 1 + n)
    return ite(whole_blocks(s, r, done, asked) == 1 + n, n, 0)


def uncut_padding(s: State, r: Value, done: Value) -> Value:
    """The same before the step is cut."""
    if not s.k.sem.admissions_padded:
        return 0
    alike = either(s.mates == 1, both(s.mates == 0, done > 0))
    has_room = done + 2 + s.k.num_spec <= s.k.max_len
    computes = neg(remote.loads_later(s, r))
    return ite(both(s.ntok[r] - done == 1, alike, has_room, computes), s.k.num_spec, 0)


def may_pad(s: State, r: Value, done: Value) -> Value:
    """Whether the step has room for the placeholders with which r would be admitted: it is not
    admitted without (DRAFT-41).
    """
    if not s.k.sem.admissions_padded:
        return True
    n = uncut_padding(s, r, done)
    return either(n == 0, 1 + n <= left(s))


@clause("RUN-43")
def sits_out(s: State, r: Value) -> Value:
    """A request that runs is passed over where it has sampled in one of the steps before, fewer
    of them ago than the pipeline has stages, if the second model runner is scheduled ahead.

    It keeps to that whatever becomes of it: one that is preempted, and admitted meanwhile, is
    passed over as well, in the midst of its prompt. An admission does not ask. Source:
    Scheduler.schedule, running phase: next_decode_eligible_step. Only in vllm-0.32.0.
    """
    if s.k.sem.pipeline_paces_tokens:
        return s.steps < s.paced[r] if s.k.stages > 1 else False
    return False


@clause("RUN-41")
def granted(s: State, n: Value) -> Value:
    """A running request is never scheduled less than no token.

    It matters for a prompt of max_model_len tokens or more, which is then passed over for ever.
    Source: Scheduler._reserve_prefill_lookahead. Only in vllm-0.32.0; normative refuses such a
    prompt at arrival (LIFE-2).
    """
    return ite(n < 0, 0, n) if s.k.sem.grants_not_negative else n


@clause("RUN-44")
def makes_no_tokens(s: State) -> Value:
    """Where a model makes vectors and no tokens, a step leaves no room for a token: what is
    computed of a prompt may be as long as max_model_len, and no vector counts as in flight.

    Source: Scheduler.num_sampled_tokens_per_step. Only in vllm-0.32.0.
    """
    return s.k.makes_vectors if s.k.sem.vectors_take_no_place else False


def beyond(s: State) -> Value:
    """One more than may be computed of a request that runs."""
    return s.k.max_len + 1 if makes_no_tokens(s) else s.k.max_len


@clause("WAIT-31")
def headroom(s: State) -> Value:
    """While somebody runs, a request is admitted only if the watermark's blocks stay free.

    Source: KVCacheManager.allocate_slots: watermark_blocks. Only in vllm-0.32.0.
    """
    if s.k.sem.admission_watermark:
        return ite(both(s.phase == WAIT_PHASE, s.nr > 0), s.k.watermark, 0)
    return 0


def still_lacks(s: State, r: Value) -> Value:
    """Blocks that r lacks of all its tokens, and of a step with drafts, while it is loaded or
    computes its prompt.

    Source: Scheduler._request_remaining_blocks.
    """
    whole = least(s.ntok[r], s.k.max_len)
    tokens = whole + _step_with_drafts(s)
    return ite(s.filling[r] != 0, in_all(s, r, lambda t: _still_lacked(s, t, whole, tokens)), 0)


def _still_lacked(s: State, t: Value, whole: Value, tokens: Value) -> Value:
    if is_aligned(s, t):
        return lacking_states(s, t, s.comp[s.k.owner(t)], whole, 0)
    n = needed(s, t, tokens)
    is_capped = both(sees_part(s, t), neg(is_mamba(s, t)))
    n = (ite(is_capped, least(n, cap(s, t)), n) if s.k.windowed else n) - s.tlen[t]
    return ite(n > 0, n, 0)


def _step_with_drafts(s: State) -> Value:
    return 1 + s.k.num_spec + s.k.lookahead if s.k.num_spec > 0 else 0


@clause("REMOTE-40")
def set_aside(s: State, r: Value) -> Value:
    """A load over several steps begins only if beside its blocks those stay free that everybody
    lacks who is loaded or computes its prompt, and those of one step with drafts, which have no
    states.

    Source: Scheduler.schedule, waiting phase: reserved_blocks. Only in vllm-0.32.0.
    """
    if not s.k.sem.loads_leave_room:
        return 0
    if not s.k.connector:
        return 0
    step = _step_with_drafts(s)
    drafts = in_all(s, r, lambda t: ite(is_mamba(s, t), 0, blocks_of(s, t, step)))
    others = s.k.sum_over("R", lambda q: still_lacks(s, q))
    return ite(remote.loads_later(s, r), others + drafts, 0)
