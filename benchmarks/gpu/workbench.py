"""What a table gets to work with, and what it gives."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import torch
from figures import Cost, Row, Target, Times
from targets import GOALS
from timing import Call, Clock, Effort, measure


@dataclass(frozen=True, slots=True)
class Peer:
    """What a user might take instead: how to make the call, or why it cannot be had here."""

    make: Callable[[], Call]
    reset: Call | None = None


@dataclass(frozen=True, slots=True)
class Bench:
    """The device, its clock, and how much effort to make."""

    clock: Clock
    device: torch.device
    effort: Effort
    quick: bool

    def row(
        self,
        what: str,
        call: Call,
        cost: Cost,
        *,
        reset: Call | None = None,
        peers: dict[str, Peer] | None = None,
        target: Target | None = None,
        effort: Effort | None = None,
    ) -> Row:
        """Measure a piece of work and its peers, in the same setting."""
        if target is not None and target.name not in {goal.name for goal in GOALS}:
            raise ValueError(f"{target.name} is not a target: see targets.py")
        effort = effort or self.effort
        times = measure(self.clock, call, reset, effort)
        others = {name: self._peer(peer, effort) for name, peer in (peers or {}).items()}
        return Row(what, cost, times, others, target)

    def _peer(self, peer: Peer, effort: Effort) -> Times | str:
        """Its times. A peer that is not installed, or refuses, costs a cell and not the table."""
        try:
            return measure(self.clock, peer.make(), peer.reset, effort)
        except ImportError as error:
            return f"not installed: {error.name or error}"
        except (RuntimeError, ValueError, TypeError, AttributeError, NotImplementedError) as error:
            lines = str(error).strip().splitlines()
            return f"failed: {type(error).__name__}: {lines[0][:80] if lines else 'no message'}"


class Table(Protocol):
    """A module that measures one table."""

    TITLE: str
    TEXT: str
    """What is measured, in a sentence or two."""

    @staticmethod
    def rows(bench: Bench) -> Iterator[Row]:
        """Measure; raises ImportError where a part of the project is not there."""
        ...
