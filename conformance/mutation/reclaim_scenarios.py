"""Scenarios beside a KV connector as it ought to be, for defects of the
specification that no golden scenario notices: found at random, and made small.
"""

from typing import Any

from nullblock.conformance.mutation.scenarios import SCHEDULE, UPDATE, add

MORE_RECLAIM: dict[str, dict[str, Any]] = {
    # Where defects of `loaded.last_left_behind` show.
    "last-left-behind": {
        "config": {
            "block_size": 1,
            "groups": [{"type": "full"}, {"type": "chunked_local", "chunk": 6}],
            "connector": {
                "matched": {"\u00e90": 99, "d1": None, "d2": 5, "a3": 5, "c4": 0},
                "async": False,
                "delay_free": ["c4"],
                "failure_policy": "recompute",
                "all_groups": True,
            },
        },
        "events": [
            {
                "op": "add",
                "id": "\u00e90",
                "prompt": {"concat": [{"range": [1000, 1005]}, [3, 0]]},
                "max_tokens": 6,
            },
            {"op": "step"},
            {"op": "step"},
            {"op": "step"},
            {"op": "step"},
            {"op": "step"},
            {"op": "step"},
        ],
    },
    # Where defects of `groups.hits_alone`, `hybrid.agreed` show.
    "hits-alone": {
        "config": {
            "block_size": 2,
            "groups": [{"type": "chunked_local", "chunk": 8}],
            "connector": {
                "matched": {
                    "e0": 1,
                    "Z1": None,
                    "e2": 99,
                    "f3": 4,
                    "e4": 99,
                    "d5": 8,
                    "Z7": 8,
                    "Z8": 16,
                },
                "async": ["e0", "Z1", "e2", "f3", "d5", "h6", "Z8"],
                "delay_free": True,
                "failure_policy": "fail",
            },
        },
        "events": [
            {"op": "add", "id": "b9", "prompt": [3], "max_tokens": 2},
            {
                "op": "add",
                "id": "f11",
                "prompt": {"concat": [{"range": [2000, 2007]}, [3, 1]]},
                "max_tokens": 1,
            },
            {"op": "step"},
            {"op": "step"},
        ],
    },
    # Where defects of `reclaim.may_reclaim` show.
    "may-reclaim": {
        "config": {
            "policy": "priority",
            "connector": {
                "matched": {"b0": 8, "\u00e91": None, "h2": 8, "g3": 8, "c5": None},
                "async": True,
                "delay_free": False,
                "failure_policy": "recompute",
            },
        },
        "events": [
            add("b0", 0, 1, 1) | {"priority": 1},
            {"op": "kv_done", "recv": ["b0"]},
            {"op": "step"},
            add("h2", 0, 1, 1),
            {"op": "add", "id": "d4", "prompt": [0], "max_tokens": 1, "priority": -1},
            SCHEDULE,
        ],
    },
    # Where defects of `machine.remote.let_loaded_go_on`, `remote.is_received`,
    # `rules.remote.go_on_loaded` show.
    "go-on-loaded": {
        "config": {
            "block_size": 2,
            "num_blocks": 5,
            "connector": {
                "matched": {"a": 12, "b": 4, "c": 12},
                "async": True,
                "delay_free": True,
                "failure_policy": "recompute",
            },
            "enable_prefix_caching": False,
        },
        "events": [
            add("b", 0, 5, 1),
            add("a", 20, 23, 1),
            {"op": "kv_done", "recv": ["b", "a"]},
            {"op": "step", "n": 2},
        ],
    },
    # Where defects of `reclaim.waits_loaded` show.
    "waits-loaded": {
        "config": {
            "block_size": 4,
            "num_blocks": 8,
            "connector": {
                "matched": {
                    "Z0": 16,
                    "c2": None,
                    "d3": None,
                    "h4": 1,
                    "Z6": None,
                    "g7": 8,
                    "\u00e98": 16,
                },
                "async": ["g1", "h4", "g7"],
                "delay_free": False,
                "failure_policy": "fail",
            },
        },
        "events": [
            add("Z0", 0, 16, 1) | {"resumable": True},
            {
                "op": "add",
                "id": "g1",
                "prompt": {"concat": [{"range": [2000, 2014]}, [3, 2]]},
                "max_tokens": 2,
                "resumable": True,
            },
            {"op": "step"},
            {"op": "step"},
        ],
    },
    # Where defects of `lost.trusted` show.
    "trusted": {
        "config": {
            "block_size": 2,
            "num_blocks": 14,
            "max_num_seqs": 2,
            "policy": "priority",
            "async_scheduling": True,
            "connector": {
                "matched": {"c0": 0, "e1": 16, "b5": 16, "d7": None, "g8": 99},
                "async": False,
                "delay_free": False,
                "failure_policy": "recompute",
            },
        },
        "events": [
            add("c0", 0, 7, 3) | {"skip_cache_read": True},
            add("e1", 0, 3, 1) | {"priority": -1},
            {"op": "add", "id": "\u00e92", "prompt": [2], "max_tokens": 1},
            {"op": "add", "id": "e3", "prompt": [1], "max_tokens": 3},
            {
                "op": "add",
                "id": "h6",
                "prompt": {"concat": [{"range": [0, 5]}, [0]]},
                "max_tokens": 2,
                "lora_id": 0,
                "skip_cache_read": True,
            },
            {"op": "step"},
            {"op": "abort", "ids": ["e1"], "status": "FINISHED_STOPPED"},
            SCHEDULE,
            {"op": "abort", "ids": ["\u00e92"], "status": "FINISHED_LENGTH_CAPPED"},
            SCHEDULE,
            {"op": "abort", "ids": ["c0"], "status": "FINISHED_LENGTH_CAPPED"},
            SCHEDULE,
            SCHEDULE,
            UPDATE,
            UPDATE,
            UPDATE,
            {"op": "kv_done", "invalid": [2]},
            UPDATE,
        ],
    },
    # Where defects of `reclaim.last_loaded`, `rules.remote.wait_anew` show.
    "wait-anew": {
        "config": {
            "block_size": 4,
            "num_blocks": 8,
            "connector": {
                "matched": {"a": 20, "b": 8, "c": 8},
                "async": True,
                "delay_free": False,
                "failure_policy": "recompute",
            },
            "policy": "priority",
        },
        "events": [
            add("c", 0, 9, 1),
            add("a", 0, 9, 1) | {"priority": 1},
            add("b", 0, 5, 1),
            {"op": "kv_done", "recv": ["c", "a", "b"]},
            {"op": "step", "n": 2},
        ],
    },
    # Where defects of `reclaim.lacks_alone` show.
    "lacks-alone": {
        "config": {
            "block_size": 4,
            "num_blocks": 8,
            "connector": {
                "matched": {"a": 4, "b": 20, "c": 12},
                "async": True,
                "delay_free": False,
                "failure_policy": "recompute",
            },
            "scheduler_reserve_full_isl": False,
            "max_num_batched_tokens": 1,
        },
        "events": [
            add("c", 0, 17, 1),
            add("b", 0, 5, 1),
            add("a", 0, 1, 1),
            {"op": "kv_done", "recv": ["c", "b", "a"]},
            {"op": "run"},
        ],
    },
    # Where defects of `reclaim.last_loaded` show.
    "last-loaded": {
        "config": {
            "block_size": 4,
            "num_blocks": 8,
            "connector": {
                "matched": {"a": 4, "b": 8, "c": 12, "d": 4},
                "async": True,
                "delay_free": False,
                "failure_policy": "recompute",
            },
        },
        "events": [
            add("b", 0, 9, 1),
            add("a", 0, 1, 1),
            add("d", 20, 21, 1),
            add("c", 0, 9, 1) | {"resumable": True},
            {"op": "kv_done", "recv": ["b", "a", "d", "c"]},
            {"op": "step", "n": 2},
        ],
    },
    # Where defects of `remote.is_found_waiting` show.
    "is-found-waiting-2": {
        "config": {
            "connector": {
                "matched": {"a": 12, "b": 12, "c": 20, "d": 8},
                "async": True,
                "delay_free": False,
                "failure_policy": "fail",
            }
        },
        "events": [
            add("c", 0, 1, 1),
            SCHEDULE,
            {"op": "kv_done", "invalid": [1]},
            {"op": "abort", "ids": ["c"]},
            UPDATE,
        ],
    },
}
"""By their names: of the first defect that each shows."""
