"""The scopes with encoder inputs: small, like the others."""

from nullblock.spec.explorer.model import Scope, Template
from nullblock.spec.facts import Config, Encoder, Item

A, B, C, P = 1001, 1002, 1003, 1009
"""Prompt tokens; P stands for items. The tokens that are sampled in a replay are below 1000."""


def _config(blocks: int, size: int, budget: int, encoder: Encoder, **more: object) -> Config:
    """`blocks` usable blocks: the null block comes on top."""
    settings = {"max_num_seqs": 3, "max_model_len": 8, **more}
    return Config(
        num_blocks=blocks + 1,
        block_size=size,
        max_num_scheduled_tokens=budget,
        encoder=encoder,
        **settings,  # type: ignore[arg-type]
    )


ITEMS = Scope(
    "items",
    "items that requests share, and a cache too small for all of them",
    _config(5, 2, 4, Encoder(3, 4), scheduler_reserve_full_isl=False),
    (
        Template("a", (P, P, A, P), 2, items=(Item(1, 0, 2), Item(2, 3, 1))),
        Template("b", (B, P, P, P, P), 2, items=(Item(1, 1, 2), Item(3, 3, 2))),
        Template("c", (P, C), 1, items=(Item(2, 0, 1),)),
    ),
    frozenset(
        "item-shared item-found item-evicted no-budget-for-item no-room-for-item item-passed "
        "turned-away-lets-go nothing-before-item item-entered-midway evicted-and-computed".split()
    ),
    aborts=False,
)
_TAKEN_BACK = (
    Template("a", (A, A, A, A, P, P), 2, priority=9, items=(Item(1, 4, 2),)),
    Template("b", (B, B, P, P), 2, priority=5, items=(Item(1, 2, 2),)),
    Template("c", (C, C, P, C), 2, priority=1, items=(Item(2, 2, 1),)),
)
ITEMS_PRIORITY = Scope(
    "items-priority",
    "victims that this step was to compute items for, which others refer to or do not",
    _config(
        *(4, 2, 6, Encoder(3, 3)),
        policy="priority",
        long_prefill_token_threshold=2,
        scheduler_reserve_full_isl=False,
    ),
    _TAKEN_BACK,
    frozenset("withdrawal input-taken-back input-kept-for-another item-shared".split()),
    aborts=False,
)
ITEMS_WHOLE = Scope(
    "items-whole",
    "items that must not be cut, one of them at two places, one with few embeddings",
    _config(4, 2, 4, Encoder(4, 4, disable_chunked_mm_input=True), enable_prefix_caching=False),
    (
        Template("a", (P, A, P, B, B), 2, items=(Item(1, 0, 1), Item(1, 2, 1))),
        Template("b", (B, P, P, P), 2, items=(Item(2, 1, 3, (False, False, True)),)),
        Template("c", (C, C, P, P, P), 1, items=(Item(3, 2, 3),)),
    ),
    frozenset("item-twice item-uncut item-unneeded item-passed budget-cut".split()),
)
ITEMS_AHEAD = Scope(
    "items-ahead",
    "scheduling ahead, while the encoder cache is reset",
    _config(4, 2, 3, Encoder(2, 3), async_scheduling=True, max_num_seqs=2),
    (
        Template("a", (A, P, P, P), 2, items=(Item(1, 1, 2), Item(2, 3, 1))),
        Template("b", (P, P, B), 2, items=(Item(1, 0, 2),)),
    ),
    frozenset("runs-ahead item-computed-again item-passed item-shared".split()),
    halves=True,
    depth=2,
    aborts=False,
    encoder_resets=True,
)
ITEMS_CROWDED = Scope(
    "items-crowded",
    "two who run, and a cache too small for the items of both",
    _config(4, 2, 4, Encoder(4, 3), max_num_seqs=2, long_prefill_token_threshold=1),
    (
        Template("a", (A, P, P), 2, items=(Item(1, 1, 2),)),
        Template("b", (B, P, P), 2, items=(Item(2, 1, 2),)),
    ),
    frozenset("no-room-for-item nothing-before-item item-evicted item-passed".split()),
)
RULES_ITEMS = Scope(
    "rules-items",
    "the invariants after every single rule, encoder inputs",
    _config(
        *(4, 2, 6, Encoder(3, 3)),
        policy="priority",
        long_prefill_token_threshold=2,
        scheduler_reserve_full_isl=False,
    ),
    _TAKEN_BACK,
    frozenset("input-taken-back input-kept-for-another item-found item-passed".split()),
    aborts=False,
    every_rule=True,
)
ITEMS_LOADED = Scope(
    "items-loaded",
    "items that an encoder connector has, one of which ends beyond its prompt",
    _config(4, 2, 4, Encoder(4, 4), max_num_seqs=2),
    (
        Template("a", (P, P, A, P), 2, items=(Item(1, 0, 2), Item(2, 3, 2))),
        Template("b", (P, P, B), 2, items=(Item(3, 0, 2), Item(1, 2, 2))),
    ),
    frozenset("item-loaded item-computed-beside item-beyond-prompt item-evicted".split()),
    aborts=False,
    every_rule=True,
    external=(1, 2),
)
ENCODER_SCOPES = (
    *(ITEMS, ITEMS_PRIORITY, ITEMS_WHOLE, ITEMS_AHEAD, ITEMS_CROWDED, RULES_ITEMS),
    ITEMS_LOADED,
)
