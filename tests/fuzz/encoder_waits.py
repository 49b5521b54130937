"""Scenarios with encoder inputs in which requests wait: sessions, remote KV, caps, grammars."""

from fuzz.encoder_scenarios import encoder_scenario
from fuzz.waits import EncoderWaits, Scenario

from nullblock.conformance.lockstep.choices import Seeded


def encoder_waits(seed: int, num_events: int = 40) -> Scenario:
    """The scenario of that seed."""
    ask = Seeded(f"encoder waits:{seed}")
    return EncoderWaits(ask, encoder_scenario(seed, num_events)).scenario()
