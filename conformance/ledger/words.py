"""The words for a result. Nothing weaker than an unbounded proof is called proved."""

from enum import StrEnum
from typing import Final


class Word(StrEnum):
    """What an engine showed of a statement."""

    PROVED = "proved"
    EXHAUSTIVE = "exhaustive"
    CONFIRMED = "confirmed over all paths"
    NOT_REFUTED = "not refuted"
    OPEN = "open"
    EMPTY = "shows nothing"
    REFUTED = "refuted"
    STALE = "stale"

    @property
    def shown(self) -> bool:
        """Whether something was shown."""
        return self in SHOWN


SHOWN: Final = frozenset({Word.PROVED, Word.EXHAUSTIVE, Word.CONFIRMED, Word.NOT_REFUTED})
MEANING: Final[dict[Word, str]] = {
    Word.PROVED: "It holds for any number of blocks, requests and tokens, whatever happens, where "
    "layers see all of the past and adapters are not capped.",
    Word.EXHAUSTIVE: "It holds in every state that the named small systems (scopes) can reach; a "
    "larger system was not looked at.",
    Word.CONFIRMED: "Every path through the function was followed with inputs that stand for all "
    "inputs of the stated kind.",
    Word.NOT_REFUTED: "It was tried so often, and nothing spoke against it. That is no proof.",
    Word.OPEN: "It was tried and not shown, nor was a counterexample found.",
    Word.EMPTY: "It was checked, but of nothing: what should have been reached was not.",
    Word.REFUTED: "There is a counterexample.",
    Word.STALE: "It was shown of an earlier text. What it is worth for the present one is not "
    "known.",
}


def counted(number: int, noun: str) -> str:
    """So many of them: `1 scope`, `22,805 steps`."""
    return f"{number:,} {noun}" + "s" * (number != 1)


def phrase(word: Word, extent: str) -> str:
    """The words of a cell: `exhaustive to 20 scopes`, `not refuted in 22,805 steps`."""
    match word:
        case Word.EXHAUSTIVE:
            return f"exhaustive to {extent}"
        case Word.NOT_REFUTED:
            return f"not refuted in {extent}"
        case _:
            return word.value
