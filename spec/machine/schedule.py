"""`schedule()`: running requests first, then, if nobody was preempted, waiting ones."""

from nullblock.spec.deferred import awaits_steps
from nullblock.spec.fields import HANDED, LOOKUP, MOVED
from nullblock.spec.gate import fits_whole
from nullblock.spec.hybrid import looks_for, scannable, wanted
from nullblock.spec.in_turn import ASKING, all_have_said, to_ask
from nullblock.spec.kernel import State, Value, both, either, loop, neg
from nullblock.spec.later import left
from nullblock.spec.machine.blocks import allocate_slots, free, withdraw
from nullblock.spec.machine.cross import note_inputs
from nullblock.spec.machine.encoder import (
    let_inputs_go,
    plan_inputs,
    plan_to_enter,
    take_inputs,
    withdraw_inputs,
)
from nullblock.spec.machine.groups import tell_tables
from nullblock.spec.machine.output import scheduler_output
from nullblock.spec.machine.reclaim import take_loaded_back
from nullblock.spec.machine.remote import admit_or_load
from nullblock.spec.machine.waiting import passed_over
from nullblock.spec.nulls import is_passed_over
from nullblock.spec.reclaim import may_reclaim, num_loaded
from nullblock.spec.rules.deferred import hold_off
from nullblock.spec.rules.groups import pass_over_blocks
from nullblock.spec.rules.in_turn import ask_kind, end_round
from nullblock.spec.rules.lookup import (
    ask_to_enter,
    ask_to_run,
    begin_lookup,
    end_lookup,
    give_up,
    hold_back,
    look,
    schedule_running,
)
from nullblock.spec.rules.queues import preempt, requeue
from nullblock.spec.rules.steps import (
    advance,
    begin_advance,
    begin_step,
    end_advance,
    end_running,
    end_waiting,
    skip,
)
from nullblock.spec.state import (
    at_rest,
    cached,
    has_no_tokens,
    head,
    lookup_over,
    may_admit,
    may_chunk,
    tokens_to_admit,
    tokens_to_run,
    turn,
    uncut_to_admit,
    uncut_to_run,
    victim,
)

RUNNING_LOOP = (
    HANDED
    | MOVED
    | {"comp", "sched", "budget", "used", "slots", "mates"}
    | {"at", "actor", "asked", "goal", "halted"}
)
WAITING_LOOP = RUNNING_LOOP | frozenset(LOOKUP) | {"adm", "blocked"}
ADVANCE_LOOP = frozenset(
    {"comp", "sched", "ph", "told", "fresh", "prev", "at", "frame", "born", "grant", "due"}
    | {
        "spot",
        "nth",
        "entry",
        "nframe",
        "spec",
        "drafted",
        "ndraft",
        "pd",
        "cum",
        "flown",
        "chunk",
    }
)


def preempt_one(s: State) -> None:
    """Preempt the victim: withdraw its tokens and hashes, free its blocks, put it back in the
    queue.
    """
    i = victim(s)
    v = s.run[i]
    preempt(s, i)
    withdraw(s, v)
    withdraw_inputs(s, v)
    free(s, v)
    requeue(s, v)


def gets_slots(s: State, r: Value) -> Value:
    """Give the asking request r its slots, with what those who wait give back for it (REMOTE-46).
    False, if they do not fit all the same.
    """
    if allocate_slots(s, r):
        return True
    if not s.k.connector:
        return False
    for _ in loop(
        s,
        until=lambda: neg(may_reclaim(s)),
        decreases=lambda: num_loaded(s),
        changes=RUNNING_LOOP,
    ):
        take_loaded_back(s)
    return allocate_slots(s, r)


def schedule_or_preempt(s: State, r: Value) -> None:
    """Schedule the asking request r, preempting until its slots are free or it is gone itself."""
    ahead = s.nr - s.at
    for _ in loop(
        s,
        until=lambda: s.halted == 1,
        decreases=lambda: s.nr,
        changes=RUNNING_LOOP,
        keep=lambda: both(
            s.leaving == 0,
            s.looking == 0,
            s.nr - s.at <= ahead,
            either(both(s.halted == 1, s.asked == 0), both(s.halted == 0, turn(s, r))),
        ),
    ):
        if gets_slots(s, r):
            take_inputs(s, r)
            schedule_running(s, r)
            return
        if awaits_steps(s, s.run[victim(s)]):
            hold_off(s, r)
        else:
            preempt_one(s)


def schedule_running_requests(s: State) -> None:
    """The running phase: every running request in list order, while budget is left (RUN-1 to
    RUN-7).
    """
    for _ in loop(
        s,
        until=lambda: either(s.at >= s.nr, left(s) == 0, s.halted == 1),
        decreases=lambda: s.nr - s.at + 1 - s.halted,
        changes=RUNNING_LOOP,
        keep=lambda: at_rest(s),
    ):
        r = s.run[s.at]
        plan_inputs(s, r, uncut_to_run(s, r))
        n = tokens_to_run(s, r)
        if n == 0:
            skip(s, r)
        else:
            ask_to_run(s, r, n)
            schedule_or_preempt(s, r)


def ask_in_turn(s: State, r: Value) -> None:
    """Ask the kinds of layers how far a hit of r reaches, where it is found so (GROUP-60)."""
    if s.k.in_turn:
        for _ in loop(
            s,
            until=lambda: s.looking != ASKING,
            decreases=lambda: to_ask(s),
            changes=frozenset(LOOKUP) | {"ext"},
        ):
            if all_have_said(s):
                end_round(s, r)
            else:
                ask_kind(s, r)


def look_up(s: State, t: Value) -> None:
    """Look up what table t is hit by (HASH-15, GROUP-4)."""
    r = s.k.owner(t)
    for _ in loop(
        s,
        until=lambda: either(lookup_over(s, r), neg(looks_for(s, t))),
        decreases=lambda: scannable(s, r) - s.nhit,
        changes=frozenset({"hit", "nhit", "nevict", "evset"}),
    ):
        if is_passed_over(s, r):
            pass_over_blocks(s, r)
        else:
            look(s, r, cached(s, wanted(s, r, s.nhit)))


def admit_or_stay(s: State, r: Value) -> None:
    """Look the head of the queue up and admit it with its cached prefix, or leave everything as
    it was.
    """
    begin_lookup(s, r)
    ask_in_turn(s, r)
    for t in s.k.tables(r):
        look_up(s, t)
    end_lookup(s, r)
    plan_to_enter(s, r, uncut_to_admit(s, r))
    if not both(may_chunk(s, r), fits_whole(s, r), neg(has_no_tokens(s, r))):
        hold_back(s, r)
        return
    ask_to_enter(s, r, tokens_to_admit(s, r))
    if allocate_slots(s, r):
        take_inputs(s, r)
        admit_or_load(s, r)
    else:
        let_inputs_go(s, r)
        give_up(s, r)


def admit_or_make_room(s: State, r: Value) -> None:
    """Admit the head, if need be with what those behind it give back (REMOTE-46)."""
    admit_or_stay(s, r)
    if s.k.connector:
        for _ in loop(
            s,
            until=lambda: neg(may_reclaim(s)),
            decreases=lambda: num_loaded(s),
            changes=WAITING_LOOP,
        ):
            take_loaded_back(s)
            admit_or_stay(s, r)


def schedule_waiting_requests(s: State) -> None:
    """The waiting phase: heads of the queue, until one cannot enter (WAIT-1 to WAIT-11)."""
    for _ in loop(
        s,
        until=lambda: not may_admit(s),
        decreases=lambda: s.nline + 1 - s.blocked,
        changes=WAITING_LOOP,
        keep=lambda: at_rest(s),
    ):
        r = head(s)
        if not passed_over(s, r):
            admit_or_make_room(s, r)


def decide(s: State) -> None:
    """Decide the step: the ordered list of its phases is the specification."""
    begin_step(s)
    schedule_running_requests(s)
    end_running(s)
    schedule_waiting_requests(s)
    end_waiting(s)


def commit(s: State) -> None:
    """Count what was decided as computed and put the step in flight (UPD-1)."""
    begin_advance(s)
    note_inputs(s)
    for _ in loop(
        s, until=lambda: s.at >= s.nr, decreases=lambda: s.nr - s.at, changes=ADVANCE_LOOP
    ):
        tell_tables(s, s.run[s.at])
        advance(s, s.run[s.at])
    end_advance(s)


def schedule(s: State) -> Value:
    """One call of `schedule()`. Returns what the worker is told, a SchedulerOutput (None in the
    prover).
    """
    decide(s)
    output = s.k.observe(scheduler_output, s)
    commit(s)
    return output
