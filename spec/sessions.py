"""What streaming sessions add to a decision: readings that plug in at named points of the core.

A session is a request whose prompt arrives in chunks. Where it stops it does not end: it takes the
next chunk behind what it keeps, or waits for one, with its blocks. From one chunk to the next is a
turn. Where nobody is a session (`sessions` is false), each reading says what the core says, and
whoever cares for that alone need not read on. What is written is in
`nullblock.spec.rules.sessions`.
"""

from nullblock.spec.catalogue import clause
from nullblock.spec.fields import GRAMMAR, INPUT, KEPT, RUNNING, UNBORN, WAITING
from nullblock.spec.kernel import State, Value, both, either, ite, least, neg


@clause("SESS-1")
def prompt(s: State, r: Value) -> Value:
    """What a session has kept and been sent is its prompt, and its outputs begin anew with each
    chunk.

    Source: Scheduler._update_request_as_session: num_prompt_tokens.
    """
    return s.k.prompt_len(r) + s.grown[r] if s.k.sessions else s.k.prompt_len(r)


def num_taken(s: State, r: Value) -> Value:
    """How many chunks r has taken after its first prompt."""
    return s.turns[r] if s.k.sessions else 0


@clause("SESS-17")
def order(s: State, r: Value) -> Value:
    """Under PRIORITY a session stands where its priority, the arrival of the chunk that it took
    last, and its id put it.

    Source: Request.__lt__, Scheduler._update_request_as_session: arrival_time.
    """
    return s.k.order(r, num_taken(s, r))


def num_output(s: State, r: Value) -> Value:
    """Output tokens of r: of a session those of this turn. Of what it has lost its prompt counts
    more than it has.
    """
    n = s.ntok[r] - prompt(s, r)
    return n + s.lost[r] if s.k.sessions else n


@clause("SESS-2")
def max_tokens(s: State, r: Value) -> Value:
    """A turn ends at the max_tokens of its chunk.

    Source: Request.max_tokens. In vllm-0.22.1 at that of the first chunk (upstream 37843).
    """
    if not s.k.sessions:
        return s.k.max_tokens(r)
    return s.k.chunk_limit(r, ite(s.k.sem.chunks_bring_limits, s.turns[r], 0))


@clause("SESS-3")
def kept(s: State, r: Value) -> Value:
    """A session that goes on keeps all its tokens but the last output, which was sampled and never
    computed.

    Source: Scheduler._update_request_as_session. vllm-0.22.1 keeps what is computed: the last
    output too, if a step in flight computes it, and nothing once the session is preempted. Where
    rejections of an earlier turn have taken back more than was computed, it drops as many tokens.
    """
    if s.k.sem.sessions_keep_tokens:
        return s.ntok[r] - 1
    n = ite(s.comp[r] < 0, s.ntok[r] + s.comp[r], least(s.comp[r], s.ntok[r]))
    return ite(n < 0, 0, n)


@clause("SESS-5")
def late_outputs(s: State, r: Value) -> Value:
    """Outputs in flight when a session stops are of the turn that is over, and are dropped.

    Source: Scheduler.update_from_output. In vllm-0.22.1 the next turn takes them for its own, and
    a session that stops with one of them is queued twice (upstream 52693, 52765).
    """
    return s.ph[r] if s.k.sem.late_outputs_dropped else 0


@clause("SESS-4")
def chain(s: State, t: Value, i: Value) -> Value:
    """The hash of a block is of what the session has now.

    Source: Request.update_block_hashes. In vllm-0.22.1 a block that was full keeps its hash when
    the session drops a token of it (upstream 49377).
    """
    return s.k.chained(t, i, s.past[s.k.owner(t)]) if s.k.sessions else s.k.want(t, i)


def awaits_grammar(s: State, r: Value) -> Value:
    """Whether r has a grammar that is not compiled."""
    return both(s.awaits[r] == GRAMMAR, s.came[r] == 0)


def awaits_input(s: State, r: Value) -> Value:
    """Whether r is a session that waits for its next chunk."""
    return s.awaits[r] == INPUT


def has_chunk(s: State, r: Value) -> Value:
    """Whether a chunk has arrived that r has not taken."""
    return s.turns[r] < s.sent[r]


@clause("SESS-9")
def continues(s: State, r: Value) -> Value:
    """A session that has taken a chunk needs no lookup: what it has computed is in its table.

    Source: Scheduler.schedule, waiting phase: num_computed_tokens. Only of those that wait.
    """
    if not s.k.sessions:
        return False
    waits = either(s.stage[r] == WAITING, runs_already(s, r), has_ended(s, r))
    return both(waits, s.nhit == 0, s.comp[r] != 0)


def may_hold(s: State, r: Value) -> Value:
    """Whether r may hold blocks though it does not run: a session that waits."""
    if not s.k.sessions:
        return False
    return both(s.k.resumable(r), s.stage[r] == WAITING)


def is_lost(s: State, r: Value) -> Value:
    """Whether r is a session that waits in no queue, as vllm-0.22.1 leaves some (SESS-7)."""
    if either(neg(s.k.sessions), s.k.sem.sessions_stay_queued):
        return False
    return both(s.stage[r] == WAITING, s.rank[r] == 0)


def may_stand_twice(s: State) -> Value:
    """Whether a session that stops may stay where it stands in the skipped queue, as in
    vllm-0.22.1 (SESS-7).
    """
    stays = neg(either(s.k.sem.sessions_stay_queued, s.k.sem.stops_leave_every_queue))
    return both(s.k.sessions, stays)


def is_left(s: State, r: Value) -> Value:
    """Whether r, which ends or has ended, still stands in a queue, as in vllm-0.22.1 it may
    (UPD-6): there it is tried as it was.
    """
    return False if s.k.sem.stops_leave_every_queue else s.rank[r] != 0


def num_further(s: State, r: Value) -> Value:
    """How many places r has in the skipped queue besides its first."""
    return s.againto[r] - s.againfrom[r] if may_stand_twice(s) else 0


def num_behind(s: State, r: Value) -> Value:
    """How many places r has in the waiting queue besides its first."""
    return s.moreto[r] - s.morefrom[r] if may_stand_twice(s) else 0


def num_more_places(s: State, r: Value) -> Value:
    """How many places r has in the queues besides its first."""
    return num_further(s, r) + s.also[r] + num_behind(s, r) if may_stand_twice(s) else 0


def has_more_places(s: State, r: Value) -> Value:
    """Whether it has any."""
    return num_more_places(s, r) > 0 if may_stand_twice(s) else False


def stays_queued(s: State, r: Value) -> Value:
    """Whether r, which joins the waiting queue, stands there already: it ran, and does not leave
    it.
    """
    if not may_stand_twice(s):
        return False
    return both(s.rank[r] != 0, either(s.skip[r] == 0, s.also[r] != 0))


def stays_skipped(s: State, r: Value) -> Value:
    """Whether r, which stops, stays where it stands in the skipped queue."""
    return s.skip[r] != 0 if may_stand_twice(s) else False


def runs_already(s: State, r: Value) -> Value:
    """Whether r runs, should it stand in a queue all the same: it stood there twice."""
    return s.stage[r] == RUNNING if may_stand_twice(s) else False


def has_ended(s: State, r: Value) -> Value:
    """Whether r has ended, should it stand in a queue all the same."""
    if s.k.sem.stops_leave_every_queue:
        return False
    return either(s.stage[r] == UNBORN, s.stage[r] == KEPT)


def holds_while_waiting(s: State, r: Value) -> Value:
    """Whether r waits and holds blocks."""
    if not s.k.sessions:
        return False
    held = s.k.sum_over("G", lambda g: s.tlen[s.k.table(r, g)]) if s.k.several else s.tlen[r]
    return both(s.stage[r] == WAITING, held > 0)


def has_work(s: State, r: Value) -> Value:
    """Whether r waits for a step: not one that waits for its next chunk."""
    return both(s.rank[r] != 0, neg(awaits_input(s, r)))


@clause("SESS-10")
def num_waiting(s: State) -> Value:
    """Of those that wait, sessions that wait for their next chunk do not count as work.

    Source: Scheduler.get_num_unfinished_requests: num_waiting_for_streaming_input. In vllm-0.22.1
    who stands there twice counts twice, and what counts as waiting for a chunk is counted up
    wherever one stops, and down only where one takes a chunk or is aborted.
    """
    if not s.k.sessions:
        return s.nwait
    n = s.k.count("R", lambda r: has_work(s, r), by="line")
    if may_stand_twice(s):
        return n + s.k.sum_over("R", lambda r: num_more_places(s, r)) - s.extra
    return n


def blocks_are_kept(s: State) -> Value:
    """Whether somebody who waits holds blocks: nobody can preempt him."""
    if not s.k.sessions:
        return False
    return s.k.exists("R", lambda r: holds_while_waiting(s, r))
