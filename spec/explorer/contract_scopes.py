"""The scopes of requests of other kinds than one of tokens for tokens."""

from nullblock.spec.explorer.model import Scope, Template
from nullblock.spec.facts import Config

A, B = 1001, 1002
"""Prompt tokens. The tokens that are sampled in a replay are below 1000."""


def _config(blocks: int, **more: object) -> Config:
    """`blocks` usable blocks of two tokens: the null block comes on top."""
    settings = {"max_num_scheduled_tokens": 4, "max_num_seqs": 3, "max_model_len": 8}
    return Config(num_blocks=blocks + 1, block_size=2, **{**settings, **more})  # type: ignore[arg-type]


EMBEDDINGS = Scope(
    "embeddings",
    "prompts of embeddings, all of whose tokens are alike, beside one of such tokens",
    _config(4),
    (
        Template("a", (0, 0, 0), 2, embeds=1),
        Template("b", (0, 0, 0), 1, embeds=2),
        Template("c", (0, 0, 0), 1),
    ),
    frozenset({"free-hit", "hash-evicted", "duplicate-hash"}),
)
POOLING = Scope(
    "pooling",
    "vectors instead of tokens, in step, with outputs in flight: the invariants after every rule",
    _config(3, pooling=True, scheduler_reserve_full_isl=False),
    (
        Template("a", (A, A), 3),
        Template("b", (A, A, B, B), 1, pooling=True),
        Template("c", (B,), 1, pooling=True),
    ),
    frozenset("stop-vector vector-to-preempted free-hit reset".split()),
    halves=True,
    aborts=False,
    resets=(True,),
    every_rule=True,
)
POOLING_AHEAD = Scope(
    "pooling-ahead",
    "the same, scheduling ahead",
    _config(3, pooling=True, async_scheduling=True, scheduler_reserve_full_isl=False),
    (Template("a", (A, A), 3), Template("b", (A, A, B, B), 1, pooling=True)),
    frozenset("stop-vector vector-to-preempted vector-despite-reset passed-over".split()),
    halves=True,
    depth=2,
    aborts=False,
    resets=(True,),
    every_rule=True,
)
CLIENTS = Scope(
    "clients",
    "two clients, which are told of the ends of their requests: the invariants after every rule",
    _config(3, include_finished_set=True),
    (Template("a", (A, A), 2), Template("b", (B,), 1, client=1)),
    frozenset("stop-length abort-in-flight id-reused-in-flight".split()),
    halves=True,
    every_rule=True,
)
CONTRACT_SCOPES = (CLIENTS, EMBEDDINGS, POOLING, POOLING_AHEAD)
