"""How far a hit reaches, from what is cached: for prompts of hundreds of blocks, which are looked
up again and again.

Lengths are tried from the longest on, as the definitions have it; what is known not to be accepted
is left out, and all blocks of a prompt are looked for at once.
"""

from collections.abc import Iterable
from itertools import takewhile
from typing import Any

from nullblock.spec.concrete import Test
from nullblock.spec.groups import accepts
from nullblock.spec.in_turn import cut_twice, drops_now
from nullblock.spec.sessions import chain
from nullblock.spec.sizes import full_of


class LongestHits:
    """Of an indexed environment: who asks for the longest length that a reading holds for, and
    whether the blocks of a hit are cached.
    """

    state: Any

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self.forget_hits()

    def forget_hits(self) -> None:
        """Nothing is known of any lookup."""
        self._about: Any = None
        """What `_length` was last found for: which reading, for whom, in which cache."""
        self._length: int | None = None

    def forall(self: Any, sorts: str, test: Any, span: Any = None, by: Any = None) -> bool:
        if by is not None and by[0] == "cached":
            hashes = self.hashes(by[1], *span())
            return all(map(self.state.hsh.holders.__contains__, hashes))
        return super().forall(sorts, test, span, by)  # type: ignore[misc, no-any-return]

    def hashes(self, t: Any, first: int, end: int) -> Iterable[Any]:
        """Those of the blocks of table t from the first on, up to an end."""
        return (chain(self.state, t, i) for i in range(first, end))

    def longest(self: Any, test: Test, by: str) -> int | None:
        """The most blocks of the request that is looked up, or units of a hit, for which a reading
        holds.
        """
        s = self.state
        about = (by, s.lr, s.ntok[s.lr], s.past[s.lr], s.hsh.changes)
        if self._about != about:
            unit = self.span_unit if by == "hit" else self.block_size
            most = s.ntok[s.lr] // unit
            lengths = self._likely(most) if by == "hit" else range(most, -1, -1)
            self._about = about
            self._length = next(filter(test, lengths), None)
        return self._length  # type: ignore[no-any-return]

    def longest_first(self: Any, test: Test) -> int | None:
        """The most units of a hit of the first kind of layers for which a reading holds."""
        s = self.state
        return next(filter(test, range(s.ntok[s.lr] // self.span_unit, -1, -1)), None)

    def longest_of(self: Any, test: Test, t: Any) -> int | None:
        """The most units of a hit of the kind of table t, which is asked, for which a reading
        holds.
        """
        s = self.state
        most = min(s.ntok[s.lr], s.span + self.size_of(t)) // self.span_unit
        return next(filter(test, self._sayable(t, most)), None)

    def _likely(self: Any, most: int) -> Iterable[int]:
        """Units that a hit of several groups may have, the longest first: windows are asked before
        those that see the whole past, which is where most lengths fail.
        """
        s = self.state
        tables, unit = list(self.tables(s.lr)), self.span_unit
        for t in tables:
            most = self._most_of(t, most, 0)
        windows = [t for t in tables if self.window_of(t)]
        lengths = range(most, -1, -1)
        return (n for n in lengths if all(accepts(s, t, n * unit, 0) for t in windows))

    def _sayable(self: Any, t: Any, most: int) -> Iterable[int]:
        """Units of a hit that the kind of table t may say there is, the longest first: with a
        window those that this table accepts, or none.
        """
        s, unit = self.state, self.span_unit
        drops = drops_now(s, t)
        lengths = range(self._most_of(t, most, drops), -1, -1)
        if not self.window_of(t):
            return lengths

        def is_accepted(n: int) -> bool:
            end = n * unit + cut_twice(s, t, n * unit, drops)
            return n == 0 or bool(accepts(s, t, end, drops))

        return filter(is_accepted, lengths)

    def _most_of(self: Any, t: Any, most: int, drops: int) -> int:
        """No more units of a hit than table t accepts, if its layers see the whole past: then no
        hit is longer than what is cached without a gap, but for what is dropped.
        """
        if self.window_of(t) or self.chunk_of(t):
            return most
        s, unit = self.state, self.span_unit
        cached = self._leading(t, full_of(s, t, most * unit) + drops)
        while most > 0 and full_of(s, t, most * unit) + drops > cached:
            most -= 1
        return most

    def _leading(self: Any, t: Any, most: int) -> int:
        """How many leading blocks of table t, of the request that is looked up, are cached without
        a gap, of so many.
        """
        hashes = self.hashes(t, 0, most)
        return len(list(takewhile(self.state.hsh.holders.__contains__, hashes)))
