"""Encoder-decoder models: what is computed with a request's first token, which blocks it has of
cross-attention layers, whose room it is, and what workers forget.
"""

import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from nullblock.spec.concrete import Env, initial
from nullblock.spec.cross import encodable_at_once
from nullblock.spec.explorer.model import Scope, Template
from nullblock.spec.explorer.search import explore
from nullblock.spec.facts import Config, Encoder, Group, Item, Request
from nullblock.spec.fields import ADVANCE
from nullblock.spec.invariants import INVARIANTS
from nullblock.spec.kernel import Disabled
from nullblock.spec.machine import cross, events
from nullblock.spec.machine.schedule import schedule
from nullblock.spec.machine.update import update_from_output
from nullblock.spec.profiles import NORMATIVE, VLLM_0_22_1
from nullblock.spec.rejection import why_unservable
from nullblock.spec.rules.cross import give_room_again, leave_to_forget
from nullblock.spec.state import servable

sys.path.insert(0, str(Path(__file__).parent))
from world import CONFIG, arrive, new_state, step  # noqa: E402  (a module beside this one)

FULL, WINDOW = Group(), Group(sliding_window=2)
ATTENDED = Group(cross=True)
SHORT, LONG = Item(1, 0, 2), Item(2, 0, 5)


def state(*groups: Group, encoder: tuple[int, int] = (8, 8), **more: Any) -> Any:
    """The empty state of a world with an encoder-decoder model; blocks have two tokens."""
    settings: dict[str, Any] = {
        "num_blocks": 20,
        "enable_prefix_caching": False,
        "encoder": Encoder(*encoder, is_encoder_decoder=True),
        "groups": groups or (FULL, ATTENDED),
        **more,
    }
    return new_state(replace(CONFIG, **settings))


def tables(s: Any, r: str) -> list[list[int]]:
    """The blocks of a request by group, 0 for the null block."""
    return [[s.tab[t, i] for i in range(s.tlen[t])] for t in s.k.tables(r)]


def holds(s: Any) -> bool:
    """Whether every invariant does."""
    return all(invariant(s) for invariant in INVARIANTS.values())


def test_whoever_is_admitted_gets_the_blocks_that_it_attends_to_and_never_more() -> None:
    """GROUP-50, GROUP-51: three for five embeddings, though the prompt has one token; they stay
    what they are while the other table grows.
    """
    s = state()
    arrive(s, "a0", 1, 4, items=(LONG,))
    step(s)
    assert tables(s, "a0") == [[1], [2, 3, 4]] and holds(s)
    step(s)
    step(s)
    assert tables(s, "a0") == [[1, 5], [2, 3, 4]] and holds(s)


def test_of_several_items_a_table_has_the_embeddings_together() -> None:
    """GROUP-50: seven embeddings need four blocks of two tokens, or three of three; a request
    without items has none.
    """
    for size, blocks in ((0, 4), (3, 3)):
        s = state(FULL, Group(cross=True, block_size=size))
        arrive(s, "a0", 2, 1, items=(SHORT, LONG))
        arrive(s, "b0", 2, 1)
        schedule(s)
        assert [s.tlen["a0", 1], s.tlen["b0", 1]] == [blocks, 0] and holds(s)


def test_what_does_not_fit_keeps_a_request_waiting() -> None:
    """GROUP-50, ALLOC-1, WAIT-3: one block short of those for the items it is not admitted, with
    or without reservation.
    """
    for reserve, blocks in product((True, False), (4, 5)):
        s = state(num_blocks=blocks, scheduler_reserve_full_isl=reserve, semantics=VLLM_0_22_1)
        arrive(s, "a0", 2, 1, items=(LONG,))
        assert bool(schedule(s).new) == (blocks == 5)


def test_every_item_is_computed_with_the_first_token_and_none_later() -> None:
    """ENC-50, ENC-55: both in the step that computes one token of three; in the next ones none,
    and again after a preemption.
    """
    s = state(max_num_scheduled_tokens=1)
    arrive(s, "a0", 3, 3, items=(SHORT, LONG))
    assert step(s).encoder_inputs == (("a0", 0), ("a0", 1))
    assert step(s).encoder_inputs == () and step(s).encoder_inputs == ()
    events.reset_prefix_cache(s, True)
    assert step(s).encoder_inputs == (("a0", 0), ("a0", 1)) and holds(s)


def test_an_item_is_shared_with_nobody() -> None:
    """ENC-50: it is computed once for each place of each request that has it, and takes room as
    often.
    """
    s = state()
    arrive(s, "a0", 2, 1, items=(SHORT, SHORT))
    arrive(s, "b0", 2, 1, items=(SHORT,))
    seen: list[int] = []
    s.k.observe = lambda reading, s: seen.append(s.eroom) or reading(s)
    out = schedule(s)
    assert out.encoder_inputs == (("a0", 0), ("a0", 1), ("b0", 0)) and seen == [2]


def test_a_request_whose_items_do_not_fit_waits_with_all_behind_it() -> None:
    """ENC-2: neither budget nor room is left for both; the one that would fit stands behind."""
    for encoder in ((6, 8), (8, 6)):
        s = state(encoder=encoder)
        arrive(s, "a0", 2, 2, items=(SHORT,))
        arrive(s, "b0", 2, 2, items=(LONG,))
        arrive(s, "c0", 2, 2)
        assert [q.id for q in step(s).new] == ["a0"]
        assert [q.id for q in step(s).new] == ["b0", "c0"] and holds(s)


def test_workers_forget_with_each_step_what_the_one_before_computed() -> None:
    """ENC-52, OUT-15: in its order, twice what was computed twice, and once told not again."""
    s = state()
    arrive(s, "a0", 2, 3, items=(LONG,))
    arrive(s, "b0", 2, 3, items=(SHORT,))
    assert step(s).evicted_items == ()
    arrive(s, "e0", 2, 3, items=(SHORT,))
    assert step(s).evicted_items == (2, 1)
    assert step(s).evicted_items == (1,)
    assert step(s).evicted_items == ()


def test_a_reset_forgets_what_workers_were_to_forget() -> None:
    """ENC-15: they are told otherwise; the room is whole."""
    s = state(semantics=VLLM_0_22_1)
    arrive(s, "a0", 2, 3, items=(LONG,))
    schedule(s)
    assert s.ngone == 1 and s.eroom == 3
    events.reset_encoder_cache(s)
    assert (s.ngone, s.eroom, s.efree) == (0, 8, 8)
    assert schedule(s).evicted_items == ()


def test_each_step_has_the_whole_room() -> None:
    """ENC-53: what one step computes is no loss to the next; in vllm-0.22.1 it is until the output
    has come, and then there is more with each.
    """
    room = {}
    for semantics in (NORMATIVE, VLLM_0_22_1):
        s = state(semantics=semantics)
        arrive(s, "a0", 2, 3, items=(LONG,))
        seen = []
        for _ in range(3):
            schedule(s)
            seen.append(s.eroom)
            update_from_output(s)
            seen.append(s.eroom)
        room[semantics] = seen
    assert room[NORMATIVE] == [8] * 6
    assert room[VLLM_0_22_1] == [3, 8, 8, 13, 13, 23]


def test_in_the_release_room_comes_back_to_those_who_never_had_any() -> None:
    """ENC-54: to one that is aborted while it waits, to one that is not admitted for want of
    slots, and once to a victim.
    """
    s = state(semantics=VLLM_0_22_1, num_blocks=5)
    arrive(s, "a0", 2, 3, items=(SHORT,))
    schedule(s)
    assert s.eroom == 6
    arrive(s, "b0", 2, 3, items=(LONG,))
    schedule(s)
    assert s.eroom == 11 and s.nwait == 1
    events.abort(s, "b0")
    assert s.eroom == 16
    events.reset_prefix_cache(s, True)
    assert s.eroom == 18
    s = state()
    arrive(s, "a0", 2, 3, items=(SHORT,))
    with pytest.raises(Disabled, match="room grows"):
        give_room_again(s, "a0")


def test_rules_are_asked_for_in_their_place() -> None:
    """ENC-52, ENC-54: nothing is noted twice, nor before the step is decided; nobody gives room
    who does not leave and has no output.
    """
    s = state(semantics=VLLM_0_22_1)
    arrive(s, "a0", 2, 3, items=(SHORT,))
    with pytest.raises(Disabled, match="the step is decided"):
        leave_to_forget(s)
    step(s)
    s.phase = ADVANCE
    with pytest.raises(Disabled, match="not noted yet"):
        leave_to_forget(s)
    s = state(semantics=VLLM_0_22_1)
    arrive(s, "a0", 2, 3, items=(SHORT,))
    schedule(s)
    with pytest.raises(Disabled, match="it gives room back"):
        give_room_again(s, "a0")


def test_a_request_is_refused_whose_items_are_too_many_for_one_step() -> None:
    """ENC-51: though each alone would fit; at the limit of both it is served."""
    for budget, room in product((6, 7), (6, 7)):
        s = state(encoder=(budget, room))
        arrive(s, "a0", 2, 1, items=(SHORT, LONG))
        assert (s.nwait == 1) == (budget == room == 7)
        assert encodable_at_once(s, "a0") == (budget == room == 7)


def test_reason_iff_unservable() -> None:
    """LIFE-11, ENC-51 and the reason agree: on the blocks that it attends to, and on its items."""
    seen = set()
    for blocks, groups, encoder, items in product(
        range(2, 8),
        ((FULL, ATTENDED), (Group(cross=True, block_size=3), WINDOW), (FULL,), (ATTENDED,)),
        ((4, 9), (9, 4), (9, 9)),
        ((), (SHORT,), (LONG,), (SHORT, LONG), (Item(3, 0, 9),)),
    ):
        config = Config(
            *(blocks, 2, 3, 2, 6),
            enable_prefix_caching=False,
            encoder=Encoder(*encoder, is_encoder_decoder=True),
            groups=groups,
        )
        s = initial(Env(config))
        s.k.requests["r"] = Request("r", 2, 2, items=items)
        reason = why_unservable(config, 2, 2, items)
        assert bool(servable(s, "r")) == (reason is None), (config, items, reason)
        seen.add(reason and reason.split()[0])
    assert seen == {None, "3", "items"}


SCOPE = Scope(
    "for-defects",
    "an encoder-decoder model, for planted defects",
    Config(
        *(7, 2, 3, 3, 8),
        enable_prefix_caching=False,
        scheduler_reserve_full_isl=False,
        encoder=Encoder(5, 5, is_encoder_decoder=True),
        groups=(FULL, ATTENDED),
    ),
    (
        Template("a", (1, 1), 3, items=(Item(1, 0, 3),)),
        Template("b", (2,), 3, items=(Item(2, 0, 2), Item(1, 0, 3))),
    ),
    every_rule=True,
)


def _never(*_: Any) -> bool:
    return False


def _always(*_: Any) -> bool:
    return True


DEFECTS: dict[str, tuple[str, Callable[..., Any], str]] = {
    "computed with every token": ("encoder.has_begun", _never, "ENC-55"),
    "never computed": ("encoder.has_begun", _always, "ENC-55"),
    "no blocks to attend to": ("sizes.attended", lambda s, t: 0, "GROUP-51"),
    "a block for each token too": (
        "sizes.attended",
        lambda s, t: s.k.encoder_tokens(s.k.owner(t)) + 2,
        "GROUP-51",
    ),
    "the room stays taken": ("rules.steps.close_encoder", lambda s: None, "ENC-53"),
    "never told to forget": ("machine.cross.is_told_to_forget", _always, "guard"),
}


def test_without_a_defect_the_scope_passes() -> None:
    """So that what is found below is the defect's."""
    assert explore(SCOPE).counterexample is None


@pytest.mark.parametrize("what", DEFECTS)
def test_a_planted_defect_is_found(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the statement that says so."""
    where, defect, breaks = DEFECTS[what]
    monkeypatch.setattr(f"nullblock.spec.{where}", defect)
    found = explore(SCOPE).counterexample
    assert found is not None and found.breaks == breaks, found and found.breaks


def test_of_other_models_nothing_is_noted() -> None:
    """ENC-52: their workers forget what is evicted."""
    s = new_state(replace(CONFIG, encoder=Encoder(8, 8)))
    arrive(s, "a0", 6, 3, items=(Item(1, 0, 2),))
    assert step(s).encoder_inputs == (("a0", 0),) and s.ngone == 0
    cross.note_inputs(s)
    assert s.ngone == 0
