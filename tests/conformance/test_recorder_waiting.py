"""What a recorder keeps of calls until it is told is little, and nothing is lost of it."""

import gc
import random
from types import SimpleNamespace
from typing import Any

import pytest

from nullblock.conformance.adapters.vllm.look import Look
from nullblock.conformance.adapters.vllm.numbering import ChainNumbers, runs
from nullblock.conformance.adapters.vllm.seen import (
    NO_OTHERS,
    Arrival,
    Counts,
    New,
    Proposal,
    Seen,
    Taken,
    spread,
)
from nullblock.conformance.adapters.vllm.step import absent


def test_what_is_kept_of_calls_is_not_counted_by_the_garbage_collector() -> None:
    """Objects that wait do not bring its next look at all that is young nearer."""
    seen = Seen(1, None, ["a"], [1], ["a"], None, [0], [7], NO_OTHERS, [], None)
    new, arrival = New("a", 0, ([1],), True, None), Arrival(None, [], 0, 0)
    kept = [seen, NO_OTHERS, new, arrival, Proposal([], [])]
    kept.append(Taken(seen, None, None, None, [], None, None))
    kept.append(Counts(1, 2, 3))
    assert [type(one).__name__ for one in kept if gc.is_tracked(one)] == []


@pytest.mark.parametrize("frames", [[[9, 1], [2], []], [[1, 9], [2], []], [[1, 2], [], [3, 4, 9]]])
def test_a_token_that_ends_is_seen_wherever_it_stands(frames: list[list[int]]) -> None:
    """Where there are drafts the tokens are kept as they were sampled; the engine cuts them."""
    observer: Any = SimpleNamespace(scheduler=None, caching=True, end_tokens={9}, unusual=False)
    look = Look(observer, placed=False, tallied=True)
    look.before_update(SimpleNamespace(sampled_token_ids=frames))
    assert look._sampled == (bytes(map(len, frames)), frames)
    assert look._sampled[1][0] is not frames[0]
    look.before_update(SimpleNamespace(sampled_token_ids=[[1, 2], [3]]))
    assert look._sampled == (b"\2\1", None)


def test_the_blocks_of_one_are_spread_by_group_again() -> None:
    """One block of the only group is kept as a number, and told as the engine says it."""
    assert spread(7) == ((7,),)
    assert spread(([7, 8],)) == ([7, 8],)
    assert spread(([7], [8])) == ([7], [8])


def test_runs_of_a_prompt_are_those_of_its_blocks_one_by_one() -> None:
    """Numbers come as if each hash had been looked up by itself, whatever is known of which."""
    draw = random.Random(3)
    quick, slow = ChainNumbers(100), ChainNumbers(100)
    for i in range(300):
        start = draw.randrange(60)
        hashes = [bytes([n]) for n in range(start, start + draw.randrange(12))]
        if draw.random() < 0.3:
            hashes = draw.choices(hashes, k=len(hashes)) if hashes else []
        assert quick.add(str(i), hashes) == runs(slow.each(hashes)), hashes
        if draw.random() < 0.02:
            quick, slow = ChainNumbers(100), ChainNumbers(100)


def test_absent_ones_are_those_that_a_step_does_not_have() -> None:
    """One is found by halves, several one by one, and who has moved is not absent."""
    draw = random.Random(4)
    for _ in range(3000):
        ids = [str(n) for n in range(draw.randrange(9))]
        scheduled = [one for one in ids if draw.random() < 0.8]
        if draw.random() < 0.2:
            draw.shuffle(scheduled)
        if draw.random() < 0.2:
            scheduled.append("new")
        expected = [place for place, one in enumerate(ids) if one not in scheduled]
        assert absent(ids, scheduled) == expected, (ids, scheduled)
