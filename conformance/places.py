"""Where requests stand in a PRIORITY queue when the arrival of one of them changes."""

from typing import Any

from nullblock.spec.waiting import is_skipped


def moves_past_others(s: Any, r: Any, after: Any) -> bool:
    """Whether r, who takes a chunk where it stands in a queue, passes others there.

    vLLM changes the arrival of a request inside a heap, and leaves the heap as it is. While the
    order of those that stand there is the same, so is whatever a heap does.

    Args:
        after: its place from then on, as `order` has it: priority, arrival, id.
    """
    if not s.k.priority:
        return False
    before, apart = s.k.order(r), is_skipped(s, r)
    beside = (q for q in s.rank if q != r and is_skipped(s, q) == apart)
    others = map(s.k.order, beside)
    return any((other < before) != (other < after) for other in others)
