"""Where vllm-0.22.1 goes wrong with streaming sessions.

`nullblock.spec.departures` makes departures of these.
"""

from nullblock.spec.draft_departures import DraftDefect
from nullblock.spec.explorer.model import EOS_TOKEN, Template
from nullblock.spec.facts import Config

A, B, C = 1001, 1002, 1003
"""Prompt tokens. The tokens that are sampled in a replay are below 1000."""


def _config(blocks: int, **more: object) -> Config:
    """`blocks` usable blocks of two tokens."""
    settings = {"max_num_scheduled_tokens": 6, "max_num_seqs": 3, "max_model_len": 8}
    sessions = {"sessions": True, "scheduler_reserve_full_isl": False}
    return Config(blocks + 1, 2, **{**settings, **sessions, **more})  # type: ignore[arg-type]


_CROWDED = _config(3, async_scheduling=True)
_PREEMPTED = (
    Template("a", (A, A), 4),
    Template("b", (B,), 1, chunks=((C,),)),
)

SESSION_DEFECTS: tuple[DraftDefect, ...] = (
    DraftDefect(
        "first-limit-holds",
        "chunks_bring_limits",
        "37843",
        "SESS-25",
        "a session keeps the max_tokens of its first chunk, whatever a later one asks for",
        _config(4),
        (Template("a", (A,), 2, chunks=((C,),), limits=(1,)),),
        "waits-for-chunk chunk-arrives continues-session",
    ),
    DraftDefect(
        "session-forgets",
        "sessions_keep_tokens",
        "none known",
        "SESS-22",
        "a session that stops while it is preempted, with a chunk queued, loses all its tokens",
        _CROWDED,
        _PREEMPTED,
        "turn-ends-preempted",
        {"depth": 2},
    ),
    DraftDefect(
        "hash-of-what-was-dropped",
        "chunks_rehash",
        "49377, 49449",
        "HASH-18",
        "a block keeps the hash of an output that its session drops, and another request hits it",
        _config(6),
        (
            Template("a", (A,), 1, chunks=((C, C),), eos_at=0),
            Template("b", (A, EOS_TOKEN, B), 1),
        ),
        "waits-for-chunk chunk-arrives continues-session",
    ),
    DraftDefect(
        "chunk-leaves-the-heap",
        "chunks_reorder",
        "55162",
        "WAIT-50",
        "a session whose chunk came last stays at the head of its queue, and overtakes another",
        _config(2, policy="priority", max_num_seqs=1),
        (
            Template("a", (A,), 1, chunks=((C,),), arrivals=(4.0,)),
            # Its prompt is the last to come: whoever comes again under its id overtakes nobody.
            Template("b", (B,), 1, arrival=5.0, chunks=((C,),), arrivals=(3.0,)),
        ),
        "waits-for-chunk chunk-arrives continues-session",
    ),
    DraftDefect(
        "output-of-the-turn-before",
        "late_outputs_dropped",
        "52693, 52765",
        "SESS-24",
        "an output in flight when a session stops is taken for one of its next turn",
        _config(4, async_scheduling=True),
        (Template("a", (A,), 3, chunks=((C,),), eos_at=0),),
        "late-outputs",
        {"depth": 2},
    ),
    DraftDefect(
        "session-in-no-queue",
        "sessions_stay_queued",
        "none known",
        "WAIT-12",
        "a session that stops while it is preempted, with a chunk queued, is in no queue for ever",
        _CROWDED,
        _PREEMPTED,
        "turn-ends-preempted",
        {"depth": 2},
    ),
)
"""In the order of a session's way through the engine."""
