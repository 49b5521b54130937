"""Where vllm-0.22.1 goes wrong with encoder inputs: what breaks, and the scope in which it shows.

`nullblock.spec.departures` makes departures of these.
"""

from nullblock.spec.draft_departures import DraftDefect
from nullblock.spec.explorer.model import Template
from nullblock.spec.facts import Config, Encoder, Group, Item

A, B, P = 1001, 1002, 1009
"""Prompt tokens; P stands for items. The tokens that are sampled in a replay are below 1000."""
_CONFIG = Config(
    *(5, 2, 6, 3, 8),
    policy="priority",
    long_prefill_token_threshold=2,
    scheduler_reserve_full_isl=False,
    encoder=Encoder(3, 3),
)
_VICTIM = Template("a", (A, A, A, A, P, P), 2, priority=9, items=(Item(1, 4, 2),))


def _of_a_picture(id: str, n: int) -> Template:
    """A request with item n, and another item behind it, where its prompt ends. What it samples
    is eos, which does not end it.
    """
    items = (Item(n, 3, 1), Item(3, 4, 1))
    return Template(id, (A, A, A, P, P), 4, min_tokens=4, eos_at=0, items=items)


ENCODER_DEFECTS: tuple[DraftDefect, ...] = (
    DraftDefect(
        "item-never-computed",
        "inputs_taken_back",
        "none known",
        "ENC-31",
        "an item that a victim was to compute stays in the cache, is found there and is never "
        "computed",
        _CONFIG,
        (_VICTIM, Template("b", (B, B, B), 2)),
        "withdrawal",
    ),
    DraftDefect(
        "budget-is-lost",
        "encoder_budget_comes_back",
        "none known",
        "ENC-26",
        "what a victim gives back of the encoder budget is lost if whoever preempts it has "
        "encoder inputs too",
        _CONFIG,
        (_VICTIM, Template("b", (B, B, P), 2, items=(Item(2, 2, 1),))),
        "withdrawal",
        {"every_rule": True},
    ),
    DraftDefect(
        "waits-between-items",
        "chunks_end_at_items",
        "47738",
        "LIFE-15",
        "a request with two items that touch, and do not fit the encoder cache together, stops "
        "one token before the second one and waits for ever",
        Config(
            *(9, 2, 8, 1, 12),
            num_spec_tokens=1,
            spec_method="eagle",
            encoder=Encoder(8, 4),
        ),
        (Template("a", (A, P, P, P, P, P, P, B), 1, items=(Item(1, 1, 3), Item(2, 4, 3))),),
        "no-room-for-item item-evicted",
    ),
    DraftDefect(
        "room-grows",
        "item_room_returns_once",
        "51228, 55733",
        "ENC-53",
        "an encoder-decoder model gives an item's room back with every output of its request, so "
        "that there is soon more room than there is",
        Config(
            *(6, 2, 4, 2, 8),
            enable_prefix_caching=False,
            encoder=Encoder(4, 4, is_encoder_decoder=True),
            groups=(Group(), Group(cross=True)),
        ),
        (Template("a", (A, A), 3, items=(Item(1, 0, 3),)),),
        "stop-length",
        {"depth": 1},
    ),
    DraftDefect(
        "item-is-missed",
        "finds_every_item",
        "51694, 49448",
        "HASH-18",
        "a block that an output completes is known by the last item in it alone: who starts over "
        "reads a block in which another one's item was computed",
        Config(*(7, 3, 8, 2, 9), encoder=Encoder(4, 4)),
        (_of_a_picture("a", 1), _of_a_picture("b", 2)),
        "duplicate-hash",
        {"depth": 1, "resets": (True,)},
    ),
)
"""In the order of a request's way through the engine."""
