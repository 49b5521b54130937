"""Several KV-cache groups under an EAGLE-like method: kinds of layers that are asked in turn."""

import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nullblock.spec import in_turn
from nullblock.spec.explorer.hybrid_scopes import HYBRID_EAGLE_SIZES
from nullblock.spec.explorer.search import explore
from nullblock.spec.facts import Group
from nullblock.spec.fields import LOOKUP
from nullblock.spec.invariants import INVARIANTS
from nullblock.spec.kernel import Disabled
from nullblock.spec.machine import events
from nullblock.spec.machine.schedule import schedule
from nullblock.spec.machine.update import update_from_output
from nullblock.spec.profiles import NORMATIVE, VLLM_0_22_1
from nullblock.spec.rules.in_turn import end_round

sys.path.insert(0, str(Path(__file__).parent))
from world import CONFIG, arrive, new_state, observed, step  # noqa: E402  (a module beside this one)

ROOM = {"num_blocks": 60, "max_model_len": 20, "max_num_scheduled_tokens": 40}
FULL, MARKED = Group(), Group(eagle=True)


def window(size: int, eagle: bool = True, **more: Any) -> Group:
    """A sliding window, of an EAGLE-like method or not."""
    return Group(sliding_window=size, eagle=eagle, **more)


def hit(
    groups: tuple[Group, ...], prompt: int, gone: tuple[tuple[int, int], ...] = (), **more: Any
) -> int:
    """Tokens that the second of two equal prompts hits, blocks of two tokens; `gone`: group and
    place of what is evicted before.
    """
    s = new_state(replace(CONFIG, groups=groups, **{**ROOM, **more}))
    arrive(s, "a0", prompt, 1)
    schedule(s)
    blocks = [s.tab[s.k.table("a0", group), place] for group, place in gone]
    update_from_output(s)
    step(s)
    assert s.nr == 0
    events.evict_blocks(s, blocks)
    arrive(s, "a1", prompt, 1)
    found = int(schedule(s).new[0].computed)
    assert all(invariant(s) for invariant in INVARIANTS.values())
    rest = (getattr(s, f) for f in ("looking", "span", "tried", "kind", "calm"))
    assert not any(rest) and not s.reach
    return found


def test_every_kind_drops_its_last_hit_and_they_agree_in_rounds() -> None:
    """GROUP-60, GROUP-61: of four cached blocks three are hit; what one kind lacks the others are
    asked about again.
    """
    three = (MARKED, window(3), window(5))
    assert hit(three, 9) == 6
    assert hit(three, 9, ((2, 3),)) == 4
    assert hit(three, 9, ((0, 1),)) == 0
    assert hit((window(3), window(5)), 9) == 6


@pytest.mark.parametrize(("marked", "computed"), [(True, 2), (False, 0)])
def test_a_drop_is_settled_until_a_kind_that_drops_none_shortens_the_hit(
    marked: bool, computed: int
) -> None:
    """GROUP-62: the first window has the blocks 0, 2 and 3, the second 0 and 1. A second window
    that drops its hit leaves one block, which the first accepts as it is; one that drops none
    leaves two, and the first has to drop one again, and has none to drop.
    """
    groups = (MARKED, window(3), window(5, marked))
    assert hit(groups, 9, ((1, 1), (2, 2), (2, 3))) == computed


def test_beside_full_attention_one_other_kind_is_asked_once() -> None:
    """GROUP-61: of a window of one token the block behind the hit is there, and the last one of
    it need not be; a third kind, which shortens nothing, makes that a question, twice.
    """
    gone = ((1, 2),)
    assert hit((FULL, window(1)), 9, gone) == 6
    assert hit((FULL, window(1), window(2, eagle=False)), 9, gone) == 2


def second(groups: tuple[Group, ...], *gone: tuple[int, int], **switches: bool) -> list[list[int]]:
    """The tables of the second of two equal prompts of nine tokens, right after its admission:
    block i of group g is 5 g + i + 1 where it is that of the first; `gone`: group and place of
    what is evicted before.
    """
    semantics = replace(NORMATIVE, **switches)
    s = new_state(replace(CONFIG, groups=groups, **ROOM, semantics=semantics))  # type: ignore[arg-type]
    arrive(s, "a0", 9, 1)
    schedule(s)
    blocks = [s.tab[s.k.table("a0", group), place] for group, place in gone]
    update_from_output(s)
    step(s)
    events.evict_blocks(s, blocks)
    arrive(s, "a1", 9, 1)
    schedule(s)
    return [[s.tab[t, i] for i in range(s.tlen[t])] for t in s.k.tables("a1")]


@pytest.mark.parametrize(("again", "seen"), [(True, [6, 7]), (False, [0, 0])])
def test_chunks_that_end_within_a_block_are_asked_again(again: bool, seen: list[int]) -> None:
    """GROUP-61: of chunks of five tokens the block is gone in which the second begins. A hit of
    two blocks ends in the first chunk, all of which the next token sees; looked for is only what
    is behind it, unless the kind is asked again.
    """
    full, chunked = second((FULL, Group(attention_chunk_size=5)), (1, 2), chunks_asked_again=again)
    assert full[:3] == [1, 2, 11] and chunked[:2] == seen and 8 not in chunked


@pytest.mark.parametrize(("again", "hit_by_both"), [(True, [1]), (False, [1, 2])])
def test_what_was_not_looked_for_may_be_gone(again: bool, hit_by_both: list[int]) -> None:
    """GROUP-61: of the first chunk the last block, too. Then less is hit where it is asked for."""
    gone = ((1, 1), (1, 2))
    full, _ = second((FULL, Group(attention_chunk_size=5)), *gone, chunks_asked_again=again)
    assert [block for block in full if block <= 5] == hit_by_both


def test_whole_chunks_are_asked_once() -> None:
    """GROUP-61: where each chunk ends with a block nobody need be asked in turn, in either
    profile; nor in normative where one does not.
    """
    for semantics in (NORMATIVE, VLLM_0_22_1):
        for size, in_turn_ in ((4, False), (5, semantics is VLLM_0_22_1)):
            groups = FULL, Group(attention_chunk_size=size)
            s = new_state(replace(CONFIG, groups=groups, semantics=semantics))
            assert s.k.in_turn == in_turn_, (size, semantics)


@pytest.mark.parametrize("alike", [True, False])
@pytest.mark.parametrize(("marked", "agreed"), [(False, 3), (True, 2)])
def test_hits_of_all_full_attention_end_where_all_agree(
    marked: bool, agreed: int, alike: bool
) -> None:
    """GROUP-65: a window leaves three of four hits, and two if an EAGLE-like method has it. The
    second kind of full attention, one with a sink, keeps all four where only the first is cut.
    """
    groups = (FULL, Group(sink_len=2), window(3, eagle=marked))
    first, other, _ = second(groups, (2, 3), hits_cut_alike=alike)
    assert [block for block in first if block <= 5] == [1, 2, 3][:agreed]
    assert [block for block in other if block <= 10] == [6, 7, 8, 9][: agreed if alike else 4]


@pytest.mark.parametrize(
    ("groups", "raises"),
    [
        ((Group(attention_chunk_size=4, eagle=True),), True),
        ((Group(attention_chunk_size=4),), False),
        ((FULL, Group(attention_chunk_size=4, eagle=True)), True),
        ((MARKED, Group(attention_chunk_size=4)), False),
        ((Group(block_size=4), Group(attention_chunk_size=4)), True),
        ((Group(), Group(attention_chunk_size=4, block_size=4)), False),
    ],
)
def test_chunks_that_nobody_can_look_up_raise(groups: tuple[Group, ...], raises: bool) -> None:
    """WAIT-6: those that would drop a hit, and those with blocks smaller than a hit's unit; not of
    a request that refuses hits.
    """
    s = new_state(replace(CONFIG, groups=groups, **ROOM))  # type: ignore[arg-type]
    arrive(s, "a0", 5, 1, skip_reading_prefix_cache=True)
    assert schedule(s).new
    arrive(s, "a1", 5, 1)
    with pytest.raises(Disabled, match="no lookup drops") if raises else nullcontext():
        assert schedule(s).new


@pytest.mark.parametrize(("reaches", "computed"), [(False, 4), (True, 6)])
def test_what_is_dropped_ends_before_the_last_token_or_with_it(
    reaches: bool, computed: int
) -> None:
    """GROUP-63: a block further, and in vllm-0.32.0 be it the last token's."""
    semantics = replace(NORMATIVE, dropped_hits_reach_on=reaches)
    groups = (FULL, window(3), window(5, eagle=False))
    assert hit(groups, 8, semantics=semantics) == computed


@pytest.mark.parametrize(
    ("prompt", "gone", "computed"),
    [(18, (), 16), (17, (), 8), (18, ((1, 8),), 8), (18, ((1, 7),), 8), (18, ((1, 4), (1, 7)), 0)],
)
def test_what_is_dropped_is_cached_behind_an_end_or_not(
    prompt: int, gone: tuple[tuple[int, int], ...], computed: int
) -> None:
    """GROUP-18, GROUP-19: of a window of three tokens in blocks of two, beside blocks of eight, a
    hit needs the block before its end and the one behind it. In vllm-0.32.0 these are cached, the
    latter if it is full; elsewhere the latter is not, and nothing is hit.
    """
    groups = (Group(block_size=8), window(3))
    reaches = replace(NORMATIVE, dropped_hits_reach_on=True)
    assert hit(groups, prompt, gone, semantics=reaches) == computed
    assert hit(groups, prompt, gone) == 0


@pytest.mark.parametrize(
    ("groups", "prompt", "cached"),
    [
        ((Group(block_size=8), window(3)), 19, [3, 4, 7, 8]),
        ((Group(block_size=8), window(1)), 19, [4, 8]),
        ((Group(block_size=8), window(6)), 17, list(range(8))),
        ((Group(block_size=8), window(3, eagle=False)), 19, [3, 7]),
        ((window(3, eagle=False, block_size=8), MARKED), 19, list(range(9))),
        ((window(3, eagle=False, block_size=8), MARKED), 7, []),
    ],
)
def test_a_block_behind_each_end_is_cached(
    groups: tuple[Group, ...], prompt: int, cached: list[int]
) -> None:
    """GROUP-18, GROUP-19: one is where a lookup drops it and tokens fill it, none in front of the
    first end; of full attention it is the one behind the last end.
    """
    semantics = replace(NORMATIVE, dropped_hits_reach_on=True)
    s = new_state(replace(CONFIG, groups=groups, **ROOM, semantics=semantics))  # type: ignore[arg-type]
    arrive(s, "a0", prompt, 1)
    schedule(s)
    t = s.k.table("a0", 1)
    assert [i for i in range(s.tlen[t]) if s.hsh[s.tab[t, i]] != s.k.NOHASH] == cached


def test_a_short_run_of_small_blocks_is_cut_twice() -> None:
    """GROUP-64: a window of nine tokens in blocks of two, beside blocks of four. Of six blocks the
    first five are a run, and four are hit; of the first four, a beginning, none are, where one
    that is not dropped leaves all.
    """
    wide = Group(block_size=4)
    assert hit((wide, window(9)), 13) == 8
    assert hit((wide, window(9)), 13, ((1, 4),)) == 0
    marked = Group(block_size=4, eagle=True)
    assert hit((marked, window(9, eagle=False)), 13, ((1, 4),)) == 8
    assert hit((marked, window(9, eagle=False)), 13, ((1, 3),)) == 4


@pytest.mark.parametrize("further", [0, 2])
def test_a_scope_sees_that_a_short_run_is_cut_twice(
    further: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GROUP-64: where nothing more has to be there, or a block instead of a unit, the scope does
    not reach what it promises.
    """
    cut = in_turn.cut_twice
    monkeypatch.setattr(in_turn, "cut_twice", lambda *of: further if cut(*of) else 0)
    result = explore(HYBRID_EAGLE_SIZES)
    assert result.counterexample is None and result.missing == {"cut-twice"}


def test_a_scope_sees_that_whole_runs_are_not_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """GROUP-64: where a run that is long enough is cut too, fewer tokens are hit than there are
    hits to look for.
    """
    monkeypatch.setattr(in_turn, "cut_twice", lambda s, t, tokens, drops: s.k.span_unit * drops)
    example = explore(HYBRID_EAGLE_SIZES).counterexample
    assert example is not None and "HASH-15" in example.sentence


def test_blocks_of_two_sizes_are_two_kinds() -> None:
    """GROUP-22: windows alike with blocks of other sizes are looked up one after the other, and
    only one of them is marked.
    """
    groups = (FULL, window(5), window(5, eagle=False, block_size=4))
    s = new_state(replace(CONFIG, groups=groups))
    assert (s.k.dropped, s.k.of_kind, s.k.last_kind) == ([0, 1, 0], [0, 1, 2], 2)


def test_a_state_that_outruns_a_round_is_hit_beyond_it() -> None:
    """GROUP-36: in vllm-0.22.1 a Mamba state one block further counts, in a later round too."""
    groups = (FULL, Group(mamba=True, eagle=True), window(3, eagle=False))
    gone = ((2, 2), (2, 3))
    assert hit(groups, 9, gone) == 4
    with pytest.raises(AssertionError):
        hit(groups, 9, gone, semantics=VLLM_0_22_1)


def test_no_round_ends_before_every_kind_was_asked() -> None:
    """GROUP-61: and none is open where no lookup is."""
    s = new_state(replace(CONFIG, groups=(MARKED, window(3), window(5)), num_blocks=60))
    arrive(s, "a0", 9, 1)
    refused: list[str] = []

    def look(s: Any, id: str) -> None:
        if id == "GROUP-60" and s.kind <= s.k.last_kind:
            with pytest.raises(Disabled, match="each has said how far") as caught:
                end_round.body(s, "a0")
            refused.append(caught.value.guard)

    observed(look, lambda: schedule(s))
    assert len(refused) == 4
    with pytest.raises(Disabled, match="the kinds of layers are asked"):
        end_round(s, "a0")
    assert {"tried", "kind", "calm", "reach"} <= LOOKUP.keys()
