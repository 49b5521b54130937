"""Z3: what every step does for the request that nobody comes before, for any size."""

from collections.abc import Iterator

from nullblock.conformance.ledger.rows import Cell, Detail, Fact, few
from nullblock.conformance.ledger.sources import proofs
from nullblock.conformance.ledger.sources.base import Record, Source
from nullblock.conformance.ledger.words import Word
from nullblock.spec.liveness.ranking import THEOREMS

COMMAND = "nullblock explore --liveness --ranking"


class Ranking(Record, frozen=True):
    """The obligations of the ranking argument."""

    solver: str
    texts: tuple[proofs.Text, ...]


def gather() -> Ranking:
    """Prove the argument. A minute."""
    from nullblock.spec.liveness.proof import ranking, shows_nothing

    reports = ranking()
    empty = set(shows_nothing(reports))
    texts = (
        proofs.text(r.name, r.kind, r.paths, r.name not in empty, r.found.values())
        for r in reports
    )
    return Ranking(proofs.solver(), tuple(texts))


def holes(found: Ranking) -> Iterator[str]:
    """What is not shown: the parts of the argument need one another."""
    from nullblock.spec.liveness.proof import jobs

    there = {t.name for t in found.texts}
    for part, job in jobs():
        if f"{part}: {job.name}" not in there:
            yield f"no proof of {part}: {job.name} is recorded"
    for t in found.texts:
        if not t.reached:
            yield f"{t.name} shows nothing: what it assumes contradicts itself"
        yield from (f"{t.name}: {o.what} ({o.policy}) is {o.status}" for o in t.left)


def cells(found: Ranking) -> Iterator[Cell]:
    """A cell a theorem."""
    gaps = list(holes(found))
    facts = tuple(Fact(t.name, _count(t), not t.left and t.reached) for t in found.texts)
    shown = Detail(
        "The ranking argument",
        (
            "By induction over the rules, like the invariants: what is said from the beginning of "
            "a step to the beginning of the next holds when it has begun, and every rule that may "
            "fire meanwhile keeps it. The parts are: a step, an update, a request that runs, a "
            "request that waits.",
            "Every part is about states in which all invariants hold: it rests on their proofs.",
        ),
        facts,
        "part and text: obligations, seconds",
    )
    for id in THEOREMS:
        yield Cell(
            *(id, proofs.ENGINE, Word.OPEN if gaps else Word.PROVED, COMMAND, shown),
            because=few(gaps),
            assumes=True,
        )


def _count(t: proofs.Text) -> str:
    seconds = sum(p.seconds for p in t.proved.values())
    left = f", {len(t.left)} not proved" if t.left else ""
    return f"{sum(p.times for p in t.proved.values())}, {seconds:.2f} s{left}"


FILES = (
    *proofs.SOURCE.files,
    *(f"spec/liveness/{name}.py" for name in ("ranking", "line", "proof")),
)
SOURCE = Source("ranking", Ranking, FILES, gather, cells)
