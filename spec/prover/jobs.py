"""What there is to prove: the first state, every rule, every operation of the machine."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import z3  # type: ignore[import-untyped]

from nullblock.spec.fields import FIELDS, IDLE, RUN_PHASE, UNBORN, UNPAUSED, WAIT_PHASE
from nullblock.spec.flight import in_flight
from nullblock.spec.kernel import RULES, Rule, State, Value, both, implies
from nullblock.spec.machine import events, schedule, update
from nullblock.spec.state import at_rest

Kind = Literal["initial", "rule", "machine"]


def anything(s: State, *args: Value) -> Value:
    """No condition."""
    return True


@dataclass(frozen=True, slots=True)
class Job:
    """A text to follow: what holds before it, and whether every invariant must hold after it."""

    name: str
    kind: Kind
    text: Callable[..., Any]
    sorts: str = ""
    before: Callable[..., Value] = anything
    """A condition on the state and the arguments."""
    given: bool = True
    """Whether the invariants hold before."""
    keeps: bool = False
    """Whether they must be shown after: for a rule, and for the first state."""
    after: Callable[..., Value] = anything
    """A condition that the text must bring about."""
    part: bool = False
    """Whether another operation contains it whole, so that proving everything need not ask twice.
    """


def _between(s: State, *args: Value) -> Value:
    """Between steps, nobody half-way."""
    return both(s.phase == IDLE, at_rest(s), s.open == 0)


def _in_phase(phase: int) -> Callable[..., Value]:
    return lambda s: both(s.phase == phase, at_rest(s), s.open == 0, s.halted == 0)


def _initial(s: State) -> None:
    """The first state, for any pool: every block is free and has its own place, everything else is
    empty.
    """
    k = s.k
    stamp, free, one = s.stamp, s.freeset, s.taker
    for f, sort in FIELDS.items():
        setattr(
            s, f, k.blank(f) if ">" in sort else k.empty(sort[1]) if "{" in sort else z3.IntVal(0)
        )
    s.stamp, s.freeset = stamp, free
    s.back, s.front, s.nfree = k.usable + 1, z3.IntVal(-1), k.usable
    s.hclock = s.aclk = s.hi = s.sback = z3.IntVal(1)
    s.lo = z3.IntVal(-1)
    s.uback = z3.IntVal(1)
    s.lr = s.leaver = s.actor = s.taker = s.planner = one


def _first_state(s: State) -> Value:
    """Stamps 1 to the number of usable blocks, all different, and all of them in the free set."""
    k = s.k
    return both(
        k.forall(
            "B", lambda b: both(1 <= s.stamp[b], s.stamp[b] <= k.usable, k.mem(s.freeset, b))
        ),
        k.forall("BB", lambda b, c: implies(s.stamp[b] == s.stamp[c], b == c)),
        k.card(s.freeset) == k.usable,
    )


INITIAL = Job(
    "initial",
    "initial",
    _initial,
    before=_first_state,
    given=False,
    keeps=True,
    after=lambda s: both(_between(s), in_flight(s) == 0),
)


def _operation(
    name: str,
    text: Callable[..., Any],
    sorts: str = "",
    before: Callable[..., Value] = anything,
    after: Callable[..., Value] = anything,
) -> Job:
    """An operation that starts and ends between steps, so that any sequence of them is covered."""
    return Job(
        name,
        "machine",
        text,
        sorts,
        before=lambda s, *args: both(_between(s), before(s, *args)),
        after=lambda s, *args: both(_between(s), after(s, *args)),
    )


MACHINE: tuple[Job, ...] = (
    Job(
        "schedule_running_requests",
        "machine",
        schedule.schedule_running_requests,
        before=lambda s: both(_in_phase(RUN_PHASE)(s), s.at == 0),
        part=True,
    ),
    Job(
        "schedule_waiting_requests",
        "machine",
        schedule.schedule_waiting_requests,
        before=_in_phase(WAIT_PHASE),
        part=True,
    ),
    _operation(
        "schedule",
        schedule.schedule,
        after=lambda s: in_flight(s) > 0,
    ),
    _operation(
        "update_from_output",
        update.update_from_output,
        before=lambda s: in_flight(s) > 0,
    ),
    _operation("add", events.add, "R", before=lambda s, r: s.stage[r] == UNBORN),
    _operation("abort", events.abort, "R"),
    _operation("reset_prefix_cache", lambda s: events.reset_prefix_cache(s, False)),
    _operation("reset_running_requests", lambda s: events.reset_prefix_cache(s, True)),
    # Two blocks stand for any number: what is between them is what is before and after.
    _operation("evict_blocks", lambda s, b, c: events.evict_blocks(s, [b, c]), "BB"),
    _operation(
        "pause", events.pause, "I", before=lambda s, state: both(UNPAUSED <= state, state <= 2)
    ),
)


_ITEMS = "the proofs are of models without an encoder; of encoder inputs the explorer speaks"
_SEARCHED = (
    "the proofs are of one group of layers that see all of the past; of others the explorer speaks"
)
UNPROVED: dict[str, str] = {
    **dict.fromkeys(
        (
            *("pass_over_blocks", "pad", "let_go", "drop_nulls", "tell_table"),
            *(f"GROUP-{n}" for n in range(8, 13)),
            *("GROUP-15", "GROUP-16", "GROUP-17"),
            *("ask_kind", "end_round", "publish_end", "publish_again"),
            *("note_before", "leave_gap", "move_state", "GROUP-33", "GROUP-37", "GROUP-51"),
        ),
        _SEARCHED,
    ),
    **dict.fromkeys(
        (
            *("begin_plan", "pass_item", "refer", "end_before", "evict_item", "plan_item"),
            *("end_plan", "take_input", "withdraw_input", "let_go_of", "wipe_embeddings"),
            *("hold_again", "leave_to_forget", "give_room_again", "plan_load", "take_load"),
            *(f"ENC-{n}" for n in (20, 21, 22, 24, *range(26, 29), *range(30, 33), 53, 55)),
        ),
        _ITEMS,
    ),
    **dict.fromkeys(
        ("take_vector", "UPD-52"),
        "the proofs are of requests for tokens; of those that want a vector the explorer speaks",
    ),
    **dict.fromkeys(
        ("tell_ends", "OUT-20"),
        "the proofs are of one client that hears of no ends; of others the explorer speaks",
    ),
    **dict.fromkeys(
        (
            *("send_chunk", "send_end", "take_chunk", "end_running_turn", "end_waiting_turn"),
            *("leave_queue", "refuse_chunk", "forget_table", "order_heap", "pass_again"),
            *(f"SESS-{n}" for n in (20, 21, 22, 24, 25, 26)),
        ),
        "the proofs are of requests that are no sessions; of these the explorer speaks",
    ),
    **dict.fromkeys(
        (
            *("learn", "doubt", "await_load", "end_load", "publish_loaded", "go_on_loaded"),
            *("give_back", "wait_anew", "quit_for_good", "keep", "end_one_way", "let_kept_go"),
            *("forget_kept", "report_unloaded", "find_short", "claim", "lose_load", "lack"),
            *("start_over", "give_up_on", "mark_lacking", "uncache_lacking", "evict_lacking"),
            *("take_to_load", "let_left_behind_go", "put_off", "take_back", "hold_off"),
            "reclaim",
            *(f"REMOTE-{n}" for n in (30, 31, 33, 37, 39, 53, 55, 56, 58)),
        ),
        "the proofs are of engines without a KV connector; of those with one the explorer speaks",
    ),
    **dict.fromkeys(
        ("get_nothing", "start_anew"),
        "the proofs are of steps that return every token they owe; of others the explorer speaks",
    ),
    "WAIT-49": "how many different adapters run is a cardinality of numbers, which the prover has "
    "not: it takes no adapters to be capped",
}
"""Rules, operations and invariants of which nothing is claimed, each with the reason."""


def claimed() -> tuple[Rule, ...]:
    """The rules of which something is claimed."""
    return tuple(rule for name, rule in RULES.items() if name not in UNPROVED)


def rules() -> tuple[Job, ...]:
    """A job for each of them."""
    return tuple(Job(r.name, "rule", r.body, r.sorts, keeps=True) for r in claimed())


def jobs() -> tuple[Job, ...]:
    """Everything that is proved, in the order of the argument."""
    return (INITIAL, *rules(), *MACHINE)
