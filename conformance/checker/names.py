"""Whether two lists of blocks are the same, as far as a trace tells their ids."""

from collections.abc import Callable, Sequence

Same = Callable[[Sequence[int], Sequence[int]], bool]


class Exact:
    """The engine's own ids: they count."""

    def same(self, expected: Sequence[int], actual: Sequence[int]) -> bool:
        """Whether the ids are equal, one by one."""
        return list(expected) == list(actual)

    def ours(self, block: int) -> int | None:
        """The block that a trace's id means; None: one that the rules have not used yet."""
        return block

    def theirs(self, block: int) -> int | None:
        """What a trace calls our block; None: that was never told."""
        return block


class Opaque:
    """Ids that were renamed one to one: what counts is that one name means one block."""

    def __init__(self) -> None:
        self._theirs: dict[int, int] = {0: 0}
        """The null block has the same name for everybody."""
        self._ours: dict[int, int] = {0: 0}

    def same(self, expected: Sequence[int], actual: Sequence[int]) -> bool:
        """Whether the lists are equal under one renaming of all blocks, which this may extend."""
        return len(expected) == len(actual) and all(map(self._one, expected, actual))

    def _one(self, ours: int, theirs: int) -> bool:
        if ours not in self._theirs and theirs not in self._ours:
            self._theirs[ours], self._ours[theirs] = theirs, ours
        return self._theirs.get(ours) == theirs

    def ours(self, block: int) -> int | None:
        """The block that a trace's id means; None: one that the rules have not used yet."""
        return self._ours.get(block)

    def theirs(self, block: int) -> int | None:
        """What a trace calls our block; None: that was never told."""
        return self._theirs.get(block)


class Absent(Exact):
    """No ids are told: only how many there are counts."""

    def same(self, expected: Sequence[int], actual: Sequence[int]) -> bool:
        """Whether the lists are equally long."""
        return len(expected) == len(actual)

    def ours(self, block: int) -> int | None:
        """None."""
        return None

    def theirs(self, block: int) -> int | None:
        """None."""
        return None


Names = Exact | Opaque


def names(block_ids: str) -> Names:
    """By a header's `block_ids`."""
    kinds: dict[str, type[Names]] = {"exact": Exact, "opaque": Opaque, "absent": Absent}
    return kinds[block_ids]()
