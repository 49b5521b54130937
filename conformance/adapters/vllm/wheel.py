"""Which requests can have filled a block, so that not all of them are looked at in every step."""

from dataclasses import dataclass
from typing import Any


@dataclass(slots=True, eq=False)
class Filling:
    """A request that fills blocks."""

    number: int
    request: Any
    known: int
    """Blocks whose chain number is recorded."""
    alive: bool = True


class Wheel:
    """Says of each request it watches when its next block can be full at the earliest.

    An update gives a request one token at most. Whoever comes due and stays is watched anew.
    """

    def __init__(self, block_size: int) -> None:
        """``block_size``: tokens that a hash covers."""
        self.size = block_size
        self._slots: list[list[Filling]] = [[] for _ in range(block_size + 1)]
        self._now = 0

    def turn(self) -> tuple[list[Filling], list[Filling]]:
        """An update: who is due, and where those go whose next block is the next but one."""
        slots = self._slots
        self._now = now = (self._now + 1) % len(slots)
        due, slots[now] = slots[now], []
        return due, slots[now - 1]

    def watch(self, filling: Filling) -> None:
        """Look at a request again when it can have filled a block."""
        left = self.size - filling.request.num_tokens % self.size
        self._slots[(self._now + left) % len(self._slots)].append(filling)
