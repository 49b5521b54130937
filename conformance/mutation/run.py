"""Asks engines about mutants, and keeps what they say."""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from typing import TypeVar

from nullblock.conformance.mutation import lockstep, traces
from nullblock.conformance.mutation.side_by_side import answers
from nullblock.conformance.mutation.switched import never_explored
from nullblock.spec.departures import DEPARTURES, find
from nullblock.spec.mutation import proving, statements
from nullblock.spec.mutation.exploring import FIRST, Explorer, explorer, scopes
from nullblock.spec.mutation.forks import Json
from nullblock.spec.mutation.generate import Defect, Mutant, mutants
from nullblock.spec.mutation.guards import asks_less
from nullblock.spec.mutation.results import Engine, Results, load
from nullblock.spec.zoo.specimens import SPECIMENS

Judge = Callable[[Defect], Json]
Progress = Callable[[Defect, Json], None]
Some = TypeVar("Some", bound=Defect)
SAMPLED: dict[Engine, int] = {"prover": 8, "lockstep": 4, "traces": 16}
"""Engines that take long: they are asked about one mutant in so many, and about each that those
before them do not notice.
"""
UNTRACED = frozenset(
    {
        *("groups", "hybrid", "waiting", "encoder", "planning"),
        *("pooling", "sessions", "turns", "clients", "loads", "remote", "cross"),
    }
)
"""Parts that no trace comes to: the checker refuses traces of such models."""
BEFORE: dict[Engine, tuple[Engine, ...]] = {
    "prover": ("explorer",),
    "lockstep": ("explorer",),
    "traces": ("explorer", "lockstep"),
}
EVERY = 20.0
"""Seconds after which what was said so far is written."""


@contextmanager
def asking(engine: Engine, some: Iterable[Mutant] | None = None) -> Iterator[Judge]:
    """Something that asks an engine about a defect: one of `some` mutants, or a specimen. Raises
    build.NoCompiler.
    """
    match engine:
        case "explorer":
            with explorer(some) as found:
                yield found.judge
        case "prover":
            yield proving.judge
        case "lockstep":
            _pass(lockstep.judge)
            yield lockstep.judge
        case "traces":
            _pass(traces.judge)
            yield traces.judge


def _pass(judge: Callable[[None], Json]) -> None:
    """Whoever objects to the specification without a defect says nothing of one with it."""
    said = judge(None)
    assert not said, f"the specification does not pass: {said}"


def wanted(engine: Engine) -> list[Defect]:
    """The defects that an engine is asked about when all is run anew."""
    some = [m for m in mutants() if not m.is_statement]
    if engine != "prover":
        some = [m for m in some if not asks_less(m)]
    else:
        some = [m for m in some if proving.concerned(m)]
    if engine == "explorer":
        # What a worker is told is read from the state when the explorer has no use for it.
        some = [m for m in some if m.file != "machine/output.py" and not never_explored(m)]
    if engine == "traces":
        some = [m for m in some if m.file.removesuffix(".py").split("/")[-1] not in UNTRACED]
    if engine in SAMPLED:
        # The hardest first: a run that is broken off has asked what matters most.
        seen = [load(e) for e in BEFORE[engine]]
        some = [
            m for m in some if drawn(m, SAMPLED[engine]) or not any(k.noticed(m) for k in seen)
        ]
        some.sort(key=lambda m: (sum(k.noticed(m) is True for k in seen), m.kind == "guard"))
    return [*SPECIMENS, *some]


def drawn(m: Mutant, of: int) -> bool:
    """Whether a mutant is in the sample, one in so many: by its ID alone."""
    return sha256(m.id.encode()).digest()[0] % of == 0


def record(
    engine: Engine, progress: Progress, only: tuple[str, ...] = (), new: bool = False
) -> Results:
    """Ask an engine about every mutant that it has not been asked about with this text, or `only`
    about those whose IDs begin so, or about those that are `new`: of which nothing is known, or
    nothing that still holds.
    """
    kept = load(engine)
    if engine == "explorer":
        _record_departures(kept)
    if engine == "lockstep" and not only:
        _ask_over_new_scenarios(kept, progress)
    some = _to_ask(wanted(engine), kept, only, new)
    # A run that is broken off has asked first what least is known of.
    some.sort(key=lambda m: (m.id in kept.earlier, "by" in kept.earlier.get(m.id, {})))
    if engine == "explorer":
        _keep(kept, explored(some), progress)
    elif some:
        with asking(engine) as ask:
            _keep(kept, answers(ask, some), progress)
    return kept


def _ask_over_new_scenarios(kept: Results, progress: Progress) -> None:
    """Whom the lockstep did not notice may be noticed in a scenario that has come since."""
    every = frozenset(g.name for g in lockstep.golden())
    new = every - kept.over
    if not new:
        return
    some = [d for d in wanted("lockstep") if kept.noticed(d) is False]
    for d, now in answers(lambda d: lockstep.judge(d, new), some):
        if "by" in now:
            where = kept.now if d.id in kept.now else kept.earlier
            where[d.id] = now
            progress(d, now)
    kept.over = every
    kept.save()


def _to_ask(some: Iterable[Some], kept: Results, only: tuple[str, ...], new: bool) -> list[Some]:
    known = kept.said if new else kept.now
    return [m for m in some if m.id not in known and (not only or m.id.startswith(only))]


def explored(some: Iterable[Defect]) -> Iterator[tuple[Defect, Json]]:
    """What the explorer says of defects. The scopes that notice most come first, so that programs
    for the others hold, and are asked about, what is left.
    """
    said: dict[str, Json] = {m.id: {"same": True} for m in some}
    left = list(some)
    for batch in (FIRST, [name for name in scopes() if name not in FIRST]):
        if not left:
            return
        with explorer([m for m in left if isinstance(m, Mutant)], batch) as found:
            found.prepare()
            for m, now in answers(found.judge, left):
                said[m.id] = _both(said[m.id], now)
                if "by" in now:
                    yield m, now
        left = [m for m in left if "by" not in said[m.id]]
    yield from ((m, said[m.id]) for m in left)


def _both(before: Json, now: Json) -> Json:
    """What is said in some scopes, none of which notices anything, and then in others."""
    if "by" in now or "same" not in before:
        return now
    unlike = [*before.get("unlike", ()), *now.get("unlike", ())]
    return {"same": not unlike} | ({"unlike": unlike} if unlike else {})


def _record_departures(kept: Results) -> None:
    for d in DEPARTURES:
        name = f"departure.{d.name}"
        if name not in kept.now:
            found = find(d)
            length = len(found.counterexample.actions) if found.counterexample else 0
            counts = {
                "states": found.states,
                "actions": length,
                "seconds": round(found.seconds, 4),
            }
            by = {"by": found.counterexample.breaks} if found.counterexample else {}
            kept.now[name] = {**by, "scope": d.scope.name, **counts}
            kept.save()


def _keep(kept: Results, said: Iterable[tuple[Defect, Json]], progress: Progress) -> None:
    """Write down what is said, from time to time and at the end."""
    saved = time.monotonic()
    for m, found in said:
        kept.now[m.id] = found
        progress(m, found)
        if time.monotonic() - saved > EVERY:
            kept.save()
            saved = time.monotonic()
    kept.save()


def record_scopes(names: Iterable[str], progress: Progress) -> Results:
    """Ask the explorer, in scopes that are new, about every mutant that no other scope notices."""
    kept = load("explorer")
    left = [m for m in wanted("explorer") if "by" not in (kept.last(m.id) or {"by": ""})]
    with explorer(names=names) as found:
        found.prepare()
        for m, now in answers(found.judge, left):
            where = kept.now if m.id in kept.now else kept.earlier
            where[m.id] = _both(where[m.id], now)
            progress(m, where[m.id])
    kept.save()
    return kept


def record_statements(
    progress: Progress, only: tuple[str, ...] = (), new: bool = False
) -> Results:
    """Ask the explorer about every defect of a statement, or about those whose IDs begin as `only`
    says, or about those that are `new`. The explorer's results come first.
    """
    kept, explored = load("statements"), load("explorer")
    some = _to_ask((m for m in mutants() if m.is_statement), kept, only, new)
    if some:
        forms = [m for m in mutants() if m.is_statement]
        caught = (m for id in statements.silenced() for m in statements.caught(explored, id))
        with explorer([*forms, *dict.fromkeys(caught)], level="-O0" if new else "-O1") as found:
            found.prepare()
            _record_statements(found, explored, kept, some, progress, new)
    return kept


def _record_statements(
    found: Explorer,
    explored: Results,
    kept: Results,
    some: list[Mutant],
    progress: Progress,
    new: bool,
) -> None:
    known = kept.said if new else kept.now
    ids = [id for id in statements.silenced() if f"only {id}" not in known]
    for id, said in answers(lambda id: {"of": statements.only(found, explored, id)}, ids):
        kept.now[f"only {id}"] = said
        kept.save()
    known = kept.said if new else kept.now
    soles = {i.removeprefix("only "): m for i, s in known.items() for m in s.get("of", ())}
    _keep(kept, _alarms(found, some), progress)
    left = [m for m in some if m.id not in kept.now]

    def passing(id: str) -> Json:
        return {"forms": statements.passing(found, explored, id, soles[id], left)}

    passes = {id: said["forms"] for id, said in answers(passing, list(soles))}
    _keep(kept, ((m, statements.answer(m, soles, passes)) for m in left), progress)


def _alarms(found: Explorer, some: list[Mutant]) -> Iterator[tuple[Mutant, Json]]:
    """The defects that object to the specification, and the first scope where they do."""
    every = answers(lambda c: statements.alarms(c, some), list(found.scopes()))
    first: dict[str, Json] = {}
    for _, said in every:
        first = said | first
    for m in some:
        # What has no room in the compiled form is asked alone.
        alarm = first.get(m.id) or (found.judge(m) if m.id in first else {})
        if "by" in alarm:
            yield m, alarm
