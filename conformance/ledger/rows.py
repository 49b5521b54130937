"""What a ledger is made of: statements, and what each engine showed of them."""

from collections.abc import Sequence
from dataclasses import dataclass

from nullblock.conformance.ledger.told import Told
from nullblock.conformance.ledger.words import Word, phrase


def few(reasons: Sequence[str], most: int = 3) -> str:
    """Some of the reasons why something is not shown, and how many more there are."""
    more = f", and {len(reasons) - most} more" if len(reasons) > most else ""
    return "; ".join(reasons[:most]) + more


@dataclass(frozen=True, slots=True)
class Fact:
    """One item of what a cell rests on."""

    name: str
    value: str
    good: bool = True


@dataclass(frozen=True, slots=True)
class Detail:
    """What stands behind a cell."""

    title: str
    says: tuple[str, ...] = ()
    facts: tuple[Fact, ...] = ()
    of: str = ""
    """What the facts are, as a heading."""
    stories: tuple[Told, ...] = ()


@dataclass(frozen=True, slots=True)
class Cell:
    """What one engine showed of one statement."""

    row: str
    engine: str
    word: Word
    command: str
    """Makes it again."""
    detail: Detail
    extent: str = ""
    """How far: scopes, steps, decisions."""
    claimed: bool = True
    """Whether it has to be shown."""
    because: str = ""
    """Why it is not shown."""
    assumes: bool = False
    """Whether it is shown of states in which all invariants hold, and so rests on their proofs."""

    @property
    def words(self) -> str:
        """As it reads."""
        return phrase(self.word, self.extent)


@dataclass(frozen=True, slots=True)
class Row:
    """A statement."""

    id: str
    group: str
    sentence: str
    place: str
    """File and line of its definition, or what it is a part of."""


@dataclass(frozen=True, slots=True)
class Fall:
    """Something under which a statement falls: it is no statement that nothing could break."""

    row: str
    by: str
    """What it is called."""
    exhibit: str = ""
    """The exhibit that shows it, if there is one."""


@dataclass(frozen=True, slots=True)
class Exhibit:
    """Something with a counterexample of its own: a departure, a condition of progress."""

    name: str
    kind: str
    cells: tuple[str, ...]
    """What its line in a table says, after the name."""
    commands: tuple[str, ...]
    """Make it again."""
    detail: Detail
    wrong: str = ""
    """Why it is not borne out."""


@dataclass(frozen=True, slots=True)
class Engine:
    """What shows things, explained to somebody who never saw it."""

    name: str
    title: str
    does: str
    """In two sentences."""
    rests: str
    """What has to be right for its word to count."""
    cannot: str
    """What it cannot show."""
    command: str
