"""Scenarios of later lines, and of drafts, for defects of the
specification that no golden scenario notices: found at random, and made small.
"""

from typing import Any

from nullblock.conformance.mutation.scenarios import add

MORE_LATER: dict[str, dict[str, Any]] = {
    # Where defects of `rules.later.meet`, `rules.lookup.begin_lookup` show.
    "begin-lookup": {
        "config": {"block_size": 1, "num_spec_tokens": 1, "long_prefill_token_threshold": 1},
        "events": [
            add("p", 50, 53, 1),
            add("d", 80, 81, 2),
            {"op": "step"},
            add("b", 0, 1, 1),
            {"op": "step"},
        ],
    },
    # Where defects of `later.padding` show.
    "padding": {
        "config": {"block_size": 1, "num_spec_tokens": 1, "max_model_len": 11},
        "events": [add("a", 0, 8, 1), add("b", 0, 9, 1), {"op": "run"}],
    },
    # Where defects of `sessions.awaits_grammar` show.
    "awaits-grammar": {
        "config": {},
        "events": [
            add("f2", 1000, 1001, 1) | {"grammar": {"ready": True}},
            {"op": "draft", "tokens": {"e9": [], "f2": [1]}},
        ],
    },
    # Where defects of `later.may_pad`, `later.padding`, `rules.later.open_slots` show.
    "open-slots": {
        "config": {"block_size": 1, "num_spec_tokens": 1, "max_num_batched_tokens": 3},
        "events": [
            add("a", 0, 9, 1),
            add("p", 50, 70, 1),
            add("b", 0, 2, 2),
            add("e", 0, 1, 1),
            {"op": "run"},
        ],
    },
    # Where defects of `later.padding` show.
    "padding-2": {
        "config": {"block_size": 1, "num_spec_tokens": 1, "max_model_len": 10},
        "events": [add("a", 0, 8, 1), add("b", 0, 9, 1), {"op": "run"}],
    },
    # Where defects of `later.left` show.
    "left": {
        "config": {
            "num_spec_tokens": 1,
            "max_num_batched_tokens": 2,
            "spec_method": "draft_model",
        },
        "events": [add("b", 0, 1, 1), {"op": "run"}],
    },
}
"""By their names: of the first defect that each shows."""
