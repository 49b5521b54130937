"""A KV connector beside layers that see a part of the past, and several groups: REMOTE-50 to
REMOTE-53, REMOTE-23 to REMOTE-28 of these.
"""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nullblock.spec.facts import Group
from nullblock.spec.fields import KEPT, PARTLY, REMOTE, WHOLLY
from nullblock.spec.invariants import INVARIANTS
from nullblock.spec.invariants.hybrid import more_is_cached_of_nulls
from nullblock.spec.kernel import Disabled
from nullblock.spec.machine.remote import received, remote_holds, report_failed
from nullblock.spec.machine.schedule import schedule
from nullblock.spec.machine.update import update_from_output
from nullblock.spec.profiles import NORMATIVE, VLLM_0_22_1
from nullblock.spec.rules.loaded import let_left_behind_go, take_to_load

sys.path.insert(0, str(Path(__file__).parent))
from world import CONFIG, arrive, new_state, step  # noqa: E402  (a module beside this one)

PLAIN = replace(CONFIG, num_blocks=20, max_num_scheduled_tokens=20, connector=True)
WINDOW = replace(PLAIN, groups=(Group(sliding_window=3),))
CHUNKS = replace(PLAIN, groups=(Group(attention_chunk_size=4),))
HYBRID = replace(PLAIN, groups=(Group(), Group(sliding_window=3)))


def holding(config: Any, prompt: int, remote: int, output: int = 4, **facts: Any) -> Any:
    """A state in which `a0` waits, of which the remote side holds so many tokens."""
    s = new_state(config)
    arrive(s, "a0", prompt, output, **facts)
    remote_holds(s, "a0", remote)
    return s


def table(s: Any, t: Any) -> list[int]:
    """The blocks of a table; 0 is the null block."""
    return [s.tab[t, i] for i in range(s.tlen[t])]


def otherwise(config: Any, **switches: bool) -> Any:
    """The same configuration with switches as the release has them."""
    return replace(config, semantics=replace(NORMATIVE, **switches))


@pytest.mark.parametrize("over_steps", [False, True])
@pytest.mark.parametrize("caching", [False, True])
def test_what_lies_before_the_window_is_not_loaded(over_steps: bool, caching: bool) -> None:
    """REMOTE-50: of nine tokens eight are loaded; the ninth sees the two before it, so that three
    of the four blocks are null, with prefix caching or without.
    """
    config = replace(WINDOW, enable_prefix_caching=caching)
    s = holding(config, 9, 8, loads_over_steps=over_steps)
    schedule(s)
    held = table(s, "a0")
    assert held[:3] == [0, 0, 0] and all(held[3:])
    assert s.comp["a0"] == (8 if over_steps else 9)
    assert s.nfree == s.k.usable - len(held[3:])


def test_a_hit_is_left_that_lies_before_the_window_behind_the_load() -> None:
    """REMOTE-50: the first block is cached; a request that loads beyond it does not hold it."""
    s = new_state(WINDOW)
    arrive(s, "b1", 3, 1)
    step(s)
    assert not s.nr and s.nfree == s.k.usable
    arrive(s, "a0", 7, 4)
    remote_holds(s, "a0", 6)
    out = schedule(s)
    assert [(q.id, q.computed) for q in out.new] == [("a0", 6)]
    assert table(s, "a0")[:2] == [0, 0]
    assert max(s.ref.values()) == 1


def test_the_last_token_of_a_loaded_prompt_has_what_it_sees() -> None:
    """REMOTE-50: where a prompt is loaded as a whole; in vllm-0.22.1 it lacks a block of that,
    and beside chunks all of them.
    """
    for config, behind in ((WINDOW, [0]), (CHUNKS, [0, 0])):
        for ours in (True, False):
            s = holding(otherwise(config, last_token_sees_back=ours), 4, 4, loads_over_steps=True)
            schedule(s)
            held = table(s, "a0")
            assert all(held) == ours
            assert ours or held[: len(behind)] == behind


def test_who_keeps_a_part_of_a_load_without_its_window_gives_all_back() -> None:
    """REMOTE-26: what is left is of use only if the next token has what it sees."""
    for lost, wholly in ((3, True), (4, False)):
        s = holding(WINDOW, 9, 9, loads_over_steps=True)
        schedule(s)
        assert table(s, "a0")[:3] == [0, 0, 0] and s.awaits["a0"] == REMOTE
        report_failed(s, [s.tab["a0", lost]])
        assert (s.failed["a0"] == WHOLLY) == wholly
    s = holding(replace(WINDOW, groups=(Group(sliding_window=9),)), 9, 9, loads_over_steps=True)
    schedule(s)
    report_failed(s, [s.tab["a0", 2]])
    assert (s.failed["a0"], s.left) == (PARTLY, 4)


def test_a_request_that_ends_gives_back_first_what_no_token_would_see() -> None:
    """REMOTE-52: before its blocks are kept, too; in a step that has not ended it may not."""
    s = holding(WINDOW, 6, 0, output=1, delays_free=True)
    schedule(s)
    held = table(s, "a0")
    with pytest.raises(Disabled):
        let_left_behind_go(s, "a0", held[0])
    update_from_output(s)
    assert s.stage["a0"] == KEPT
    assert table(s, "a0") == [0, 0, held[2]]
    assert 0 < s.stamp[held[1]] < s.stamp[held[0]]


def test_tables_take_what_they_load_into_before_other_blocks() -> None:
    """REMOTE-51: first hits, then blocks to load into, of one group after the other; then the
    blocks that the step computes.
    """
    s = holding(HYBRID, 6, 4)
    schedule(s)
    full, part = ("a0", 0), ("a0", 1)
    assert table(s, full) == [1, 2, 4] and table(s, part) == [0, 3, 5]
    with pytest.raises(Disabled):
        take_to_load(s, full, 6)


def test_a_group_takes_no_block_that_a_later_one_hits() -> None:
    """REMOTE-51: in vllm-0.22.1 it does, and two groups write to one block (upstream 33775)."""
    for ours in (True, False):
        config = replace(otherwise(HYBRID, hits_precede_loads=ours), num_blocks=7)
        s = new_state(config)
        arrive(s, "b1", 2, 1)
        arrive(s, "c1", 3, 1, skip_reading_prefix_cache=True)
        step(s)
        assert s.nfree == s.k.usable
        arrive(s, "a0", 4, 1, loads_over_steps=False)
        remote_holds(s, "a0", 3)
        schedule(s)
        shared = set(table(s, ("a0", 0))) & set(table(s, ("a0", 1)))
        assert bool(shared) != ours


@pytest.mark.parametrize("over_steps", [False, True])
@pytest.mark.parametrize("ours", [False, True])
def test_workers_do_not_zero_what_a_load_writes_to(over_steps: bool, ours: bool) -> None:
    """REMOTE-57, REMOTE-58: of full attention beside Mamba layers the blocks that a load over
    several steps writes to are left alone, and those that a step computes are zeroed; in
    vllm-0.22.1 all are (upstream 48481).
    """
    config = replace(otherwise(PLAIN, loads_not_zeroed=ours), groups=(Group(), Group(mamba=True)))
    s = holding(config, 6, 4, loads_over_steps=over_steps)
    arrive(s, "b1", 3, 1)
    zeroed = set(schedule(s).to_zero)
    loaded, computed = set(table(s, ("a0", 0))[:2]), set(table(s, ("b1", 0)))
    assert computed <= zeroed and len(loaded) == 2
    assert loaded <= zeroed or loaded.isdisjoint(zeroed)
    assert (loaded <= zeroed) == (not over_steps or not ours)
    assert not zeroed & set(table(s, ("a0", 1)))


def test_what_a_load_of_several_groups_brought_is_cached_of_each() -> None:
    """REMOTE-14, REMOTE-15, REMOTE-53: nulls count as cached while the load is under way, and
    nothing else does.
    """
    s = holding(HYBRID, 6, 6, loads_over_steps=True)
    step(s)
    full, part = ("a0", 0), ("a0", 1)
    assert (s.ncached[full], s.ncached[part]) == (0, 1) and more_is_cached_of_nulls(s)
    s.ncached[part] = 2
    assert not more_is_cached_of_nulls(s)
    s.ncached[part] = 1
    assert received(s, "a0")
    out = schedule(s)
    assert [(q.id, q.computed) for q in out.new] == [("a0", 5)]
    assert s.ncached[full] == s.ncached[part] == 3


@pytest.mark.parametrize("ends", [False, True])
def test_who_lacks_a_block_of_one_of_several_groups_starts_over_or_ends(ends: bool) -> None:
    """REMOTE-24, REMOTE-28, REMOTE-35, REMOTE-55, REMOTE-56: what lies before the first block that
    one of the tables lacks stays in the cache, of each.
    """
    s = holding(replace(HYBRID, fail_failed_loads=ends), 9, 8)
    schedule(s)
    full, part = table(s, ("a0", 0)), table(s, ("a0", 1))
    assert s.hsh[full[1]] is not None and s.hsh[part[3]] is not None and part[:3] == [0, 0, 0]
    report_failed(s, [full[2], part[3]])
    if ends:
        assert s.comp["a0"] == 4 and s.k.mem(s.missing, "a0")
    else:
        assert (s.nr, s.comp["a0"], s.tlen["a0", 0]) == (0, 0, 0)
    cached = [b for b in (*full, *part[3:]) if s.hsh[b] is not None]
    assert cached == full[:2], "and no more"
    update_from_output(s)
    assert [id for id, holds in INVARIANTS.items() if not holds(s)] == []


def test_of_several_groups_nothing_is_kept_of_a_load_that_failed() -> None:
    """REMOTE-26, REMOTE-16: what one of them has left need not be what the other can go on from,
    though the full attention has a block left. In vllm-0.22.1 a report is not taken (REMOTE-23).
    """
    s = holding(HYBRID, 9, 8, loads_over_steps=True)
    schedule(s)
    report_failed(s, [table(s, ("a0", 0))[1]])
    assert (s.comp["a0"], s.failed["a0"]) == (2, WHOLLY)
    update_from_output(s)
    received(s, "a0")
    out = schedule(s)
    assert [(q.id, q.computed) for q in out.new] == [("a0", 0)]
    s = holding(replace(HYBRID, semantics=VLLM_0_22_1), 9, 8)
    schedule(s)
    with pytest.raises(Disabled, match="of several groups a report is taken"):
        report_failed(s, [table(s, ("a0", 0))[1]])
