"""What no rule says of streaming sessions: refused by name, in scenarios and in traces."""

from collections.abc import Collection
from typing import Any

from nullblock.spec.fields import RUNNING
from nullblock.spec.remote import awaits_load
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
    return any((other < before) != (other < after) for other in map(s.k.order, beside))


def counts_on_lost(s: Any, blocks: Collection[int]) -> Any:
    """A session that waits for its turn or a chunk, and counts on some of these blocks, which were
    not loaded; None: there is none. What becomes of its turn no rule says.
    """
    if not s.k.sem.failed_loads_start_over:
        return None
    for r in s.k.requests:
        if not (s.k.resumable(r) and s.stage[r] < RUNNING) or awaits_load(s, r):
            continue
        held = range(min(s.tlen[r], s.k.blocks(s.comp[r])))
        if any(s.tab[r, i] in blocks for i in held):
            return r
    return None
