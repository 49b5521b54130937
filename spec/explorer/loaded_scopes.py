"""The scopes with a KV connector beside layers that see a part of the past, and several groups."""

from nullblock.spec.explorer.model import Scope, Template
from nullblock.spec.facts import Config, Group

A, B = 1001, 1002
"""Prompt tokens. The tokens that are sampled in a replay are below 1000."""
FULL, WINDOW = Group(), Group(sliding_window=3)


def _config(blocks: int, *groups: Group, **more: object) -> Config:
    """`blocks` usable blocks of two tokens: the null block comes on top."""
    settings = {"max_num_scheduled_tokens": 5, "max_num_seqs": 2, "max_model_len": 8}
    plain = {"scheduler_reserve_full_isl": False, "connector": True, "groups": groups}
    return Config(blocks + 1, 2, **{**settings, **plain, **more})  # type: ignore[arg-type]


REMOTE_WINDOW = Scope(
    "remote-window",
    "loads beside a sliding window: what lies before it is not loaded, nor hit",
    _config(4, WINDOW),
    (
        Template("a", (A, A, A, A, A), 2, remote=5, loads_over_steps=True),
        Template("b", (A, A, B), 3, remote=2, delays_free=True),
    ),
    frozenset(
        "load-begins load-ended load-within-a-step null-for-load hit-left hit-behind-nulls "
        "left-behind kept".split()
    ),
    halves=True,
)
RULES_REMOTE_WINDOW = Scope(
    "rules-remote-window",
    "the invariants after every rule, a lossy store beside a sliding window",
    _config(3, WINDOW),
    (
        Template("a", (A, A, A, A, A, A), 1, remote=6, loads_over_steps=True),
        Template("b", (A, A, A, A, A), 1, remote=4),
    ),
    frozenset("load-begins load-within-a-step null-for-load loses-window starts-over".split()),
    halves=True,
    aborts=False,
    lossy=True,
    every_rule=True,
)
REMOTE_CHUNKS = Scope(
    "remote-chunks",
    "a prompt of a whole chunk that is loaded beside chunked local attention, a lossy store",
    _config(3, Group(attention_chunk_size=4)),
    (
        Template("a", (A, A, A, A), 2, remote=4, loads_over_steps=True),
        Template("b", (A, A, A, A, A, A), 1, remote=6),
    ),
    frozenset("load-begins load-ended load-within-a-step nulls-dropped left-behind".split()),
    halves=True,
    lossy=True,
    every_rule=True,
)
REMOTE_HYBRID = Scope(
    "remote-hybrid",
    "loads beside full attention and a sliding window, in a pool too small: the invariants after "
    "every rule",
    _config(6, WINDOW, FULL),
    (
        Template("a", (A, A, A, A, A), 2, remote=5, loads_over_steps=True, delays_free=True),
        Template("b", (A, A, B), 2, remote=2),
    ),
    frozenset(
        "load-begins load-ended load-within-a-step loads-apart null-for-load hit-left "
        "left-behind kept".split()
    ),
    halves=True,
    every_rule=True,
)
REMOTE_SIZES = Scope(
    "remote-sizes",
    "loads beside blocks of two sizes, one of them of a window: the invariants after every rule",
    _config(6, Group(block_size=4), WINDOW),
    (
        Template("a", (A, A, A, A, A, A), 1, remote=6, loads_over_steps=True),
        Template("b", (A, A, A, A, A), 2, remote=3),
    ),
    frozenset("load-begins load-ended load-within-a-step loads-apart null-for-load".split()),
    halves=True,
    every_rule=True,
)
LOADED_SCOPES = (
    *(REMOTE_WINDOW, RULES_REMOTE_WINDOW, REMOTE_CHUNKS),
    *(REMOTE_HYBRID, REMOTE_SIZES),
)
