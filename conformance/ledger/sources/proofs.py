"""Z3: obligations, each a text and what has to hold of it, for any size."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import msgspec

from nullblock.conformance.ledger.digest import TEXT
from nullblock.conformance.ledger.rows import Cell, Detail, Fact, few
from nullblock.conformance.ledger.sources.base import Record, Source
from nullblock.conformance.ledger.words import Word
from nullblock.spec.catalogue import catalogue
from nullblock.spec.invariants import INVARIANTS
from nullblock.spec.kernel import RULES
from nullblock.spec.prover.claims import UNREACHED, proved_invariants, proved_rules

if TYPE_CHECKING:
    from nullblock.spec.prover import Checked

ENGINE = "Z3"


class Proved(Record, frozen=True, array_like=True):
    """An obligation that is proved under every policy under which it is posed."""

    times: int
    """How often it is posed: each path may pose it. 0: there was nothing to ask, because after
    this text its words are true by themselves, or those of another obligation.
    """
    seconds: float


class Left(Record, frozen=True):
    """An obligation that is not proved."""

    what: str
    policy: str
    status: str
    """refuted or unknown."""
    counterexample: str | None = None


class Text(Record, frozen=True):
    """A rule, an operation of the machine, or the first state."""

    name: str
    kind: str
    paths: int
    reached: bool
    """Whether its hypotheses are not contradictory: what is shown is not shown of nothing."""
    proved: dict[str, Proved]
    left: tuple[Left, ...] = ()
    never: tuple[str, ...] = ()
    """Rules in it of which no firing was found to be possible."""

    def about(self, what: str) -> list[Left]:
        """What is left of an invariant."""
        return [o for o in self.left if o.what == what]

    @property
    def vacuous(self) -> bool:
        """Whether something in it is shown of nothing."""
        return not self.reached or any(f"{self.name}: {r}" not in UNREACHED for r in self.never)


class Proofs(Record, frozen=True):
    """Everything that one run of the prover showed."""

    solver: str
    seconds: float
    """Processor time."""
    texts: tuple[Text, ...]

    @property
    def obligations(self) -> int:
        """How many are proved."""
        return sum(p.times for t in self.texts for p in t.proved.values())

    @property
    def left(self) -> int:
        """How many are not."""
        return sum(len(t.left) for t in self.texts)


def gather() -> Proofs:
    """Prove everything. About a minute."""
    from nullblock.spec.prover import prove

    report = prove()
    texts = (
        text(r.name, r.kind, r.paths, r.reached, r.found.values(), tuple(sorted(r.never)))
        for r in report.per_rule.values()
    )
    return Proofs(solver(), round(report.seconds, 1), tuple(map(_asked_of_all, texts)))


def solver() -> str:
    """The solver and its version."""
    import z3  # type: ignore[import-untyped]

    return f"Z3 {z3.get_version_string()}"


def text(
    name: str,
    kind: str,
    paths: int,
    reached: bool,
    checked: Iterable["Checked"],
    never: tuple[str, ...] = (),
) -> Text:
    """The record of what was found of a text."""
    found = list(checked)
    opened = [c for c in found if c.status != "proved"]
    names = {c.what for c in opened}
    proved: dict[str, Proved] = {}
    for c in found:
        if c.what not in names:
            was = proved.get(c.what, Proved(0, 0.0))
            proved[c.what] = Proved(was.times + c.times, round(was.seconds + c.seconds, 2))
    left = tuple(Left(c.what, c.policy, c.status, c.counterexample) for c in opened)
    return Text(name, kind, paths, reached, proved, left, never)


def _asked_of_all(t: Text) -> Text:
    """A rule with an entry for every invariant that is claimed to be proved, those with nothing to
    ask included.
    """
    if t.kind != "rule":
        return t
    rest = {id: Proved(0, 0.0) for id in _claimed() if id not in t.proved and not t.about(id)}
    return msgspec.structs.replace(t, proved=t.proved | rest)


def _claimed() -> list[str]:
    """The invariants that are claimed to be proved: of others nothing is assumed, nor asked."""
    claimed = proved_invariants()
    return [id for id in INVARIANTS if id in claimed]


def holes(found: Proofs) -> Iterator[str]:
    """What is not shown of any text: every proof assumes all of it."""
    lacking = proved_rules() - {t.name for t in found.texts}
    yield from (f"no proof of {name} is recorded" for name in RULES if name in lacking)
    for t in found.texts:
        if t.vacuous:
            yield f"{t.name} shows nothing: what it assumes contradicts itself, or never happens"
        yield from (f"{t.name}: {o.what} ({o.policy}) is {o.status}" for o in t.left)
        if t.kind == "rule":
            lost = [id for id in _claimed() if id not in t.proved and not t.about(id)]
            yield from (f"{t.name}: no obligation for {id} is recorded" for id in lost)


def cells(found: Proofs) -> Iterator[Cell]:
    """A cell an invariant, and a cell a rule."""
    gaps = list(holes(found))
    for id in _claimed():
        own = [(t, o) for t in found.texts for o in t.about(id)]
        word, why = _word([f"{t.name} ({o.policy}) is {o.status}" for t, o in own], own, gaps)
        yield Cell(
            *(id, ENGINE, word, f"nullblock prove {id}", _invariant(id, found)),
            because=why,
        )
    known = {s.definition.rpartition(".")[2]: s.id for s in catalogue() if s.kind == "rule"}
    for t in found.texts:
        if t.kind == "rule" and t.name in known:
            opened = [(t, o) for o in t.left]
            word, why = _word(
                [f"{o.what} ({o.policy}) is {o.status}" for o in t.left], opened, gaps
            )
            yield Cell(
                *(known[t.name], ENGINE, word, f"nullblock prove {t.name}", _rule(t)),
                claimed=t.name in proved_rules(),
                because=why,
            )


def _word(own: list[str], left: list[tuple[Text, Left]], gaps: list[str]) -> tuple[Word, str]:
    """The word, and why it is not *proved*: each proof assumes every invariant before, and that
    rules are fired where they may be, so one gap anywhere is a gap in all.
    """
    if own:
        refuted = any(o.status == "refuted" for _, o in left)
        return Word.REFUTED if refuted else Word.OPEN, few(own)
    if gaps:
        return Word.OPEN, f"every proof assumes what is not shown: {few(gaps, 1)}"
    return Word.PROVED, ""


def _invariant(id: str, found: Proofs) -> Detail:
    texts = [t for t in found.texts if id in t.proved or t.about(id)]
    says = (
        f"By induction: {id} holds in the first state, and no rule breaks it: each text below, "
        "started in any state that satisfies every invariant, leaves one that satisfies this one.",
        "That the machine fires rules only where they are allowed, and that its loops end, are "
        "obligations of its operations: they come last.",
    )
    return Detail(
        f"{id}: the proof",
        says + tuple(_stories(o for t in texts for o in t.about(id))),
        tuple(Fact(t.name, _count(t, id), not t.about(id)) for t in texts) + _machine(found),
        "text: how often the question is posed, and seconds where they are noticeable",
    )


def _machine(found: Proofs) -> tuple[Fact, ...]:
    return tuple(
        Fact(
            f"{t.name} (guards and loops)",
            f"{sum(p.times for p in t.proved.values()):,}, "
            f"{sum(p.seconds for p in t.proved.values()):.2f} s"
            + (f"; {len(t.left)} not proved" if t.left else ""),
            not t.left,
        )
        for t in found.texts
        if t.kind == "machine"
    )


def _rule(t: Text) -> Detail:
    facts = [Fact(what, _count(t, what)) for what in t.proved]
    facts += [Fact(f"{o.what} ({o.policy})", o.status, False) for o in t.left]
    return Detail(
        f"{t.name}: the proof",
        (
            f"{t.paths} paths through the rule, under both policies. Started in any state that "
            "satisfies every invariant, each leaves one that does.",
            *_stories(t.left),
        ),
        tuple(facts),
        "invariant: how often the question is posed, and seconds where they are noticeable",
    )


def _stories(left: Iterable[Left]) -> Iterator[str]:
    yield from (o.counterexample for o in left if o.counterexample)


def _count(t: Text, what: str) -> str:
    proved = t.proved.get(what)
    if proved is None:
        return ", ".join(f"{o.status} ({o.policy})" for o in t.about(what))
    if not proved.times:
        return "nothing to ask"
    return f"{proved.times}" + (f", {proved.seconds:.2f} s" if proved.seconds else "")


SOURCE = Source("proofs", Proofs, (*TEXT, "spec/prover/**/*", "spec/lint.py"), gather, cells)
