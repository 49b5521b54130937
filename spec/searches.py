"""How an indexed environment finds a place for which a reading holds, in words that the eraser
knows.
"""

from nullblock.spec.concrete import Test


class Searches:
    """The first or the last of some places."""

    def first_from(self, test: Test, first: int) -> int:
        """The first place from there on for which a reading holds, as it does for one."""
        i = first
        while not test(i):
            i = i + 1
        return i

    def last_between(self, test: Test, first: int, end: int) -> int:
        """The last of the places from `first` on, before `end`, for which a reading holds; below
        `first`: none.
        """
        i = end - 1
        while i >= first and not test(i):
            i = i - 1
        return i

    def last_from(self, test: Test, first: int) -> int | None:
        """The last of the places from `first` on for which a reading holds that holds for all
        before it, and for none behind: found by doubling, then halving, the steps.
        """
        if not test(first):
            return None
        i, step = first, 1
        while test(i + step):
            i = i + step
            step = step + step
        while step > 1:
            step = step // 2
            if test(i + step):
                i = i + step
        return i
