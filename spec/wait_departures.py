"""Where vllm-0.22.1 goes wrong with requests that wait for something else than their turn.

`nullblock.spec.departures` makes departures of these.
"""

from nullblock.spec.draft_departures import DraftDefect
from nullblock.spec.explorer.model import Template
from nullblock.spec.facts import Config

A, B = 1001, 1002
"""Prompt tokens. The tokens that are sampled in a replay are below 1000."""
_CONFIG = Config(5, 2, 4, 3, 8, scheduler_reserve_full_isl=False, max_loras=1)

WAIT_DEFECTS: tuple[DraftDefect, ...] = (
    DraftDefect(
        "place-taken-in-a-pause",
        "adapters_keep_places",
        "none known",
        "WAIT-49",
        "the adapter of a request whose output is in flight loses its place to another, and the "
        "step that computes both raises",
        _CONFIG,
        (Template("a", (A,), 2, adapter=1), Template("b", (B,), 2, adapter=2)),
        "no-place",
        {"depth": 2},
    ),
    DraftDefect(
        "stops-while-skipped",
        "stops_leave_every_queue",
        "none known",
        "WAIT-12",
        "a request that stops on an output in flight while it is skipped stays in the queue, and "
        "the step that would admit it raises",
        _CONFIG,
        (Template("a", (A,), 1, adapter=1), Template("b", (B,), 2, adapter=2)),
        "no-place preempted-passed-over finish-skipped",
        {"depth": 2, "resets": (True,)},
    ),
)
"""In the order of a request's way through the engine."""
