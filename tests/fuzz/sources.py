"""Who answers the generator's questions: a seed, or Hypothesis."""

import json
import random
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

from fuzz.generator import Choices, Scenario, make
from hypothesis import strategies as st

from nullblock.conformance.engine import ALL_FEATURES, Feature

T = TypeVar("T")


class Seeded:
    """Answers that follow from a seed."""

    def __init__(self, seed: str) -> None:
        self.random = random.Random(seed)

    def integer(self, low: int, high: int) -> int:
        """From ``low`` to ``high``, both included, all alike."""
        return self.random.randint(low, high)

    def pick(self, options: Sequence[T]) -> T:
        """One of the options, all alike."""
        return self.random.choice(options)

    def chance(self, percent: float) -> bool:
        """True that often."""
        return self.random.random() * 100 < percent


class Drawn:
    """Answers that Hypothesis draws, and can shrink."""

    def __init__(self, draw: Callable[[st.SearchStrategy[Any]], Any]) -> None:
        self.draw = draw

    def integer(self, low: int, high: int) -> int:
        """From ``low`` to ``high``, both included."""
        return int(self.draw(st.integers(low, high)))

    def pick(self, options: Sequence[T]) -> T:
        """One of the options."""
        return cast(T, self.draw(st.sampled_from(options)))

    def chance(self, percent: float) -> bool:
        """True that often, as far as Hypothesis follows probabilities."""
        # Counted from the top: Hypothesis shrinks towards 0, which has to be the simple answer.
        return int(self.draw(st.integers(0, 999))) >= 1000 - percent * 10


def seeded(seed: str, size: int = 30, features: frozenset[Feature] = ALL_FEATURES) -> Scenario:
    """The scenario of a seed."""
    return _plain(make(Seeded(seed), size, features))


@st.composite
def scenarios(
    draw: st.DrawFn, size: int = 12, features: frozenset[Feature] = ALL_FEATURES
) -> Scenario:
    """Scenarios of at most about ``size`` groups of events."""
    choices: Choices = Drawn(draw)
    return _plain(make(choices, size, features))


def _plain(scenario: Scenario) -> Scenario:
    """By way of JSON, as an engine gets it: no value is shared between two places."""
    return cast(Scenario, json.loads(json.dumps(scenario)))
