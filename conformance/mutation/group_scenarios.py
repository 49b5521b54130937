"""Scenarios whose layers see a part of the past, for defects of the specification that no golden
scenario notices.
"""

from typing import Any

from nullblock.conformance.mutation.scenarios import RUN, SCHEDULE, UPDATE, add

AHEAD = {"async_scheduling": True, "queue_depth": 3}


def window(size: int, **more: Any) -> dict[str, Any]:
    """A configuration with one group whose layers see so many tokens."""
    group = {"type": "sliding_window", "sliding_window": size, **more}
    return {"block_size": 4, "num_blocks": 9, "groups": [group]}


def chunks(size: int) -> dict[str, Any]:
    """A configuration with one group whose layers see the chunk at hand."""
    return {"block_size": 4, "num_blocks": 9, "groups": [{"type": "chunked_local", "chunk": size}]}


def again(tokens: int, block: int) -> list[dict[str, Any]]:
    """A prompt that comes again when one block of it, from 1, is cached no longer."""
    evict = {"op": "evict_blocks", "ids": [block]}
    return [add("a", 0, tokens, 1), RUN, evict, add("b", 0, tokens, 1), RUN]


MORE_GROUPS: dict[str, dict[str, Any]] = {
    # The next token sees nothing of what is before it: one cached block is a run all the same.
    "window-of-one-token": {"config": window(1), "events": again(9, 1)},
    # Nor does it where one hit is dropped: two blocks are a run, and so is one at the beginning.
    "window-of-one-token-of-eagle": {
        "config": window(1, eagle=True),
        "events": [add("a", 0, 5, 1), RUN, add("b", 0, 13, 1), RUN],
    },
    # A run of two blocks: the last one alone is none.
    "window-of-two-blocks": {"config": window(6), "events": again(17, 3)},
    # One block is seen, and one is dropped: the last one alone is none, the last two are one.
    "window-of-eagle-ends-after-a-miss": {"config": window(5, eagle=True), "events": again(17, 3)},
    "window-of-eagle-begins-after-a-miss": {
        "config": window(5, eagle=True),
        "events": again(17, 2),
    },
    # Three steps ahead a block is given back before its last token is known: it is never cached.
    # Somebody has left before, or the later switch would not say where it queues.
    "window-passes-what-is-not-known": {
        "config": window(1) | {"block_size": 1, "num_blocks": 12} | AHEAD,
        "events": [
            *(add("x", 40, 48, 1), RUN, add("a", 0, 1, 9)),
            *(*[SCHEDULE] * 3, *[UPDATE] * 3, RUN),
        ],
    },
    # The chunk ends with the table: all of it is given back.
    "chunk-ends-with-the-table": {"config": chunks(8), "events": [add("a", 0, 8, 2), RUN]},
    # Whoever is not looked up has no nulls either.
    "chunks-without-a-cache": {
        "config": chunks(4) | {"enable_prefix_caching": False},
        "events": [add("a", 0, 9, 1), RUN],
    },
    "chunks-of-who-reads-no-cache": {
        "config": chunks(4),
        "events": [add("a", 0, 9, 1) | {"skip_cache_read": True}, RUN],
    },
    # A chunk begins within a block: of two nulls the second counts as a reference.
    "chunk-begins-within-a-block": {"config": chunks(5), "events": [add("a", 0, 13, 1), RUN]},
    # A prompt beyond max_model_len lacks nothing once all that it may hold is null: no block is
    # free, and it is admitted.
    "chunks-beyond-max-model-len": {
        "config": chunks(12) | {"num_blocks": 4, "max_model_len": 12},
        "events": [add("a", 0, 10, 2), {"op": "step"}, add("b", 20, 34, 1), RUN],
    },
}
