"""Scenarios of loads beside which room is left, for defects of the
specification that no golden scenario notices: found at random, and made small.
"""

from typing import Any

from nullblock.conformance.mutation.scenarios import SCHEDULE, add

MORE_ROOM: dict[str, dict[str, Any]] = {
    # Where defects of `later.set_aside` show.
    "set-aside": {
        "config": {
            "block_size": 8,
            "num_blocks": 6,
            "policy": "priority",
            "num_spec_tokens": 8,
            "spec_method": "eagle",
            "connector": {
                "matched": {"h0": None, "h1": 1, "d3": 5},
                "async": True,
                "delay_free": False,
                "failure_policy": "recompute",
            },
        },
        "events": [
            add("h1", 1000, 1001, 1),
            add("h2", 0, 1, 1) | {"priority": -2},
            {"op": "step"},
        ],
    },
    # Where defects of `drafts.lookahead`, `later.set_aside`, `later.still_lacks`,
    # `machine.remote.received`, `remote.offered`, `rules.later.end_filling`, `waiting.is_next`
    # show.
    "end-filling": {
        "config": {
            "block_size": 4,
            "num_blocks": 9,
            "connector": {
                "matched": {"a": 12, "d": 8},
                "async": True,
                "delay_free": False,
                "failure_policy": "fail",
            },
            "policy": "priority",
            "max_num_batched_tokens": 4,
            "enable_prefix_caching": False,
            "num_spec_tokens": 1,
            "spec_method": "draft_model",
        },
        "events": [
            add("b", 0, 4, 1),
            {"op": "step"},
            add("a", 0, 5, 1) | {"priority": 1},
            add("c", 20, 21, 1) | {"priority": 1},
            add("d", 0, 17, 1),
            {"op": "step"},
            {"op": "step"},
            {"op": "step"},
            {"op": "step"},
            {"op": "kv_done", "recv": ["b", "a", "c"]},
            {"op": "step"},
        ],
    },
    # Where defects of `later.set_aside` show.
    "set-aside-2": {
        "config": {
            "block_size": 2,
            "num_blocks": 9,
            "num_spec_tokens": 1,
            "connector": {
                "matched": {"a0": 5, "b1": 16},
                "async": True,
                "delay_free": [],
                "failure_policy": "recompute",
            },
        },
        "events": [
            {
                "op": "add",
                "id": "b1",
                "prompt": [2, 7, 7, 1, 7, 7, 1, 7, 7, 7, 7, 1, 7, 0, 2],
                "max_tokens": 1,
            },
            {"op": "run"},
        ],
    },
    # Where defects of `later.still_lacks` show.
    "still-lacks": {
        "config": {
            "block_size": 4,
            "num_blocks": 5,
            "connector": {
                "matched": {"a": None, "b": None},
                "async": True,
                "delay_free": False,
                "failure_policy": "recompute",
            },
        },
        "events": [
            add("a", 0, 9, 1),
            add("b", 20, 25, 1),
            {"op": "kv_match", "matched": {"b": 8}},
            {"op": "kv_match", "matched": {"a": 4}},
            {"op": "step"},
        ],
    },
    # Where defects of `later.still_lacks` show.
    "still-lacks-2": {
        "config": {
            "num_blocks": 5,
            "policy": "priority",
            "num_spec_tokens": 5,
            "connector": {
                "matched": {"Z0": 4, "c1": 0, "c2": 4, "g3": 99},
                "async": ["Z0", "c1", "c2"],
                "delay_free": True,
                "failure_policy": "recompute",
            },
        },
        "events": [
            add("Z0", 0, 1, 1),
            add("c2", 1000, 1027, 1) | {"priority": -1},
            {"op": "step"},
        ],
    },
    # Where defects of `rules.deferred.take_back`, `rules.later.leave_flight` show.
    "leave-flight": {
        "config": {"async_scheduling": True, "connector": {"async": ["x"], "matched": {}}},
        "events": [
            add("o", 60, 61, 2),
            {"op": "step"},
            add("x", 20, 21, 1),
            SCHEDULE,
            {"op": "abort", "ids": ["x"]},
            {"op": "kv_match", "matched": {"x": 8}},
            add("x", 0, 1, 1),
            SCHEDULE,
            {"op": "kv_done", "recv": ["x"]},
            {"op": "abort", "ids": ["x"]},
            {"op": "run"},
        ],
    },
    # Where defects of `later.is_open` show.
    "is-open-2": {
        "config": {"connector": {"async": ["x"], "matched": {"x": 8}}},
        "events": [
            add("x", 0, 1, 1),
            {"op": "step"},
            {"op": "pause", "state": "PAUSED_NEW"},
            add("a", 40, 41, 1),
            {"op": "step"},
        ],
    },
}
"""By their names: of the first defect that each shows."""
