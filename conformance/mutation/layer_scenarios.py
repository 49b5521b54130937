"""Scenarios with several groups, or layers that see a part of the past, for defects of the
specification that no golden scenario notices: found at random, and made small.
"""

from typing import Any

from nullblock.conformance.mutation.scenarios import add

MORE_LAYERS: dict[str, dict[str, Any]] = {
    # Where defects of `flight.has_answer`, `flight.room_grows`, `hybrid.lacks`,
    # `machine.cross.give_room_with_output` show.
    "room-grows": {
        "config": {
            "block_size": 3,
            "num_blocks": 11,
            "policy": "priority",
            "enable_prefix_caching": False,
            "async_scheduling": True,
            "groups": [{"type": "chunked_local", "chunk": 6}, {"type": "cross_attention"}],
            "encoder": {
                "is_encoder_decoder": True,
                "max_num_encoder_input_tokens": 26,
                "encoder_cache_size": 16,
                "max_tokens_per_item": 1,
                "disable_chunked_mm_input": True,
            },
        },
        "events": [
            add("a0", 0, 1, 4) | {"mm_features": [{"hash": "m0", "offset": 0, "length": 1}]},
            add("d1", 0, 1, 4) | {"mm_features": [{"hash": "m4", "offset": 0, "length": 8}]},
            add("d2", 0, 1, 4) | {"mm_features": [{"hash": "m2", "offset": 0, "length": 3}]},
            {"op": "step"},
            add("Z7", 2000, 2001, 1) | {"priority": 2},
            add("Z8", 0, 7, 1) | {"mm_features": [{"hash": "m2", "offset": 0, "length": 3}]},
            {
                "op": "add",
                "id": "c9",
                "prompt": {"concat": [{"range": [2000, 2003]}, [0, 3]]},
                "max_tokens": 20,
                "min_tokens": 20,
                "priority": 0,
                "arrival": 2.5,
                "eos": 4,
                "eos_at": 9,
                "mm_features": [{"hash": "m1", "offset": 0, "length": 2}],
            },
            {"op": "step", "n": 5},
        ],
    },
    # Where defects of `sizes.is_left_out` show.
    "is-left-out": {
        "config": {
            "block_size": 1,
            "groups": [
                {"type": "sliding_window", "block_size": 3, "sliding_window": 15},
                {"type": "full"},
                {"type": "sliding_window", "block_size": 9, "sliding_window": 49},
            ],
        },
        "events": [add("d13", 0, 1, 9), {"op": "run"}],
    },
    # Where defects of `sizes.is_left_out` show.
    "is-left-out-2": {
        "config": {
            "block_size": 1,
            "groups": [
                {"type": "sliding_window", "sliding_window": 1},
                {"type": "full", "block_size": 8},
            ],
        },
        "events": [add("b", 0, 7, 2), {"op": "run"}],
    },
    # Where defects of `groups.outlived` show.
    "outlived": {
        "config": {
            "block_size": 1,
            "groups": [
                {"type": "sliding_window", "sliding_window": 1},
                {"type": "full", "eagle": True},
            ],
        },
        "events": [{"op": "add", "id": "a3", "prompt": [2], "max_tokens": 2}, {"op": "run"}],
    },
    # Where defects of `hybrid.reach_of_full` show.
    "reach-of-full-2": {
        "config": {
            "groups": [
                {"type": "full"},
                {"type": "sliding_window", "sliding_window": 14, "eagle": True},
            ]
        },
        "events": [add("Z0", 1000, 1001, 1), {"op": "step"}],
    },
    # Where defects of `hybrid.taken_alone` show.
    "taken-alone": {
        "config": {
            "block_size": 4,
            "num_blocks": 4,
            "groups": [{"type": "sliding_window", "sliding_window": 5}],
            "max_num_batched_tokens": 4,
        },
        "events": [add("a", 0, 4, 1), add("b", 0, 13, 1), {"op": "step", "n": 2}],
    },
    # Where defects of `hybrid.taken_alone` show.
    "taken-alone-2": {
        "config": {
            "block_size": 4,
            "num_blocks": 12,
            "max_num_batched_tokens": 4,
            "groups": [{"type": "full"}, {"type": "sliding_window", "sliding_window": 6}],
        },
        "events": [add("a", 0, 4, 2), {"op": "step"}, add("b", 0, 17, 1), {"op": "step"}],
    },
    # Where defects of `hybrid.awaits_state` show.
    "awaits-state": {
        "config": {"block_size": 2, "groups": [{"type": "chunked_local", "chunk": 4}]},
        "events": [add("b", 40, 45, 1), add("d", 0, 1, 2), {"op": "run"}],
    },
}
"""By their names: of the first defect that each shows."""
