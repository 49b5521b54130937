"""Lockstep: random scenarios on the specification, the reference and the real engine side by side.

Long runs, read from what `tests/fuzz/record.py` has left.
"""

from collections.abc import Iterator

from nullblock.conformance.ledger import sums
from nullblock.conformance.ledger.rows import Cell, Detail, Fact, few
from nullblock.conformance.ledger.sources.base import Record, Source
from nullblock.conformance.ledger.words import Word, counted
from nullblock.spec.catalogue import catalogue

ENGINE = "lockstep"
FILES = sums.TEXTS["spec"]
AGAIN = "python tests/fuzz/record.py"
SELDOM = 0.01
"""The share of scenarios below which a situation is one of many."""


class Fuzzed(Record, frozen=True):
    """What long runs of the specification showed, of one text."""

    of: str
    """Digest of the text that ran."""
    engines: tuple[str, ...]
    beside: str
    """The real engine."""
    seed: int
    """The first of the runs' seeds."""
    scenarios: int
    steps: int
    exceptions: int
    """Scenarios that an exception ended, the same on every engine."""
    refused: int
    differences: int
    watched: int
    """Scenarios of which it is known what they reached."""
    reached: dict[str, int]
    families: tuple[str, ...] = ("core",)
    """Of scenarios."""


def gather() -> Fuzzed:
    """Add up the specification's runs beside the real engine of the text that ran last. Raises
    ValueError if there are none.
    """
    mine = [s for s in sums.gather() if "spec" in s.of and s.beside == sums.REAL]
    if not mine:
        raise ValueError(f"no run of the specification is recorded: {AGAIN}")
    of = mine[-1].of["spec"]
    some = [s for s in mine if s.of["spec"] == of]
    whole = sums.Sum("all", some[0].of, sums.REAL, {})
    for one in some:
        whole = whole.plus(one)
    return Fuzzed(
        of=of,
        engines=tuple(dict.fromkeys(engine for one in some for engine in one.engines)),
        beside=sums.REAL,
        seed=int(next(iter(whole.seeds))),
        scenarios=whole.scenarios,
        steps=whole.steps,
        exceptions=whole.exceptions,
        refused=whole.refused,
        differences=whole.differences,
        watched=whole.watched,
        reached=whole.reached,
        families=tuple(dict.fromkeys(one.family for one in some)),
    )


def broken(found: Fuzzed) -> Iterator[str]:
    """Runs with differences."""
    if found.differences:
        differ = "scenario differs" if found.differences == 1 else "scenarios differ"
        yield f"lockstep: {found.differences:,} {differ} from {found.beside}"


def _reached(found: Fuzzed) -> Iterator[Fact]:
    """In how many scenarios each situation was met; those that are seldom met, many, in one."""
    shares = {what: n / max(1, found.watched) for what, n in found.reached.items()}
    for what in sorted(shares, key=lambda what: (-shares[what], what)):
        if shares[what] >= SELDOM:
            yield Fact(what, f"{shares[what]:.0%}")
    seldom = sorted(what for what, share in shares.items() if share < SELDOM)
    if seldom:
        yield Fact(", ".join(seldom), f"less than {SELDOM:.0%} each")


def cells(found: Fuzzed) -> Iterator[Cell]:
    """A cell for each rule and each reading: the whole text was compared."""
    wrong = list(broken(found))
    steps = counted(found.steps, "step")
    shown = Detail(
        "Lockstep with the real engine",
        (
            f"{counted(found.scenarios, 'random scenario')} ({', '.join(found.families)}), "
            f"{steps}: {', '.join(found.engines)} beside {found.beside}, from seed {found.seed}. "
            "Every decision and the whole state after it were compared: "
            f"{counted(found.differences, 'difference')}. "
            f"{counted(found.exceptions, 'scenario')} ended by an exception, of all engines "
            f"alike; {found.refused:,} asked for what is out of scope.",
            f"Of {counted(found.watched, 'scenario')} it was watched what was reached:",
        ),
        tuple(_reached(found)),
        "situation: in how many of them",
    )
    for s in catalogue():
        if s.kind in ("rule", "clause") and not s.id.startswith("EVENT-"):
            word = Word.REFUTED if wrong else Word.NOT_REFUTED
            yield Cell(
                *(s.id, ENGINE, word, f"{AGAIN} --seed {found.seed}", shown),
                extent=steps,
                because=few(wrong),
            )


SOURCE = Source(
    *("lockstep", Fuzzed, FILES, gather, cells, broken),
    of=lambda found: found.of,
    again=AGAIN,
)
