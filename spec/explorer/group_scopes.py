"""The scopes whose layers see only a part of the past: small, like the others."""

from nullblock.spec.explorer.model import Scope, Template
from nullblock.spec.facts import Config, Group

A, B, C = 1001, 1002, 1003
"""Prompt tokens. The tokens that are sampled in a replay are below 1000."""


def _config(blocks: int, size: int, budget: int, group: Group, **more: object) -> Config:
    """`blocks` usable blocks: the null block comes on top."""
    settings = {"max_num_seqs": 3, "max_model_len": 10, **more}
    return Config(
        num_blocks=blocks + 1,
        block_size=size,
        max_num_scheduled_tokens=budget,
        groups=(group,),
        **settings,  # type: ignore[arg-type]
    )


WINDOW = Scope(
    "window",
    "a sliding window: blocks given back, hits behind null blocks, preemption",
    _config(4, 2, 4, Group(sliding_window=3), scheduler_reserve_full_isl=False),
    (Template("a", (A, A, A, A, B), 3), Template("b", (A, A, A, A), 3), Template("c", (C, C), 3)),
    frozenset(
        "outlived-freed outlived-freed-in-vain hit-behind-nulls nulls-dropped free-hit "
        "shared-hit hash-evicted preempts-another resume-with-hit".split()
    ),
    aborts=False,
)
WINDOW_GATE = Scope(
    "window-gate",
    "a sliding window, and the gate that asks for no more than a request holds at once",
    _config(4, 1, 2, Group(sliding_window=2)),
    (Template("a", (A, A, A, B), 3), Template("b", (A, A, A, C), 2)),
    frozenset("capped-by-window outlived-freed hit-behind-nulls held-by-reserve".split()),
    resets=(False, True),
)
CHUNKS = Scope(
    "chunks",
    "chunked local attention: hits of what nobody computed, blocks given back with their chunk",
    _config(4, 2, 3, Group(attention_chunk_size=4), scheduler_reserve_full_isl=False),
    (
        Template("a", (A, A, A), 5),
        Template("b", (A, A, A, A, B, B, C), 2),
    ),
    frozenset("outlived-freed hit-behind-nulls nulls-dropped free-hit".split()),
)
WINDOW_AHEAD = Scope(
    "window-ahead",
    "a sliding window, scheduling ahead: blocks given back while steps in flight read them",
    _config(4, 2, 4, Group(sliding_window=3), async_scheduling=True, max_num_seqs=2),
    (Template("a", (A, A, A, A), 2), Template("b", (A, A, A), 4, eos_at=2)),
    frozenset("outlived-freed runs-ahead overrun cached-at-output".split()),
    halves=True,
    depth=2,
    aborts=False,
)
RULES_WINDOW = Scope(
    "rules-window",
    "the invariants after every single rule, a sliding window",
    _config(4, 2, 4, Group(sliding_window=3), scheduler_reserve_full_isl=False),
    (Template("a", (A, A, A, A, B), 2), Template("b", (A, A, A), 4)),
    frozenset("outlived-freed hit-behind-nulls nulls-dropped preempts-another".split()),
    resets=(True,),
    every_rule=True,
)
GROUP_SCOPES = (WINDOW, WINDOW_GATE, CHUNKS, WINDOW_AHEAD, RULES_WINDOW)
