"""Scenarios beside a KV connector, for defects of the
specification that no golden scenario notices: found at random, and made small.
"""

from typing import Any

from nullblock.conformance.mutation.scenarios import SCHEDULE, add

MORE_REMOTE: dict[str, dict[str, Any]] = {
    # Where defects of `lost.is_missing` show.
    "is-missing": {
        "config": {
            "block_size": 1,
            "connector": {
                "matched": {},
                "async": ["a"],
                "delay_free": False,
                "failure_policy": "recompute",
            },
            "async_scheduling": True,
            "max_num_batched_tokens": 1,
        },
        "events": [
            add("a", 0, 2, 1),
            {"op": "kv_done", "invalid": [3, 2]},
            {"op": "step"},
            {"op": "step"},
        ],
    },
    # Where defects of `lost.first_own`, `rules.loads.forget_report`,
    # `rules.loads.take_loaded` show.
    "take-loaded": {
        "config": {
            "block_size": 11,
            "policy": "priority",
            "long_prefill_token_threshold": 9,
            "async_scheduling": True,
            "connector": {
                "matched": {"a0": 1, "g3": 99, "Z4": 5},
                "async": False,
                "delay_free": False,
                "failure_policy": "recompute",
            },
        },
        "events": [
            add("a0", 2000, 2002, 1),
            add("g3", 1000, 1010, 3),
            add("Z4", 0, 20, 5)
            | {
                "priority": 0,
                "arrival": 1,
                "eos": 0,
                "lora": "Z",
                "lora_id": 0,
                "grammar": {"ready": False, "after": 3},
            },
            SCHEDULE,
            SCHEDULE,
            {"op": "drain"},
            {"op": "grammar_ready", "ids": ["g3", "Z4"]},
            {"op": "step"},
            {"op": "step"},
            {"op": "step"},
            {"op": "step"},
            {"op": "step"},
            {"op": "kv_done", "invalid": [1, 3, 5, 6]},
            {"op": "step"},
            {"op": "kv_done", "invalid": [5, 7]},
            {"op": "step"},
        ],
    },
    # Where defects of `machine.update.let_stopped_go`, `rules.remote.quit_for_good` show.
    "quit-for-good": {
        "config": {
            "block_size": 3,
            "num_blocks": 10,
            "async_scheduling": True,
            "num_spec_tokens": 5,
            "connector": {
                "matched": {"g0": 1, "g1": 5},
                "async": True,
                "delay_free": True,
                "failure_policy": "recompute",
                "kv_role": "kv_producer",
            },
        },
        "events": [
            add("g0", 0, 1, 1),
            {"op": "kv_done"},
            {
                "op": "add",
                "id": "g1",
                "prompt": {"concat": [{"range": [0, 4]}, [0]]},
                "max_tokens": 1,
            },
            add("h2", 0, 7, 3),
            {"op": "step"},
            {"op": "step"},
            {"op": "kv_done"},
            {"op": "step"},
            {"op": "step"},
            {"op": "step"},
            {"op": "step"},
        ],
    },
    # Where defects of `machine.remote.publish_what_came`, `rules.remote.keep` show.
    "keep": {
        "config": {
            "kv_events": True,
            "include_finished_set": True,
            "connector": {
                "matched": {
                    "e1": 8,
                    "c2": None,
                    "\u00e94": None,
                    "Z11": 8,
                    "c12": None,
                    "f13": 5,
                    "a14": None,
                    "a15": None,
                    "a17": 4,
                    "f21": 8,
                    "Z23": 16,
                    "Z24": 99,
                    "a26": 8,
                    "c28": 4,
                    "f29": None,
                    "\u00e931": 99,
                    "c33": 1,
                    "c35": 5,
                    "h36": 4,
                    "b38": 4,
                    "\u00e939": 99,
                },
                "async": True,
                "delay_free": [
                    "Z3",
                    "\u00e94",
                    "f6",
                    "Z11",
                    "c12",
                    "a14",
                    "d16",
                    "a17",
                    "\u00e918",
                    "f19",
                    "a20",
                    "f21",
                    "f25",
                    "c28",
                    "b30",
                    "\u00e931",
                    "e32",
                    "c33",
                    "g34",
                    "c35",
                    "h36",
                    "b38",
                ],
                "failure_policy": "fail",
                "kv_role": "kv_producer",
            },
        },
        "events": [
            add("h9", 0, 1, 1),
            add("a17", 0, 1, 1),
            add("f19", 0, 1, 1),
            add("Z23", 2000, 2016, 1),
            add("c28", 1000, 1001, 6)
            | {"min_tokens": 6, "priority": 1, "lora": "zz", "lora_id": None, "client_index": 2},
            {"op": "kv_match", "matched": {"h9": 4}},
            {"op": "step"},
            {"op": "kv_done", "recv": ["h9", "a17", "Z23", "c28"]},
            {"op": "step"},
            {"op": "step"},
            {"op": "step"},
            {"op": "run", "max_steps": 20},
        ],
    },
    # Where defects of `remote.offered` show.
    "offered": {
        "config": {
            "connector": {
                "matched": {"a": 4, "b": 4},
                "async": True,
                "delay_free": False,
                "failure_policy": "fail",
            }
        },
        "events": [
            add("a", 0, 2, 1),
            {"op": "step"},
            {"op": "kv_match", "matched": {"a": 4}},
            {"op": "kv_done", "recv": ["a"]},
            {"op": "step", "n": 2},
        ],
    },
    # Where defects of `remote.keeps_blocks` show.
    "keeps-blocks": {
        "config": {
            "connector": {
                "matched": {"a": 4, "b": 12, "d": 4},
                "async": True,
                "delay_free": False,
                "failure_policy": "fail",
            },
            "async_scheduling": True,
        },
        "events": [add("c", 0, 1, 1), {"op": "pause", "state": "PAUSED_ALL"}, {"op": "step"}],
    },
    # Where defects of `machine.sessions.leave`, `remote.is_found_waiting` show.
    "is-found-waiting": {
        "config": {
            "block_size": 1,
            "connector": {
                "matched": {"a": 4, "c": 12},
                "async": False,
                "delay_free": True,
                "failure_policy": "fail",
            },
        },
        "events": [
            add("a", 0, 2, 1),
            {"op": "step"},
            {"op": "kv_done", "invalid": [4, 2]},
            add("c", 20, 21, 1) | {"resumable": True},
            {"op": "step"},
            add("c", 40, 41, 1),
            {"op": "step"},
        ],
    },
    # Where defects of `later.is_open` show.
    "is-open": {
        "config": {"connector": {"async": ["x"], "matched": {"x": 8}}},
        "events": [
            add("x", 0, 1, 1),
            {"op": "step"},
            {"op": "pause", "state": "PAUSED_NEW"},
            {"op": "kv_done", "recv": ["x"]},
            {"op": "step"},
            {"op": "step"},
        ],
    },
    # Where defects of `lost.first_cutoff` show.
    "first-cutoff": {
        "config": {
            "block_size": 1,
            "connector": {
                "matched": {"a": 8, "b": 8},
                "async": False,
                "delay_free": False,
                "failure_policy": "fail",
            },
        },
        "events": [
            add("a", 0, 3, 1),
            {"op": "kv_done", "invalid": [2]},
            add("b", 0, 3, 1),
            {"op": "step"},
        ],
    },
    # Where defects of `loaded.to_load` show.
    "to-load": {
        "config": {
            "block_size": 2,
            "max_model_len": 1,
            "connector": {
                "matched": {"a": 5},
                "async": True,
                "delay_free": ["a"],
                "failure_policy": "recompute",
            },
        },
        "events": [
            add("a", 0, 1, 1) | {"resumable": True},
            add("a", 5, 8, 1) | {"resumable": True},
            SCHEDULE,
            {"op": "kv_done", "recv": ["a"]},
            {"op": "drain"},
            SCHEDULE,
            {"op": "kv_match", "matched": {"a": 16}},
            {"op": "step"},
            {"op": "step"},
        ],
    },
}
"""By their names: of the first defect that each shows."""
