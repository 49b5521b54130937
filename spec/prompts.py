"""What a concrete environment answers about an encoder, the encoder inputs in prompts, and who
wants what.
"""

from typing import Any

from nullblock.spec.facts import Config, Encoder, Item, Request

NO_ITEM = Item(0, 0, 0)
"""Beyond the last of a prompt."""
NO_ENCODER = Encoder(0, 0)


class Prompts:
    """Looks at the facts about the model and about requests."""

    requests: dict[Any, Request]
    external: frozenset[int] = frozenset()
    """Numbers of the items that an encoder connector has."""

    def __init__(self, config: Config) -> None:
        self.encodes, encoder = config.encoder is not None, config.encoder or NO_ENCODER
        self.encoder_budget = encoder.max_num_encoder_input_tokens
        self.encoder_slots = encoder.encoder_cache_size
        self.whole_items = encoder.disable_chunked_mm_input
        self.looks_ahead = config.looks_ahead
        self.encoder_decoder = config.is_encoder_decoder
        self.keeps_embeddings = self.encodes and not self.encoder_decoder
        self.loads_items = False
        """Whether there is an encoder connector."""

    def _items(self, r: Any) -> tuple[Item, ...]:
        return self.requests[r].items if r in self.requests else ()

    def num_items(self, r: Any) -> int:
        """How many encoder inputs r has; 0 of nobody."""
        return len(self._items(r))

    def _item(self, r: Any, i: int) -> Item:
        items = self._items(r)
        return items[i] if 0 <= i < len(items) else NO_ITEM

    def item(self, r: Any, i: int) -> int:
        """The number of r's i-th encoder input; 0: it has not so many."""
        return self._item(r, i).number

    def has_item(self, n: int) -> bool:
        """Whether an encoder connector has the item of that number."""
        return n in self.external

    def item_start(self, r: Any, i: int) -> int:
        """The first token of r's i-th encoder input."""
        return self._item(r, i).start

    def item_end(self, r: Any, i: int) -> int:
        """One after the last token of r's i-th encoder input."""
        return self._item(r, i).end

    def embedded(self, r: Any, i: int, tokens: int) -> int:
        """Embeddings of r's i-th encoder input that its first `tokens` tokens stand for."""
        return self._item(r, i).embedded(tokens)

    def item_size(self, r: Any, i: int) -> int:
        """Embeddings of r's i-th encoder input."""
        item = self._item(r, i)
        return item.embedded(item.end)

    def encoder_tokens(self, r: Any) -> int:
        """Embeddings of all encoder inputs of r; 0 of nobody."""
        return sum(item.embedded(item.end) for item in self._items(r))

    def client(self, r: Any) -> int:
        """Which front end r is from."""
        return self.requests[r].client

    def pools(self, r: Any) -> bool:
        """Whether r wants a vector; where invariants ask for nobody, it does not."""
        return False if r is None else self.requests[r].pooling
