"""Chain numbers as a trace has them: counted as they appear, and forgotten when nobody can tell.

A prompt's own numbers (:mod:`nullblock.conformance.workloads.content`) are far apart and never
forgotten. A block that nobody holds leaves the cache at the latest when as many blocks as there
are have been given out since; what is still wanted then comes back under a new number.
"""

from collections import deque
from collections.abc import Iterable

from nullblock.conformance.consecutive import Run


class Numbering:
    """Equal contents have equal numbers, as long as a block with that content may exist."""

    def __init__(self, num_blocks: int, sweep_above: int = 2**18) -> None:
        """Numbers are looked through when there are more than ``sweep_above``."""
        self.given_out = 0
        """Blocks taken from the free queue so far."""
        self._of: dict[int, int] = {}
        self._next = 0
        self._num_blocks = num_blocks
        self._least_sweep = self._sweep_above = sweep_above
        self._live: dict[str, list[int]] = {}
        self._gone: deque[tuple[int, list[int]]] = deque()

    def add(self, id: str, contents: Iterable[int]) -> list[Run]:
        """A request arrives; the numbers of its prompt's blocks, as runs."""
        if len(self._of) > self._sweep_above:
            self._sweep()
        live = self._live[id] = list(contents)
        runs: list[Run] = []
        first = many = 0
        for content in live:
            number = self._of.get(content)
            if number is None:
                number = self._of[content] = self.fresh()
            if number == first + many:
                many += 1
                continue
            if many:
                runs.append((first, many))
            first, many = number, 1
        return [*runs, (first, many)] if many else runs

    def fresh(self) -> int:
        """A number for a content that nobody shares."""
        self._next += 1
        return self._next - 1

    def remove(self, id: str) -> None:
        """A request ends."""
        self._gone.append((self.given_out, self._live.pop(id, [])))

    def _sweep(self) -> None:
        while self._gone and self._gone[0][0] + self._num_blocks <= self.given_out:
            self._gone.popleft()
        kept = {content for contents in self._live.values() for content in contents}
        kept.update(content for _, contents in self._gone for content in contents)
        self._of = {content: number for content, number in self._of.items() if content in kept}
        self._sweep_above = max(self._least_sweep, 2 * len(self._of))
