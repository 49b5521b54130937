"""Everybody is served in the end, in every scope; and a rule that starves somebody is found."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from nullblock.spec.departures import DEPARTURES, Defect
from nullblock.spec.draft_departures import DRAFT_DEFECTS
from nullblock.spec.encoder_departures import ENCODER_DEFECTS
from nullblock.spec.explorer.actions import Schedule, Step, Update, perform
from nullblock.spec.explorer.identity import Identity
from nullblock.spec.explorer.liveness import SERVED
from nullblock.spec.explorer.model import Scope, beginning
from nullblock.spec.explorer.scopes import STANDARD
from nullblock.spec.explorer.search import explore
from nullblock.spec.fields import PREEMPTED, UNPAUSED
from nullblock.spec.kernel import RULES
from nullblock.spec.liveness.check import Liveness, Starvation, check, lines
from nullblock.spec.liveness.fairness import EVERY, Assumption
from nullblock.spec.liveness.graph import explored
from nullblock.spec.liveness.preconditions import PRECONDITIONS
from nullblock.spec.liveness.properties import PROPERTIES
from nullblock.spec.liveness.scopes import (
    CONTENDED,
    DISTURBED,
    HALTED,
    PAIR,
    REGROWN,
    TRIO,
)
from nullblock.spec.machine import schedule
from nullblock.spec.profiles import NORMATIVE, VLLM_0_22_1, Semantics
from nullblock.spec.remote_departures import REMOTE_DEFECTS
from nullblock.spec.rules import lookup, queues
from nullblock.spec.session_departures import SESSION_DEFECTS
from nullblock.spec.state import live
from nullblock.spec.state_departures import STATE_DEFECTS
from nullblock.spec.switches import switches
from nullblock.spec.wait_departures import WAIT_DEFECTS

PINNED = {
    "pair": (417, 1_251),
    "reserved": (2_394, 9_576),
    "trio": (366, 1_464),
    "ranked": (1_057, 4_228),
    "tied": (286, 1_144),
    "regrown": (215, 645),
    "halted": (492, 2_460),
    "disturbed": (274, 1_786),
    "flying": (448, 895),
}
"""States and transitions. A change of the rules changes them: say why."""
QUICK = ("pauses", "ahead", "resets", "rules-priority", "nocache")
"""Standard scopes small enough for a test; `nullblock explore --liveness` takes all of them."""


@pytest.mark.parametrize("name", CONTENDED)
def test_everybody_is_served_where_starving_is_easy(name: str) -> None:
    """LIVE-1 to LIVE-6 hold where requests are in one another's way, whatever the world does; the
    scope reaches what it is for, and there were steps and components to look at.
    """
    result = check(CONTENDED[name])
    assert result.passed and not result.raised
    assert (result.states, result.transitions) == PINNED[name]
    by_id = {f.id: f for f in result.findings}
    assert set(by_id) == set(PROPERTIES)
    preempts = {"preempts-another"} & CONTENDED[name].witnesses
    for id in ("LIVE-1", "LIVE-3", *(["LIVE-2"] if preempts else [])):
        assert by_id[id].states and by_id[id].steps, f"{id} would hold of anything"


@pytest.mark.parametrize("name", QUICK)
def test_everybody_is_served_in_the_end_in_standard_scopes(name: str) -> None:
    """The explorer's own scopes have the same states and transitions here, and no lasso."""
    plain, result = explore(STANDARD[name], claims=frozenset({SERVED})), check(STANDARD[name])
    assert result.passed
    assert (result.states, result.transitions) == (plain.states, plain.transitions)


OVER = (
    "LIVE-4",
    "add a; schedule; update; schedule; add b; update; schedule; schedule; chunk for b; update; "
    "update",
    "schedule; update",
)
"""A session that stops while it is preempted."""
LASSOS = {
    "unfit-prompt": ("LIVE-4", "add a", "step"),
    "outgrown-pool": ("LIVE-4", "add a; step; step; step; step; step", "step"),
    "start-over": ("LIVE-2", "add a; step; step; step; step", "step; step"),
    "uncut-prompt": ("LIVE-4", "add a", "step"),
    "full-prompt": ("LIVE-3", "add a; step; step", "step"),
    "no-room-for-min-tokens": ("LIVE-3", "add a; step; step", "step"),
    "skipped-request": ("LIVE-3", "add v; step; step", "step"),
    "taking-turns": ("LIVE-1", "add a; add b; step", "step; step; add b; step"),
    "drafts-dropped-as-outputs": (
        "LIVE-3",
        "add a; schedule; update; schedule; update; schedule; update; schedule; "
        "reset_prefix_cache reset_running; update; schedule; update",
        "schedule; update",
    ),
    "nothing-sampled": (
        "LIVE-3",
        "add a; schedule; update; schedule; update; schedule; update",
        "schedule; update",
    ),
    "waits-between-items": ("LIVE-3", "add a; schedule; update", "schedule; update"),
    "session-forgets": OVER,
    "session-in-no-queue": OVER,
    "loads-hold-the-pool": (
        "LIVE-5",
        "add a; add b; schedule; update, a received; schedule; update, b received",
        "schedule; update",
    ),
    "less-than-a-block": ("LIVE-4", "add a", "schedule; update"),
}
"""Of each departure that starves somebody: the statement, the way into the cycle, the cycle."""
ENDLESS = {
    *("session-forgets", "output-of-the-turn-before", "session-in-no-queue"),
    "room-grows",
}
"""Where a session is queued twice something is counted wrong, and more so each time, as is the
room for items: there is a state for each count, and the search is given up. What lassos there are
it has found before.
"""
STATES = 3_000
"""It is given up at so many."""


def of_vllm(defect: Defect) -> Liveness:
    """What a departure leads to in the end."""
    return check(defect.scope, VLLM_0_22_1, limit=STATES if defect.name in ENDLESS else None)


def told(found: Starvation) -> tuple[str, str, str]:
    """Statement, stem and cycle."""
    stem = len(found.actions) - found.repeats
    names = [str(a) for a in found.actions]
    return found.breaks, "; ".join(names[:stem]), "; ".join(names[stem:])


@pytest.mark.parametrize("name", [d.name for d in DEPARTURES])
def test_departures_that_starve_somebody_are_found(name: str) -> None:
    """In vllm-0.22.1 each of them has a lasso, the others none, and normative never; where LIFE-15
    finds a cycle, LIVE-1 does.
    """
    if name == "sampled-twice":
        pytest.skip("30,000 states that starve nobody: nullblock explore --liveness takes them")
    (defect,) = (d for d in DEPARTURES if d.name == name)
    result = of_vllm(defect)
    assert result.complete is (name not in ENDLESS)
    assert (told(result.lasso) if result.lasso else None) == LASSOS.get(name)
    assert check(defect.scope).lasso is None
    limit = STATES if name in ENDLESS else None
    claims = frozenset({SERVED})
    alone = explore(defect.scope, VLLM_0_22_1, claims=claims, limit=limit).counterexample
    if alone is not None and alone.breaks == SERVED:
        assert {f.id for f in result.findings if f.lasso} >= {"LIVE-1"}


BESIDE = {
    d.switch
    for some in (
        *(DRAFT_DEFECTS, WAIT_DEFECTS, ENCODER_DEFECTS),
        *(SESSION_DEFECTS, REMOTE_DEFECTS, STATE_DEFECTS),
    )
    for d in some
} | {"inner_states_kept"}
"""Switches of what is beside the core; the last one is of a setting that vLLM 0.22.1 lacks."""


def test_the_other_departures_starve_nobody() -> None:
    """Of the switches that differ in vllm-0.22.1, but those of what is beside the core, three
    starve somebody; with any other one set so, everybody is still served in these scopes: 49097
    too delays, and does not starve.
    """
    served_all_the_same = [
        name
        for name, value in switches(NORMATIVE).items()
        if getattr(VLLM_0_22_1, name) != value
        and name not in ("reject_unservable", "length_before_min_tokens", "victim_by_id")
        and name not in BESIDE
    ]
    assert len(served_all_the_same) == 7
    for name in served_all_the_same:
        semantics = replace(NORMATIVE, **{name: getattr(VLLM_0_22_1, name)})
        for scope in (PAIR, CONTENDED["flying"]):
            assert check(scope, semantics).lasso is None, (name, scope.name)


def test_a_head_that_can_never_fit_blocks_others() -> None:
    """In vllm-0.22.1 a prompt that no pool could hold is parked, and whoever is behind it waits as
    long: both are said, and that neither is served.
    """
    (defect,) = (d for d in DEPARTURES if d.name == "unfit-prompt")
    found = {f.id: f.lasso for f in of_vllm(defect).findings if f.lasso}
    assert set(found) == {"LIVE-1", "LIVE-4", "LIVE-5"}
    assert found["LIVE-5"].complaint == "b waits for ever behind a, which is never admitted"
    assert told(found["LIVE-5"]) == ("LIVE-5", "add a; add b", "step")


def goes_round(found: Starvation, scope: Scope, semantics: Semantics) -> None:
    """Perform a lasso by the rules alone: the cycle returns to its state, and somebody is there
    all the way round.
    """
    s: Any = beginning(scope, semantics)
    identity, keys, there = Identity(), [], []
    for action in found.actions:
        perform(s, action)
        t = s.copy()
        keys.append(identity.key(t)[0])
        there.append({r for r in s.k.requests if live(s, r)})
    assert keys[-1] == keys[-1 - found.repeats]
    assert set.intersection(*there[-found.repeats - 1 :])


@pytest.mark.parametrize("name", LASSOS)
def test_a_lasso_is_what_happens(name: str) -> None:
    """Performed by the rules alone, a lasso leads round; the story says who starves, and the
    account says that the steps of a fair engine are taken.
    """
    (defect,) = (d for d in DEPARTURES if d.name == name)
    found = of_vllm(defect).lasso
    assert found is not None
    goes_round(found, defect.scope, VLLM_0_22_1)
    text = "\n".join(lines(found, defect.scope, VLLM_0_22_1))
    assert found.complaint in text and found.sentence in text and "so for ever" in text
    steps = [i for i in found.account.lines if i.action in ("step", "schedule")]
    assert steps and all(i.taken and i.enabled for i in steps)
    assert sum(i.taken for i in found.account.lines) == found.repeats


def test_the_account_tells_what_the_world_does() -> None:
    """Every action that is possible in the cycle has its line: how often it could happen, how
    often it does, and why it may be left at that.
    """
    found = check(HALTED, assumed=EVERY - {Assumption.UNPAUSED}).lasso
    assert found is not None
    rows = {i.action: (i.enabled, i.taken, i.note) for i in found.account.lines}
    assert rows["step"] == (1, 1, "the engine keeps stepping, 0 of them unpaused, as it must")
    assert rows["abort a"] == (1, 0, "nobody need be aborted")
    assert rows["add b"] == (1, 0, "nobody need arrive")
    assert rows["pause UNPAUSED"] == (1, 0, "need never happen")


Plant = Callable[[pytest.MonkeyPatch], None]


def preempt_the_first(m: pytest.MonkeyPatch) -> None:
    """PREEMPT-1 the other way round: whoever came first makes way."""
    m.setattr(schedule, "victim", lambda s: 0)
    m.setattr(queues, "is_victim", lambda s, i: i == 0)


def resume_last(m: pytest.MonkeyPatch) -> None:
    """PREEMPT-4 the other way round: the preempted go to the back of the queue."""

    def requeue(s: Any, v: Any) -> None:
        s.stage[v], s.leaving, s.comp[v], s.told[v] = PREEMPTED, 0, 0, 0
        s.rank[v] = s.hi
        s.hi += 1
        queues.enter_queue(s, v)

    m.setattr(RULES["requeue"], "body", requeue)


def latest_first(m: pytest.MonkeyPatch) -> None:
    """WAIT-1 the other way round: whoever came last is admitted first."""

    def last(s: Any) -> Any:
        return max(filter(s.rank.__getitem__, s.k.requests), key=s.rank.__getitem__, default=None)

    m.setattr(schedule, "head", last)
    m.setattr(lookup, "is_head", lambda s, r: r == last(s))


def preempt_nobody(m: pytest.MonkeyPatch) -> None:
    """Who is short of slots waits in the running list for the others."""

    def pass_over(s: Any, r: Any) -> None:
        if schedule.allocate_slots(s, r):
            schedule.schedule_running(s, r)
        else:
            s.asked = 0
            s.at += 1

    m.setattr(schedule, "schedule_or_preempt", pass_over)


def pausing_stops_all(m: pytest.MonkeyPatch) -> None:
    """Pausing admissions leaves no budget for those who run."""
    honest = RULES["begin_step"].body

    def begin(s: Any) -> None:
        honest(s)
        if s.pause != UNPAUSED:
            s.limit = s.budget = 0

    m.setattr(RULES["begin_step"], "body", begin)


def skip_the_first(m: pytest.MonkeyPatch) -> None:
    """Of several that run the first is passed over, as after a wrong shift of the index."""
    honest = RULES["begin_step"].body

    def begin(s: Any) -> None:
        honest(s)
        s.at = int(s.nr > 1)

    m.setattr(RULES["begin_step"], "body", begin)


def settle_nothing(m: pytest.MonkeyPatch) -> None:
    """What is in flight is never noticed to have come back, so that nobody gets a token."""
    m.setattr(schedule, "tokens_to_run", lambda s, r: 0)
    m.setattr("nullblock.spec.rules.steps.tokens_to_run", lambda s, r: 0)


def await_what_has_come(m: pytest.MonkeyPatch) -> None:
    """WAIT-44 left out: who awaits something is passed over even if it is there."""

    def pass_over(s: Any, r: Any) -> bool:
        if s.awaits[r]:
            s.passed, s.lineset = s.k.add(s.passed, r), s.k.remove(s.lineset, r)
            s.nline -= 1
        return bool(s.awaits[r])

    m.setattr(schedule, "passed_over", pass_over)


BARE = replace(PAIR, config=replace(PAIR.config, enable_prefix_caching=False))
COMPILED = next(p.violated.scope for p in PRECONDITIONS if p.name == "grammars")
CANARIES: tuple[tuple[Plant, Scope, str], ...] = (
    (preempt_the_first, BARE, "LIVE-2"),
    (resume_last, TRIO, "LIVE-1"),
    (latest_first, REGROWN, "LIVE-6"),
    (preempt_nobody, PAIR, "LIVE-3"),
    (pausing_stops_all, HALTED, "LIVE-3"),
    (skip_the_first, STANDARD["nocache"], "LIVE-1"),
    (settle_nothing, PAIR, "LIVE-3"),
    (await_what_has_come, COMPILED, "LIVE-4"),
)


@pytest.mark.parametrize(
    ("plant", "scope", "breaks"), CANARIES, ids=[f"{p.__name__}-{i}" for p, _, i in CANARIES]
)
def test_a_rule_that_starves_somebody_is_found(
    plant: Plant, scope: Scope, breaks: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rules that keep going and serve somebody never: the statement that forbids it falls, with a
    lasso that the rules go round.
    """
    plant(monkeypatch)
    findings = {f.id: f.lasso for f in check(scope).findings}
    found = findings[breaks]
    assert found is not None
    goes_round(found, scope, NORMATIVE)


def test_a_graph_has_every_transition() -> None:
    """Edges that lead nowhere are counted, those that lead back are kept, and an edge says who was
    preempted on it.
    """
    graph = explored(DISTURBED, NORMATIVE)
    assert graph.transitions == sum(map(len, graph.out)) and graph.raised == 0
    assert any(t == v for v, edges in enumerate(graph.out) for _, t in edges)
    assert any(e.preempted for edges in explored(TRIO, NORMATIVE).out for e, _ in edges)
    (empty,) = (d for d in DEPARTURES if d.name == "empty-prompt")
    assert explored(empty.scope, VLLM_0_22_1).raised == 1
    halves = {
        type(e.action) for edges in explored(CONTENDED["flying"], NORMATIVE).out for e, _ in edges
    }
    assert {Schedule, Update} <= halves and Step not in halves


def test_what_is_not_searched_to_the_end_has_not_passed() -> None:
    """A limit that is reached shows nothing."""
    result = check(PAIR, limit=20)
    assert not result.complete and not result.passed
