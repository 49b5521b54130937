"""Tells why a decision is none of the rules'."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from nullblock.conformance.checker import advice, trail, variants, views
from nullblock.conformance.checker.decisions import Mismatch
from nullblock.conformance.checker.explanation import Explanation, Tried, describe, when
from nullblock.conformance.checker.replay import Replay
from nullblock.conformance.checker.trail import Moment
from nullblock.conformance.trace.reader import Located
from nullblock.conformance.trace.records import (
    Abort,
    Add,
    Chunk,
    Compiled,
    Draft,
    Evict,
    Matched,
    Output,
    Pause,
    Reset,
    Schedule,
    SessionEnd,
    Transfers,
    Update,
)
from nullblock.spec.catalogue import catalogue
from nullblock.spec.profiles import Semantics

FEW = 8
"""Members of a list, and moments, that a story names."""
OF_BLOCKS = ("POOL-10", "HASH-10", "OUT-2", "QUEUE-10", "HASH-13")
"""Mismatches of these rules are about blocks."""


@dataclass(frozen=True, slots=True)
class Case:
    """A wrong decision, and where it stands."""

    mismatch: Mismatch
    replay: Replay
    semantics: Semantics
    label: str
    """What the semantics is called."""
    path: Path | None
    """The trace, if it can be read once more."""
    line: int
    file: str
    step: int
    before: tuple[Located, ...]


def explain(case: Case, *, deep: bool = True) -> Explanation:
    """Why, whom it concerns, what to do. `deep`: read the trace once more for what decided."""
    m, replay = case.mismatch, case.replay
    statement = next((s for s in catalogue() if s.id == m.rule), None)
    moments: list[Moment] = []
    names: dict[int, str] = {}
    found = Tried()
    if deep and case.path is not None:
        at = (case.path, case.line, case.file, case.semantics)
        moments = trail.follow(*at, names)
        found = variants.seek(*at, case.label, m.rule, sum(replay.fired.values()))
    alike = advice.like(m.rule, case.semantics)
    return Explanation(
        expected=short(m.expected),
        recorded=short(m.actual),
        sentence=statement.sentence if statement else "",
        note=statement.note if statement else "",
        source=statement.source if statement else "",
        because=tuple(_because(m, moments)),
        totals=views.totals(replay),
        requests=tuple(views.request(replay, r, names.get(r)) for r in _requests(m, moments)),
        blocks=tuple(views.blocks(replay, _blocks(m, replay))),
        before=tuple((at.line, summary(at.record)) for at in case.before),
        variants=found.names,
        tried=found.tried,
        untried=found.untried,
        like=alike,
        settings=advice.settings(replay.header, m.rule),
        next=tuple(
            advice.after_raise(m.raised, case.step, found)
            if m.rule is None
            else advice.steps(m, replay.header, found, alike)
        ),
    )


def untold(case: Case, error: Exception) -> tuple[str, ...]:
    """The story of which no more can be told: an error of this program is in the way."""
    m = case.mismatch
    return (
        f"{when(case.step, case.replay.steps)}: {m.told}",
        f"the rules of {case.label} say: {short(m.expected)}",
        f"the trace says: {short(m.actual)}",
        "no more is told, for nullblock itself failed at it: please report "
        f"{type(error).__name__} ({error}) with the trace",
    )


def tell(case: Case, e: Explanation) -> tuple[str, ...]:
    """The story line by line: the decision, the rule, what decided, the state, what came before,
    what to do.
    """
    return tuple(_lines(case, e))


def _lines(case: Case, e: Explanation) -> Iterator[str]:
    m = case.mismatch
    yield f"{when(case.step, case.replay.steps)}: {m.told}"
    yield f"the rules of {case.label} say: {e.expected}"
    yield f"the trace says: {e.recorded}"
    if e.sentence:
        yield f"{m.rule}: {e.sentence} (nullblock rules {m.rule})"
    yield from (f"because: {line}" for line in e.because)
    yield e.totals
    yield from (q.text for q in e.requests)
    if case.path is not None and e.requests and not any(q.name for q in e.requests):
        yield advice.NAMES
    yield from (describe(b) for b in e.blocks)
    yield from (f"before, line {line}: {what}" for line, what in e.before)
    yield from (f"next: {line}" for line in e.next)


def _because(m: Mismatch, moments: list[Moment]) -> Iterator[str]:
    """The moments that concern the mismatch; if it concerns nobody, all, the last ones if they
    are many.
    """
    turning = ("PREEMPT-2", "PREEMPT-4", "WAIT-8", "WAIT-10")
    about = set(_requests(m, []))
    chosen = [
        moment
        for i, moment in enumerate(moments)
        if not about
        or moment.request in about
        or moment.rule in turning
        # Who asks when somebody is preempted, or stays.
        or any(later.rule in turning[::2] for later in moments[i + 1 : i + 2])
    ]
    if (parting := _parting(m.expected, m.actual)) and parting[0]:
        place, ours, theirs = parting
        yield f"the lists part at number {place}: {ours} by the rules, {theirs} in the trace"
    if len(chosen) > FEW:
        yield f"({len(chosen) - FEW} earlier looks are left out)"
    yield from (moment.text for moment in chosen[-FEW:])


def _requests(m: Mismatch, moments: list[Moment]) -> list[int]:
    """The requests that a mismatch is about, and whoever was preempted or held back on the way."""
    found = [] if m.request is None else [m.request]
    if m.request is None and m.rule not in OF_BLOCKS and not m.what.startswith("the cached"):
        for value in (m.expected, m.actual):
            if isinstance(value, list) and all(isinstance(v, int) for v in value):
                found += value
        both = [m.expected, m.actual]
        if all(isinstance(v, list) for v in both):
            kept = set(m.expected) ^ set(m.actual) if _flat(both) else set()
            found = [r for r in found if r in kept] or found[:FEW]
    found += [x.request for x in moments if x.rule in ("PREEMPT-2", "WAIT-8") and x.request]
    return list(dict.fromkeys(found))[:FEW]


def _flat(values: list[Any]) -> bool:
    return all(isinstance(v, int) for value in values for v in value)


def _blocks(m: Mismatch, replay: Replay) -> list[int]:
    """The blocks with which a mismatch begins, as far as their ids are the engine's own, and the
    ones to be given out next.
    """
    if m.rule not in OF_BLOCKS:
        return []
    found: list[Any] = []
    if replay.header.block_ids == "exact":
        found += _parting(m.expected, m.actual)[1:]
    ids = [b for b in found if isinstance(b, int) and b in replay.k.pool]
    return list(dict.fromkeys([*ids, *views.next_free(replay, 2)]))


def _parting(expected: Any, actual: Any) -> tuple[Any, ...]:
    """Where two lists part, and what stands there in each; nothing where they are no lists."""
    ours, theirs = _ungrouped(expected), _ungrouped(actual)
    if not isinstance(ours, (list, tuple)) or not isinstance(theirs, (list, tuple)):
        return ()
    for place, (a, b) in enumerate(zip_longest(ours, theirs, fillvalue="nothing")):
        if a != b:
            return place, a, b
    return ()


def _ungrouped(value: Any) -> Any:
    """The blocks of the only group."""
    one = isinstance(value, (list, tuple)) and len(value) == 1
    return value[0] if one and isinstance(value[0], (list, tuple)) else value


def short(value: Any) -> str:
    """A value in one line, long lists cut."""
    value = _ungrouped(value)
    if isinstance(value, (list, tuple)) and len(value) > FEW:
        head = ", ".join(map(str, value[:FEW]))
        return f"[{head}, … {len(value)} in all]"
    if value is None:
        return "nothing"
    return str(value)


def summary(record: Any) -> str:
    """A record in a few words."""
    match record:
        case Add():
            return f"add {record.id}, prompt {record.prompt}, max_tokens {record.max_tokens}"
        case Schedule():
            many = dict(record.drafts)
            pairs = [
                f"{r}:{n}" + (f" ({many[r]} drafts)" if r in many else "")
                for r, n in zip(record.ids, record.tokens, strict=True)
            ]
            gone = f", preempted {short(record.preempted)}" if record.preempted else ""
            return f"schedule {record.step}: {_listed(pairs) or 'nobody'}{gone}"
        case Output():
            return f"output of step {record.step}"
        case Update():
            ends = [f"{f.id} {f.reason}" for f in record.finish]
            return f"update of step {record.step}" + (f", ends {_listed(ends)}" if ends else "")
        case Draft():
            pairs = [f"{r}:{n}" for r, n in zip(record.ids, record.counts, strict=True)]
            return f"drafts {_listed(pairs)}"
        case Abort():
            return f"abort {'everybody' if record.asked is None else short(record.asked)}"
        case Reset():
            return f"reset_prefix_cache, reset_running {record.reset_running}"
        case Pause():
            return f"pause {record.pause_state}"
        case Chunk(id=r, prompt=n):
            brings = f" and {len(record.items)} encoder inputs" if record.items else ""
            taken = " at once" if record.taken is not None else ", which it takes later"
            return f"a chunk of {n} tokens{brings} for session {r}{taken}"
        case SessionEnd(id=r):
            return f"the end of session {r}" + ("" if record.ended else ", behind its chunks")
        case Matched():
            rows = ((a.id, "unknown" if a.tokens is None else a.tokens) for a in record.answers)
            return f"the remote side would load {_listed([f'{r}:{n}' for r, n in rows])}"
        case Transfers():
            told = {name: getattr(record, name) for name in record.__struct_fields__}
            return _listed([f"{name} {short(ids)}" for name, ids in told.items() if ids])
        case Compiled():
            return f"grammars of {short(record.ids)} compiled"
        case Evict():
            return f"evict_blocks {short(record.blocks)}"
        case _:
            return type(record).__name__.lower()


def _listed(values: list[str]) -> str:
    """Some words in a row."""
    more = f", … {len(values)} in all" if len(values) > FEW else ""
    return ", ".join(values[:FEW]) + more
