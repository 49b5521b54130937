"""Mamba layers: what a table holds, what is hit and when, which blocks workers zero."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nullblock.conformance import driver
from nullblock.conformance.engines import make_engine
from nullblock.conformance.scenario import from_dict
from nullblock.spec.facts import Group
from nullblock.spec.hybrid import awaits_state
from nullblock.spec.invariants import INVARIANTS
from nullblock.spec.machine import events
from nullblock.spec.machine.schedule import schedule
from nullblock.spec.machine.update import update_from_output
from nullblock.spec.profiles import NORMATIVE, VLLM_0_22_1

sys.path.insert(0, str(Path(__file__).parent))
from world import CONFIG, arrive, new_state, step  # noqa: E402  (a module beside this one)

FULL, STATES = Group(), Group(mamba=True)
BESIDE = Group(mamba=True, num_speculative_blocks=2)


def state(*groups: Group, **more: Any) -> Any:
    """The empty state of a world with those groups; blocks have two tokens."""
    return new_state(replace(CONFIG, groups=groups, **{"num_blocks": 20, **more}))


def tables(s: Any, r: str) -> list[list[int]]:
    """The blocks of a request by group, 0 for the null block."""
    return [[s.tab[t, i] for i in range(s.tlen[t])] for t in s.k.tables(r)]


def holds(s: Any) -> bool:
    """Whether every invariant does."""
    return all(invariant(s) for invariant in INVARIANTS.values())


def test_of_computed_tokens_the_last_state_is_kept() -> None:
    """GROUP-1, GROUP-6: of seven computed tokens three states are given back: the next token needs
    the one after the seventh.
    """
    s = state(STATES)
    arrive(s, "a0", 7, 4)
    step(s)
    assert tables(s, "a0") == [[1, 2, 3, 4]]
    step(s)
    assert tables(s, "a0") == [[0, 0, 0, 4]] and holds(s)


def test_a_table_has_blocks_beside_those_of_its_tokens() -> None:
    """GROUP-23: two more than four blocks of tokens, in the table of Mamba layers alone."""
    s = state(FULL, BESIDE)
    arrive(s, "a0", 7, 4)
    step(s)
    assert tables(s, "a0") == [[1, 2, 3, 4], [5, 6, 7, 8, 9, 10]] and holds(s)


def test_as_many_states_are_kept_longer_as_there_are_blocks_beside() -> None:
    """GROUP-24: of seven computed tokens two may be taken back, so that the state after the fifth
    is needed, in the third block.
    """
    s = state(FULL, BESIDE)
    arrive(s, "a0", 7, 4)
    step(s)
    step(s)
    assert tables(s, "a0")[1] == [0, 0, 7, 8, 9, 10] and holds(s)


def test_a_state_is_not_hit_in_the_step_that_computes_it() -> None:
    """GROUP-25: the second request is turned away, and everybody behind; in the next step it hits
    the last state, with the null block before it.
    """
    s = state(FULL, STATES, max_num_scheduled_tokens=12, max_model_len=20, num_blocks=40)
    arrive(s, "a0", 5, 4)
    arrive(s, "a1", 5, 4)
    arrive(s, "b0", 1, 4)
    out = schedule(s)
    assert [q.id for q in out.new] == ["a0"] and not awaits_state(s)
    update_from_output(s)
    out = step(s)
    assert [(q.id, q.computed) for q in out.new] == [("a1", 4), ("b0", 0)]
    first, states = tables(s, "a1")
    assert first[:2] == tables(s, "a0")[0][:2]
    assert states[0] == 0 and states[1] == 5 and holds(s)


def test_workers_zero_what_full_attention_takes_beside_mamba_layers() -> None:
    """GROUP-26: the blocks of the group of full attention, and none where there are no Mamba
    layers.
    """
    s = state(STATES, FULL)
    arrive(s, "a0", 3, 4)
    assert step(s).to_zero == (3, 4) and s.nzero == 0
    assert step(s).to_zero == ()
    s = state(FULL, Group(sliding_window=3))
    arrive(s, "a0", 3, 4)
    assert step(s).to_zero == ()


ALIGNED = Group(mamba=True, aligned=True)
ALIGNED_BESIDE = Group(mamba=True, aligned=True, num_speculative_blocks=2)


def aligned(*groups: Group, **more: Any) -> Any:
    """The same where steps are cut to whole blocks."""
    return state(*groups, mamba_split=2, max_model_len=20, max_num_scheduled_tokens=5, **more)


def test_a_prefill_ends_its_steps_with_a_block_and_one_with_the_last() -> None:
    """GROUP-29: of nine tokens four and four, because the last whole block ends there; then the
    one that is left.
    """
    s = aligned(ALIGNED)
    arrive(s, "a0", 9, 4)
    assert [step(s).num_scheduled_tokens for _ in range(4)] == [
        *((("a0", 4),), (("a0", 4),), (("a0", 1),), (("a0", 1),))
    ]


def test_less_than_a_block_is_nothing_and_whoever_comes_behind_waits() -> None:
    """GROUP-29: one token is left of the budget, and the next request has three: it keeps its
    place, with nobody behind it tried.
    """
    s = aligned(ALIGNED)
    arrive(s, "a0", 9, 4)
    arrive(s, "b0", 3, 4)
    arrive(s, "c0", 1, 4)
    out = schedule(s)
    assert out.num_scheduled_tokens == (("a0", 4),) and s.nwait == 2 and holds(s)


def test_the_state_at_the_end_of_a_step_is_kept_behind_a_gap() -> None:
    """GROUP-27, GROUP-30, GROUP-31, GROUP-33: each step takes one block; the state that it begins
    with is noted, and given back when the next has begun with another.
    """
    s = aligned(ALIGNED)
    arrive(s, "a0", 9, 4)
    step(s)
    assert tables(s, "a0") == [[0, 1]] and s.before["a0"] == 0
    step(s)
    assert tables(s, "a0") == [[0, 1, 0, 2]] and s.before["a0"] == 2
    step(s)
    assert tables(s, "a0") == [[0, 0, 0, 2, 3]] and s.before["a0"] == 4 and holds(s)


WITHIN = Group(mamba=True, aligned=True, prefill_checkpoint_alignment=1)


def test_a_state_within_a_step_is_kept_where_the_last_whole_block_ends() -> None:
    """GROUP-72: the second step computes to the end of the prompt, without a stop before its last
    token; then three states are held, as many as may be.
    """
    s = aligned(WITHIN)
    arrive(s, "a0", 9, 4)
    step(s)
    assert tables(s, "a0") == [[1, 2]] and s.inner["a0"] == 4
    assert step(s).num_scheduled_tokens == (("a0", 5),)
    assert tables(s, "a0") == [[0, 2, 0, 3, 4]] and s.inner["a0"] == 9 and holds(s)
    assert s.k.most_held == 3


@pytest.mark.parametrize("name", ["spec", "reference"])
@pytest.mark.parametrize(("usable", "is_served"), [(2, False), (3, True)])
def test_a_pool_has_room_for_it(name: str, usable: int, is_served: bool) -> None:
    """LIFE-11: who needs three states at once is not taken in where there are two."""
    states = {"type": "mamba", "mamba_cache_mode": "align", "prefill_checkpoint_alignment": 1}
    config = {"block_size": 2, "num_blocks": usable + 1, "max_num_batched_tokens": 5}
    add = {"op": "add", "id": "a", "prompt": {"range": [0, 9]}, "max_tokens": 2}
    given = from_dict(
        {
            "config": config | {"groups": [states], "enable_chunked_prefill": True},
            "events": [add, {"op": "run", "max_steps": 30}],
        }
    )
    lines = map(json.loads, driver.run(given, make_engine(name, given.config, NORMATIVE)))
    ends = [o["finish"] for line in lines for o in line.get("outputs", ())]
    assert ("length" in ends) == is_served


def test_states_beside_move_behind_the_gap() -> None:
    """GROUP-32: both that would stand before the new state move along, in their order, and one
    block is taken.
    """
    s = aligned(ALIGNED_BESIDE)
    s.k.budget = 8
    arrive(s, "a0", 17, 2)
    step(s)
    assert tables(s, "a0") == [[0, 0, 0, 1, 2, 3]]
    step(s)
    assert tables(s, "a0") == [[0, 0, 0, 1, 0, 0, 0, 2, 3, 4]] and holds(s)


def test_a_state_goes_back_with_its_neighbours_or_when_it_was_the_last() -> None:
    """GROUP-28: the state of the first step, which the second began with, goes back in the third
    though null blocks stand behind it; one that no growth began with stays.
    """
    s = aligned(ALIGNED_BESIDE)
    s.k.budget = 8
    arrive(s, "a0", 17, 2)
    for _ in range(3):
        step(s)
    assert tables(s, "a0")[0][:8] == [0, 0, 0, 0, 0, 0, 0, 2] and holds(s)


def test_the_state_that_the_last_growth_began_with_does_not_end_the_row() -> None:
    """GROUP-28: no draft of the second step is accepted and both of the third are, so that two
    states are outlived at once; the nearer is the one that the last growth began with, and the
    one before it goes back with it, after it.
    """
    s = aligned(ALIGNED, num_spec_tokens=2)
    s.k.accepted = lambda s, r: 0 if s.ntok[r] == 2 else 2
    arrive(s, "a0", 1, 12)
    for _ in range(3):
        step(s)
    assert tables(s, "a0") == [[1, 2, 3]] and s.before["a0"] == 2
    step(s)
    assert tables(s, "a0") == [[0, 0, 3, 4]] and holds(s)
    assert sorted(s.stamp, key=lambda b: s.stamp[b])[-2:] == [2, 1]


def test_the_blocks_of_a_sink_do_not_keep_a_reset_from_being_done() -> None:
    """GROUP-34, GROUP-35: in normative; in vllm-0.22.1 they do."""
    for semantics in (NORMATIVE, VLLM_0_22_1):
        s = state(Group(sink_len=2), semantics=semantics)
        assert events.reset_prefix_cache(s, False) == (semantics == NORMATIVE)


def test_mamba_layers_hit_no_further_than_full_attention() -> None:
    """GROUP-36: full attention drops its last hit, and the state hit is the one there; in
    vllm-0.22.1 it is a block behind, where full attention has nothing.
    """
    for semantics, computed in ((NORMATIVE, 2), (VLLM_0_22_1, 4)):
        s = state(Group(eagle=True), Group(eagle=True, mamba=True), semantics=semantics)
        arrive(s, "a0", 5, 1)
        step(s)
        arrive(s, "a1", 5, 1)
        assert [q.computed for q in step(s).new] == [computed]
