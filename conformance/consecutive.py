"""Numbers that follow each other, told as runs."""

from collections.abc import Iterable

Run = tuple[int, int]
"""The first number, and how many there are."""


def runs(numbers: Iterable[int]) -> list[Run]:
    """The numbers, in their order; one that is the next after the one before it is of its run."""
    found: list[Run] = []
    for number in numbers:
        if found and sum(found[-1]) == number:
            found[-1] = (found[-1][0], found[-1][1] + 1)
        else:
            found.append((number, 1))
    return found
