"""Remote KV in tables: blocks to load into, where there are several groups, and blocks that go
before a table is handed to the connector.
"""

from nullblock.spec.fields import AWAY
from nullblock.spec.groups import goes_first
from nullblock.spec.hybrid import comes_next
from nullblock.spec.kernel import State, Value, neg, require, rule
from nullblock.spec.loaded import (
    holds_left_behind,
    lacks_to_load,
    last_left_behind,
    left_behind,
    outgrows,
)
from nullblock.spec.rules.aligned import sweep
from nullblock.spec.rules.pool import _take, open_front, open_tables, release
from nullblock.spec.state import is_lru, turn


@rule("REMOTE-51", "TB")
def take_to_load(s: State, t: Value, b: Value) -> None:
    """Of several groups all adopt their hits, then each takes the blocks to load into, then each
    those that the step computes.

    Source: KVCacheCoordinator.allocate_new_computed_blocks. In vllm-0.22.1 a group takes its
    blocks before later ones adopt their hits, which may be among them (upstream 33775).
    """
    require(turn(s, s.k.owner(t)), "the request is being given slots")
    require(lacks_to_load(s, t), "the next block that is loaded into is for this table")
    require(neg(outgrows(s, t)), "no table gets places too many")
    require(is_lru(s, b), "the block is at the front of the free queue")
    _take(s, t, b)


@rule("REMOTE-52", "TB")
def let_left_behind_go(s: State, t: Value, b: Value) -> None:
    """Of a request that ends the blocks that no token would see go first, before the connector is
    asked whether it keeps the others.

    Source: Scheduler._connector_finished.
    """
    require(s.leaving == AWAY, "somebody leaves for good")
    require(s.k.owner(t) == s.leaver, "this request")
    require(holds_left_behind(s, t), "it holds a block that no token would see")
    require(comes_next(s, t, lambda u: neg(holds_left_behind(s, u))), "tables before it hold none")
    i = last_left_behind(s, t)
    require(b == s.tab[t, i], "the last such block goes first")
    if goes_first(s, t, i, left_behind(s, t)):
        open_front(s, i + 1)
    s.tab[t, i] = s.k.NULL
    sweep(s, t, i, left_behind(s, t))
    release(s, t, b, i)
    if neg(holds_left_behind(s, t)):
        # What the tables still hold is freed behind it.
        open_tables(s, s.k.owner(t), 0)
