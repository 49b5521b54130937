"""Scenarios with encoder inputs in which requests wait: sessions, remote KV, caps, grammars."""

from fuzz.encoder_scenarios import encoder_scenario, items_scenario
from fuzz.waits import EncoderWaits, Scenario

from nullblock.conformance.engine import ALL_FEATURES, Feature
from nullblock.conformance.lockstep.choices import Seeded


def encoder_waits(
    seed: int, num_events: int = 40, features: frozenset[Feature] = ALL_FEATURES
) -> Scenario:
    """The scenario of that seed, for engines that do all of these features."""
    ask = Seeded(f"encoder waits:{seed}")
    base = encoder_scenario if features == ALL_FEATURES else items_scenario
    return EncoderWaits(ask, base(seed, num_events), features).scenario()
