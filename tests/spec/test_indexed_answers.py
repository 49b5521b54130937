"""What the indexed environment has found once it does not take for the answer to another question:
scenes that ways through the explorer's scopes rarely come to.
"""

from typing import Any

import pytest
from test_indexed import pair

from nullblock.spec.facts import Config, Group, Request
from nullblock.spec.groups import longest_run
from nullblock.spec.hybrid import agreed
from nullblock.spec.machine import events
from nullblock.spec.machine.schedule import schedule
from nullblock.spec.machine.update import update_from_output
from nullblock.spec.nulls import held_to, num_padding
from nullblock.spec.profiles import VLLM_0_22_1
from nullblock.spec.waiting import next_in_line

WINDOW, FULL, STATES = Group(3), Group(), Group(mamba=True, eagle=True)


def states(**options: Any) -> tuple[Any, Any]:
    """The same state by definition and by index: of two requests, as long as each other."""
    made = pair(Config(20, 1, 8, 2, 20, semantics=VLLM_0_22_1, **options))
    for s in made:
        for r in ("a", "b"):
            s.k.requests[r] = Request(r, 6, 3)
            events.add(s, r)
    return made


def test_sums_are_of_the_entries_that_are_asked_about() -> None:
    """Of any of the steps in flight, from wherever one has been dealt with."""
    for s in (both := states()):
        for i, (r, n) in enumerate((("a", 3), ("b", 1), ("a", 1), ("b", 1))):
            s.frame[i], s.grant[i] = r, n
    for places in ((0, 2), (1, 2), (1, 4), (0, 4), (2, 4), (2, 2), (0, 2)):
        for r in ("a", "b"):
            plain, indexed = (s.k.matching(s.frame, *places, r, s.grant) for s in both)
            assert plain == indexed, (places, r)


@pytest.mark.parametrize("groups", [(FULL, WINDOW), (WINDOW,)], ids=["several", "a window"])
def test_a_hit_is_of_who_is_looked_up(groups: tuple[Group, ...]) -> None:
    """Where two are looked up one after the other, and nothing of the cache changes between."""
    reading = agreed if len(groups) > 1 else longest_run
    found: list[list[Any]] = []
    for s in states(groups=groups):
        blocks = iter(range(1, 20))
        for g in range(len(groups)):
            for i in range(5):
                s.hsh[next(blocks)] = s.k.want(s.k.table("a", g), i)
        found.append([])
        for r in ("a", "b", "a"):
            s.lr = r
            found[-1].append(reading(s, r))
    assert found[0] == found[1]
    assert found[0][0] > found[0][1]


def test_who_was_passed_over_may_stand_in_the_other_queue() -> None:
    """There a session of vllm-0.22.1 is still to be tried in the step."""
    for s in (both := states(sessions=True)):
        s.passed = s.k.add(s.passed, "a")
        s.skip["a"], s.also["a"] = 1, 1
    assert [next_in_line(s) for s in both] == ["a", "a"]


def test_who_was_passed_over_twice_is_not_tried_again() -> None:
    """WAIT-55: at its other place as well, while the queues are as long as before."""
    found: list[list[str]] = []
    for s in states(sessions=True):
        s.passed = s.k.add(s.passed, "a")
        s.also["a"] = 1
        found.append([next_in_line(s)])
        s.also["a"] = 0
        found[-1].append(next_in_line(s))
    assert found == [["a", "b"]] * 2


@pytest.mark.parametrize("by", ["skip", "line"])
def test_behind_whom_a_reading_refuses_others_are_asked_about(by: str) -> None:
    """Whoever is first of a queue is who a reading holds for, and nobody where there is none."""
    found: list[list[str | None]] = []
    for s in states():
        queue = s.skip if by == "skip" else s.rank
        s.skip["a"], s.skip["b"] = 1, 2

        def first(*among: str, s: Any = s, queue: Any = queue) -> str | None:
            return s.k.first("R", lambda r: r in among, lambda r: queue[r], by=by)  # type: ignore[no-any-return]

        found.append([first("a", "b"), first("b"), first("a"), first()])
    assert found == [["a", "b", "a", None]] * 2


@pytest.mark.parametrize(
    ("blocks", "left"), [((0, 0), 0), ((3, 0), 1), ((3, 0, 4, 0, 0), 3), ((0, 3, 0, 4, 0), 4)]
)
def test_a_table_is_left_with_what_is_before_its_last_null_blocks(
    blocks: tuple[int, ...], left: int
) -> None:
    """GROUP-7: its last block and those before it, be there null blocks between them or not."""
    for s in states(groups=(WINDOW,)):
        for i, b in enumerate((*blocks, 5)):  # the last of them is no longer in the table
            s.tab["a", i] = b
        s.tlen["a"] = len(blocks)
        assert held_to(s, "a") == left


@pytest.mark.parametrize(
    ("adopted", "padding"), [(0, 1), (2, 2), (5, 1)], ids=["a block", "a block again", "the end"]
)
def test_as_many_null_blocks_are_adopted_as_come_next(adopted: int, padding: int) -> None:
    """GROUP-5: up to a block, or the last hit."""
    for s in states(groups=(WINDOW,)):
        for i, b in enumerate((0, 3, 0, 0, 4, 0, 0)):  # the last of them is no longer a hit
            s.hit[i] = b
        s.nhit, s.na = 6, adopted
        assert num_padding(s, "a") == padding


def test_a_state_is_found_beyond_the_length_at_hand() -> None:
    """GROUP-36: of Mamba layers of an EAGLE-like method, which drop none, in vllm-0.22.1."""
    config = Config(
        *(60, 2, 40, 2, 40),
        num_spec_tokens=1,
        spec_method="eagle",
        groups=(FULL, STATES, Group(3)),
        semantics=VLLM_0_22_1,
    )
    hits = []
    for s in pair(config):
        for r in ("a1", "a2"):
            s.k.requests[r] = Request(r, 9, 1)
        events.add(s, "a1")
        schedule(s)
        blocks = [s.tab[s.k.table("a1", 2), i] for i in (2, 3)]
        update_from_output(s)
        schedule(s)
        update_from_output(s)
        events.evict_blocks(s, blocks)
        events.add(s, "a2")
        hits.append(schedule(s).new)
    assert hits[0] == hits[1]
    assert hits[0][0].computed > 0
