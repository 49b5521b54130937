"""Who answers the generator's questions."""

import random
from collections.abc import Sequence
from typing import Protocol, TypeVar

T = TypeVar("T")


class Choices(Protocol):
    """Answers questions. The smaller the answer, the simpler the scenario."""

    def integer(self, low: int, high: int) -> int:
        """From ``low`` to ``high``, both included."""
        ...

    def pick(self, options: Sequence[T]) -> T:
        """One of the options; the first is the simplest."""
        ...

    def chance(self, percent: float) -> bool:
        """True that often; False is simpler."""
        ...


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
