"""Several KV-cache groups: whose turn a table is, what all accept as a hit, what fits."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nullblock.spec.explorer.frame import frame
from nullblock.spec.explorer.narrator import Narrator
from nullblock.spec.explorer.story import standing
from nullblock.spec.facts import Group
from nullblock.spec.fields import LEAVING
from nullblock.spec.hybrid import lacking, lacking_whole
from nullblock.spec.invariants import INVARIANTS
from nullblock.spec.kernel import Disabled
from nullblock.spec.machine import events
from nullblock.spec.machine.blocks import withdraw
from nullblock.spec.machine.schedule import schedule
from nullblock.spec.machine.update import update_from_output
from nullblock.spec.rules.pool import push_new, uncache

sys.path.insert(0, str(Path(__file__).parent))
from world import CONFIG, arrive, new_state, observed, step  # noqa: E402  (a module beside this one)

FULL, WINDOW = Group(), Group(sliding_window=3)


def state(*groups: Group, **more: Any) -> Any:
    """The empty state of a world with those groups; blocks have two tokens."""
    return new_state(replace(CONFIG, groups=groups, **{"num_blocks": 20, **more}))


def tables(s: Any, r: str) -> list[list[int]]:
    """The blocks of a request by group, 0 for the null block."""
    return [[s.tab[t, i] for i in range(s.tlen[t])] for t in s.k.tables(r)]


def holds(s: Any) -> bool:
    """Whether every invariant does."""
    return all(invariant(s) for invariant in INVARIANTS.values())


def test_each_group_has_a_table_that_gives_back_what_its_own_layers_do_not_see() -> None:
    """GROUP-13, OUT-2, OUT-4: blocks are taken group by group; the window's table alone loses
    some, and shares nothing in front.
    """
    s = state(FULL, WINDOW)
    arrive(s, "a0", 7, 4)
    out = step(s)
    assert out.new[0].blocks == ((1, 2, 3, 4), (5, 6, 7, 8))
    out = step(s)
    assert tables(s, "a0") == [[1, 2, 3, 4], [0, 0, 7, 8]]
    assert out.cached[0].new_blocks == ((), ())
    assert out.common_prefixes == [4, 0] and holds(s)


def test_a_table_waits_for_the_groups_before_it() -> None:
    """GROUP-13: the second group takes nothing before the first has all."""
    s = state(FULL, WINDOW)
    arrive(s, "a0", 7, 1)
    refused: list[Exception] = []
    real = push_new.body

    def second_first(s: Any, t: Any, b: Any) -> None:
        if s.k.group(t) == 0 and not refused:
            with pytest.raises(Disabled, match="none is in tables before it") as caught:
                real(s, s.k.table(s.k.owner(t), 1), b)
            refused.append(caught.value)
        real(s, t, b)

    push_new.body = second_first
    try:
        schedule(s)
    finally:
        push_new.body = real
    assert refused and holds(s)


def test_hashes_are_taken_back_for_one_group_after_the_other() -> None:
    """PREEMPT-3, GROUP-13: the second group loses none while the first names what nobody has
    computed.
    """
    s = state(FULL, WINDOW)
    arrive(s, "a0", 7, 4)
    schedule(s)
    first, second = s.k.tables("a0")
    s.stage["a0"], s.comp["a0"] = LEAVING, 0
    assert s.ncached[first] == s.ncached[second] == 3
    with pytest.raises(Disabled, match="tables before it are done"):
        uncache(s, second)
    withdraw(s, "a0")
    assert s.ncached[first] == s.ncached[second] == 0


@pytest.mark.parametrize(
    ("group", "place", "hits"),
    [(0, 3, 3), (0, 1, 1), (1, 3, 3), (1, 0, 4)],
)
def test_a_hit_is_what_every_group_accepts(group: int, place: int, hits: int) -> None:
    """GROUP-14: of four cached blocks one is evicted. Full attention needs all in front; a window
    of three tokens needs the last one, and looks at no earlier.
    """
    s = state(FULL, WINDOW)
    arrive(s, "a0", 9, 1)
    schedule(s)
    blocks = tables(s, "a0")
    update_from_output(s)
    step(s)
    assert s.nr == 0
    events.evict_blocks(s, [blocks[group][place]])
    arrive(s, "a1", 9, 1)
    out = schedule(s)
    assert out.new[0].computed == 2 * hits
    seen = [0] * (hits - 1) + [blocks[1][hits - 1]]
    assert [table[:hits] for table in tables(s, "a1")] == [blocks[0][:hits], seen]
    assert holds(s)


def test_slots_are_given_in_all_groups_or_in_none() -> None:
    """ALLOC-1: eight blocks for two tables of four; with seven nothing is taken."""
    for num_blocks, granted in ((9, 7), (8, 0)):
        s = state(FULL, FULL, num_blocks=num_blocks, enable_prefix_caching=False)
        arrive(s, "a0", 7, 1)
        assert dict(step(s).num_scheduled_tokens).get("a0", 0) == granted
        assert granted or tables(s, "a0") == [[], []]
        assert holds(s)


def test_what_is_lacking_is_counted_by_group_and_the_gate_knows_the_window() -> None:
    """ALLOC-1, GROUP-3: of the ten blocks of twenty tokens full attention asks for all, the window
    for its cap.
    """
    s = state(FULL, WINDOW, max_model_len=30)
    arrive(s, "a0", 20, 1)
    assert lacking(s, "a0", 20) == 20
    cap = s.k.config.admission_cap(WINDOW)
    assert 0 < cap < 10 and lacking_whole(s, "a0", 20) == 10 + cap


def test_a_story_tells_the_blocks_of_every_group() -> None:
    """Those that are taken, hashed, taken back and released, table by table."""
    s = state(FULL, WINDOW)
    narrator = Narrator()

    def run() -> None:
        arrive(s, "a0", 5, 4)
        step(s)
        assert standing(frame(s)).startswith("running a0 5/6 [1* 2* 3 | 4* 5* 6]")
        schedule(s)
        events.reset_prefix_cache(s, True)

    observed(narrator.rule, run)
    assert narrator.told() == [
        "a0 waits: 5 prompt tokens, max_tokens 4",
        "a0 is admitted: 5 tokens, takes blocks 1 2 3 4 5 6, hashes blocks 1 2 4 5",
        "a0 takes output token 1",
        "a0 goes on: 1 token, hashes blocks 3 6",
        "a0 is preempted by the reset, releases blocks 3 2 1 6 5",
        "every hash is forgotten",
    ]
