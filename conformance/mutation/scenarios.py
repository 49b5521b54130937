"""Scenarios for defects of the specification that no golden scenario notices."""

from typing import Any


def add(id: str, first: int, last: int, max_tokens: int) -> dict[str, Any]:
    """The event of an arrival, its prompt the numbers from `first` to before `last`."""
    return {"op": "add", "id": id, "prompt": {"range": [first, last]}, "max_tokens": max_tokens}


RUN = {"op": "run", "max_steps": 60}
SCHEDULE, UPDATE = {"op": "schedule"}, {"op": "update"}
RESET = {"op": "reset_prefix_cache", "reset_running": True}
AHEAD = {"block_size": 4, "num_blocks": 9, "async_scheduling": True, "queue_depth": 3}
SCARCE = AHEAD | {"num_blocks": 6, "scheduler_reserve_full_isl": False}
UNCUT = {"block_size": 4, "num_blocks": 9, "enable_chunked_prefill": False}

MORE: dict[str, dict[str, Any]] = {
    "id-again-after-a-preemption": {
        "config": {"block_size": 4, "num_blocks": 5, "max_num_seqs": 2},
        "events": [
            add("a", 0, 7, 9),
            add("b", 20, 27, 9),
            {"op": "step", "n": 4},
            {"op": "abort", "ids": ["b"]},
            add("b", 30, 35, 2),
            RUN,
        ],
    },
    # A whole prompt fits only if hits that stand in the free queue are not counted as free too.
    "whole-sequence-with-free-hits": {
        "config": {"block_size": 4, "num_blocks": 6, "long_prefill_token_threshold": 4},
        "events": [
            add("a", 0, 8, 1),
            RUN,
            add("b", 40, 45, 3),
            {"op": "step", "n": 2},
            add("c", 0, 20, 1),
            RUN,
        ],
    },
    # Chunked prefill is off, and the threshold alone cuts a prompt beyond the budget.
    **{
        f"threshold-{threshold}-of-{budget}-serves": {
            "config": UNCUT
            | {"max_num_batched_tokens": budget, "long_prefill_token_threshold": threshold},
            "events": [add("a", 0, 14, 2), add("b", 40, 43, 2), RUN],
        }
        for threshold, budget in ((1, 6), (5, 6), (6, 6), (7, 6))
    },
    "threshold-of-one": {
        "config": {"block_size": 4, "num_blocks": 9, "long_prefill_token_threshold": 1},
        "events": [add("a", 0, 4, 2), RUN],
    },
    "threshold-cuts-one-token": {
        "config": {"block_size": 4, "num_blocks": 9, "long_prefill_token_threshold": 4},
        "events": [add("a", 0, 5, 2), RUN],
    },
    "prompt-that-leaves-one-token": {
        "config": {"block_size": 4, "num_blocks": 9, "max_model_len": 8},
        "events": [add("a", 0, 7, 3), RUN],
    },
    "paused-altogether-looks-idle": {
        "config": {"block_size": 4, "num_blocks": 9},
        "events": [
            add("a", 0, 5, 5),
            {"op": "step", "n": 2},
            {"op": "pause", "state": "PAUSED_ALL"},
            RUN,
            {"op": "pause", "state": "UNPAUSED"},
            RUN,
        ],
    },
    "ahead-without-a-cache": {
        "config": {
            **{"block_size": 4, "num_blocks": 9, "async_scheduling": True, "queue_depth": 2},
            "enable_prefix_caching": False,
        },
        "events": [add("a", 0, 6, 9), RUN],
    },
    "ahead-in-chunks-to-one-token": {
        "config": {
            **{"block_size": 4, "num_blocks": 9, "async_scheduling": True, "queue_depth": 2},
            "long_prefill_token_threshold": 4,
        },
        "events": [add("a", 0, 5, 1), add("b", 20, 25, 2), RUN],
    },
    # Three steps go out before the first output: blocks are cached when outputs come.
    "events-of-blocks-cached-at-the-update": {
        "config": {
            **{"block_size": 4, "num_blocks": 9, "async_scheduling": True, "queue_depth": 3},
            "kv_events": True,
        },
        "events": [add("a", 0, 6, 8), *[SCHEDULE] * 3, {"op": "drain"}, RUN],
    },
    # From here on vllm-0.32.0: output that was in flight at a preemption is stale.
    "id-again-in-flight-and-reset": {
        "config": AHEAD,
        "events": [
            *(add("a", 0, 6, 9), SCHEDULE, {"op": "abort", "ids": ["a"]}, UPDATE),
            *(add("a", 20, 25, 9), SCHEDULE, RESET, UPDATE, RUN),
        ],
    },
    "aborted-while-stale": {
        "config": AHEAD,
        "events": [
            *(add("a", 0, 6, 9), SCHEDULE, RESET, {"op": "abort", "ids": ["a"]}),
            *(add("a", 20, 25, 9), SCHEDULE, UPDATE, UPDATE, RUN),
        ],
    },
    "stale-again": {
        "config": AHEAD | {"num_blocks": 6, "max_num_seqs": 2},
        "events": [
            *(add("a", 0, 6, 12), add("b", 20, 26, 12)),
            *(SCHEDULE, SCHEDULE, RESET, SCHEDULE, SCHEDULE, RESET, SCHEDULE),
            *(*[UPDATE] * 4, {"op": "drain"}, RUN),
        ],
    },
    "preempted-while-stale": {
        "config": SCARCE,
        "events": [
            *(add("a", 0, 7, 12), add("b", 20, 27, 12)),
            *(SCHEDULE, RESET, SCHEDULE, *[SCHEDULE, UPDATE] * 4, RUN),
        ],
    },
    "preempted-with-one-token-stale": {
        "config": SCARCE,
        "events": [
            *(add("a", 0, 7, 12), add("b", 20, 27, 12)),
            *(SCHEDULE, UPDATE, SCHEDULE, RESET, SCHEDULE, *[SCHEDULE, UPDATE] * 4, RUN),
        ],
    },
    "watermark-alone": {
        "config": {"block_size": 4, "num_blocks": 9, "watermark": 0.5},
        "events": [add("a", 0, 24, 2), RUN],
    },
}
