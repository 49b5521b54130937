"""Scenarios with encoder inputs, for defects of the
specification that no golden scenario notices: found at random, and made small.
"""

from typing import Any

from nullblock.conformance.mutation.scenarios import SCHEDULE, UPDATE, add

MORE_INPUTS: dict[str, dict[str, Any]] = {
    # Where defects of `encoder.is_planned_already` show.
    "is-planned-already": {
        "config": {
            "enable_prefix_caching": False,
            "encoder": {
                "is_encoder_decoder": True,
                "max_num_encoder_input_tokens": 8,
                "encoder_cache_size": 13,
                "max_tokens_per_item": 5,
                "disable_chunked_mm_input": False,
            },
        },
        "events": [
            add("e8", 2000, 2001, 1)
            | {
                "mm_features": [
                    {"hash": "m1", "offset": 0, "length": 2},
                    {"hash": "m1", "offset": 0, "length": 2},
                ]
            },
            {"op": "run"},
        ],
    },
    # Where defects of `machine.update.settle` show.
    "settle": {
        "config": {
            "encoder": {
                "max_num_encoder_input_tokens": 6,
                "encoder_cache_size": 16,
                "disable_chunked_mm_input": True,
            },
            "num_spec_tokens": 1,
        },
        "events": [
            add("c", 0, 5, 2) | {"mm_features": [{"hash": "Y", "offset": 2, "length": 3}]},
            SCHEDULE,
            {"op": "step", "n": 2},
            {"op": "reset_prefix_cache", "reset_running": True},
            SCHEDULE,
            UPDATE,
        ],
    },
    # Where defects of `machine.update.settle` show.
    "settle-2": {
        "config": {
            "encoder": {
                "max_num_encoder_input_tokens": 8,
                "encoder_cache_size": 6,
                "disable_chunked_mm_input": True,
            }
        },
        "events": [
            add("c", 0, 5, 1)
            | {"mm_features": [{"hash": "X", "offset": 1, "length": 4}], "pooling": True},
            {"op": "run"},
        ],
    },
    # Where defects of `rules.encoder.wipe_embeddings` show.
    "wipe-embeddings": {
        "config": {
            "block_size": 4,
            "num_blocks": 8,
            "encoder": {"max_num_encoder_input_tokens": 8, "encoder_cache_size": 8},
        },
        "events": [
            add("b", 0, 6, 2) | {"mm_features": [{"hash": "W", "offset": 1, "length": 4}]},
            add("a", 0, 16, 2)
            | {
                "mm_features": [
                    {"hash": "X", "offset": 2, "length": 3},
                    {"hash": "Z", "offset": 10, "length": 2},
                    {"hash": "Z", "offset": 13, "length": 2},
                ]
            },
            SCHEDULE,
            SCHEDULE,
            add("c", 0, 6, 2) | {"mm_features": [{"hash": "W", "offset": 2, "length": 4}]},
            {"op": "reset_encoder_cache"},
            {"op": "step", "n": 1},
            {"op": "step", "n": 2},
            {"op": "step", "n": 3},
            {"op": "run", "max_steps": 15},
        ],
    },
    # Where defects of `machine.update.let_stopped_go`, `machine.update.settle` show.
    "settle-3": {
        "config": {
            "block_size": 4,
            "num_blocks": 8,
            "encoder": {"max_num_encoder_input_tokens": 4, "encoder_cache_size": 8},
            "async_scheduling": True,
            "queue_depth": 2,
            "max_num_batched_tokens": 12,
        },
        "events": [
            add("c", 0, 9, 1)
            | {
                "mm_features": [
                    {"hash": "Y", "offset": 1, "length": 3},
                    {"hash": "Z", "offset": 6, "length": 3},
                ]
            },
            add("a", 0, 9, 2)
            | {
                "mm_features": [
                    {"hash": "X", "offset": 0, "length": 3},
                    {"hash": "X", "offset": 4, "length": 3},
                ],
                "pooling": True,
            },
            {"op": "step", "n": 2},
            UPDATE,
            SCHEDULE,
            UPDATE,
            {"op": "run", "max_steps": 15},
        ],
    },
    # Where defects of `encoder.is_repeated` show.
    "is-repeated": {
        "config": {
            "block_size": 4,
            "num_blocks": 20,
            "encoder": {
                "max_num_encoder_input_tokens": 4,
                "encoder_cache_size": 16,
                "disable_chunked_mm_input": True,
            },
            "async_scheduling": True,
            "queue_depth": 2,
            "max_num_batched_tokens": 4,
        },
        "events": [
            add("a", 0, 12, 2)
            | {
                "mm_features": [
                    {"hash": "W", "offset": 0, "length": 2},
                    {"hash": "Z", "offset": 3, "length": 2},
                    {"hash": "W", "offset": 7, "length": 2},
                ]
            },
            SCHEDULE,
            UPDATE,
            add("c", 0, 6, 1) | {"mm_features": [{"hash": "X", "offset": 2, "length": 4}]},
            UPDATE,
            add("b", 0, 12, 4)
            | {
                "mm_features": [
                    {"hash": "X", "offset": 1, "length": 4},
                    {"hash": "Y", "offset": 10, "length": 2},
                ]
            },
            {"op": "step", "n": 1},
            {"op": "step", "n": 2},
            {"op": "step", "n": 2},
            {"op": "run", "max_steps": 15},
        ],
    },
    # Where defects of `encoder.has_passed` show.
    "has-passed": {
        "config": {
            "block_size": 4,
            "num_blocks": 12,
            "encoder": {"max_num_encoder_input_tokens": 4, "encoder_cache_size": 4},
            "async_scheduling": True,
            "queue_depth": 2,
            "max_num_batched_tokens": 4,
            "num_spec_tokens": 1,
            "accept": "none",
            "spec_method": "eagle",
            "scheduler_reserve_full_isl": False,
        },
        "events": [
            add("b", 0, 16, 2)
            | {
                "mm_features": [
                    {"hash": "W", "offset": 1, "length": 4},
                    {"hash": "X", "offset": 6, "length": 2},
                ]
            },
            {"op": "reset_encoder_cache"},
            {"op": "step", "n": 3},
            {"op": "step", "n": 3},
            UPDATE,
            UPDATE,
            {"op": "reset_prefix_cache", "reset_running": True},
            {"op": "reset_prefix_cache", "reset_running": True},
            add("c", 0, 12, 1)
            | {
                "mm_features": [
                    {"hash": "X", "offset": 2, "length": 4},
                    {"hash": "Z", "offset": 7, "length": 4},
                ]
            },
            add("a", 0, 12, 2)
            | {
                "mm_features": [
                    {"hash": "Y", "offset": 0, "length": 4},
                    {"hash": "W", "offset": 4, "length": 3},
                ]
            },
            {"op": "step", "n": 1},
            {"op": "step", "n": 3},
            {"op": "run", "max_steps": 15},
        ],
    },
    # Where defects of `encoder.is_repeated` show.
    "is-repeated-2": {
        "config": {
            "block_size": 4,
            "num_blocks": 6,
            "encoder": {
                "max_num_encoder_input_tokens": 4,
                "encoder_cache_size": 8,
                "disable_chunked_mm_input": True,
            },
            "async_scheduling": True,
            "queue_depth": 2,
            "max_num_batched_tokens": 4,
        },
        "events": [
            add("c", 0, 6, 4) | {"mm_features": [{"hash": "Y", "offset": 0, "length": 2}]},
            add("a", 0, 9, 2)
            | {
                "mm_features": [
                    {"hash": "Z", "offset": 1, "length": 3},
                    {"hash": "Z", "offset": 4, "length": 3},
                ]
            },
            add("b", 0, 6, 2) | {"mm_features": [{"hash": "X", "offset": 1, "length": 2}]},
            {"op": "step", "n": 3},
            SCHEDULE,
            {"op": "step", "n": 3},
            {"op": "run", "max_steps": 15},
        ],
    },
    # Where defects of `encoder.is_at_hand` show.
    "is-at-hand": {
        "config": {
            "block_size": 4,
            "num_blocks": 6,
            "encoder": {
                "max_num_encoder_input_tokens": 4,
                "encoder_cache_size": 16,
                "disable_chunked_mm_input": True,
            },
            "max_num_batched_tokens": 8,
        },
        "events": [
            add("a", 0, 12, 2)
            | {
                "mm_features": [
                    {"hash": "Y", "offset": 1, "length": 3},
                    {"hash": "Y", "offset": 6, "length": 3},
                ]
            },
            add("c", 0, 6, 2) | {"mm_features": [{"hash": "Z", "offset": 2, "length": 2}]},
            {"op": "step", "n": 1},
            {"op": "step", "n": 3},
            add("b", 0, 6, 2) | {"mm_features": [{"hash": "X", "offset": 1, "length": 2}]},
            {"op": "step", "n": 3},
            {"op": "step", "n": 1},
            {"op": "step", "n": 2},
            {"op": "step", "n": 3},
            {"op": "run", "max_steps": 15},
        ],
    },
    # Where defects of `encoder.has_let_go` show.
    "has-let-go": {
        "config": {
            "block_size": 4,
            "num_blocks": 6,
            "encoder": {
                "max_num_encoder_input_tokens": 6,
                "encoder_cache_size": 16,
                "disable_chunked_mm_input": True,
            },
            "async_scheduling": True,
            "queue_depth": 2,
            "max_num_batched_tokens": 8,
            "num_spec_tokens": 1,
            "accept": "all",
            "spec_method": "eagle",
        },
        "events": [
            add("a", 0, 6, 4) | {"mm_features": [{"hash": "X", "offset": 1, "length": 4}]},
            add("b", 0, 6, 4) | {"mm_features": [{"hash": "X", "offset": 2, "length": 4}]},
            add("c", 0, 6, 1) | {"mm_features": [{"hash": "Z", "offset": 1, "length": 4}]},
            {"op": "step", "n": 1},
            {"op": "step", "n": 1},
            {"op": "abort", "ids": ["a"]},
            {"op": "run", "max_steps": 15},
        ],
    },
}
"""By their names: of the first defect that each shows."""
