"""The scopes with encoder-decoder models: small, like the others."""

from nullblock.spec.explorer.model import Scope, Template
from nullblock.spec.facts import Config, Encoder, Group, Item

A, B, C = 1001, 1002, 1003
"""Prompt tokens. The tokens that are sampled in a replay are below 1000."""
FULL = Group()
WINDOW = Group(sliding_window=2)
CROSS_ATTENTION = Group(cross=True)
SOUND, LONGER = Item(1, 0, 2), Item(2, 0, 3)
"""They stand before the prompt, however short that is."""


def _config(
    blocks: int, budget: int, encoder: tuple[int, int], *groups: Group, **more: object
) -> Config:
    """`blocks` usable blocks of two tokens: the null block comes on top. Of an encoder what a step
    computes and what is kept.
    """
    settings = {
        "max_num_seqs": 3,
        "max_model_len": 8,
        "scheduler_reserve_full_isl": False,
        "enable_prefix_caching": False,
        "encoder": Encoder(*encoder, is_encoder_decoder=True),
        **more,
    }
    return Config(blocks + 1, 2, budget, groups=groups, **settings)  # type: ignore[arg-type]


CROSS = Scope(
    "cross",
    "cross-attention: blocks for items that are computed with the first token, and preemptions",
    _config(8, 4, (5, 6), FULL, CROSS_ATTENTION),
    (
        Template("a", (A, A, A), 4, items=(LONGER,)),
        Template("b", (B,), 4, items=(SOUND, LONGER)),
        Template("c", (C, C), 3, items=(SOUND,)),
    ),
    frozenset(
        "preempts-another no-budget-for-item nothing-before-item items-at-once slots-not-free "
        "item-computed-anew".split()
    ),
)
CROSS_AHEAD = Scope(
    "cross-ahead",
    "cross-attention before a window, scheduling ahead, while the encoder cache is reset",
    _config(
        *(6, 4, (6, 4), CROSS_ATTENTION, WINDOW),
        async_scheduling=True,
        scheduler_reserve_full_isl=True,
        max_num_seqs=2,
    ),
    (Template("a", (A, A, A), 2, items=(SOUND,)), Template("b", (B,), 3, items=(SOUND,))),
    frozenset("runs-ahead item-for-two told-and-computed outlived-freed".split()),
    halves=True,
    depth=2,
    aborts=False,
    encoder_resets=True,
)
CROSS_LESS = Scope(
    "cross-less",
    "an encoder-decoder model without cross-attention: the room of a step, and requests refused",
    _config(5, 4, (6, 3), FULL),
    (
        Template("a", (A, A), 2, items=(LONGER,)),
        Template("b", (B,), 2, items=(SOUND,)),
        Template("c", (C,), 1, items=(SOUND, LONGER)),
    ),
    frozenset("no-room-for-item rejection".split()),
    resets=(True,),
)
RULES_CROSS = Scope(
    "rules-cross",
    "the invariants after every single rule, cross-attention",
    _config(6, 3, (5, 5), FULL, CROSS_ATTENTION, policy="priority"),
    (
        Template("a", (A, A), 4, priority=9, items=(SOUND,)),
        Template("b", (B,), 4, items=(LONGER, SOUND)),
    ),
    frozenset("items-at-once preempts-another item-computed-anew".split()),
    every_rule=True,
)
CROSS_SCOPES = (CROSS, CROSS_AHEAD, CROSS_LESS, RULES_CROSS)
