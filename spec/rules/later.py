"""What lines after vllm-0.22.1 write besides: parts of rules, called where those say so.

vllm-0.32.0 counts the tokens of steps in flight for each request. A preemption makes them stale:
they are delivered when they come, or dropped after a reset, but are placeholders no more.
"""

from nullblock.spec.drafts import tokens_ahead
from nullblock.spec.fields import ERROR, UNBORN, UPDATE
from nullblock.spec.kernel import State, Value, both, either, ensure, ite
from nullblock.spec.later import counts_flight, is_stale, padding
from nullblock.spec.state import check_stop


def take_off(s: State, r: Value, n: Value) -> None:
    """Tokens of r are in flight from now on. Source: Scheduler._update_after_schedule."""
    if counts_flight(s):
        s.aloft[r] += n
    if s.k.sem.freed_blocks_await_steps:
        s.lastin[r] = s.steps + 1
        s.lastfull = s.steps + 1


def keep_pace(s: State, r: Value) -> None:
    """The step samples a token of r: the next may not before the pipeline has passed it on.

    Source: AsyncScheduler._update_after_schedule: decode_stagger.
    """
    if s.k.sem.pipeline_paces_tokens:
        if s.k.stages > 1:
            s.paced[r] = s.steps + s.k.stages


def land(s: State) -> None:
    """The tokens of the entry at hand are in flight no longer: whoever has the id now counts.

    Source: Scheduler.update_from_output. The numbers of a later owner of the id may go below
    nothing.
    """
    if counts_flight(s):
        r = s.frame[s.cur]
        if s.stage[r] != UNBORN:
            n = s.grant[s.cur]
            ensure(either(s.stale[r] <= 0, s.stale[r] >= n), "a step is stale as a whole")
            s.aloft[r] -= n
            if is_stale(s, r):
                s.stale[r] -= n


def outdate(s: State, r: Value, worthless: int) -> None:
    """What is in flight for r is stale; after a reset it is worthless too, and stays so.

    Source: Scheduler._preempt_request.
    """
    if s.k.sem.resumes_await_output:
        stays = both(s.tossed[r] != 0, s.stale[r] > 0)
        s.tossed[r] = 1 if worthless else ite(stays, 1, 0)
        s.stale[r] = s.aloft[r]
        s.ph[r] = 0
        s.pd[r] = 0
        s.landed[r] = s.flown[r]


def outdate_preempted(s: State, r: Value) -> None:
    """What is in flight for r, which a step preempts, is stale. It is worthless where blocks have
    to be handed off: it might end the request, whose blocks are gone.

    Source: Scheduler.requires_kv_delivery, which a connector says.
    """
    if s.k.sem.resumes_await_output:
        outdate(s, r, worthless=s.k.delivers)


def outdate_turn(s: State, r: Value) -> None:
    """What is in flight for session r is worthless: the turn that it is of is over.

    Source: Scheduler._handle_stopped_request: safe_frontier.
    """
    ensure(tokens_ahead(s, r) <= s.comp[r], "what is in flight was computed")
    s.comp[r] -= tokens_ahead(s, r)
    s.spec[r] = 0
    outdate(s, r, worthless=1)


def outdate_last_turn(s: State, r: Value) -> None:
    """So it is where session r ends by an output, whether or not its blocks are kept: before it is
    asked what it leaves behind (REMOTE-52).

    Source: Scheduler._handle_stopped_request, before it looks for a chunk.
    """
    if both(s.k.sessions, s.k.sem.late_outputs_dropped, s.k.sem.resumes_await_output):
        if both(s.phase == UPDATE, s.k.resumable(r)):
            if check_stop(s, r) != ERROR:
                outdate_turn(s, r)


def leave_flight(s: State, r: Value) -> None:
    """Whoever has the id next begins with nothing in flight."""
    if counts_flight(s):
        s.aloft[r] = 0
        s.stale[r] = 0
        s.tossed[r] = 0
    if s.k.sem.freed_blocks_await_steps:
        s.lastin[r] = 0
    if s.k.sem.pipeline_paces_tokens:
        s.paced[r] = 0


def report_reset(s: State, r: Value) -> None:
    """The next step tells that r was preempted. Source: Scheduler.reset_preempted_req_ids."""
    if s.k.sem.resets_report_preempted:
        s.preempted = s.k.add(s.preempted, r)


def report_anew(s: State) -> None:
    """A step that begins has preempted nobody; where resets are reported, that is said when the
    step before has been told.
    """
    if not s.k.sem.resets_report_preempted:
        s.preempted = s.k.empty("R")


def forget_reported(s: State) -> None:
    """Whoever was preempted has been reported. Source: Scheduler._update_after_schedule."""
    if s.k.sem.resets_report_preempted:
        s.preempted = s.k.empty("R")


def open_slots(s: State) -> None:
    """A step begins with nobody in it."""
    s.slots = 0
    s.mates = 0


def take_slot(s: State) -> None:
    """A draft model takes a place of the step for the request that is scheduled (DRAFT-42)."""
    if s.k.sem.drafting_takes_slots:
        s.slots += s.k.draft_slots


def give_slot_back(s: State, v: Value) -> None:
    """A victim's place comes back with its tokens. Source: Scheduler.schedule, running phase."""
    if s.k.sem.drafting_takes_slots:
        s.slots -= ite(s.sched[v] != 0, s.k.draft_slots, 0)


def meet(s: State, r: Value) -> None:
    """Whoever is admitted in this step computes beside r, which runs (DRAFT-41).

    Source: Scheduler.schedule, running phase: prefill_scheduled.
    """
    if s.k.sem.admissions_padded:
        s.mates = ite(either(s.mates == 2, s.chunk[r] == 1), 2, 1)


def pad_drafts(s: State, r: Value) -> None:
    """A request is admitted with placeholders for drafts (DRAFT-41).

    Source: Scheduler.schedule, waiting phase: the assertion on num_new_tokens.
    """
    if s.k.sem.admissions_padded:
        n = padding(s, r, s.comp[r])
        ensure(either(n == 0, s.asked == 1 + n), "nothing has cut the placeholders")
        s.drafted[r] = n


def begin_filling(s: State, r: Value) -> None:
    """r has its blocks for what is loaded, or for a part of what it is to compute (REMOTE-40).

    Source: Scheduler._inflight_prefills.
    """
    if s.k.sem.loads_leave_room:
        s.filling[r] = 1


def fill_on(s: State, r: Value) -> None:
    """r is admitted, and this step leaves it short of a token. Source: Scheduler.schedule."""
    if s.k.sem.loads_leave_room:
        if s.comp[r] + s.asked < s.ntok[r]:
            s.filling[r] = 1


def end_filling(s: State, r: Value) -> None:
    """r has computed its prompt, or waits with nothing. Source: Scheduler._preempt_request,
    _free_request, _update_after_schedule.
    """
    if s.k.sem.loads_leave_room:
        s.filling[r] = 0
