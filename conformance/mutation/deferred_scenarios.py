"""Scenarios of a later line beside a KV connector, for defects of the
specification that no golden scenario notices: found at random, and made small.
"""

from typing import Any

from nullblock.conformance.mutation.scenarios import SCHEDULE, UPDATE, add

MORE_DEFERRED: dict[str, dict[str, Any]] = {
    # Where defects of `rules.deferred.put_off`, `rules.deferred.take_back`, `waiting.is_next`,
    # `waiting.next_in_line` show.
    "put-off": {
        "config": {
            "block_size": 11,
            "policy": "priority",
            "long_prefill_token_threshold": 3,
            "async_scheduling": True,
            "queue_depth": 4,
            "max_loras": 1,
            "connector": {
                "matched": {
                    "h2": 5,
                    "a3": 0,
                    "Z5": 8,
                    "a6": 0,
                    "a8": 16,
                    "e9": 5,
                    "c12": 4,
                    "h14": 1,
                    "b17": 99,
                    "b19": 8,
                    "g22": 4,
                    "e29": 0,
                    "c30": 4,
                    "c31": 0,
                    "a32": 1,
                    "\u00e935": 99,
                    "h40": 8,
                    "a41": 5,
                    "a44": None,
                },
                "async": True,
                "delay_free": False,
                "failure_policy": "fail",
            },
        },
        "events": [
            add("c12", 1000, 1001, 1),
            add("d13", 0, 1, 1) | {"priority": -1, "lora": "B"},
            {"op": "add", "id": "h14", "prompt": {"fill": 0, "n": 1}, "max_tokens": 1},
            add("\u00e916", 1000, 1001, 1) | {"priority": -4, "lora": "C"},
            {
                "op": "add",
                "id": "b17",
                "prompt": {"concat": [{"range": [1000, 1030]}, [3, 2, 2, 2, 2]]},
                "max_tokens": 5,
                "priority": -5,
                "arrival": 7,
                "stop": [1, 2],
            },
            add("a18", 2000, 2037, 4) | {"priority": -6, "stop": [2, 2]},
            {
                "op": "add",
                "id": "b19",
                "prompt": {"concat": [{"range": [0, 37]}, [0]]},
                "max_tokens": 13,
                "priority": -7,
                "lora": "A",
                "lora_id": 1,
            },
            {
                "op": "add",
                "id": "Z21",
                "prompt": {"concat": [{"range": [0, 36]}, [3, 2]]},
                "max_tokens": 3,
                "priority": -9,
                "skip_cache_read": True,
            },
            {
                "op": "add",
                "id": "g22",
                "prompt": {"concat": [{"range": [0, 33]}, [1, 0, 2, 0, 2]]},
                "max_tokens": 23,
                "priority": -10,
            },
            {
                "op": "add",
                "id": "f23",
                "prompt": {"fill": 3, "n": 37},
                "max_tokens": 2,
                "priority": -11,
            },
            add("f24", 0, 37, 9) | {"priority": -12},
            {"op": "step"},
            {"op": "step"},
            {"op": "kv_done", "recv": ["c12", "h14", "b17", "g22"], "invalid": [6, 14]},
            {"op": "step"},
            {"op": "step"},
            {"op": "step"},
            {"op": "step"},
            {"op": "step"},
        ],
    },
    # Where defects of `deferred.num_back`, `rules.deferred.take_back` show.
    "num-back": {
        "config": {
            "block_size": 1,
            "connector": {
                "matched": {"a": 4, "b": 20},
                "async": ["a"],
                "delay_free": False,
                "failure_policy": "recompute",
            },
            "async_scheduling": True,
        },
        "events": [
            add("b", 0, 1, 2),
            {"op": "step"},
            SCHEDULE,
            add("a", 0, 2, 1),
            {"op": "step"},
            {"op": "step", "n": 2},
        ],
    },
    # Where defects of `rules.deferred.put_off` show.
    "put-off-2": {
        "config": {
            "connector": {
                "matched": {"b": None},
                "async": False,
                "delay_free": False,
                "failure_policy": "fail",
            },
            "async_scheduling": True,
        },
        "events": [
            add("a", 20, 21, 1),
            {"op": "step"},
            {"op": "abort", "ids": ["a"]},
            add("a", 0, 1, 1),
            {"op": "step"},
        ],
    },
    # Where defects of `state.may_chunk` show.
    "may-chunk": {
        "config": {
            "max_num_batched_tokens": 1,
            "enable_chunked_prefill": False,
            "connector": {
                "matched": {"e1": 4, "b5": 0},
                "async": True,
                "delay_free": ["e1", "b3", "b5"],
                "failure_policy": "recompute",
            },
        },
        "events": [
            {"op": "add", "id": "e1", "prompt": {"fill": 3, "n": 2}, "max_tokens": 1},
            {"op": "step"},
        ],
    },
    # Where defects of `deferred.num_back` show.
    "num-back-2": {
        "config": {
            "block_size": 1,
            "num_blocks": 5,
            "pipeline_parallel_size": 2,
            "connector": {
                "matched": {"\u00e90": 99, "a2": 99},
                "async": ["e1", "a2", "\u00e95", "Z6"],
                "delay_free": False,
                "failure_policy": "fail",
            },
        },
        "events": [
            {"op": "add", "id": "\u00e90", "prompt": [3, 1, 3, 0], "max_tokens": 2},
            {"op": "step"},
            SCHEDULE,
        ],
    },
    # Where defects of `later.set_aside`, `later.still_lacks`, `rules.waiting.open_gap`,
    # `rules.waiting.stand_apart` show.
    "stand-apart": {
        "config": {
            "block_size": 7,
            "num_blocks": 9,
            "max_model_len": 12,
            "async_scheduling": True,
            "queue_depth": 1,
            "connector": {
                "matched": {"Z1": 99, "Z4": 1, "Z5": 1, "f6": 8, "g7": 8, "b12": 16},
                "async": True,
                "delay_free": True,
                "failure_policy": "recompute",
            },
        },
        "events": [
            add("Z1", 2000, 2001, 1),
            add("a2", 0, 1, 1),
            {"op": "kv_done"},
            add("a3", 2000, 2006, 3),
            {
                "op": "add",
                "id": "Z4",
                "prompt": {"concat": [{"range": [0, 6]}, [1]]},
                "max_tokens": 1,
            },
            add("Z5", 1000, 1001, 1),
            add("f6", 0, 1, 15)
            | {
                "min_tokens": 10,
                "salt": "zz",
                "stop": [0, 4, 0],
                "lora": "B",
                "lora_id": 2,
                "grammar": {"ready": True},
            },
            SCHEDULE,
            SCHEDULE,
            {"op": "abort", "ids": ["Z5"], "status": "FINISHED_ABORTED"},
            UPDATE,
            UPDATE,
            {
                "op": "add",
                "id": "g7",
                "prompt": {"concat": [{"range": [0, 2]}, [3, 0, 2, 0, 2]]},
                "max_tokens": 7,
                "lora": "C",
                "eos": 3,
                "eos_at": 7,
                "lora_id": 3,
            },
            {"op": "kv_match", "matched": {"Z1": 5}},
            add("c8", 0, 7, 3) | {"arrival": 1, "grammar": {"ready": True, "reject_at": 2}},
            {
                "op": "add",
                "id": "b9",
                "prompt": {"concat": [{"range": [1000, 1002]}, [0, 3, 3, 3, 1]]},
                "max_tokens": 11,
                "eos": 1,
                "eos_at": 8,
            },
            {"op": "step"},
            {
                "op": "add",
                "id": "b12",
                "prompt": {"concat": [{"range": [2000, 2008]}, [2, 3]]},
                "max_tokens": 13,
                "stop": [2, 1, 4],
                "lora": "Z",
                "lora_id": 0,
            },
            {"op": "step"},
            {"op": "kv_done", "recv": ["Z1", "f6"], "send": ["a2", "a3"], "invalid": [6]},
            {"op": "step"},
            {"op": "step"},
            {"op": "step"},
        ],
    },
    # Where defects of `rules.deferred.put_off` show.
    "put-off-3": {
        "config": {
            "block_size": 1,
            "connector": {
                "matched": {"a": 20, "c": 20},
                "async": True,
                "delay_free": False,
                "failure_policy": "fail",
            },
            "async_scheduling": True,
        },
        "events": [
            add("b", 0, 1, 1),
            {"op": "step"},
            {"op": "abort", "ids": ["b"]},
            add("b", 0, 1, 1),
            {"op": "step"},
        ],
    },
    # Where defects of `rules.queues.requeue` show.
    "requeue": {
        "config": {
            "block_size": 5,
            "num_blocks": 6,
            "policy": "priority",
            "scheduler_reserve_full_isl": False,
            "long_prefill_token_threshold": 2,
            "connector": {
                "matched": {"f0": 8, "Z3": 1},
                "async": ["f4", "\u00e95", "f6", "g7", "c8"],
                "delay_free": True,
                "failure_policy": "recompute",
            },
        },
        "events": [
            add("f0", 1000, 1001, 1),
            add("c1", 0, 1, 1),
            add("a2", 0, 1, 1),
            {"op": "abort", "ids": None},
            {"op": "kv_done"},
            add("Z3", 0, 2, 5),
            add("f4", 2000, 2001, 6)
            | {"min_tokens": 4, "priority": 2, "arrival": 1, "lora": "", "stop": [0, 4, 2]},
            add("\u00e95", 0, 5, 5) | {"min_tokens": 2, "priority": 5, "arrival": 2.5},
            {"op": "step"},
            {"op": "step"},
            {"op": "step"},
            {"op": "step"},
            {"op": "step"},
            {"op": "step"},
            {"op": "step"},
            {"op": "step"},
            add("g7", 1000, 1005, 4)
            | {"priority": 0, "lora": "zz", "grammar": {"ready": True, "after": 3}},
            {"op": "kv_done", "send": ["f4"]},
            {"op": "step"},
            {"op": "step"},
            {"op": "kv_match", "matched": {"\u00e95": 0}},
            {"op": "step"},
            {"op": "kv_match", "matched": {"\u00e95": 1}},
            {"op": "step"},
            {"op": "step"},
            {"op": "step"},
            {"op": "kv_done", "send": ["Z3"]},
            {"op": "step"},
            {"op": "step"},
        ],
    },
    # Where defects of `rules.deferred.take_back` show.
    "take-back": {
        "config": {
            "connector": {
                "matched": {"a": 4, "b": 8, "c": 12},
                "async": False,
                "delay_free": False,
                "failure_policy": "recompute",
            },
            "async_scheduling": True,
        },
        "events": [
            add("b", 0, 1, 1),
            add("a", 0, 1, 1),
            {"op": "step"},
            {"op": "abort", "ids": ["b"]},
            {"op": "abort", "ids": ["a"]},
            {"op": "step"},
        ],
    },
    # Where defects of `deferred.is_due` show.
    "is-due": {
        "config": {
            "connector": {
                "matched": {"b": 4, "c": 12},
                "async": ["a"],
                "delay_free": False,
                "failure_policy": "recompute",
            },
            "async_scheduling": True,
        },
        "events": [
            add("a", 0, 1, 2),
            SCHEDULE,
            UPDATE,
            SCHEDULE,
            {"op": "abort", "ids": ["a"]},
            UPDATE,
        ],
    },
}
"""By their names: of the first defect that each shows."""
