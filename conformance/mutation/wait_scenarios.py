"""Scenarios in which requests wait for something else than their turn, for defects of the
specification that no golden scenario notices.
"""

from typing import Any

from nullblock.conformance.mutation.scenarios import RESET, RUN, SCHEDULE, UPDATE, add

ADAPTERS = {"block_size": 4, "num_blocks": 6, "max_loras": 1, "queue_depth": 3}
PLAIN = {"block_size": 4, "num_blocks": 9}


def compiled(*ids: str) -> dict[str, Any]:
    """The event that grammars are compiled."""
    return {"op": "grammar_ready", "ids": list(ids)}


LATER = {"grammar": {"ready": False}}

MORE_WAITS: dict[str, dict[str, Any]] = {
    # Of two that are passed over the budget ends before the second is tried: both keep their
    # places.
    "passed-over-keeps-its-place": {
        "config": PLAIN | {"max_num_batched_tokens": 4},
        "events": [
            add("g", 0, 4, 1) | LATER,
            add("h", 20, 24, 1) | {"grammar": {}},
            add("k", 40, 44, 1) | LATER,
            *({"op": "step"}, compiled("g", "k"), RUN),
        ],
    },
    # A grammar is compiled once; that it is compiled again is nobody's business.
    "grammar-compiled-twice": {
        "config": PLAIN,
        "events": [add("g", 0, 4, 1) | LATER, compiled("g"), compiled("g"), RUN],
    },
    # Whoever has no adapter takes no place, in the step that admits it either.
    "no-adapter-takes-no-place": {
        "config": PLAIN | {"max_loras": 1},
        "events": [add("a", 0, 4, 1), add("b", 20, 24, 1) | {"lora": "X"}, RUN],
    },
    # a stops in the skipped queue. In vllm-0.22.1 it stays there: its prompt is too long while c
    # runs, and then the step that would admit it raises.
    "ends-in-the-skipped-queue": {
        "config": ADAPTERS,
        "events": [
            *(add("a", 0, 12, 1) | {"lora": "X"}, add("b", 20, 24, 1) | {"lora": "Y"}),
            *(SCHEDULE, RESET, add("c", 40, 48, 4), SCHEDULE, UPDATE, RUN),
        ],
    },
}
