"""Who waits by the rules, in the order in which vLLM has them."""

from collections.abc import Iterable, Iterator
from operator import itemgetter
from typing import Any

from nullblock.spec.sessions import may_stand_twice
from nullblock.spec.waiting import is_heap, is_skipped


def who_waits(s: Any) -> tuple[list[Any], list[Any]]:
    """Who stands in the skipped queue, and who in the waiting one, in their order; a session that
    stands in one more than once, as in vllm-0.22.1 it may, for each of its places.
    """
    waits = ((r, s.rank[r]) for r in s.rank if not is_skipped(s, r) or s.also[r])
    waiting = _in_turn((*waits, *_further(s, s.more, s.morefrom, s.moreto)))
    skipped = _in_turn((*s.skip.items(), *_further(s, s.again, s.againfrom, s.againto)))
    if s.k.priority:
        waiting.sort(key=s.k.order)
        skipped.sort(key=s.k.order)
    if is_heap(s):
        skipped = s.k.given_out(s.heap, s)
    if is_heap(s) and may_stand_twice(s):
        waiting = s.k.given_out(s.queue, s)
    return skipped, waiting


def _further(s: Any, places: Any, first: Any, end: Any) -> Iterator[tuple[Any, int]]:
    """The places in a queue that requests have there besides one."""
    return ((r, places[r, i]) for r in s.rank for i in range(first[r], end[r]))


def _in_turn(places: Iterable[tuple[Any, int]]) -> list[Any]:
    """Who has those, in their order."""
    return [r for r, _ in sorted(places, key=itemgetter(1))]
