"""Scenarios with encoder inputs in which requests wait: sessions, remote KV, caps, grammars."""

import zlib
from typing import Any

from fuzz.encoder_scenarios import encoder_scenario, items_scenario
from fuzz.waits import EncoderWaits, Scenario

from nullblock.conformance.engine import ALL_FEATURES, CONTRACT, CORE_FEATURES, Feature
from nullblock.conformance.lockstep.choices import Seeded

ENCODER = CORE_FEATURES | CONTRACT
ENCODER |= {Feature.drafts, Feature.encoder_decoder, Feature.cross_attention}
"""What scenarios with encoder inputs and the output contract use."""


def encoder_waits(
    seed: int, num_events: int = 40, features: frozenset[Feature] = ALL_FEATURES
) -> Scenario:
    """The scenario of that seed, for engines that do all of these features."""
    ask = Seeded(f"encoder waits:{seed}")
    base = encoder_scenario if features >= ENCODER else items_scenario
    return EncoderWaits(ask, base(seed, num_events), features).scenario()


class LaterItems(EncoderWaits):
    """Later chunks of sessions have items that lie within them, one or none each."""

    def settle(self) -> None:
        """The configuration; and what items the first prompts have, by what they are known by."""
        super().settle()
        self.shows_later = True
        items = [item for event in self.adds for item in event.get("mm_features", ())]
        self.known = {item["hash"]: item for item in items}

    def chunk(self, id: str) -> dict[str, Any]:
        """The next chunk of a session, or its end; one with an item is long enough for it, and the
        item is as it is elsewhere.
        """
        event = super().chunk(id)
        for item in event.get("mm_features", ()):
            item |= {**self.known.get(item["hash"], {}), "offset": item["offset"]}
            start, end = event["prompt"]["range"]
            event["prompt"]["range"] = [start, max(end, start + item["offset"] + item["length"])]
        return event


def later_items(key: str, size: int) -> Scenario:
    """The scenario of that key with sessions whose later chunks have encoder inputs."""
    ask = Seeded(f"later items:{key}")
    base = items_scenario(zlib.crc32(key.encode()), size)
    waits = LaterItems(ask, base, frozenset({Feature.streaming, Feature.lora_cap}))
    waits.kinds.add("streaming")
    return waits.scenario()
