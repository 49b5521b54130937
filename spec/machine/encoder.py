"""Loops over the rules of encoder inputs."""

from nullblock.spec.encoder import (
    first_passed,
    first_referred,
    first_repeated,
    has_inputs,
    has_let_go,
    has_repeated,
    has_scheduled,
    is_at_hand,
    is_found,
    is_input_of,
    is_loaded,
    is_over,
    is_repeated,
    is_unneeded,
    must_end,
    needs_eviction,
    oldest_unused,
    refers,
    refers_to_any,
)
from nullblock.spec.fields import ENCODER, ENCODER_GHOST, PLAN
from nullblock.spec.gate import fits_whole
from nullblock.spec.kernel import State, Value, both, either, loop, neg
from nullblock.spec.machine.cross import give_room_back, give_room_with_output
from nullblock.spec.planning import plans_nothing
from nullblock.spec.remote import loads_later
from nullblock.spec.rules.encoder import (
    begin_plan,
    end_before,
    end_plan,
    evict_item,
    hold_again,
    let_go_of,
    pass_item,
    plan_item,
    plan_load,
    refer,
    take_input,
    take_load,
    withdraw_input,
)
from nullblock.spec.state import has_no_tokens, may_chunk

ENCODER_LOOP = frozenset(ENCODER | PLAN | ENCODER_GHOST)


def look_at_item(s: State) -> None:
    """The next item of a plan: nothing to do, in the cache, not to be had, or to be computed once
    there is room, or loaded (ENC-1 to ENC-3, ENC-17).
    """
    if is_over(s):
        end_plan(s)
    elif is_at_hand(s):
        pass_item(s)
    elif is_found(s):
        refer(s)
    elif must_end(s):
        end_before(s)
    elif needs_eviction(s):
        evict_item(s, oldest_unused(s))
    elif is_unneeded(s):
        pass_item(s)
    elif is_loaded(s):
        plan_load(s)
    else:
        plan_item(s)


def plan_inputs(s: State, r: Value, n: Value) -> None:
    """Plan which inputs of r a step over n tokens computes, and how many tokens are left of it."""
    if has_inputs(s, r):
        begin_plan(s, r, n)
        for _ in loop(
            s,
            until=lambda: s.planning == 2,
            decreases=lambda: s.k.num_items(r) - s.pitem + s.efree - s.eroom + 2 - s.planning,
            changes=ENCODER_LOOP,
        ):
            look_at_item(s)


def take_inputs(s: State, r: Value) -> None:
    """Take the room of all inputs that are planned for r, whose slots are given."""
    if has_inputs(s, r):
        for _ in loop(
            s,
            until=lambda: s.ntaken >= s.nplan,
            decreases=lambda: s.nplan - s.ntaken,
            changes=ENCODER_LOOP,
        ):
            take_input(s, r)
        take_loads(s, r)
        hold_repeated(s, r)


def take_loads(s: State, r: Value) -> None:
    """Take the room of all items that an encoder connector loads for r (ENC-19)."""
    if s.k.loads_items:
        for _ in loop(
            s,
            until=lambda: s.nloaded >= s.nload,
            decreases=lambda: s.nload - s.nloaded,
            changes=ENCODER_LOOP,
        ):
            take_load(s, r)


def hold_repeated(s: State, r: Value) -> None:
    """In vllm-0.32.0 refer to what is taken at its other places too (ENC-40)."""
    if s.k.sem.items_held_by_place:
        for _ in loop(
            s,
            until=lambda: neg(has_repeated(s, r)),
            decreases=lambda: s.k.count("I", lambda i: is_repeated(s, r, i)),
            changes=ENCODER_LOOP,
        ):
            hold_again(s, r, first_repeated(s, r))


def let_inputs_go(s: State, r: Value) -> None:
    """r, who leaves or does not enter, refers to no embeddings any more."""
    give_room_back(s, r)
    if s.k.encodes:
        for _ in loop(
            s,
            until=lambda: neg(refers_to_any(s, r)),
            decreases=lambda: s.k.count("I", lambda i: refers(s, r, i)),
            changes=ENCODER_LOOP,
        ):
            let_go_of(s, r, first_referred(s, r))


def withdraw_inputs(s: State, v: Value) -> None:
    """The victim v refers to no embeddings any more; in vllm-0.22.1 nobody computes its inputs
    (ENC-13, ENC-14).
    """
    if s.k.encodes:
        if not s.k.sem.inputs_taken_back:
            for _ in loop(
                s,
                until=lambda: neg(has_scheduled(s, v)),
                decreases=lambda: s.k.count("I", lambda i: is_input_of(s, v, i)),
                changes=ENCODER_LOOP,
            ):
                withdraw_input(s, v)
        let_inputs_go(s, v)


def plan_to_enter(s: State, r: Value, n: Value) -> None:
    """Plan the inputs of r, whose prefix is looked up, and let them go again if r cannot enter for
    want of slots. One that gets no token keeps what it refers to, and one that only asks for the
    blocks to load into plans none.
    """
    if s.k.encodes:
        if may_chunk(s, r):
            if neg(either(loads_later(s, r), plans_nothing(s, r))):
                plan_inputs(s, r, n)
            if both(neg(has_no_tokens(s, r)), neg(fits_whole(s, r))):
                let_inputs_go(s, r)


def let_passed_go(s: State, r: Value) -> None:
    """An output of r shows which of its items are wholly computed: the KV cache has what came of
    them (ENC-14).
    """
    give_room_with_output(s, r)
    if s.k.encodes:
        for _ in loop(
            s,
            until=lambda: has_let_go(s, r),
            decreases=lambda: s.k.count("I", lambda i: refers(s, r, i)),
            changes=ENCODER_LOOP,
        ):
            let_go_of(s, r, first_passed(s, r))
