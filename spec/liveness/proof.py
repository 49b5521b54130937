"""The ranking argument, proved: for any number of blocks, requests, tokens and steps in flight.

By induction over the rules, like the invariants: what `nullblock.spec.liveness.ranking` says from
the beginning of a step to the beginning of the next holds when the step has begun, and every rule
that may fire meanwhile keeps it. That the machine fires only rules that are enabled, and that its
loops end, is proved elsewhere (`nullblock prove`).
"""

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from pathlib import Path

from nullblock.spec.fields import IDLE, RUNNING, UNBORN
from nullblock.spec.flight import in_flight
from nullblock.spec.kernel import RULES, Engines, Rule, State, Value, both, either, ensure
from nullblock.spec.liveness.line import LINE_KEEPS, SERVE_KEEPS, first_is_served, may_serve
from nullblock.spec.liveness.ranking import (
    RUN_KEEPS,
    STEP_KEEPS,
    UPDATE_KEEPS,
    WAIT_KEEPS,
    Mark,
    Piece,
    awaits_alone,
    awaits_nothing,
    comes_first,
    is_bounded,
    is_lower,
    is_plain,
    is_strictly_lower,
    leads,
    mark,
    may_begin,
    others_hold_nothing,
    pigeonhole,
    room_for_one,
    the_rest_is_free,
)
from nullblock.spec.profiles import NORMATIVE, Semantics
from nullblock.spec.prover.hints import hints
from nullblock.spec.prover.jobs import Job, claimed
from nullblock.spec.prover.prover import Prover
from nullblock.spec.prover.report import Checked, JobReport
from nullblock.spec.state import at_rest

MARK = "RIIIIIRI"
"""The sorts of a mark, field by field."""
NEEDS_ROOM: dict[tuple[Piece, ...], tuple[str, ...]] = {
    STEP_KEEPS: ("preempt", "hold_back", "give_up"),
    RUN_KEEPS: ("preempt",),
    LINE_KEEPS: ("preempt",),
}
"""Rules that fire where slots are short, and so never for a chief that is alone."""
HINTS = Path(__file__).with_name("hints.json")
"""What to try first, by part and text."""
OUTSIDE: dict[str, str] = {
    "begin_step": "it begins the next step: the end of what is said",
    "begin_reset": "resets that preempt are assumed to end",
}
"""Rules that do not fire from one step to the next."""
NOT_MEANWHILE: dict[str, str] = {
    "preempt_for_reset": "no reset is under way",
    "end_reset": "no reset is under way",
    **dict.fromkeys(("reject_drafts", "take_draft", "cut_off"), "there are no drafts"),
    **dict.fromkeys(("come", "promote", "pass_by"), "nobody waits for anything but its turn"),
}
"""Rules whose guards are false there: nothing is shown of them, and nothing need be."""


def same(s: State, m: Mark) -> Value:
    """The mark is that of the request now."""
    now = mark(s, m.r)
    return both(*(getattr(m, f.name) == getattr(now, f.name) for f in fields(Mark)))


def all_of(pieces: tuple[Piece, ...]) -> Callable[[State, Mark], Value]:
    """The conjunction of some statements."""
    return lambda s, m: both(*(piece(s, m) for piece in pieces))


def show(pieces: tuple[Piece, ...], s: State, m: Mark) -> None:
    """Each statement is an obligation of its own, and may be used for the next."""
    for piece in pieces:
        ensure(piece(s, m), piece.__name__)


def make_room(s: State, r: Value) -> None:
    """Lemmas, one after the other: alone, a request has the whole pool, and so its slots."""
    for lemma in (others_hold_nothing, the_rest_is_free):
        ensure(lemma(s, r), lemma.__name__)
    if Engines.prover is not None:
        Engines.prover.assume(pigeonhole(s, r))
    ensure(room_for_one(s, r), room_for_one.__name__)


def job(
    name: str,
    text: Callable[..., None],
    sorts: str,
    before: Callable[[State, Mark], Value],
    also: Callable[..., Value] = lambda s, m, *args: True,
) -> Job:
    """A text with a mark: `before` and `also` are assumed, and that there are no drafts; it shows
    what it shows.
    """
    n = len(sorts)

    def follow(s: State, *args: Value) -> None:
        text(s, Mark(*args[n:]), *args[:n])

    def given(s: State, *args: Value) -> Value:
        m = Mark(*args[n:])
        return both(is_plain(s), before(s, m), also(s, m, *args[:n]))

    return Job(name, "rule", follow, sorts + MARK, before=given)


def _arrives_after(s: State, m: Mark, r: Value) -> Value:
    """Under PRIORITY whoever arrives comes after the chief: an assumption of fairness."""
    if not s.k.priority:
        return True
    return either(r == m.r, s.k.order(m.r) < s.k.order(r))


def _rule(rule: Rule, pieces: tuple[Piece, ...]) -> Job:
    """A rule keeps what is said from one step, or update, to the next."""

    def text(s: State, m: Mark, *args: Value) -> None:
        if rule.name in NEEDS_ROOM.get(pieces, ()):
            make_room(s, m.r)
        rule.body(s, *args)
        show(pieces, s, m)

    also = _arrives_after if rule.name == "add_request" else lambda s, m, *args: True
    return job(rule.name, text, rule.sorts, all_of(pieces), also)


def step_jobs() -> Iterator[Job]:
    """A step that is begun lowers the rank of the chief, or a token is in flight for it."""

    def begins(s: State, m: Mark) -> None:
        show((leads, awaits_alone), s, m)
        RULES["begin_step"].body(s)
        show(STEP_KEEPS, s, m)

    yield job("a step begins", begins, "", lambda s, m: both(same(s, m), may_begin(s, m)))
    for rule in claimed():
        if rule.name not in OUTSIDE:
            yield _rule(rule, STEP_KEEPS)

    def ends(s: State, m: Mark) -> None:
        show((is_lower, is_bounded), s, m)

    def drained(s: State, m: Mark) -> None:
        show((awaits_nothing, is_strictly_lower), s, m)

    def between(s: State, m: Mark) -> Value:
        return both(s.phase == IDLE, at_rest(s), s.open == 0, all_of(STEP_KEEPS)(s, m))

    yield job("the next step may begin", ends, "", between)
    yield job(
        "nothing is in flight",
        drained,
        "",
        lambda s, m: both(between(s, m), in_flight(s) == 0),
    )


def first_jobs() -> Iterator[Job]:
    """A step serves the first of the running list, or takes it off."""

    def begins(s: State, m: Mark) -> None:
        RULES["begin_step"].body(s)
        show(SERVE_KEEPS, s, m)

    yield job("a step begins", begins, "", lambda s, m: both(same(s, m), may_serve(s, m)))
    for rule in claimed():
        if rule.name not in OUTSIDE:
            yield _rule(rule, SERVE_KEEPS)

    def ends(s: State, m: Mark) -> None:
        show((first_is_served,), s, m)

    def between(s: State, m: Mark) -> Value:
        return both(s.phase == IDLE, at_rest(s), s.open == 0, all_of(SERVE_KEEPS)(s, m))

    yield job("the next step may begin", ends, "", between)


def update_jobs() -> Iterator[Job]:
    """An update that brings the chief a token lowers its rank."""

    def begins(s: State, m: Mark) -> None:
        RULES["begin_update"].body(s)
        show(UPDATE_KEEPS, s, m)

    def due(s: State, m: Mark) -> Value:
        return both(same(s, m), m.arr > 0, s.ph[m.r] > 0, m.entry < s.fend[s.oldest])

    yield job("an update begins", begins, "", due)
    for rule in claimed():
        if rule.name not in OUTSIDE:
            yield _rule(rule, UPDATE_KEEPS)


def chief_jobs(pieces: tuple[Piece, ...], begins: Callable[[State, Mark], Value]) -> Iterator[Job]:
    """Over any number of steps: what holds of a chief between steps goes on holding."""

    def starts(s: State, m: Mark) -> None:
        show(pieces, s, m)

    def given(s: State, m: Mark) -> Value:
        first = both(m.arr > 0, comes_first(s, m), begins(s, m))
        return both(s.phase == IDLE, at_rest(s), same(s, m), first)

    yield job("between steps", starts, "", given)
    for rule in claimed():
        if rule.name != "begin_reset":
            yield _rule(rule, pieces)


def jobs() -> Iterator[tuple[str, Job]]:
    """Everything that is proved, each under the name of its part."""
    parts = {
        "step": step_jobs(),
        "update": update_jobs(),
        "running": chief_jobs(RUN_KEEPS, lambda s, m: s.stage[m.r] == RUNNING),
        "waiting": chief_jobs(WAIT_KEEPS, lambda s, m: s.stage[m.r] != UNBORN),
        "first": first_jobs(),
        "line": chief_jobs(LINE_KEEPS, lambda s, m: s.stage[m.r] != UNBORN),
    }
    for part, them in parts.items():
        for it in them:
            yield part, it


PARTS = ("step", "update", "running", "waiting", "first", "line")
SHOWN_BY = {
    "LIVE-7": "step",
    "LIVE-8": "step",
    "LIVE-9": "update",
    "LIVE-10": "running",
    "LIVE-11": "waiting",
    "LIVE-12": "first",
    "LIVE-13": "line",
}
"""The part of the argument that shows each statement, all of its texts together."""


def ranking(
    *wanted: str,
    sem: Semantics = NORMATIVE,
    stop_at_first: bool = False,
    progress: Callable[[JobReport], None] = lambda report: None,
) -> tuple[JobReport, ...]:
    """Prove the ranking argument, or of each part the named texts, under both policies. A report
    is called after its part and its text: `step: preempt`.

    `stop_at_first` ends a text at its first open obligation, and skips the check for contradictory
    hypotheses.
    """
    prover = Prover(sem, stop_at_first)
    prover.hints = hints(HINTS)
    reports = []
    for part, it in jobs():
        name = f"{part}: {it.name}"
        if wanted and it.name not in wanted and name not in wanted:
            continue
        it = replace(it, name=name)
        report = prover.run(it, priority=True)
        if not (stop_at_first and report.open):
            report.merge(prover.run(it, priority=False))
        reports.append(report)
        progress(report)
    return tuple(reports)


def checked(reports: tuple[JobReport, ...]) -> tuple[Checked, ...]:
    """Every obligation of some reports."""
    return tuple(c for report in reports for c in report.found.values())


def shows_nothing(reports: tuple[JobReport, ...]) -> list[str]:
    """Texts whose hypotheses contradict each other, though they should not."""
    expected = {f"{part}: {name}" for part in PARTS for name in NOT_MEANWHILE}
    return [r.name for r in reports if not r.reached and r.name not in expected]
