"""Scenarios that Hypothesis draws, and can shrink; those of a seed are the product's own."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

from hypothesis import strategies as st

from nullblock.conformance.engine import CORE_FEATURES, Feature
from nullblock.conformance.lockstep.choices import Choices
from nullblock.conformance.lockstep.generator import Scenario, make

T = TypeVar("T")


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


@st.composite
def scenarios(
    draw: st.DrawFn, size: int = 12, features: frozenset[Feature] = CORE_FEATURES
) -> Scenario:
    """Scenarios of at most about ``size`` groups of events."""
    choices: Choices = Drawn(draw)
    return make(choices, size, features)
