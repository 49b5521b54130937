"""Encoder inputs: what a step computes, what it ends before, and what it evicts."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from nullblock.spec.facts import Encoder, Item
from nullblock.spec.invariants import INVARIANTS
from nullblock.spec.keys import items_from, items_in
from nullblock.spec.machine import events
from nullblock.spec.machine.schedule import schedule
from nullblock.spec.machine.update import update_from_output

sys.path.insert(0, str(Path(__file__).parent))
from world import CONFIG, arrive, new_state, step  # noqa: E402  (a module beside this one)

ENCODER = Encoder(max_num_encoder_input_tokens=3, encoder_cache_size=4)
IDS = [id for id, f in INVARIANTS.items() if f.__module__ == "nullblock.spec.invariants.encoder"]
assert {"ENC-20", "ENC-32"} <= set(IDS), "they are all there"


def state(**more: Any) -> Any:
    """The empty state of a world with an encoder; blocks have two tokens, steps seven."""
    return new_state(replace(CONFIG, encoder=ENCODER, **more))


def broken(s: Any) -> list[str]:
    """The invariants of encoder inputs that do not hold."""
    return [id for id in IDS if not INVARIANTS[id](s)]


def test_a_step_ends_before_an_item_that_it_may_not_compute_as_well() -> None:
    """ENC-2, ENC-3, OUT-14: two embeddings of three are spent, the next item needs two."""
    s = state()
    arrive(s, "a0", 7, 1, items=(Item(1, 1, 2), Item(2, 4, 2)))
    out = step(s)
    assert out.num_scheduled_tokens == (("a0", 4),)
    assert out.encoder_inputs == (("a0", 0),)
    out = step(s)
    assert out.num_scheduled_tokens == (("a0", 3),)
    assert out.encoder_inputs == (("a0", 1),)


def test_a_shared_item_is_computed_once_and_evicted_when_nobody_needs_it() -> None:
    """ENC-7, ENC-9, ENC-14, OUT-15: the second request finds it; a third item takes its room."""
    s = state()
    arrive(s, "a0", 3, 1, items=(Item(1, 0, 2),))
    arrive(s, "b1", 4, 1, items=(Item(1, 1, 2),))
    out = schedule(s)
    assert out.encoder_inputs == (("a0", 0),)
    assert s.users[1] == {"a0", "b1"} and (s.eroom, s.efree) == (2, 2)
    update_from_output(s)
    assert not s.users[1] and (s.eroom, s.efree) == (2, 4)
    arrive(s, "e2", 4, 1, items=(Item(2, 0, 3),))
    out = step(s)
    assert out.evicted_items == (1,) and out.encoder_inputs == (("e2", 0),)
    assert not broken(s)


def test_a_reset_has_an_item_computed_again() -> None:
    """ENC-15: a request that is inside it needs it still."""
    s = state(max_num_scheduled_tokens=2)
    arrive(s, "a0", 4, 1, items=(Item(1, 0, 3),))
    assert step(s).encoder_inputs
    events.reset_encoder_cache(s)
    assert step(s).encoder_inputs == (("a0", 0),)


def test_an_item_that_ends_beyond_its_prompt_is_held_until_outputs_have_passed_it() -> None:
    """ENC-14, ENC-24: two of its three tokens are outputs; behind them it is let go."""
    s = state()
    arrive(s, "a0", 3, 4, items=(Item(1, 2, 3), Item(2, 4, 0)))
    assert step(s).encoder_inputs == (("a0", 0),)
    assert s.users[1] == {"a0"} and not broken(s)
    step(s)
    assert s.users[1] == {"a0"}
    step(s)
    assert not s.users[1] and s.unused[1] and not broken(s)


def test_an_item_that_a_connector_has_is_loaded_and_costs_no_budget() -> None:
    """ENC-17, ENC-18, ENC-19, OUT-21: the second item needs room alone; whoever computes is told
    of first.
    """
    s = state()
    s.k.loads_items, s.k.external = True, frozenset({1})
    arrive(s, "a0", 6, 1, items=(Item(1, 0, 1), Item(2, 1, 2), Item(3, 3, 1)))
    out = schedule(s)
    assert out.encoder_inputs == (("a0", 1), ("a0", 2))
    assert out.connector_items == (("a0", 1), ("a0", 2), ("a0", 0))
    assert (s.eroom, s.ebudget) == (0, 0) and not broken(s)
    update_from_output(s)
    assert not broken(s)
    arrive(s, "b1", 4, 1, items=(Item(4, 0, 3),))
    assert step(s).connector_items == (("b1", 0),)


def test_what_could_not_be_computed_is_not_loaded_either() -> None:
    """ENC-18: an item of three embeddings, where one may still be computed."""
    s = state()
    s.k.loads_items, s.k.external = True, frozenset({2})
    arrive(s, "a0", 6, 1, items=(Item(1, 0, 2), Item(2, 3, 2)))
    out = step(s)
    assert out.num_scheduled_tokens == (("a0", 3),) and out.connector_items == (("a0", 0),)


def test_what_is_loaded_stays_when_its_request_leaves() -> None:
    """ENC-19, ENC-31: a load is under way whatever becomes of whom it is for."""
    s = state()
    s.k.loads_items, s.k.external = True, frozenset({1})
    arrive(s, "a0", 3, 1, items=(Item(1, 0, 2),))
    assert schedule(s).connector_items == (("a0", 0),)
    events.abort(s, "a0")
    assert s.kept[1] == 2 and s.unused[1] and not broken(s)


def test_a_block_is_known_by_the_items_that_are_found_in_it() -> None:
    """HASH-24: from the place of the last block on; one that an outer item hides is missed."""
    items = (Item(1, 0, 4), Item(2, 1, 1), Item(3, 4, 1))
    assert items_from(items, 0, 3, 0) == (((1, 0),), 0)
    assert items_from(items, 3, 6, 0) == (((1, -3), (3, 1)), 3)
    assert items_from(items, 3, 6, 2) == (((3, 1),), 3)
    assert items_from(items, 6, 9, 1) == ((), 1)
    assert items_in(items, 0, 3) == ((1, 0), (2, 1))
