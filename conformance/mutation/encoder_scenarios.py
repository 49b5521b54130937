"""Scenarios with encoder inputs, and with several KV-cache groups, for defects of the
specification that no golden scenario notices.
"""

from typing import Any

from nullblock.conformance.mutation.scenarios import RESET, RUN, SCHEDULE, UPDATE, add

STEP = {"op": "step"}
ABORT = {"op": "abort", "ids": ["a"]}


def model(compute: int, kept: int, whole: bool = False, **more: Any) -> dict[str, Any]:
    """A model whose encoder computes so many embeddings in a step, and keeps so many."""
    encoder = {
        "max_num_encoder_input_tokens": compute,
        "encoder_cache_size": kept,
        "disable_chunked_mm_input": whole,
    }
    return {"block_size": 2, "num_blocks": 30, "encoder": encoder, **more}


def item(hash: str, offset: int, length: int, embeds: str = "") -> dict[str, Any]:
    """An item; of its tokens those stand for embeddings that are marked with an x, or all."""
    mask = {"is_embed": [mark == "x" for mark in embeds]} if embeds else {}
    return {"hash": hash, "offset": offset, "length": length, **mask}


def see(id: str, tokens: int, *items: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A request with items, for two tokens of output."""
    return add(id, 0, tokens, 2) | {"mm_features": list(items)} | more


def groups(*kinds: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A configuration with several groups in blocks of two tokens."""
    return {"block_size": 2, "num_blocks": 30, "groups": list(kinds), **more}


FULL = {"type": "full"}


def window(size: int) -> dict[str, Any]:
    """A group whose layers see so many tokens."""
    return {"type": "sliding_window", "sliding_window": size}


def chunks(size: int) -> dict[str, Any]:
    """A group whose layers see the chunk at hand."""
    return {"type": "chunked_local", "chunk": size}


def again(
    config: dict[str, Any], tokens: int = 13, evicted: int = 2, **more: Any
) -> dict[str, Any]:
    """A prompt that comes again, and again when one block of it is cached no longer."""
    evict = {"op": "evict_blocks", "ids": [evicted]}
    events = [add("a", 0, tokens, 1), RUN, add("b", 0, tokens, 1) | more, RUN]
    return {"config": config, "events": [*events, evict, add("c", 0, tokens, 1) | more, RUN]}


MORE_ITEMS: dict[str, dict[str, Any]] = {
    # What a step can never compute, or the cache never keep, is refused; at the limit it is not.
    "item-beyond-a-step": {
        "config": model(2, 3),
        "events": [see("a", 6, item("x", 1, 3)), see("b", 6, item("y", 1, 2)), RUN],
    },
    "item-beyond-the-cache": {
        "config": model(3, 2),
        "events": [see("a", 6, item("x", 1, 3)), see("b", 6, item("y", 1, 2)), RUN],
    },
    "uncut-item-beyond-the-threshold": {
        "config": model(9, 9, whole=True, long_prefill_token_threshold=3),
        "events": [see("a", 6, item("x", 1, 4)), see("b", 6, item("y", 1, 3)), RUN],
    },
    "uncut-item-beyond-a-threshold-of-one": {
        "config": model(9, 9, whole=True, long_prefill_token_threshold=1),
        "events": [see("a", 6, item("x", 1, 2)), see("b", 6, item("y", 1, 1)), RUN],
    },
    "uncut-item-beyond-the-budget": {
        "config": model(9, 9, whole=True, max_num_scheduled_tokens=3),
        "events": [see("a", 6, item("x", 1, 4)), see("b", 6, item("y", 1, 3)), RUN],
    },
    "uncut-item-and-a-threshold-of-the-budget": {
        "config": model(
            *(9, 9), whole=True, max_num_scheduled_tokens=3, long_prefill_token_threshold=3
        ),
        "events": [see("a", 6, item("x", 1, 4)), see("b", 6, item("y", 1, 3)), RUN],
    },
    "uncut-item-and-a-threshold-beyond-the-budget": {
        "config": model(
            *(9, 9), whole=True, max_num_scheduled_tokens=3, long_prefill_token_threshold=5
        ),
        "events": [see("a", 6, item("x", 1, 4)), see("b", 6, item("y", 1, 3)), RUN],
    },
    "uncut-item-and-a-threshold-right-below-the-budget": {
        "config": model(
            *(9, 9), whole=True, max_num_scheduled_tokens=4, long_prefill_token_threshold=3
        ),
        "events": [see("a", 6, item("x", 1, 4)), see("b", 6, item("y", 1, 3)), RUN],
    },
    "cut-item-beyond-the-threshold": {
        "config": model(9, 9, long_prefill_token_threshold=3),
        "events": [see("a", 6, item("x", 1, 4)), RUN],
    },
    # An item right behind a step is not looked at: it evicts nobody yet.
    "item-right-behind-a-step": {
        "config": model(4, 2, long_prefill_token_threshold=4),
        "events": [see("a", 3, item("x", 0, 2)), RUN, see("b", 8, item("y", 4, 2)), RUN],
    },
    # An item that ends with the step is whole; so is one behind what is computed.
    "uncut-item-ends-with-the-step": {
        "config": model(9, 9, whole=True, max_num_scheduled_tokens=4),
        "events": [see("a", 11, item("x", 1, 3), item("y", 6, 2)), RUN],
    },
    # Within the step no token stands for an embedding of the second item, or of the first.
    "item-without-embeddings-yet": {
        "config": model(9, 9, max_num_scheduled_tokens=4),
        "events": [see("a", 8, item("x", 0, 2), item("y", 2, 3, "..x")), RUN],
    },
    "item-without-embeddings": {
        "config": model(9, 9),
        "events": [see("a", 6, item("x", 0, 2, ".."), item("y", 2, 3)), RUN],
    },
    # Two items are let go of in the order of the prompt.
    "two-items-let-go": {
        "config": model(9, 9, max_num_scheduled_tokens=7),
        "events": [
            *(see("a", 9, item("x", 0, 2), item("y", 2, 2), item("z", 6, 3)), STEP),
            *(ABORT, see("b", 9, item("v", 0, 3), item("w", 3, 3)), RUN),
        ],
    },
    "aborted-in-flight-inside-an-item": {
        "config": model(9, 9, max_num_scheduled_tokens=4, async_scheduling=True),
        "events": [
            *(see("a", 9, item("x", 0, 2), item("y", 3, 4)), SCHEDULE, SCHEDULE, ABORT),
            *(UPDATE, UPDATE, see("b", 9, item("y", 3, 4)), RUN),
        ],
    },
    # A request of which the step computes two items leaves it; another's stays in the step.
    "victim-of-two-items": {
        "config": model(
            *(9, 20),
            num_blocks=16,
            policy="priority",
            enable_prefix_caching=False,
            long_prefill_token_threshold=4,
            scheduler_reserve_full_isl=False,
        ),
        "events": [
            see("u", 12, item("t", 8, 2), priority=5),
            see("v", 12, item("x", 8, 1), item("y", 10, 2), priority=9),
            *(STEP, see("b", 8, item("w", 4, 2), priority=0), RUN),
        ],
    },
    # In vllm-0.22.1, under EAGLE, whoever stands inside an item and gets no token refers to it
    # while it waits.
    "waits-with-an-item": {
        "config": model(2, 9, block_size=1, num_spec_tokens=1, spec_method="eagle"),
        "events": [
            *(see("a", 4, item("x", 0, 2)), RUN),
            *(see("b", 6, item("x", 0, 2), item("y", 2, 3)), STEP, STEP),
            *({"op": "abort", "ids": ["b"]}, see("c", 4, item("z", 0, 2)), RUN),
        ],
    },
    "waits-with-an-item-short-of-blocks": {
        "config": model(2, 9, block_size=1, num_blocks=12, num_spec_tokens=1, spec_method="eagle"),
        "events": [
            *(see("a", 4, item("x", 0, 2)), RUN, add("c", 40, 46, 2)),
            *(see("b", 6, item("x", 0, 2), item("y", 2, 3)), STEP, STEP, RUN),
        ],
    },
    # An id that is used again has its own items, and an output of before lets go of none.
    "id-again-with-items": {
        "config": model(9, 9, async_scheduling=True, queue_depth=3),
        "events": [
            *(see("a", 4, item("x", 0, 2)), SCHEDULE, ABORT),
            *(see("a", 4, item("y", 0, 2)), SCHEDULE, UPDATE, UPDATE, RUN),
        ],
    },
    "reset-in-flight-with-items": {
        "config": model(9, 9, async_scheduling=True, queue_depth=3),
        "events": [
            *(see("a", 4, item("x", 0, 2)), SCHEDULE, RESET, SCHEDULE, UPDATE, UPDATE, RUN),
        ],
    },
    "uncut-prompt-with-items": {
        "config": model(9, 9, enable_chunked_prefill=False, max_num_scheduled_tokens=6),
        "events": [add("a", 40, 44, 2), see("b", 5, item("x", 1, 2)), RUN],
    },
    # Whoever has no items comes after one who has.
    "text-behind-items": {
        "config": model(2, 4, max_num_scheduled_tokens=6),
        "events": [
            *(see("a", 6, item("x", 1, 2), item("y", 4, 2)), add("b", 40, 46, 3)),
            *(STEP, see("c", 5, item("x", 2, 2)), RUN),
        ],
    },
    # Several groups: a hit is what all accept, and nothing without a cache or a lookup.
    "groups-of-full-and-window": again(groups(FULL, window(3))),
    "groups-of-full-and-chunks": again(groups(FULL, chunks(4))),
    "groups-of-window-and-chunks": again(groups(window(5), chunks(8))),
    "groups-of-window-of-one": again(groups(FULL, window(1))),
    "groups-and-a-window-of-one-that-misses": again(groups(FULL, window(1)), evicted=13),
    "groups-that-hold-more-than-the-pool": {
        "config": groups(FULL, window(3), num_blocks=9, max_num_scheduled_tokens=2),
        "events": [add("a", 0, 11, 2), RUN, add("b", 0, 9, 2), RUN],
    },
    "groups-of-chunks-of-one": again(groups(FULL, chunks(1), block_size=1), 7),
    "groups-without-a-cache": again(groups(FULL, window(3), enable_prefix_caching=False)),
    "groups-of-who-reads-no-cache": again(groups(FULL, window(3)), skip_cache_read=True),
    "groups-and-a-chunk-begun": again(groups(FULL, chunks(8)), 12),
    "groups-short-of-blocks": again(groups(FULL, window(3), num_blocks=16)),
}
