"""How often the scheduler on the device decides otherwise than the specification asks.

Long random games of few kinds (`agreement.py`), every step compared with the NumPy engine; that
one's decisions are held to the specification's by `tests/impl` and `tests/fuzz`, where there is no
GPU. A kind costs one compilation of the kernels, however long it is played.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass

from agreement import CONFIGURATIONS, Game

from nullblock.spec.facts import Config

STEPS, QUICK = 1_000_000, 20_000
LENGTH = 25_000
"""Steps of a game, at most: then another one begins, with an empty engine."""


@dataclass(frozen=True, slots=True)
class Divergences:
    """What came of the games."""

    steps: int
    """Compared, those at which games ended early included."""
    kinds: int
    found: tuple[str, ...]
    """Of each game that ended early, where and why."""

    def __str__(self) -> str:
        """As the results page has it."""
        said = f"{len(self.found)} in {self.steps:,} steps of {self.kinds} configurations"
        return "; ".join((f"{said}, beside the NumPy engine", *self.found[:1]))


def count(
    device: str,
    steps: int,
    configurations: Sequence[Config] = CONFIGURATIONS,
    length: int = LENGTH,
) -> Divergences:
    """Play so many steps in all, as many of each configuration. Whatever ends a game early is
    counted: a decision that differs, a kernel's error word, a kernel that does not compile."""
    taken, found = 0, list[str]()
    most = -(-steps // len(configurations))
    for number, config in enumerate(configurations):
        for seed, first in enumerate(range(0, most, length)):
            print(f"configuration {number}, step {first:,} of {most:,}", file=sys.stderr)
            game = Game(device, config, seed)
            try:
                game.play(min(length, most - first))
            except Exception as error:  # each kind of failure is one, and other games go on
                lines = str(error).strip().splitlines() or ["no message"]
                where = f"configuration {number}, seed {seed}, step {game.num_steps}"
                found.append(f"{where}: {type(error).__name__}: {lines[0][:200]}")
                taken += 1
            taken += game.num_steps
    return Divergences(taken, len(configurations), tuple(found))
