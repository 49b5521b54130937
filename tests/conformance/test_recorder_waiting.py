"""What a recorder keeps of calls until it is told is little, and nothing is lost of it."""

import gc
import random

from nullblock.conformance.adapters.vllm.numbering import ChainNumbers, runs
from nullblock.conformance.adapters.vllm.seen import (
    NO_OTHERS,
    Arrival,
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
    kept = [seen, NO_OTHERS, New("a", 0, ([1],), 0), Arrival(None, [], 0, 0), Proposal([], [])]
    kept.append(Taken(seen, None, None, None, [], None, None))
    assert [type(one).__name__ for one in kept if gc.is_tracked(one)] == []


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
