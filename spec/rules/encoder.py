"""Encoder inputs: planned before a request asks for slots, computed with its tokens, let go.

The rules of the core call `open_encoder`, `forget_plan` and `forget_inputs` where a step begins,
where whoever planned has been served or not, and where the step goes to the workers; all else is
here, in `nullblock.spec.encoder` and in `nullblock.spec.planning`.
"""

from nullblock.spec.encoder import (
    are_loaded,
    first_passed,
    first_referred,
    has_inputs,
    has_room,
    has_scheduled,
    is_at_hand,
    is_found,
    is_held_elsewhere,
    is_loaded,
    is_oldest_unused,
    is_over,
    is_planned,
    is_repeated,
    is_unneeded,
    last_scheduled,
    looked_at,
    looks_at,
    must_end,
    needs_eviction,
    refers,
    size,
    stands_right,
    to_compute,
    tokens_before,
)
from nullblock.spec.fields import BACK, IDLE
from nullblock.spec.kernel import State, Value, both, either, neg, require, rule
from nullblock.spec.planning import enters_next, gives_up_all, is_settled_next, runs_next
from nullblock.spec.state import start, turn, uncut_to_admit, uncut_to_run

AT_THE_BEGINNING = "an encoder-decoder model's items stand at the beginning"


def open_encoder(s: State) -> None:
    """A step may compute as many embeddings as any."""
    if s.k.encodes:
        s.ebudget = s.k.encoder_budget


def forget_plan(s: State) -> None:
    """Nobody's inputs are planned."""
    if s.k.encodes:
        s.planning = 0
        s.plan = s.k.blank("plan")
        s.nplan = 0
        s.ntaken = 0
        if s.k.loads_items:
            s.loads = s.k.blank("loads")
            s.nload = 0
            s.nloaded = 0


def forget_inputs(s: State) -> None:
    """What the step computes and what it forgets is told: the next one begins anew. An
    encoder-decoder model has still to note what it computes (ENC-52).
    """
    if s.k.keeps_embeddings:
        s.inputs = s.k.blank("inputs")
        s.inputof = s.k.blank("inputof")
        s.ninput = 0
        s.newly = s.k.blank("newly")
        forget_asked(s)
    if s.k.encodes:
        s.gone = s.k.blank("gone")
        s.ngone = 0


def forget_asked(s: State) -> None:
    """What the encoder connector is told of the step is told."""
    if s.k.loads_items:
        s.asks = s.k.blank("asks")
        s.asksof = s.k.blank("asksof")
        s.nask = 0


def _ask(s: State, r: Value, i: Value) -> None:
    """The encoder connector is told that r's i-th item has room (OUT-21)."""
    if s.k.loads_items:
        s.asks[s.nask] = i + 1
        s.asksof[s.nask] = r
        s.nask += 1


def hold_place(s: State, r: Value, i: Value) -> None:
    """r refers to its i-th item for the sake of this place."""
    if s.k.sem.items_held_by_place:
        s.holds[r, i] = 1


@rule("ENC-5", "RI")
def begin_plan(s: State, r: Value, n: Value) -> None:
    """Encoder inputs are planned for the tokens that a request would get without them, before
    they are cut to whole blocks, anybody is preempted, or it asks for slots.

    Source: Scheduler.schedule, both phases.
    """
    require(s.planning == 0, "nobody's inputs are planned")
    require(both(s.asked == 0, s.leaving == 0), "nobody is being given slots")
    require(has_inputs(s, r), "it has encoder inputs")
    require(
        either(
            both(runs_next(s, r), n == uncut_to_run(s, r)),
            both(enters_next(s, r), n == uncut_to_admit(s, r), n >= 1),
        ),
        "it is its turn, and it would get so many tokens",
    )
    s.planning = 1
    s.planner = r
    s.pfrom = start(s, r)
    s.ptokens = n
    s.pitem = 0
    s.pcost = 0
    s.pload = 0
    s.pbudget = s.ebudget
    if n == 0:
        s.planning = 2


@rule("ENC-6")
def pass_item(s: State) -> None:
    """An item is passed if it is computed already, planned already, or if the step computes no
    token of it that stands for an embedding.

    Source: Scheduler._try_schedule_encoder_inputs.
    """
    require(looks_at(s), "the plan looks at an item")
    require(stands_right(s), AT_THE_BEGINNING)
    require(
        either(
            is_at_hand(s),
            both(neg(either(is_found(s), must_end(s), needs_eviction(s))), is_unneeded(s)),
        ),
        "nothing is to be computed for it",
    )
    s.pitem += 1


@rule("ENC-7")
def refer(s: State) -> None:
    """A request refers to embeddings that are in the cache as soon as it is counted upon that it
    gets the tokens: they are not evicted meanwhile.

    Source: EncoderCacheManager.check_and_update_cache.
    """
    require(looks_at(s), "the plan looks at an item")
    require(both(neg(is_at_hand(s)), is_found(s)), "whose embeddings are in the cache")
    n = looked_at(s)
    if s.unused[n] != 0:
        s.unused[n] = 0
        s.efree -= s.kept[n]
    s.users[n] = s.k.add(s.users[n], s.planner)
    hold_place(s, s.planner, s.pitem)
    s.pitem += 1


@rule("ENC-8")
def end_before(s: State) -> None:
    """A step that must end before an item computes the tokens before it, and needs nothing of what
    comes later.

    Source: Scheduler._try_schedule_encoder_inputs.
    """
    require(looks_at(s), "the plan looks at an item")
    require(neg(either(is_at_hand(s), is_found(s))), "whose embeddings are not in the cache")
    require(must_end(s), "and cannot be had, or not whole")
    s.ptokens = tokens_before(s)
    s.planning = 2


@rule("ENC-9", "I")
def evict_item(s: State, n: Value) -> None:
    """Room for an item is made by evicting those that nobody has referred to for longest; it stays
    made, whatever becomes of the request, and workers are told with this step.

    Source: EncoderCacheManager.can_allocate.
    """
    require(looks_at(s), "the plan looks at an item")
    require(neg(either(is_at_hand(s), is_found(s))), "whose embeddings are not in the cache")
    require(both(neg(must_end(s)), needs_eviction(s)), "and which needs more room")
    require(is_oldest_unused(s, n), "nobody has referred to the evicted one for longest")
    s.eroom += s.kept[n]
    s.kept[n] = 0
    s.made[n] = 0
    s.unused[n] = 0
    s.gone[s.ngone] = n
    s.ngone += 1


@rule("ENC-10")
def plan_item(s: State) -> None:
    """An item is to be computed if the step computes a token that stands for an embedding of it,
    and it is not in the cache.

    Source: Scheduler._try_schedule_encoder_inputs.
    """
    require(looks_at(s), "the plan looks at an item")
    require(neg(either(is_at_hand(s), is_found(s))), "whose embeddings are not in the cache")
    require(
        neg(either(must_end(s), needs_eviction(s), is_unneeded(s))), "are needed, and have room"
    )
    require(neg(is_loaded(s)), "and which no connector has")
    s.plan[s.nplan] = s.pitem
    s.nplan += 1
    s.pcost += size(s, s.planner, s.pitem)
    s.pitem += 1


@rule("ENC-17")
def plan_load(s: State) -> None:
    """An item that would be computed is loaded instead if an encoder connector has it; it needs
    the same room.

    Source: Scheduler._try_schedule_encoder_inputs, ECConnector.has_cache_item.
    """
    require(looks_at(s), "the plan looks at an item")
    require(neg(either(is_at_hand(s), is_found(s))), "whose embeddings are not in the cache")
    require(
        neg(either(must_end(s), needs_eviction(s), is_unneeded(s))), "are needed, and have room"
    )
    require(is_loaded(s), "and which a connector has")
    embeds = size(s, s.planner, s.pitem)
    s.loads[s.nload] = s.pitem
    s.nload += 1
    s.pcost += embeds
    s.pload += embeds
    s.pitem += 1


@rule("ENC-11")
def end_plan(s: State) -> None:
    """A plan ends with the last item that begins within the step.

    Source: Scheduler._try_schedule_encoder_inputs.
    """
    require(s.planning == 1, "inputs are being planned")
    require(is_over(s), "every item is looked at")
    s.planning = 2


@rule("ENC-12", "R")
def take_input(s: State, r: Value) -> None:
    """Once its slots are given, a request takes the room of each input that is planned: it counts
    as cached at once, is computed in this step, and other requests may refer to it.

    Source: EncoderCacheManager.allocate. In vllm-0.22.1 what the step may still compute is what it
    was when the plan was made, so that what victims have given back since is lost.
    """
    require(both(turn(s, r), is_planned(s, r)), "the request is being given slots")
    require(s.ntaken < s.nplan, "an input is to be taken")
    i = s.plan[s.ntaken]
    n = s.k.item(r, i)
    embeds = size(s, r, i)
    require(has_room(s, embeds), "there is room for it")
    s.eroom -= embeds
    s.efree -= embeds
    s.ebudget -= embeds
    if not s.k.sem.encoder_budget_comes_back:
        s.ebudget = s.pbudget - to_compute(s)
    s.inputs[s.ninput] = i + 1
    s.inputof[s.ninput] = r
    s.ninput += 1
    if s.k.keeps_embeddings:
        s.kept[n] = embeds
        s.users[n] = s.k.add(s.k.empty("R"), r)
        s.newly[n] = s.ninput
        s.made[n] = 1
        hold_place(s, r, i)
    _ask(s, r, i)
    s.ntaken += 1


@rule("ENC-19", "R")
def take_load(s: State, r: Value) -> None:
    """Behind its inputs a request takes the room of each item that is loaded for it: it counts as
    cached at once, and stays in the cache whatever becomes of the request.

    Source: EncoderCacheManager.allocate; Scheduler.schedule, external_load_encoder_input.
    """
    require(both(turn(s, r), is_planned(s, r)), "the request is being given slots")
    require(s.ntaken == s.nplan, "every input is taken")
    require(s.nloaded < s.nload, "an item is to be loaded")
    i = s.loads[s.nloaded]
    n = s.k.item(r, i)
    embeds = size(s, r, i)
    require(has_room(s, embeds), "there is room for it")
    s.eroom -= embeds
    s.efree -= embeds
    if s.k.keeps_embeddings:
        s.kept[n] = embeds
        s.users[n] = s.k.add(s.k.empty("R"), r)
        s.made[n] = 1
        hold_place(s, r, i)
    _ask(s, r, i)
    s.nloaded += 1


@rule("ENC-40", "RI")
def hold_again(s: State, r: Value, i: Value) -> None:
    """With an item that the step computes, or that is loaded, a request refers to it at all other
    places that the plan has passed for its sake.

    Source: Scheduler._allocate_encoder_inputs. Only in vllm-0.32.0.
    """
    require(both(turn(s, r), is_planned(s, r)), "the request is being given slots")
    require(both(s.ntaken == s.nplan, are_loaded(s)), "every input is taken")
    require(is_repeated(s, r, i), "an earlier one of them is the same")
    hold_place(s, r, i)


def _withdraw(s: State, n: Value, embeds: Value) -> None:
    s.ebudget += embeds
    s.inputs[s.newly[n] - 1] = 0
    s.newly[n] = 0
    s.made[n] = 0


@rule("ENC-13", "R")
def withdraw_input(s: State, v: Value) -> None:
    """In vllm-0.22.1 a victim's inputs are taken out of the step, last one first, and stay in the
    cache, where they are found though nobody computes them.

    Source: Scheduler.schedule, running phase. Normative takes back what nobody refers to (ENC-14).
    """
    require(neg(s.k.sem.inputs_taken_back), "victims' inputs are not taken back")
    require(both(s.leaving == BACK, v == s.leaver), "it goes back to the queue")
    require(has_scheduled(s, v), "the step computes an input of it")
    i = s.inputs[last_scheduled(s, v)] - 1
    _withdraw(s, s.k.item(v, i), size(s, v, i))


@rule("ENC-14", "RI")
def let_go_of(s: State, r: Value, i: Value) -> None:
    """Whoever is preempted, ends, or is not admitted refers to no embeddings any more; an output
    shows which items its request has passed. What nobody refers to may be evicted, last come last;
    but what this step was to compute is taken back: out of the step, and out of the cache.

    Of several items the first in the prompt goes first; of more than eight, in vllm-0.22.1, the
    first in a set of their places. Source: EncoderCacheManager.free,
    Scheduler._free_encoder_inputs; nothing is taken back in vllm-0.22.1.
    """
    require(refers(s, r, i), "it refers to the embeddings")
    require(
        either(
            both(gives_up_all(s, r), i == first_referred(s, r)),
            both(is_settled_next(s, r), i == first_passed(s, r)),
        ),
        "it needs them no more",
    )
    n = s.k.item(r, i)
    if s.k.sem.items_held_by_place:
        s.holds[r, i] = 0
    if neg(is_held_elsewhere(s, r, n)):
        s.users[n] = s.k.remove(s.users[n], r)
        _leave(s, n, size(s, r, i))


def _leave(s: State, n: Value, embeds: Value) -> None:
    """A request refers to item n, of which it has so many embeddings, no more: perhaps nobody
    does. Of one hash with two sizes the cache then goes by that of who left last.
    """
    if s.k.card(s.users[n]) == 0:
        s.kept[n] = embeds
        s.efree += embeds
        if both(s.k.sem.inputs_taken_back, s.newly[n] != 0):
            _withdraw(s, n, embeds)
            s.eroom += s.kept[n]
            s.kept[n] = 0
        else:
            s.unused[n] = s.uback
            s.uback += 1


@rule("ENC-15")
def wipe_embeddings(s: State) -> None:
    """A reset of the encoder cache forgets all embeddings, whoever refers to them: a request
    inside an item has it computed again.

    Workers are told otherwise. Source: Scheduler.reset_encoder_cache.
    """
    require(s.phase == IDLE, "between steps")
    require(s.leaving == 0, "nobody is half-way out")
    s.kept = s.k.blank("kept")
    s.users = s.k.blank("users")
    s.holds = s.k.blank("holds")
    s.unused = s.k.blank("unused")
    s.made = s.k.blank("made")
    s.gone = s.k.blank("gone")
    s.ngone = 0
    s.eroom = s.k.encoder_slots
    s.efree = s.k.encoder_slots
