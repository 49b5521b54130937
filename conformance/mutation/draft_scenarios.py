"""Scenarios with drafts, for defects of the specification that no golden scenario notices."""

from typing import Any

from nullblock.conformance.mutation.scenarios import RESET, RUN, SCHEDULE, UPDATE, add

DRAFTS = {"block_size": 4, "num_blocks": 40, "num_spec_tokens": 3, "accept": "all"}
AHEAD = DRAFTS | {"async_scheduling": True, "queue_depth": 2, "max_model_len": 24}
RESUMED = AHEAD | {"accept": "hash", "queue_depth": 3, "scheduler_reserve_full_isl": False}
TINY = {"block_size": 4, "num_blocks": 4, "num_spec_tokens": 1}
"""Three blocks, twelve slots."""

MORE_DRAFTS: dict[str, dict[str, Any]] = {
    # The slots of one draft are too many, where what proposes it writes to the cache.
    "drafts-need-slots-that-there-are-not": {
        "config": TINY | {"spec_method": "draft_model"},
        "events": [add("a", 0, 6, 6), add("b", 20, 26, 5), RUN],
    },
    # Ahead, a request may come to need all that max_model_len allows.
    "drafts-ahead-need-max-model-len": {
        "config": TINY | {"async_scheduling": True, "max_model_len": 16},
        "events": [add("a", 0, 6, 2), RUN],
    },
    # Whoever stops on a draft stops in each place of a block.
    "drafts-ahead-stop-everywhere": {
        "config": AHEAD,
        "events": [*(add(f"r{n}", 50 * n, 50 * n + 6, n) for n in range(2, 14)), RUN],
    },
    # An id comes again while its prompt is computed, and drafts for it before it is scheduled.
    "drafts-for-an-id-that-comes-again": {
        "config": DRAFTS | {"max_num_batched_tokens": 4, "drafts": {"length": "none"}},
        "events": [
            *(add("a", 0, 11, 9), {"op": "step"}, {"op": "abort", "ids": ["a"]}),
            *(add("a", 20, 23, 9), {"op": "draft", "tokens": {"a": [1, 2]}}, RUN),
        ],
    },
    # Ahead nobody is told of drafts from outside.
    "drafts-told-ahead": {
        "config": AHEAD | {"drafts": {"length": "none"}},
        "events": [
            *(add("a", 0, 6, 9), SCHEDULE, UPDATE, {"op": "draft", "tokens": {"a": [1, 2]}}, RUN),
        ],
    },
    # Three steps in flight: a request ends on a draft while it waits to be resumed.
    "drafts-ahead-stop-while-preempted": {
        "config": RESUMED | {"accept": "all", "num_blocks": 7},
        "events": [
            *(add("a", 0, 7, 9), add("b", 20, 27, 6), add("c", 40, 47, 7)),
            *[SCHEDULE, SCHEDULE, UPDATE] * 6,
            RUN,
        ],
    },
    # A request stops on a draft of before its preemption, part of it computed anew.
    "drafts-ahead-stop-in-the-next-run": {
        "config": RESUMED | {"num_blocks": 8, "long_prefill_token_threshold": 3},
        "events": [
            *(add("a", 0, 8, 7), add("b", 20, 25, 3), add("c", 40, 44, 3)),
            *[SCHEDULE, SCHEDULE, UPDATE] * 3,
            RUN,
        ],
    },
    "drafts-ahead-stop-in-the-next-run-later": {
        "config": RESUMED | {"num_blocks": 9, "long_prefill_token_threshold": 5},
        "events": [
            *(add("a", 0, 7, 5), add("b", 20, 24, 9), add("c", 40, 45, 5)),
            *[SCHEDULE, SCHEDULE, SCHEDULE, UPDATE, UPDATE] * 6,
            RUN,
        ],
    },
    # One token is to be computed, of a request that nobody has scheduled yet.
    "drafts-for-one-token-that-waits": {
        "config": DRAFTS,
        "events": [add("a", 0, 1, 9), {"op": "draft", "tokens": {"a": [1, 2]}}, RUN],
    },
    # One token is to be computed, and it is in flight: its request was preempted meanwhile.
    "drafts-for-one-token-in-flight": {
        "config": DRAFTS | {"long_prefill_token_threshold": 5, "queue_depth": 3},
        "events": [
            *(add("a", 0, 6, 9), SCHEDULE, UPDATE, SCHEDULE, RESET, SCHEDULE),
            *({"op": "draft", "tokens": {"a": [1, 2]}}, UPDATE, SCHEDULE, UPDATE, UPDATE, RUN),
        ],
    },
    # Rejections of before a reset come when one token is computed again.
    "drafts-rejected-beyond-the-first-token": {
        "config": AHEAD | {"accept": "none", "max_num_batched_tokens": 8},
        "events": [
            *(add("a", 0, 6, 9), add("b", 20, 22, 9), SCHEDULE, SCHEDULE, UPDATE),
            *(RESET, SCHEDULE, UPDATE, UPDATE, RUN),
        ],
    },
    # The last hit is computed again for EAGLE: where the prompt ends, or the next is a miss.
    **{
        f"eagle-drops-the-last-of-{length}": {
            "config": DRAFTS | {"spec_method": "eagle"},
            "events": [add("a", 0, length, 9), RUN, add("b", 0, length, 2), RUN],
        }
        for length in (13, 16)
    },
    "eagle-drops-the-hit-before-a-miss": {
        "config": DRAFTS | {"spec_method": "eagle"},
        "events": [
            *(add("a", 0, 17, 2), RUN),
            {"op": "add", "id": "b", "prompt": [*range(8), *range(90, 99)], "max_tokens": 2},
            RUN,
        ],
    },
}
