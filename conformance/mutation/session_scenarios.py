"""Scenarios with streaming sessions, for defects of the
specification that no golden scenario notices: found at random, and made small.
"""

from typing import Any

from nullblock.conformance.mutation.scenarios import SCHEDULE, UPDATE, add

MORE_SESSIONS: dict[str, dict[str, Any]] = {
    # Where defects of `drafts.lookahead` show.
    "lookahead": {
        "config": {"block_size": 1, "num_spec_tokens": 1, "spec_method": "draft_model"},
        "events": [
            add("b", 20, 21, 1) | {"resumable": True},
            add("b", 40, 41, 1) | {"resumable": True},
            {"op": "step"},
            {"op": "step"},
        ],
    },
    # Where defects of `rules.sessions._take_next` show.
    "take-next": {
        "config": {"max_model_len": 1},
        "events": [
            add("a", 0, 1, 1) | {"resumable": True},
            add("a", 40, 41, 1) | {"resumable": True},
            SCHEDULE,
            {"op": "run"},
        ],
    },
    # Where defects of `rules.waiting.leave_holders` show.
    "leave-holders": {
        "config": {},
        "events": [
            {"op": "add", "id": "e0", "prompt": [2], "max_tokens": 1, "resumable": True},
            {"op": "step"},
            {"op": "step"},
        ],
    },
    # Where defects of `rules.sessions.end_waiting_turn` show.
    "end-waiting-turn": {
        "config": {
            "block_size": 1,
            "num_blocks": 6,
            "max_model_len": 4,
            "policy": "priority",
            "async_scheduling": True,
            "queue_depth": 2,
        },
        "events": [
            {
                "op": "add",
                "id": "e5",
                "prompt": {"concat": [{"range": [0, 2]}, [2]]},
                "max_tokens": 6,
                "resumable": True,
            },
            {"op": "add", "id": "c6", "prompt": [1], "max_tokens": 1},
            add("d7", 0, 1, 1) | {"resumable": True},
            {"op": "add", "id": "\u00e98", "prompt": [0], "max_tokens": 2, "priority": -1},
            {"op": "step"},
            {"op": "step"},
        ],
    },
    # Where defects of `rules.drafts.cut_off`, `rules.queues.abort_waiting`,
    # `rules.queues.quit_queue`, `rules.sessions._let_late_outputs_go` show.
    "quit-queue": {
        "config": {
            "block_size": 4,
            "num_blocks": 5,
            "async_scheduling": True,
            "queue_depth": 3,
            "num_spec_tokens": 2,
            "accept": "all",
        },
        "events": [
            add("b", 20, 28, 5) | {"resumable": True},
            {"op": "step", "n": 2},
            {"op": "step", "n": 3},
            {"op": "abort", "ids": ["b"]},
            add("b", 0, 1, 1) | {"resumable": True},
            {"op": "step", "n": 2},
            {"op": "step"},
        ],
    },
    # Where defects of `turns.can_take`, `turns.is_refused` show.
    "can-take": {
        "config": {"block_size": 1, "num_blocks": 3},
        "events": [
            add("b", 0, 1, 1) | {"resumable": True},
            add("b", 40, 41, 2) | {"resumable": True},
            {"op": "run"},
        ],
    },
    # Where defects of `later.padding`, `rules.waiting.wait_apart` show.
    "wait-apart": {
        "config": {"num_spec_tokens": 1},
        "events": [
            add("b", 0, 1, 1) | {"resumable": True},
            add("b", 40, 41, 1) | {"resumable": True},
            {"op": "step", "n": 2},
        ],
    },
    # Where defects of `rules.sessions._let_late_outputs_go` show.
    "let-late-outputs-go": {
        "config": {"async_scheduling": True, "num_spec_tokens": 1, "accept": [0, 1, 2]},
        "events": [
            add("e1", 1000, 1001, 3) | {"resumable": True},
            add("c3", 2000, 2001, 2) | {"grammar": {"ready": True, "after": 2}},
            {"op": "step"},
            {"op": "step"},
            {"op": "step"},
        ],
    },
    # Where defects of `rules.sessions.end_waiting_turn` show.
    "end-waiting-turn-2": {
        "config": {"async_scheduling": True, "queue_depth": 3, "num_spec_tokens": 1},
        "events": [
            add("a", 40, 41, 2) | {"resumable": True},
            add("a", 40, 41, 1) | {"resumable": True},
            {"op": "step"},
            {"op": "step"},
            {"op": "pause", "state": "PAUSED_NEW"},
            SCHEDULE,
            add("a", 40, 41, 1) | {"resumable": True},
            {"op": "run"},
        ],
    },
    # Where defects of `machine.update.let_stopped_go`, `rules.sessions.leave_queue`,
    # `turns.can_take` show.
    "leave-queue": {
        "config": {
            "block_size": 1,
            "num_blocks": 4,
            "async_scheduling": True,
            "queue_depth": 3,
            "max_model_len": 4,
        },
        "events": [
            add("b", 0, 1, 2) | {"resumable": True},
            add("b", 40, 42, 1) | {"resumable": True},
            add("b", 40, 41, 1),
            {"op": "run"},
        ],
    },
    # Where defects of `machine.sessions.leave`, `machine.sessions.send` show.
    "leave": {
        "config": {"block_size": 1, "num_blocks": 2},
        "events": [
            add("a", 0, 1, 1) | {"resumable": True},
            SCHEDULE,
            {"op": "reset_prefix_cache", "reset_running": True},
            UPDATE,
            add("a", 40, 41, 1) | {"resumable": True},
            {"op": "step"},
        ],
    },
    # Where defects of `rules.sessions.end_running_turn`, `rules.sessions.end_waiting_turn`
    # show.
    "end-running-turn": {
        "config": {"block_size": 2, "num_blocks": 15, "async_scheduling": True, "queue_depth": 4},
        "events": [
            add("e3", 0, 1, 1) | {"resumable": True},
            {"op": "step"},
            {"op": "step"},
            add("e3", 0, 1, 4) | {"resumable": True},
            {
                "op": "add",
                "id": "h5",
                "prompt": {"concat": [{"range": [1000, 1003]}, [0, 2, 3, 0, 2]]},
                "max_tokens": 4,
                "resumable": True,
            },
            add("h5", 1000, 1001, 1) | {"resumable": True},
            add("h4", 0, 1, 5) | {"resumable": True},
            {"op": "run"},
        ],
    },
    # Where defects of `machine.sessions.send`, `rules.sessions.refuse_chunk` show.
    "refuse-chunk": {
        "config": {"max_model_len": 2},
        "events": [
            add("a", 40, 41, 1) | {"resumable": True},
            {"op": "step"},
            add("a", 40, 41, 1) | {"resumable": True},
            SCHEDULE,
            {"op": "run"},
        ],
    },
    # Where defects of `machine.sessions.refuse_next` show.
    "refuse-next": {
        "config": {"async_scheduling": True, "max_model_len": 6},
        "events": [
            add("a", 0, 1, 5) | {"resumable": True},
            SCHEDULE,
            {"op": "step", "n": 2},
            add("a", 40, 41, 1) | {"resumable": True},
            {"op": "step", "n": 2},
            UPDATE,
            SCHEDULE,
            {"op": "step"},
        ],
    },
}
"""By their names: of the first defect that each shows."""
