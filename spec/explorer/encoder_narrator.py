"""Says in words what rules do with encoder inputs."""

from collections.abc import Callable
from typing import Any

from nullblock.spec.kernel import State


class EncoderNarrator:
    """The part of a narrator that speaks of items."""

    found: list[Any]
    """Items in the cache that whoever asks for slots needs."""
    computed: list[Any]
    """Items that the step computes for it."""
    say: Callable[[str], None]

    def encoder_handlers(self) -> dict[str, Callable[[State], None]]:
        """What is called after which rule of encoder inputs."""
        return {
            "ENC-5": self.planned,
            "ENC-7": self.referred,
            "ENC-8": self.ended,
            "ENC-9": self.forgot,
            "ENC-12": self.took_item,
            "ENC-13": self.withdrew,
            "ENC-19": self.has_loaded,
            "ENC-15": self.wiped_embeddings,
            "ENC-54": self.gave_room,
        }

    def planned(self, s: State) -> None:
        """ENC-5: inputs are being planned."""
        self.found, self.computed = [], []

    def referred(self, s: State) -> None:
        """ENC-7: an item is in the cache."""
        self.found.append(s.k.item(s.planner, s.pitem - 1))

    def ended(self, s: State) -> None:
        """ENC-8: the step ends before an item."""
        n = s.k.item(s.planner, s.pitem)
        self.say(f"item {n} cannot be had now: {s.planner} gets no token from there on")

    def forgot(self, s: State) -> None:
        """ENC-9: an item is evicted."""
        self.say(f"item {s.gone[s.ngone - 1]} is evicted from the encoder cache")

    def took_item(self, s: State) -> None:
        """ENC-12: an item is to be computed."""
        self.computed.append(s.k.item(s.inputof[s.ninput - 1], s.inputs[s.ninput - 1] - 1))

    def has_loaded(self, s: State) -> None:
        """ENC-19: an item is to be loaded."""
        n = s.k.item(s.asksof[s.nask - 1], s.asks[s.nask - 1] - 1)
        self.say(f"an encoder connector loads item {n}")

    def withdrew(self, s: State) -> None:
        """ENC-13: an input is taken out of the step."""
        self.say(f"an item of {s.leaver} is taken out of the step, and stays in the cache")

    def gave_room(self, s: State) -> None:
        """ENC-54: the room of a request's items comes back, be it taken or not."""
        self.say(f"the room of its items comes back: {s.eroom} of {s.k.encoder_slots}")

    def wiped_embeddings(self, s: State) -> None:
        """ENC-15: every embedding is forgotten."""
        self.say("the encoder cache forgets every item")

    def items_moved(self) -> list[str]:
        """What whoever asks for slots has been given of the encoder's work so far."""
        done = (("finds", self.found), ("has the encoder compute", self.computed))
        said = [f"{verb} {_items(items)}" for verb, items in done if items]
        self.found, self.computed = [], []
        return said


def _items(items: list[Any]) -> str:
    return f"item{'s' if len(items) > 1 else ''} {' '.join(map(str, items))}"
