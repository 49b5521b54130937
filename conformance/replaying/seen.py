"""How much of the prompts an unlimited prefix cache could have hit."""

from bisect import bisect_left

from nullblock.conformance.workloads.content import Content, Numbers

_MAX_IDS = 2**28
"""Ids that are watched, one bit each; beyond them nothing is told."""


class Seen:
    """Remembers which units of prompts have arrived. Memory: a bit for each id."""

    def __init__(self) -> None:
        self._bits = bytearray()
        self.complete = True
        """Whether every id could be watched."""

    def arrive(self, content: Content) -> int:
        """A prompt arrives; how many of its first tokens had arrived before."""
        ids = Numbers(content.runs)
        if not self.complete or any(sum(run) > _MAX_IDS for run in content.runs):
            self.complete = False
            return 0
        # An id stands for all before it, so those that were seen come first.
        known = bisect_left(range(len(ids)), True, key=lambda place: not self._has(ids[place]))
        for place in range(known, len(ids)):
            self._add(ids[place])
        # The last token is always computed: its output is needed.
        return min(known * content.unit, content.length - 1)

    def _has(self, id: int) -> bool:
        byte, bit = divmod(id, 8)
        return byte < len(self._bits) and bool(self._bits[byte] >> bit & 1)

    def _add(self, id: int) -> None:
        byte, bit = divmod(id, 8)
        if byte >= len(self._bits):
            self._bits.extend(bytes(max(byte + 1, 2 * len(self._bits)) - len(self._bits)))
        self._bits[byte] |= 1 << bit
