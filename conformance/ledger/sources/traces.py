"""The trace checker: what the real engine did, decided again by the rules."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from nullblock.conformance import bundled
from nullblock.conformance.ledger.digest import TEXT
from nullblock.conformance.ledger.rows import Cell, Detail, Fact, few
from nullblock.conformance.ledger.sources.base import Record, Source
from nullblock.conformance.ledger.words import Word, counted
from nullblock.spec.catalogue import catalogue

ENGINE = "traces"
COMMAND = "nullblock check conformance/bundled/*.zst"


class Judged(Record, frozen=True):
    """The verdict on one trace."""

    name: str
    engine: str
    verdict: str
    profile: str
    steps: int
    decisions: int
    rules: dict[str, int]
    """How often each rule decided."""


class Traces(Record, frozen=True):
    """The verdicts on the bundled traces."""

    traces: tuple[Judged, ...]

    @property
    def steps(self) -> int:
        """In all traces."""
        return sum(t.steps for t in self.traces)


def gather() -> Traces:
    """Judge the bundled traces. Seconds each."""
    return Traces(tuple(map(judged, bundled.traces())))


def judged(path: Path) -> Judged:
    """The verdict on one trace."""
    from nullblock.conformance.checker import check

    v = check(path)
    engine = f"{v.replay.header.engine.name} {v.replay.header.engine.version}" if v.replay else ""
    rules = dict(sorted(v.rules.items()))
    return Judged(path.name, engine, v.verdict, v.profile, v.steps, v.decisions, rules)


def broken(found: Traces) -> Iterator[str]:
    """Traces that do not conform, or were not judged."""
    there = {t.name for t in found.traces}
    lost = [p.name for p in bundled.traces() if p.name not in there]
    yield from (f"trace {name}: no verdict is recorded" for name in lost)
    yield from (f"trace {t.name} is {t.verdict}" for t in found.traces if t.verdict != "CONFORMS")


def cells(found: Traces) -> Iterator[Cell]:
    """A cell for each rule that decided in a trace."""
    times: Counter[str] = Counter()
    for t in found.traces:
        times.update(t.rules)
    wrong = list(broken(found))
    for s in catalogue():
        if s.kind == "rule" and times[s.id]:
            facts = tuple(
                Fact(t.name, f"{t.rules[s.id]:,} of {t.decisions:,} decisions, {t.steps:,} steps")
                for t in found.traces
                if s.id in t.rules
            )
            shown = Detail(
                f"{s.id}: in recorded runs",
                (
                    "The rules made every recorded decision again from the recorded inputs, and "
                    "each came out as it was recorded. Here is how often this rule fired on the "
                    "way.",
                ),
                facts,
                "trace: how often it fired",
            )
            yield Cell(
                *(s.id, ENGINE, Word.REFUTED if wrong else Word.NOT_REFUTED, COMMAND, shown),
                extent=counted(times[s.id], "firing"),
                because=few(wrong),
            )


FILES = (
    *(*TEXT, "spec/erased/*.py", "spec/indexed.py", "spec/indexes.py"),
    *("spec/longest_hits.py", "spec/searches.py"),
    *("conformance/checker/*.py", "conformance/trace/*.py", "conformance/bundled/*.zst"),
)
SOURCE = Source("traces", Traces, FILES, gather, cells, broken)
