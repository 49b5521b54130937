"""Systematic mutants: every small change of the text, and which engine notices it.

Long runs, read from what `nullblock.spec.mutation` keeps of them.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import Any

from nullblock.conformance.ledger.digest import TEXT, digest
from nullblock.conformance.ledger.rows import Fall
from nullblock.conformance.ledger.sources.base import Record, Source
from nullblock.conformance.ledger.words import counted

AGAIN = "python tests/mutants/systematic.py"
COMMAND = "nullblock mutate"
STALE = "of an earlier text"
FILES = (*TEXT, "spec/mutation/generate.py", "spec/mutation/operators.py")


class Rate(Record, frozen=True, array_like=True):
    """How many an engine noticed, of how many it was asked about."""

    noticed: int
    asked: int

    def __str__(self) -> str:
        return f"{self.noticed:,} of {self.asked:,}" if self.asked else "not asked"


class Kind(Record, frozen=True):
    """The mutants of one kind."""

    name: str
    mutants: int
    noticed: int
    """By some engine."""
    rates: dict[str, Rate]
    """By engine."""


class Survivors(Record, frozen=True):
    """Mutants that nobody noticed, and the one reason for them all."""

    verdict: str
    why: str
    ids: tuple[str, ...]


class Systematic(Record, frozen=True):
    """What the engines said of all of them."""

    of: str
    """Digest of the text that was mutated."""
    engines: tuple[str, ...]
    kinds: tuple[Kind, ...]
    survivors: tuple[Survivors, ...]
    by: dict[str, int]
    """Statements by which the explorer noticed mutants, and how many."""

    @property
    def mutants(self) -> int:
        """How many there are."""
        return sum(k.mutants for k in self.kinds)

    @property
    def noticed(self) -> int:
        """How many are noticed by some engine."""
        return sum(k.noticed for k in self.kinds)

    @property
    def explained(self) -> int:
        """How many of the others there is a reason for."""
        return sum(len(s.ids) for s in self.survivors if s.why)

    def rate(self, engine: str) -> Rate:
        """Of all kinds."""
        rates = [k.rates[engine] for k in self.kinds]
        return Rate(sum(r.noticed for r in rates), sum(r.asked for r in rates))


def gather() -> Systematic:
    """Read what is kept."""
    from nullblock.spec.mutation.generate import Mutant, mutants
    from nullblock.spec.mutation.results import ENGINES, load
    from nullblock.spec.mutation.survivors import reason

    kept = {engine: load(engine) for engine in ENGINES}
    kinds: dict[str, list[Mutant]] = defaultdict(list)
    left: dict[tuple[str, str], list[str]] = defaultdict(list)
    by: Counter[str] = Counter()
    for m in mutants():
        if m.is_statement:
            continue
        kinds[m.kind].append(m)
        said = kept["explorer"].said.get(m.id, {})
        by.update([said["by"]] if "by" in said else [])
        if not any(k.noticed(m) for k in kept.values()):
            why = reason(m)
            left[(why.verdict, why.why) if why else ("", "")].append(m.id)
    lost = {id for ids in left.values() for id in ids}
    return Systematic(
        STALE if any(k.stale for k in kept.values()) else digest(FILES),
        tuple(ENGINES),
        tuple(
            Kind(
                name,
                len(some),
                sum(m.id not in lost for m in some),
                {
                    e: Rate(sum(k.noticed(m) is True for m in some), _asked(k.noticed, some))
                    for e, k in kept.items()
                },
            )
            for name, some in sorted(kinds.items())
        ),
        tuple(Survivors(*why, tuple(ids)) for why, ids in sorted(left.items())),
        dict(sorted(by.items())),
    )


def _asked(noticed: Callable[[Any], bool | None], some: list[Any]) -> int:
    return sum(noticed(m) is not None for m in some)


def falls(found: Systematic) -> Iterator[Fall]:
    """The statements by which mutants are noticed."""
    for id, n in found.by.items():
        yield Fall(id, counted(n, "mutant"))


SOURCE = Source(
    *("systematic", Systematic, FILES, gather),
    falls=falls,
    of=lambda found: found.of,
    again=AGAIN,
    claimed=False,
)
