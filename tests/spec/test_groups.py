"""Layers that see only a part of the past: what is given back, what is hit, what is asked for."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nullblock.spec.facts import Group
from nullblock.spec.groups import missing, passed, unseen
from nullblock.spec.kernel import Disabled, Engines
from nullblock.spec.machine import events
from nullblock.spec.machine.output import common_prefix
from nullblock.spec.machine.schedule import schedule
from nullblock.spec.profiles import VLLM_0_22_1
from nullblock.spec.rules.groups import drop_nulls, let_go, pad, pass_over_blocks

sys.path.insert(0, str(Path(__file__).parent))
from world import CONFIG, arrive, new_state, step  # noqa: E402  (a module beside this one)

WINDOW, CHUNKS = Group(sliding_window=3), Group(attention_chunk_size=4)


def state(group: Group, **more: Any) -> Any:
    """The empty state of a world whose layers are of that kind; blocks have two tokens."""
    return new_state(replace(CONFIG, groups=(group,), **more))


def table(s: Any, r: str) -> list[int]:
    """The blocks of a request, 0 for the null block."""
    return [s.tab[r, i] for i in range(s.tlen[r])]


@pytest.mark.parametrize(
    ("group", "expected"),
    [
        (WINDOW, [0, 0, 0, 0, 1, 1, 2, 2, 3]),
        (CHUNKS, [0, 0, 0, 0, 2, 2, 2, 2, 4]),
        (Group(sliding_window=1), [0, 0, 1, 1, 2, 2, 3, 3, 4]),
        (Group(attention_chunk_size=3), [0, 0, 0, 1, 1, 1, 3, 3, 3]),
    ],
)
def test_blocks_pass_with_the_window_or_the_chunk(group: Group, expected: list[int]) -> None:
    """GROUP-1: after 0, 1, … 8 computed tokens, in whole blocks of two tokens."""
    s = state(group)
    assert [passed(s, "a0", tokens) for tokens in range(9)] == expected


def test_a_running_request_gives_back_what_no_token_sees() -> None:
    """GROUP-6, GROUP-7: the last such block queues first, with its hash; the null block takes its
    place, is told to nobody as common, and leaves the table like the others.
    """
    s = state(WINDOW)
    arrive(s, "a0", 7, 4)
    step(s)
    first = table(s, "a0")
    assert len(first) == 4 and 0 not in first
    step(s)
    assert table(s, "a0") == [0, 0, *first[2:]]
    assert sorted(s.stamp, key=lambda b: s.stamp[b])[-2:] == [first[1], first[0]]
    assert s.hsh[first[0]] and s.ref[first[0]] == 0
    assert common_prefix(s) == 0
    events.abort(s, "a0")
    assert s.nfree == s.k.usable and not s.tlen["a0"]


def test_slots_that_are_not_free_give_back_all_the_same() -> None:
    """GROUP-6: it is counted afterwards whether the slots are free."""
    s = state(WINDOW, num_blocks=6, max_num_scheduled_tokens=5, scheduler_reserve_full_isl=False)
    arrive(s, "a0", 5, 6)
    step(s)
    arrive(s, "b1", 3, 6)
    step(s)
    step(s)
    assert table(s, "a0")[0] == 0
    assert sum(s.ref.values()) <= s.k.usable


@pytest.mark.parametrize(
    ("cached", "group", "eagle", "expected"),
    [
        ({0, 1, 2}, WINDOW, False, (2, 3)),
        ({1}, WINDOW, False, (1, 2)),
        ({0}, WINDOW, False, (0, 1)),
        (set(), WINDOW, False, (0, 0)),
        ({1, 2}, Group(sliding_window=5), False, (1, 3)),
        ({0, 2}, Group(sliding_window=5), False, (0, 1)),
        ({2}, Group(sliding_window=5), False, (0, 0)),
        ({1, 2}, WINDOW, True, (1, 2)),
        ({2}, WINDOW, True, (0, 0)),
        ({2}, Group(sliding_window=1), False, (3, 3)),
        (set(), CHUNKS, False, (2, 2)),
        ({2}, CHUNKS, False, (2, 3)),
        ({0, 1}, CHUNKS, False, (2, 2)),
    ],
)
def test_a_lookup_finds_what_the_next_token_sees(
    cached: set[int], group: Group, eagle: bool, expected: tuple[int, int]
) -> None:
    """GROUP-2, GROUP-4, GROUP-5: of a prompt of seven tokens, with some of its blocks cached, how
    many are passed over and how many are hit, these among them; the others are adopted.
    """
    s = state(group, eagle_group=eagle)
    for stamp, i in enumerate(sorted(cached), start=1):
        s.hsh[i + 1], s.hstamp[i + 1] = s.k.want("a0", i), stamp
        s.done[i + 1] = 1
    s.hclock = 9
    arrive(s, "a0", 7, 1)
    assert unseen(s, "a0") == expected[0]
    schedule(s)
    nulls, hits = expected
    assert s.comp["a0"] == 7 and s.ntok["a0"] == 7
    assert table(s, "a0")[:hits] == [0] * nulls + [i + 1 for i in range(nulls, hits)]
    assert s.frame[0] == "a0" and s.grant[0] == 7 - 2 * hits


def test_the_gate_takes_hits_off_what_a_request_ever_holds() -> None:
    """GROUP-3, in vllm-0.22.1: of five blocks at most three are held at once; one of these is hit,
    or three. Normative, three are taken behind the hits, less those that it has alone.
    """
    s = state(WINDOW, max_num_scheduled_tokens=2)
    arrive(s, "a0", 9, 1)
    assert s.k.admission_cap == 3
    assert [missing(s, "a0", n, 0, 0) for n in (1, 3, 5)] == [1, 3, 3]
    assert [missing(s, "a0", 5, 1, n) for n in (0, 1, 3, 4)] == [3, 2, 0, 0]
    assert missing(s, "a0", 5, 4, 0) == 1
    kept = state(WINDOW, max_num_scheduled_tokens=2, semantics=VLLM_0_22_1)
    arrive(kept, "a0", 9, 1)
    assert missing(kept, "a0", 5, 1, 0) == 2
    assert missing(kept, "a0", 5, 4, 0) == 0


@pytest.mark.parametrize("kinds", [(Group(sliding_window=2),), (Group(sliding_window=2),) * 2])
def test_null_blocks_in_a_row_go_at_once(
    kinds: tuple[Group, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """GROUP-4, GROUP-5, GROUP-7: the null blocks of a table are passed over by one firing, adopted
    by one and dropped by one; the null block is referred to once for each of its places that the
    next token still sees, and given back once for each place.
    """
    s = new_state(replace(CONFIG, num_blocks=12, groups=kinds))
    refs: list[int] = []
    s.k.on_null = lambda s, change: refs.append(change)
    for g in range(len(kinds)):
        h = s.k.want(s.k.table("a0", g), 2)
        s.hsh[g + 1], s.hstamp[g + 1], s.done[g + 1] = h, 1, 1
    s.hclock = 9
    arrive(s, "a0", 7, 4)
    fired: list[str] = []
    monkeypatch.setattr(Engines, "after_rule", lambda s, rule: fired.append(rule))
    schedule(s)
    tables = [s.k.table("a0", g) for g in range(len(kinds))]
    assert [[s.tab[t, i] for i in range(3)] for t in tables] == [
        [0, 0, g + 1] for g in range(len(kinds))
    ]
    assert [s.ncached[t] for t in tables] == [3] * len(kinds)
    events.abort(s, "a0")
    assert [fired.count(rule) for rule in ("GROUP-4", "GROUP-5", "GROUP-7")] == [len(kinds)] * 3
    assert refs == [0] * len(kinds) + [-2] * len(kinds)
    assert not any(s.tlen[t] for t in tables) and s.nfree == s.k.usable


@pytest.mark.parametrize("rule", [pass_over_blocks, pad, drop_nulls])
def test_rules_of_null_blocks_ask_for_their_moment(rule: Any) -> None:
    """GROUP-4, GROUP-5, GROUP-7: between steps none of them may fire."""
    s = state(WINDOW)
    arrive(s, "a0", 7, 4)
    step(s)
    with pytest.raises(Disabled):
        rule(s, "a0")
    with pytest.raises(Disabled):
        let_go(s, "a0", s.tab["a0", 0])


def test_full_attention_passes_over_nothing() -> None:
    """GROUP-8 to GROUP-12 say nothing of layers that see all of the past."""
    s = new_state()
    arrive(s, "a0", 7, 4)
    step(s)
    step(s)
    assert 0 not in table(s, "a0")
