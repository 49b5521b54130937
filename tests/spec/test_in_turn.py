"""Several KV-cache groups under an EAGLE-like method: kinds of layers that are asked in turn."""

import sys
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


@pytest.mark.parametrize(("reaches", "computed"), [(False, 4), (True, 6)])
def test_what_is_dropped_ends_before_the_last_token_or_with_it(
    reaches: bool, computed: int
) -> None:
    """GROUP-63: a block further, and in vllm-0.32.0 be it the last token's."""
    semantics = replace(NORMATIVE, dropped_hits_reach_on=reaches)
    groups = (FULL, window(3), window(5, eagle=False))
    assert hit(groups, 8, semantics=semantics) == computed


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
