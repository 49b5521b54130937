"""Prompts as scenarios write them: a list of tokens, or a short form that stands for one.

``[5, 6]``, ``{"fill": 7, "n": 3}``, ``{"range": [lo, hi]}`` (``hi`` excluded), and
``{"concat": [...]}`` of any of these.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Any

MAX_PROMPT_TOKENS = 2**22
"""Tokens that one prompt may stand for."""

_FORMS = 'a list of tokens, {"fill": t, "n": n}, {"range": [lo, hi]} or {"concat": [...]}'


class PromptError(ValueError):
    """A prompt that stands for no list of tokens.

    Attributes:
        place: where inside the prompt, as a suffix of its own place: ``.concat[1].range``.
        remedy: what to write instead.
    """

    def __init__(self, what: str, remedy: str, place: str) -> None:
        super().__init__(what)
        self.remedy, self.place = remedy, place


@dataclass(frozen=True, slots=True)
class Fill:
    """One token ``n`` times over."""

    token: int
    n: int

    def __len__(self) -> int:
        return self.n

    def __iter__(self) -> Iterator[int]:
        return repeat(self.token, self.n)


Piece = list[int] | range | Fill


class Prompt:
    """A prompt before it is written out.

    No dataclass: the decoder would take it apart instead of asking :func:`parse_prompt`.
    """

    __slots__ = ("pieces",)

    def __init__(self, pieces: tuple[Piece, ...]) -> None:
        self.pieces = pieces

    def __len__(self) -> int:
        """Tokens."""
        return sum(map(len, self.pieces))

    def tokens(self) -> list[int]:
        """The prompt written out."""
        return list(chain.from_iterable(self.pieces))


def parse_prompt(value: Any) -> Prompt:
    """The prompt that a JSON value writes; :class:`PromptError` if it writes none."""
    prompt = Prompt(tuple(_pieces(value, "")))
    if len(prompt) > MAX_PROMPT_TOKENS:
        remedy = f"a prompt has at most {MAX_PROMPT_TOKENS}"
        raise PromptError(f"the prompt stands for {len(prompt)} tokens", remedy, "")
    return prompt


def _pieces(value: Any, place: str) -> Iterator[Piece]:
    if isinstance(value, list):
        for index, token in enumerate(value):
            if type(token) is not int:
                raise _wrong_type(token, "a token (a whole number)", f"{place}[{index}]")
        yield value
        return
    if not isinstance(value, dict):
        raise _wrong_type(value, _FORMS, place)
    if value.keys() == {"concat"}:
        parts = value["concat"]
        if not isinstance(parts, list):
            raise _wrong_type(parts, "a list of prompts", f"{place}.concat")
        for index, part in enumerate(parts):
            yield from _pieces(part, f"{place}.concat[{index}]")
    elif value.keys() == {"range"}:
        yield _range(value["range"], f"{place}.range")
    elif value.keys() == {"fill", "n"}:
        yield Fill(_whole(value["fill"], f"{place}.fill"), _count(value["n"], f"{place}.n"))
    else:
        keys = ", ".join(sorted(value)[:5]) or "none"
        raise PromptError(f"not a prompt (keys: {keys[:80]})", f"write {_FORMS}", place)


def _range(bounds: Any, place: str) -> range:
    if not isinstance(bounds, list) or len(bounds) != 2:
        raise PromptError("a range has two bounds", "write [lo, hi], hi excluded", place)
    low, high = (_whole(bound, f"{place}[{i}]") for i, bound in enumerate(bounds))
    if high < low:
        raise PromptError(f"{low} is beyond {high}", "write the smaller bound first", place)
    # len() of a longer range overflows, so this limit cannot wait for the prompt's own.
    if high - low > MAX_PROMPT_TOKENS:
        remedy = f"a prompt has at most {MAX_PROMPT_TOKENS}"
        raise PromptError(f"the range stands for {high - low} tokens", remedy, place)
    return range(low, high)


def _count(value: Any, place: str) -> int:
    count = _whole(value, place)
    if count < 0:
        raise PromptError(f"{count} tokens", "write a number of at least 0", place)
    if count > MAX_PROMPT_TOKENS:
        remedy = f"a prompt has at most {MAX_PROMPT_TOKENS}"
        raise PromptError(f"the fill stands for {count} tokens", remedy, place)
    return count


def _whole(value: Any, place: str) -> int:
    if type(value) is not int:
        raise _wrong_type(value, "a whole number", place)
    return value


def _wrong_type(value: Any, expected: str, place: str) -> PromptError:
    names = {dict: "object", list: "array", str: "str", bool: "bool", type(None): "null"}
    got = names.get(type(value), type(value).__name__)
    return PromptError(f"expected {expected}, got `{got}`", "", place)
