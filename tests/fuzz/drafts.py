"""Random scenarios with speculative decoding, in step and ahead of the outputs."""

from nullblock.conformance.engine import ALL_FEATURES, CORE_FEATURES, Feature
from nullblock.conformance.lockstep import drafts
from nullblock.conformance.lockstep.choices import Choices, Seeded
from nullblock.conformance.lockstep.configurations import NONE
from nullblock.conformance.lockstep.generator import Scenario

BESIDE = frozenset({Feature.drafts, Feature.silence})
"""What scenarios may ask for that is no feature of the core."""


def make(
    choices: Choices, size: int = 30, features: frozenset[Feature] = ALL_FEATURES
) -> Scenario:
    """A scenario, for engines that do those features and all of the core.

    Most ask for nothing that the real engine seldom survives with drafts: a second step in flight
    synchronously, and, scheduling ahead, a reset of what runs or an id that is used again.
    """
    features = CORE_FEATURES | (features & BESIDE)
    wanted = NONE
    match choices.integer(0, 9):
        case 0 | 1 | 2 | 3:
            features -= {Feature.async_scheduling, Feature.several_in_flight}
        case 4 | 5 | 6 | 7:
            features -= {Feature.reset}
            wanted = frozenset({Feature.async_scheduling})
        case 8:
            wanted = frozenset({Feature.async_scheduling})
    return drafts.make(choices, size, features, wanted)


def seeded(seed: str, size: int = 30, features: frozenset[Feature] = ALL_FEATURES) -> Scenario:
    """The scenario of a seed."""
    return make(Seeded(seed), size, features)
