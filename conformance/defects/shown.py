"""Whether lines that an engine printed contain given parts of lines."""

from collections.abc import Iterable
from typing import Any

Line = dict[str, Any]


def contains(whole: Any, part: Any) -> bool:
    """Whether a value contains a part of it.

    An object contains its fields; a list of objects contains those that one of its elements
    contains; everything else is equal or not.
    """
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(
            key in whole and contains(whole[key], value) for key, value in part.items()
        )
    if isinstance(part, list) and part and all(isinstance(each, dict) for each in part):
        return isinstance(whole, list) and all(
            any(contains(element, each) for element in whole) for each in part
        )
    return bool(whole == part)


def first_missing(lines: Iterable[Line], parts: Iterable[Line]) -> Line | None:
    """The first part that no line contains, behind the lines of the parts before it; None if
    there is none.
    """
    rest = iter(lines)
    for part in parts:
        if not any(contains(line, part) for line in rest):
            return part
    return None
