"""Encoder inputs of an engine of ours, as a trace tells them: in numbers."""

from msgspec import UnsetType

from nullblock.conformance.consecutive import runs
from nullblock.conformance.encoder_format import Encoder
from nullblock.conformance.encoder_format import Item as Added
from nullblock.conformance.engine import Fields, NewRequest
from nullblock.conformance.item_keys import ItemKeys
from nullblock.conformance.trace.records import Chain, Item
from nullblock.spec.facts import Item as Fact
from nullblock.spec.keys import ItemKey
from nullblock.spec.profiles import Semantics


class TapedItems:
    """Numbers items as they appear, from 1."""

    def __init__(self, semantics: Semantics, encoder: Encoder | UnsetType | None) -> None:
        self.numbers: dict[str, int] = {}
        self.external = frozenset((encoder.external if encoder else None) or ())
        """Items that an encoder connector has."""
        self.said = 0
        """The last item of which it is told whether it has it."""
        self.found = ItemKeys(semantics)

    def told(self, request: NewRequest) -> list[Item]:
        """The items of a request."""
        return [
            Item(
                item=self.numbers.setdefault(item.hash, len(self.numbers) + 1),
                offset=item.offset,
                length=item.length,
                is_embed=_runs(item),
            )
            for item in request.mm_features
        ]

    def keys(self, request: NewRequest, n: int, size: int) -> tuple[ItemKey, ...]:
        """What tells its block n from another with these tokens: items in it, where they begin.
        Asked block by block.
        """
        items = request.mm_features
        facts = [Fact(place, item.offset, item.length) for place, item in enumerate(items)]
        found = self.found.of_hash(request.id, facts, n, size)
        return tuple((items[int(number)].hash, at) for number, at in found)

    def step(self, decided: Fields, numbers: dict[str, int]) -> Fields:
        """What a step computes and what it forgets, in words of a ``schedule`` record;
        ``numbers``: of requests. Of whatever came since the step before it is told at once what
        the connector would answer.
        """
        inputs = decided.get("scheduled_encoder_inputs", {})
        evicted = decided.get("free_encoder_mm_hashes", ())
        computed = [(numbers[id], place) for id, places in inputs.items() for place in places]
        asked = list(self.numbers.items())[self.said :]
        self.said = len(self.numbers)
        return {
            "encoder_inputs": computed,
            "evicted_items": [self.numbers[hash] for hash in evicted],
            "item_answers": [(number, True) for hash, number in asked if hash in self.external],
            "connector_items": [
                (numbers[id], place) for id, place in decided.get("encoder_connector", ())
            ],
        }


def _runs(item: Added) -> list[Chain] | None:
    """Which of its tokens stand for an embedding."""
    if item.is_embed is None:
        return None
    return runs(place for place, stands in enumerate(item.is_embed) if stands)
