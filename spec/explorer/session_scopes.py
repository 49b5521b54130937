"""The scopes with streaming sessions."""

from nullblock.spec.explorer.model import Scope, Template
from nullblock.spec.facts import Config, Encoder, Group, Item

A, B, C, D, P = 1001, 1002, 1003, 1004, 1009
"""Prompt tokens; P stands for items. The tokens that are sampled in a replay are below 1000."""


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
SESSIONS_WINDOW = Scope(
    "sessions-window",
    "a session beside a request, layers that see a part of the past: the invariants after every "
    "rule",
    _config(5, groups=(Group(sliding_window=3),)),
    (
        Template("a", (A, A, A), 2, chunks=((C,),), limits=(2,)),
        Template("b", (A, A, A, B), 2),
    ),
    frozenset(
        "waits-for-chunk chunk-at-stop chunk-arrives continues-session outlived-freed".split()
    ),
    aborts=False,
    every_rule=True,
)
SESSIONS_HYBRID = Scope(
    "sessions-hybrid",
    "the same with two groups: full attention beside a sliding window",
    _config(8, groups=(Group(), Group(sliding_window=3))),
    (Template("a", (A, A, A), 2, chunks=((C,),), limits=(2,)), Template("b", (A, A, A, B), 2)),
    frozenset("waits-for-chunk chunk-at-stop continues-session outlived-freed".split()),
    aborts=False,
    every_rule=True,
)
SESSIONS_ITEMS = Scope(
    "sessions-items",
    "a session whose first prompt has an item, beside a request with the same",
    _config(4, encoder=Encoder(2, 2)),
    (
        Template("a", (A, P, P), 2, items=(Item(1, 1, 2),), chunks=((C,),), limits=(1,)),
        Template("b", (P, P, B), 1, items=(Item(1, 0, 2),)),
    ),
    frozenset("waits-for-chunk chunk-at-stop chunk-arrives item-shared item-passed".split()),
    every_rule=True,
)
SESSIONS_ITEMS_BEYOND = Scope(
    "sessions-items-beyond",
    "a session that waits inside an item that ends beyond its prompt",
    _config(4, encoder=Encoder(3, 3)),
    (
        Template("a", (P, P, P), 1, items=(Item(1, 0, 2), Item(2, 2, 3)), chunks=((C,), (C,))),
        Template("b", (P, P, B), 1, items=(Item(1, 0, 2),)),
    ),
    frozenset("waits-inside-item waits-for-chunk chunk-arrives item-passed".split()),
    every_rule=True,
)
SESSIONS_ITEMS_UNCUT = Scope(
    "sessions-items-uncut",
    "a session inside an item whose next chunk, which may not be cut, is held back behind another",
    _config(
        5,
        encoder=Encoder(5, 5),
        enable_chunked_prefill=False,
        max_num_scheduled_tokens=5,
        max_model_len=6,
    ),
    (
        Template("a", (P, P, P), 1, items=(Item(1, 0, 2), Item(2, 2, 3)), chunks=((C, C),)),
        Template("b", (A, A, A, B), 1),
    ),
    frozenset("held-uncut waits-inside-item waits-for-chunk chunk-at-stop".split()),
    aborts=False,
    every_rule=True,
)
SESSION_SCOPES = (
    *(SESSIONS, SESSIONS_AHEAD, SESSIONS_RULES),
    *(SESSIONS_WINDOW, SESSIONS_HYBRID, SESSIONS_ITEMS, SESSIONS_ITEMS_BEYOND),
    SESSIONS_ITEMS_UNCUT,
)
"""What scopes have to reach with sessions."""
