"""The ranking argument: proved for any size, true of every step in small scopes, and not proved of
rules that starve somebody.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import chain, product
from types import SimpleNamespace
from typing import Any

import pytest

from nullblock.spec.carriers import Minus, Nothing, Zero
from nullblock.spec.concrete import Env
from nullblock.spec.explorer.actions import Add, Reset, Schedule, Step, Update, actions, perform
from nullblock.spec.explorer.identity import Identity
from nullblock.spec.explorer.model import Scope, beginning
from nullblock.spec.facts import Config
from nullblock.spec.fields import RUNNING, UNBORN
from nullblock.spec.flight import in_flight
from nullblock.spec.kernel import RULES, Engines
from nullblock.spec.liveness import proof
from nullblock.spec.liveness import ranking as text
from nullblock.spec.liveness.line import LINE_KEEPS, SERVE_KEEPS, first_is_served, may_serve
from nullblock.spec.liveness.proof import (
    NOT_MEANWHILE,
    OUTSIDE,
    PARTS,
    SHOWN_BY,
    checked,
    jobs,
    ranking,
)
from nullblock.spec.liveness.ranking import (
    RUN_KEEPS,
    STEP_KEEPS,
    THEOREMS,
    UPDATE_KEEPS,
    WAIT_KEEPS,
    Mark,
    Piece,
    is_bounded,
    mark,
)
from nullblock.spec.liveness.scopes import CONTENDED
from nullblock.spec.profiles import NORMATIVE
from nullblock.spec.prover import obligations
from nullblock.spec.prover.claims import proved_rules
from nullblock.spec.prover.finite.refuter import Refuter
from nullblock.spec.rules import queues
from nullblock.spec.switches import with_switches


def test_the_ranking_argument_is_proved() -> None:
    """LIVE-7 to LIVE-13, with every statement on the way, of every rule, under both policies."""
    reports = ranking()
    found = checked(reports)
    assert [str(c) for c in found if c.status != "proved"] == []
    assert sum(r.obligations for r in reports) > 2_000
    shown = {c.what for c in found}
    kept = (STEP_KEEPS, UPDATE_KEEPS, RUN_KEEPS, WAIT_KEEPS, SERVE_KEEPS, LINE_KEEPS)
    pieces = {*chain(*kept), *THEOREMS.values(), is_bounded}
    assert shown >= {piece.__name__ for piece in pieces}
    assert {c.policy for c in found} == {"fcfs", "priority"}


def test_no_rule_is_left_out() -> None:
    """Every rule is followed in every part, but those that cannot fire there, each with its
    reason.
    """
    followed = {part: {job.name for p, job in jobs() if p == part} for part in PARTS}
    for part, names in followed.items():
        missing = proved_rules() - names
        once = part in ("step", "update", "first")
        assert missing == (OUTSIDE if once else {"begin_reset": ""}).keys()
    assert set(THEOREMS) == set(SHOWN_BY) == {f"LIVE-{n}" for n in range(7, 14)}
    assert NOT_MEANWHILE.keys() <= RULES.keys()


def guardless(name: str) -> Callable[[Any], Any]:
    """A rule that fires whatever its guards say."""
    body = RULES[name].body

    def fire(*args: Any) -> None:
        globals_ = body.__globals__
        honest = globals_["require"]
        globals_["require"] = lambda guard, why: None
        try:
            body(*args)
        finally:
            globals_["require"] = honest

    return fire


def lossy(name: str, field: str) -> Callable[..., None]:
    """A rule that leaves a field of requests as it was."""
    body = RULES[name].body

    def fire(s: Any, *args: Any) -> None:
        before = s.copy()
        body(s, *args)
        setattr(s, field, getattr(before, field))

    return fire


CANARIES: dict[str, tuple[str, str, str]] = {
    "skips who has work": ("step: skip", "guards", "is_admitted"),
    "ends the waiting phase early": ("step: end_waiting", "guards", "is_admitted"),
    "counts nothing as computed": ("step: advance", "comp", "gains"),
    "takes a token and forgets it": ("update: take_token", "ntok", "comes_back"),
    "serves the first again and again": ("first: skip", "guards", "gains"),
    "admits before who comes first": ("line: admit", "guards", "stands"),
    "ends the update early": ("update: end_update", "guards", "has_come_back"),
}
"""The text, what is wrong with it, and the first statement that is not proved."""


@pytest.mark.parametrize("name", CANARIES)
def test_a_rule_that_starves_somebody_is_not_proved(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rule without its guards, or one that forgets what it should count, leaves the statement
    open that needs it; the rule as it is is proved.
    """
    where, damage, what = CANARIES[name]
    rule = where.partition(": ")[2]
    (honest,) = ranking(where, stop_at_first=True)
    assert honest.open == []
    monkeypatch.setattr(obligations, "LATE", ())  # what is false stays open however long it takes
    body = guardless(rule) if damage == "guards" else lossy(rule, damage)
    monkeypatch.setattr(RULES[rule], "body", body)
    (report,) = ranking(where, stop_at_first=True)
    assert [c.what for c in report.open] == [what]


def test_a_victim_that_came_first_is_not_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    """Preempting the first of the running list instead of the last: the chief does not stay."""
    assert ranking("running: preempt", stop_at_first=True)[0].open == []
    monkeypatch.setattr(obligations, "LATE", ())
    monkeypatch.setattr(queues, "is_victim", lambda s, i: i == 0)
    (report,) = ranking("running: preempt", stop_at_first=True)
    assert [c.what for c in report.open] == ["keeps_running"]


def has_no_drafts(s: Any) -> Any:
    """The one half of what is taken for granted."""
    return s.k.num_spec == 0


def is_in_order(s: Any) -> Any:
    """The other half."""
    return s.k.in_order


@pytest.mark.parametrize(
    ("name", "assumed"),
    [
        ("running: reject_drafts", is_in_order),
        ("step: reject_drafts", is_in_order),
        ("step: end_waiting", has_no_drafts),
        ("waiting: admit", has_no_drafts),
    ],
)
def test_each_assumption_is_needed(
    name: str, assumed: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With drafts a rejection takes back what was counted as computed; a request that waits for
    something else than its turn is passed over, and others are admitted.
    """
    (honest,) = ranking(name, stop_at_first=True)
    assert honest.open == []
    monkeypatch.setattr(obligations, "LATE", ())
    monkeypatch.setattr(Refuter, "refute", lambda *asked: None)  # open is enough
    monkeypatch.setattr(proof, "is_plain", assumed)
    (report,) = ranking(name, stop_at_first=True)
    assert report.open


def test_a_victim_without_its_id_is_not_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the first of equals is the victim, one that nobody comes before may be it."""
    monkeypatch.setattr(obligations, "LATE", ())
    ties = with_switches(NORMATIVE, ["victim_by_id=false"])
    (report,) = ranking("running: preempt", sem=ties, stop_at_first=True)
    assert [(c.what, c.policy) for c in report.open] == [("keeps_running", "priority")]


def test_more_blocks_than_places_is_impossible() -> None:
    """The one axiom of the argument, the pigeonhole principle, on all small pools: any free set,
    any table, any places, sound or not.
    """
    tried: Counter[bool] = Counter()
    for usable in range(4):
        k = Env(Config(usable + 1, 1, 1, 1, 4))
        blocks = range(1, usable + 1)
        for n in range(4):
            tables = product(range(usable + 1), repeat=n)
            for table, free, places in product(
                tables,
                product((False, True), repeat=usable),
                product(range(-1, n + 1), repeat=usable),
            ):
                s = SimpleNamespace(
                    k=k,
                    freeset=frozenset(b for b, f in zip(blocks, free, strict=True) if f),
                    pos=Minus({("r", b): p for b, p in zip(blocks, places, strict=True)}),
                    tlen=Zero({"r": n}),
                    tab=Nothing({("r", i): b for i, b in enumerate(table)}),
                )
                assert text.pigeonhole(s, "r")
                tried[usable <= len(s.freeset) + n] += 1
    assert min(tried.values()) > 1000


def states(scope: Scope) -> Iterator[Any]:
    """Every state of a scope."""
    identity, s = Identity(), beginning(scope, scope.config.semantics)
    seen, level = {identity.key(s)[0]}, [s]
    while level:
        yield from level
        following = []
        for s in level:
            for action in actions(s, scope):
                t = s.copy()
                perform(t, action)
                key = identity.key(t)[0]
                if key not in seen:
                    seen.add(key)
                    following.append(t)
        level = following


class Checking:
    """Checks some statements after every rule, and counts the rules."""

    def __init__(self, pieces: tuple[Piece, ...], m: Mark) -> None:
        self.pieces, self.m = pieces, m
        self.fired: Counter[str] = Counter()

    def __call__(self, s: Any, id: str) -> None:
        self.fired[id] += 1
        for piece in self.pieces:
            assert piece(s, self.m), (piece.__name__, id, self.m)


def watched(s: Any, action: Any, pieces: tuple[Piece, ...], m: Mark) -> tuple[Any, Checking]:
    """Let an action happen, checking statements on the way."""
    t, check = s.copy(), Checking(pieces, m)
    Engines.after_rule = check
    try:
        perform(t, action)
    finally:
        Engines.after_rule = None
    return t, check


def chiefs(s: Any) -> Iterator[Mark]:
    """The requests that nobody comes before."""
    for r in s.k.requests:
        m = mark(s, r)
        if s.stage[r] != UNBORN and text.comes_first(s, m):
            yield m


@pytest.mark.parametrize("name", ["pair", "flying", "regrown", "halted"])
def test_what_is_proved_is_what_happens(name: str) -> None:
    """The same text on every step, update and event of a scope: each statement holds after every
    rule, and it is about something: chiefs wait and run, tokens come back.
    """
    scope = CONTENDED[name]
    seen: Counter[str] = Counter()
    for s in states(scope):
        for m in chiefs(s):
            runs = s.stage[m.r] == RUNNING
            for action in actions(s, scope):
                if isinstance(action, Reset):
                    continue
                watched(s, action, RUN_KEEPS if runs else WAIT_KEEPS, m)
                seen["runs" if runs else "waits"] += 1
            if text.may_begin(s, m):
                t, check = watched(s, Schedule(), STEP_KEEPS, m)
                assert text.is_lower(t, m) and text.is_bounded(t, m)
                seen["scheduled"] += t.comp[m.r] > m.comp
                seen["in flight"] += t.comp[m.r] == m.comp
                if not in_flight(s):
                    t, check = watched(s, Step(), STEP_KEEPS, m)
                    assert text.is_strictly_lower(t, m)
                    seen["gone"] += bool(text.gone(t, m))
                    seen["preempts"] += check.fired["PREEMPT-2"]
            if in_flight(s) and s.ph[m.r] and m.entry < s.fend[s.oldest]:
                t, check = watched(s, Update(), UPDATE_KEEPS, m)
                assert text.has_come_back(t, m)
                seen["came back"] += 1
    assert seen["runs"] > 100 and seen["waits"] and seen["scheduled"] and seen["gone"], seen
    assert (seen["in flight"] > 0) == (name == "flying"), seen
    assert (seen["came back"] > 0) == (name == "flying"), seen
    assert seen["preempts"] or name == "halted", seen


def comes_before(s: Any, action: Any, m: Mark) -> bool:
    """Whether somebody arrives who comes before the chief."""
    return isinstance(action, Add) and s.k.order(action.id) < s.k.order(m.r)


@pytest.mark.parametrize("name", ["ranked", "tied"])
def test_the_line_before_a_chief_gets_shorter(name: str) -> None:
    """Under PRIORITY, equals among them, on every action of a scope: those before a chief never
    become more, and every step serves the first of the list; chiefs stand behind others.
    """
    scope = CONTENDED[name]
    seen: Counter[str] = Counter()
    for s in states(scope):
        for m in chiefs(s):
            for action in actions(s, scope):
                if not isinstance(action, Reset) and not comes_before(s, action, m):
                    watched(s, action, LINE_KEEPS, m)
                    seen["behind others"] += m.before > 0
        first = mark(s, s.run[0]) if s.nr else None
        if first is not None and may_serve(s, first):
            t, _ = watched(s, Schedule(), SERVE_KEEPS, first)
            assert first_is_served(t, first)
            seen["served"] += t.stage[first.r] == RUNNING and t.comp[first.r] > first.comp
            seen["taken off"] += t.stage[first.r] != RUNNING
    assert seen["behind others"] > 100 and seen["served"] > 100 and seen["taken off"] > 5, seen
