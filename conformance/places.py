"""Where requests stand in a PRIORITY queue when the arrival of one of them changes."""

from typing import Any


def moves_past_others(s: Any, r: Any, after: Any) -> bool:
    """Whether r, who takes a chunk where it stands in the skipped queue, passes others there.

    vLLM changes the arrival of a request inside a heap, and leaves the heap as it is. While the
    order of those that stand there is the same, so is whatever a heap does.

    Args:
        after: its place from then on, as `order` has it: priority, arrival, id.
    """
    if not s.k.priority:
        return False
    before = s.k.order(r)
    others = (s.k.order(q) for q in s.skip if s.skip[q] and q != r)
    return any((other < before) != (other < after) for other in others)
