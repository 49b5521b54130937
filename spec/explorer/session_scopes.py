"""The scopes with streaming sessions."""

from nullblock.spec.explorer.model import Scope, Template
from nullblock.spec.facts import Config

A, B, C, D = 1001, 1002, 1003, 1004
"""Prompt tokens. The tokens that are sampled in a replay are below 1000."""


def _config(blocks: int, **more: object) -> Config:
    """`blocks` usable blocks of two tokens."""
    settings = {"max_num_scheduled_tokens": 4, "max_num_seqs": 2, "max_model_len": 8}
    sessions = {"sessions": True, "scheduler_reserve_full_isl": False}
    return Config(blocks + 1, 2, **{**settings, **sessions, **more})  # type: ignore[arg-type]


SESSIONS = Scope(
    "sessions",
    "a session beside a request: it waits with its blocks for chunks, one of which is too long",
    _config(4),
    (
        Template("a", (A, A), 2, chunks=((C,), (D, D, D, D)), limits=(1, 1)),
        Template("b", (A, A, B), 2),
    ),
    frozenset(
        "waits-for-chunk chunk-at-stop chunk-arrives continues-session session-leaves-queue "
        "chunk-refused".split()
    ),
)
SESSIONS_AHEAD = Scope(
    "sessions-ahead",
    "a session whose outputs are in flight where it stops, scheduling ahead",
    _config(3, async_scheduling=True),
    (
        Template("a", (A,), 3, chunks=((C,),), limits=(1,), eos_at=1),
        Template("b", (A, A), 2),
    ),
    frozenset(
        "late-outputs turn-ends-preempted waits-for-chunk chunk-at-stop token-dropped "
        "preempts-another continues-session".split()
    ),
    halves=True,
    depth=2,
    aborts=False,
)
SESSIONS_RULES = Scope(
    "rules-sessions",
    "the invariants after every single rule, sessions with drafts",
    _config(4, num_spec_tokens=1),
    (
        Template("a", (A,), 3, chunks=((C,),), limits=(2,), misses=3),
        Template("b", (A, A), 2),
    ),
    frozenset("waits-for-chunk chunk-arrives session-leaves-queue stops-on-draft".split()),
    every_rule=True,
)
SESSION_SCOPES = (SESSIONS, SESSIONS_AHEAD, SESSIONS_RULES)
"""What scopes have to reach with sessions."""
