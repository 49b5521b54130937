"""Scenarios in which random steps once found that the specification went another way than vLLM:
they notice defects of what was mended.
"""

from typing import Any

MORE_FOUND: dict[str, dict[str, Any]] = {
    # Where defects of `groups.overlooked` show.
    "overlooked": {
        "config": {
            "block_size": 2,
            "num_blocks": 24,
            "long_prefill_token_threshold": 2,
            "async_scheduling": True,
            "queue_depth": 3,
            "groups": [
                {"type": "sliding_window", "sliding_window": 3},
                {"type": "full", "block_size": 4},
                {"type": "sliding_window", "block_size": 6, "sliding_window": 7},
            ],
            "num_spec_tokens": 2,
            "spec_method": "draft_model",
            "connector": {
                "matched": {"b3": 99},
                "async": True,
                "delay_free": True,
                "all_groups": True,
            },
        },
        "events": [
            {"op": "add", "id": "e0", "prompt": {"range": [0, 1]}, "max_tokens": 1},
            {"op": "add", "id": "f1", "prompt": {"range": [0, 1]}, "max_tokens": 1},
            {"op": "add", "id": "b3", "prompt": {"range": [0, 5]}, "max_tokens": 2},
            {"op": "add", "id": "d4", "prompt": {"fill": 2, "n": 8}, "max_tokens": 4},
            {"op": "step"},
            {"op": "kv_done", "recv": ["b3"]},
            {"op": "step"},
            {"op": "step"},
            {"op": "step"},
            {"op": "step"},
            {"op": "kv_match", "matched": {"b3": 99}},
            {"op": "step"},
            {"op": "kv_done", "send": ["e0", "b3"]},
            {"op": "step"},
            {"op": "step"},
        ],
    },
    # Where defects of `aligned.whole_blocks` show.
    "fewer-than-none": {
        "config": {
            "block_size": 1,
            "async_scheduling": True,
            "num_spec_tokens": 5,
            "spec_method": "eagle",
            "groups": [
                {"type": "full"},
                {"type": "mamba", "mamba_cache_mode": "align", "num_speculative_blocks": 5},
            ],
        },
        "events": [
            {"op": "add", "id": "f", "prompt": {"range": [100, 102]}, "max_tokens": 2},
            {"op": "schedule"},
            {"op": "update"},
            {"op": "schedule"},
            {"op": "step"},
            {"op": "reset_prefix_cache", "reset_running": True},
            {"op": "step"},
            {"op": "schedule"},
        ],
    },
    # Where defects of `rules.junctions._notes` show.
    "junction-of-chunks-that-end-within-a-block": {
        "config": {
            "block_size": 2,
            "groups": [
                {"type": "chunked_local", "chunk": 3},
                {"type": "mamba", "mamba_cache_mode": "align"},
            ],
        },
        "events": [
            {"op": "add", "id": "b", "prompt": {"range": [0, 5]}, "max_tokens": 1},
            {"op": "schedule"},
        ],
    },
    # Where defects of `aligned.whole_blocks` show.
    "junction-of-chunks-behind-which-a-step-goes-on": {
        "config": {
            "block_size": 2,
            "groups": [
                {"type": "chunked_local", "chunk": 5},
                {"type": "mamba", "mamba_cache_mode": "align", "num_speculative_blocks": 6},
            ],
        },
        "events": [
            {"op": "add", "id": "f", "prompt": {"fill": 1, "n": 16}, "max_tokens": 1},
            {"op": "step"},
        ],
    },
    # Where defects of `gate.free_states` show.
    "free-state-that-a-load-leaves-out": {
        "config": {
            "block_size": 4,
            "groups": [{"type": "mamba", "mamba_cache_mode": "align"}, {"type": "full"}],
            "num_blocks": 6,
            "connector": {"matched": {}, "async": ["a"], "all_groups": True},
        },
        "events": [
            {"op": "add", "id": "a", "prompt": {"range": [0, 13]}, "max_tokens": 1},
            {"op": "schedule"},
            {"op": "drain"},
            {"op": "schedule"},
            {"op": "kv_match", "matched": {"a": 37}},
            {"op": "step"},
        ],
    },
}
