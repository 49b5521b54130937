"""Scenarios of encoder-decoder models, for defects of the specification that no golden scenario
notices.
"""

from typing import Any

from nullblock.conformance.mutation.scenarios import RESET, RUN, SCHEDULE, UPDATE, add

STEP = {"op": "step"}
FULL, ATTENDED = {"type": "full"}, {"type": "cross_attention"}
SHORT = {"hash": "x", "offset": 0, "length": 2}
LONG = {"hash": "y", "offset": 0, "length": 5}


def decoder(compute: int, kept: int, *groups: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A model whose encoder computes so many embeddings in a step, and keeps so many."""
    encoder = {
        "max_num_encoder_input_tokens": compute,
        "encoder_cache_size": kept,
        "is_encoder_decoder": True,
    }
    settings = {"block_size": 2, "num_blocks": 30, "enable_prefix_caching": False}
    return {**settings, "encoder": encoder, "groups": list(groups) or [FULL, ATTENDED], **more}


def hear(id: str, tokens: int, *items: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A request with items before its prompt, for three tokens of output."""
    return add(id, 0, tokens, 3) | {"mm_features": list(items)} | more


MORE_CROSS: dict[str, dict[str, Any]] = {
    # The longer item waits for budget, or for room, and then for neither.
    "items-beyond-what-is-left-of-a-step": {
        "config": decoder(6, 9),
        "events": [hear("a", 2, SHORT), hear("b", 1, LONG), hear("c", 1), RUN],
    },
    "items-beyond-what-is-left-of-the-room": {
        "config": decoder(9, 6),
        "events": [hear("a", 2, SHORT), hear("b", 1, LONG), hear("c", 1), RUN],
    },
    # Both in one step, or never.
    "items-beyond-one-step": {
        "config": decoder(6, 9),
        "events": [hear("a", 2, SHORT, LONG), STEP, STEP],
    },
    "items-beyond-the-room": {
        "config": decoder(9, 6),
        "events": [hear("a", 2, SHORT, LONG), STEP, STEP],
    },
    "items-that-just-fit": {
        "config": decoder(7, 7, ATTENDED, FULL, max_num_scheduled_tokens=1),
        "events": [hear("a", 3, SHORT, LONG), RUN],
    },
    # A pool one block short of what is attended to, and one that has just enough.
    "blocks-attended-to-are-not-there": {
        "config": decoder(9, 9, num_blocks=5, scheduler_reserve_full_isl=False),
        "events": [hear("a", 2, LONG), STEP, STEP],
    },
    "blocks-attended-to-are-there": {
        "config": decoder(9, 9, num_blocks=6),
        "events": [hear("a", 1, LONG, max_tokens=2), RUN],
    },
    # Whoever is reset computes its items anew, and workers forget them once more.
    "items-computed-anew": {
        "config": decoder(9, 9, FULL, {**ATTENDED, "block_size": 3}),
        "events": [hear("a", 2, SHORT), hear("b", 2, SHORT), STEP, RESET, STEP, RUN],
    },
    "room-ahead-of-its-output": {
        "config": decoder(9, 5, async_scheduling=True),
        "events": [
            *(hear("a", 2, LONG), SCHEDULE, hear("b", 2, LONG), SCHEDULE),
            *(UPDATE, SCHEDULE, {"op": "reset_encoder_cache"}, UPDATE, UPDATE, RUN),
        ],
    },
    "aborted-before-it-began": {
        "config": decoder(5, 5),
        "events": [
            *(hear("a", 2, LONG), hear("b", 2, SHORT), STEP),
            *({"op": "abort", "ids": ["b"]}, hear("c", 2, SHORT), STEP, RUN),
        ],
    },
    "chunks-of-a-prompt-behind-an-item": {
        "config": decoder(5, 5, FULL, max_num_scheduled_tokens=2),
        "events": [hear("a", 5, LONG), hear("b", 3, SHORT), RUN],
    },
}
