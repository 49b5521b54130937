"""What an indexed environment keeps in place of plain maps: each knows what is asked of it."""

from collections import OrderedDict
from itertools import takewhile
from typing import Any

from nullblock.spec.carriers import Zero


class Stamps(OrderedDict[Any, int]):
    """A map to stamps, kept in their order: a new stamp is the greatest, or, if negative, among
    the least.
    """

    def __missing__(self, key: Any) -> int:
        return 0

    def __setitem__(self, key: Any, value: int) -> None:
        self.pop(key, 0)
        if value > 0:
            _PUT(self, key, value)
        elif value:
            before = list(takewhile(lambda k: self[k] < value, self))
            _PUT(self, key, value)
            for k in (key, *reversed(before)):
                self.move_to_end(k, last=False)


class Places(Stamps):
    """Stamps of which a new one may lie among the others."""

    def __setitem__(self, key: Any, value: int) -> None:
        self.pop(key, 0)
        behind = list(takewhile(lambda k: self[k] > value, reversed(self))) if value > 0 else []
        super().__setitem__(key, value)
        for k in reversed(behind):
            self.move_to_end(k)


_PUT = OrderedDict.__setitem__
"""Past the check above."""


class Hashes(dict[Any, Any]):
    """A map from blocks to hashes that also knows the blocks of each hash, first cached first."""

    def __init__(self) -> None:
        super().__init__()
        self.holders: dict[Any, dict[Any, None]] = {}
        self.changes = 0
        """How often a block has got another hash, or lost it."""

    def __missing__(self, key: Any) -> None:
        return None

    def __setitem__(self, b: Any, h: Any) -> None:
        old = self.pop(b, None)
        self.changes += 1
        if old is not None:
            # The hash goes to the end, as in BlockHashToBlockMap.pop: where lines spell two alike,
            # the later one is shown.
            holders = self.holders.pop(old)
            del holders[b]
            if holders:
                self.holders[old] = holders
        if h is not None:
            _NOTE(self, b, h)
            if h in self.holders:
                self.holders[h][b] = None
            else:
                self.holders[h] = {b: None}


_NOTE = dict.__setitem__


class Sparse(Zero):
    """A map that forgets keys set to zero, so that its length counts the others."""

    def __setitem__(self, key: Any, value: Any) -> None:
        if value:
            super().__setitem__(key, value)
        else:
            self.pop(key, None)


class Passing(dict[int, Any]):
    """A map whose keys come one after another and leave in the same order."""

    def __missing__(self, key: int) -> int:
        return 0


class Void(dict[Any, Any]):
    """A ghost map that keeps nothing."""

    def __missing__(self, key: Any) -> None:
        return None

    def __setitem__(self, key: Any, value: Any) -> None:
        pass


class Uncounted(Zero):
    """A ghost map of numbers that keeps nothing."""

    def __setitem__(self, key: Any, value: Any) -> None:
        pass
