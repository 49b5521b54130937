"""Scenarios with Mamba layers, for defects of the
specification that no golden scenario notices: found at random, and made small.
"""

from typing import Any

from nullblock.conformance.mutation.scenarios import SCHEDULE, add

MORE_MAMBA: dict[str, dict[str, Any]] = {
    # Where defects of `aligned.next_to_move`, `aligned.whole_blocks`, `aligned.would_shrink`,
    # `hybrid.accepted`, `hybrid.agreed_in_turn`, `hybrid.overshoot` show.
    "accepted": {
        "config": {
            "block_size": 7,
            "max_num_batched_tokens": 14,
            "async_scheduling": True,
            "groups": [
                {"type": "full"},
                {
                    "type": "mamba",
                    "mamba_cache_mode": "align",
                    "num_speculative_blocks": 2,
                    "eagle": True,
                },
            ],
            "num_spec_tokens": 3,
            "spec_method": "eagle",
            "accept": "none",
        },
        "events": [
            {
                "op": "add",
                "id": "e5",
                "prompt": {"concat": [{"range": [0, 49]}, [3, 0]]},
                "max_tokens": 6,
            },
            {"op": "step"},
            add("c6", 0, 22, 1),
            add("g7", 0, 26, 1) | {"skip_cache_read": True},
            add("h8", 0, 7, 5),
            {
                "op": "add",
                "id": "a9",
                "prompt": {"concat": [{"range": [2000, 2027]}, [1]]},
                "max_tokens": 1,
            },
            {"op": "step", "n": 2},
            {"op": "run", "max_steps": 5},
            {"op": "step", "n": 2},
            {"op": "drain"},
            {"op": "run"},
        ],
    },
    # Where defects of `hybrid.lacking` show.
    "lacking": {
        "config": {
            "block_size": 1,
            "num_blocks": 3,
            "groups": [
                {"type": "mamba", "mamba_cache_mode": "align", "num_speculative_blocks": 0}
            ],
            "num_spec_tokens": 1,
        },
        "events": [
            {"op": "add", "id": "f2", "prompt": [2], "max_tokens": 2},
            {"op": "step", "n": 2},
        ],
    },
    # Where defects of `aligned.blocks_within`, `aligned.lacking_states`,
    # `aligned.whole_blocks`, `hybrid.agreed`, `hybrid.overshoot` show.
    "agreed": {
        "config": {
            "block_size": 4,
            "num_blocks": 12,
            "groups": [{"type": "full"}, {"type": "mamba", "mamba_cache_mode": "align"}],
            "async_scheduling": True,
            "queue_depth": 3,
            "long_prefill_token_threshold": 3,
        },
        "events": [add("b", 40, 56, 2), add("a", 0, 12, 6), add("c", 0, 16, 4), {"op": "run"}],
    },
    # Where defects of `hybrid.overshoot` show.
    "overshoot": {
        "config": {
            "enable_prefix_caching": False,
            "groups": [
                {"type": "full", "block_size": 8},
                {"type": "mamba", "mamba_cache_mode": "none", "num_speculative_blocks": 0},
                {"type": "cross_attention", "block_size": 12},
            ],
            "num_spec_tokens": 1,
            "spec_method": "eagle",
        },
        "events": [
            {"op": "add", "id": "b0", "prompt": [2, 7, 7, 7, 7, 7, 0, 7], "max_tokens": 1},
            {"op": "step"},
        ],
    },
    # Where defects of `aligned.blocks_within` show.
    "blocks-within": {
        "config": {
            "block_size": 2,
            "long_prefill_token_threshold": 1,
            "groups": [
                {"type": "mamba", "mamba_cache_mode": "align", "num_speculative_blocks": 0},
                {"type": "sliding_window", "sliding_window": 23},
            ],
        },
        "events": [add("g8", 1000, 1002, 1), {"op": "run"}],
    },
    # Where defects of `aligned.lacking_states`, `hybrid.lacks`, `hybrid.lacks_whole` show.
    "lacks": {
        "config": {
            "block_size": 1,
            "groups": [
                {"type": "full"},
                {"type": "mamba", "mamba_cache_mode": "align", "num_speculative_blocks": 0},
            ],
        },
        "events": [
            {"op": "add", "id": "c0", "prompt": [0], "max_tokens": 1},
            {"op": "add", "id": "Z1", "prompt": [0], "max_tokens": 1},
            {"op": "add", "id": "g2", "prompt": [1], "max_tokens": 1},
            {"op": "add", "id": "g3", "prompt": [1], "max_tokens": 1},
            add("Z4", 0, 1, 1),
            add("d6", 2000, 2014, 1),
            add("\u00e97", 1000, 1008, 1),
            {
                "op": "add",
                "id": "Z8",
                "prompt": {"concat": [{"range": [2000, 2013]}, [3, 0]]},
                "max_tokens": 1,
            },
            add("d9", 2000, 2001, 1),
            {"op": "add", "id": "h11", "prompt": {"fill": 3, "n": 1}, "max_tokens": 1},
            {"op": "step"},
        ],
    },
    # Where defects of `aligned.whole_blocks`, `hybrid.agreed_in_turn` show.
    "agreed-in-turn": {
        "config": {
            "groups": [
                {"type": "full"},
                {"type": "mamba", "mamba_cache_mode": "align", "num_speculative_blocks": 0},
                {"type": "full"},
            ],
            "num_spec_tokens": 1,
            "spec_method": "eagle",
        },
        "events": [
            add("g1", 1000, 1001, 1),
            {"op": "add", "id": "\u00e92", "prompt": [0, 1], "max_tokens": 1},
            SCHEDULE,
        ],
    },
    # Where defects of `aligned.lacking_states` show.
    "lacking-states": {
        "config": {
            "num_blocks": 3,
            "groups": [
                {"type": "full"},
                {"type": "mamba", "mamba_cache_mode": "align", "num_speculative_blocks": 2},
            ],
        },
        "events": [add("a0", 1000, 1001, 1), SCHEDULE],
    },
    # Where defects of `hybrid.lacking_whole` show.
    "lacking-whole": {
        "config": {
            "block_size": 1,
            "num_blocks": 2,
            "groups": [
                {"type": "mamba", "mamba_cache_mode": "align", "num_speculative_blocks": 0}
            ],
        },
        "events": [add("a0", 0, 2, 1), SCHEDULE],
    },
    # Where defects of `rules.mamba.note_taken` show.
    "note-taken": {
        "config": {
            "groups": [
                {"type": "full"},
                {"type": "mamba", "mamba_cache_mode": "align"},
                {"type": "full"},
            ]
        },
        "events": [add("d", 40, 41, 1), add("a", 0, 1, 1), SCHEDULE],
    },
    # Where defects of `groups.is_pending` show.
    "is-pending": {
        "config": {
            "block_size": 1,
            "groups": [{"type": "full"}, {"type": "mamba", "mamba_cache_mode": "all"}],
        },
        "events": [add("d", 0, 1, 1), add("b", 0, 2, 1), {"op": "run"}],
    },
    # Where defects of `aligned.goes_back` show.
    "goes-back": {
        "config": {
            "block_size": 1,
            "groups": [
                {"type": "mamba", "mamba_cache_mode": "align", "num_speculative_blocks": 2},
                {"type": "full"},
            ],
            "long_prefill_token_threshold": 1,
        },
        "events": [add("d", 0, 5, 1), {"op": "run"}],
    },
    # Where defects of `hybrid.reach_of_full` show.
    "reach-of-full": {
        "config": {
            "block_size": 1,
            "num_blocks": 13,
            "groups": [
                {"type": "full", "eagle": True},
                {"type": "mamba", "mamba_cache_mode": "align", "num_speculative_blocks": 3},
                {"type": "full", "eagle": True},
            ],
        },
        "events": [add("d", 0, 1, 2), add("a", 0, 1, 2), {"op": "run"}],
    },
    # Where defects of `aligned.would_shrink`, `rules.lookup.ask_to_run` show.
    "would-shrink": {
        "config": {
            "block_size": 1,
            "groups": [
                {"type": "full", "eagle": True},
                {"type": "mamba", "mamba_cache_mode": "align", "num_speculative_blocks": 3},
                {"type": "full", "eagle": True},
            ],
            "num_spec_tokens": 1,
        },
        "events": [add("b", 0, 1, 2), SCHEDULE, {"op": "step", "n": 2}, {"op": "step"}],
    },
    # Where defects of `aligned.lacking_states`, `aligned.whole_blocks` show.
    "lacking-states-2": {
        "config": {
            "block_size": 2,
            "num_blocks": 16,
            "groups": [
                {"type": "mamba", "mamba_cache_mode": "align", "num_speculative_blocks": 3},
                {"type": "full"},
            ],
            "num_spec_tokens": 1,
            "async_scheduling": True,
            "queue_depth": 3,
            "max_num_batched_tokens": 8,
            "long_prefill_token_threshold": 5,
            "scheduler_reserve_full_isl": False,
        },
        "events": [
            add("a", 40, 56, 8),
            {"op": "run", "max_steps": 30},
            {"op": "reset_prefix_cache", "reset_running": True},
            {"op": "run", "max_steps": 30},
        ],
    },
}
"""By their names: of the first defect that each shows."""
