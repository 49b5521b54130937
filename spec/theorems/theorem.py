"""What a theorem is, and how its obligations are discharged.

A theorem says more than one invariant does: it combines several, compares two states, counts, or
goes by induction. Its text is written in the words of the kernel wherever that is possible:
`require` a premise, `ensure` a step of the argument. So one text is proved by Z3 for any size and
runs on the states of the explorer.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import z3  # type: ignore[import-untyped]

from nullblock.spec.catalogue import CATALOGUE, register
from nullblock.spec.invariants import INVARIANTS
from nullblock.spec.kernel import Broken, Disabled, Engines, Rule, State
from nullblock.spec.profiles import NORMATIVE, Semantics
from nullblock.spec.prover.jobs import Job
from nullblock.spec.prover.obligations import UNIT
from nullblock.spec.prover.prover import Prover
from nullblock.spec.prover.report import Checked, Status
from nullblock.spec.prover.symbols import SymbolicState, Term, term
from nullblock.spec.theorems.sums import TheoremEnv

Text = Callable[..., Any]
Attempts = tuple[tuple[int, float], ...]
POLICIES = {"fcfs": False, "priority": True}
ANY = "any"
"""The policy of an obligation in which none is mentioned."""
CONTRADICTION = "its hypotheses contradict each other"


Found = tuple[Checked, ...]
Discharge = Callable[[], Found]


@dataclass(frozen=True, slots=True)
class Theorem:
    """A statement, what it rests on, and how it is shown."""

    id: str
    sentence: str
    engine: str
    rests_on: tuple[str, ...]
    """IDs of the invariants, rules and theorems that its proof uses."""
    assumes: tuple[str, ...]
    """What is taken for granted, in words."""
    discharge: Discharge
    canaries: Mapping[str, Discharge] = field(default_factory=dict)
    """False variants, each by what is wrong with it: the same machinery must not show them."""

    def check(self) -> Found:
        """Discharge every obligation."""
        return self.discharge()

    def canary(self, name: str) -> Found:
        """Try to show one of the false variants."""
        with hurried():
            return self.canaries[name]()


THEOREMS: dict[str, Theorem] = {}


def theorem(
    id: str,
    *,
    engine: str,
    rests_on: tuple[str, ...] = (),
    assumes: tuple[str, ...] = (),
    canaries: Mapping[str, Discharge] | None = None,
) -> Callable[[Discharge], Discharge]:
    """Enter a theorem: its sentence is the docstring of the function that discharges it, or that
    of the statement that has the ID already.
    """

    def enter(discharge: Discharge) -> Discharge:
        if id.startswith("THEOREM-"):
            register(id, "theorem", discharge)
        sentence = CATALOGUE[id].sentence
        THEOREMS[id] = Theorem(id, sentence, engine, rests_on, assumes, discharge, canaries or {})
        return discharge

    return enter


# Z3, any size ------------------------------------------------------------------------------------


class Effort:
    """How many attempts an obligation is worth: all of them, or for a canary the first."""

    attempts: Attempts = ((0, 1), (7, 4), (23, 16))
    """Seed, and resources in units."""
    hurried = attempts[:1]


@contextmanager
def hurried() -> Iterator[None]:
    """Give up early: what is false is not shown by trying harder."""
    before, Effort.attempts = Effort.attempts, Effort.hurried
    try:
        yield
    finally:
        Effort.attempts = before


def follows(given: Iterable[Term], goal: Term, attempts: Attempts) -> bool:
    """Whether Z3 shows that a goal follows, within limits that depend on no machine."""
    given = tuple(given)
    for seed, units in attempts:
        solver = z3.SimpleSolver()  # z3.Solver would choose tactics, and some search models
        solver.set("mbqi", False)
        solver.set("ctrl_c", False)  # Z3 would take Ctrl-C for an answer: unknown
        solver.set("random_seed", seed)
        solver.set("rlimit", int(units * UNIT))
        solver.add(*given, z3.Not(goal))
        if solver.check() == z3.unsat:
            return True
    return False


class TheoremProver(Prover):
    """The prover, given some of the invariants, that remembers every obligation of a text.

    Of the invariants it takes what both policies have in common; so a text that does not ask for
    the policy is followed once for both.
    """

    def __init__(self, given: tuple[str, ...], sem: Semantics = NORMATIVE) -> None:
        super().__init__(sem, stop_at_first=True)
        self.given = given
        self.found: list[Checked] = []
        self.known: dict[tuple[int, ...], list[tuple[str, Term]]] = {}
        self.trusting = False
        self.solver = z3.Solver()
        self.asserted: set[int] = set()
        self.env: TheoremEnv

    def fresh(self) -> SymbolicState:
        """Any state whatever."""
        s = super().fresh()
        k = TheoremEnv(self.priority, self.sem)
        k.named, s.k, self.env = s.k.named, k, k
        return s

    def invariants(self, s: SymbolicState) -> list[tuple[str, Term]]:
        """Those of the invariants that are given."""
        terms = s.terms()
        key = tuple(x.get_id() for x in terms)
        if key not in self.known:
            self.obligations.alive.append(terms)
            outer = s.k
            self.forks.frozen = True
            values = []
            for priority in POLICIES.values():
                s.k = TheoremEnv(priority, self.sem)
                values.append([(id, x) for id in self.given for x in parts(INVARIANTS[id](s))])
            self.forks.frozen, s.k = False, outer
            shared = {x.get_id() for _, x in values[1]}
            self.known[key] = [(id, x) for id, x in values[0] if x.get_id() in shared]
        return self.known[key]

    def prove(self, goal: Term, what: str) -> None:
        """Show `goal`, and remember whether it was shown."""
        if self.trusting or self.forks.again:
            return  # shown elsewhere, or on the path that came this way first
        began = time.process_time()
        holds = self.entails(term(goal))
        took = time.process_time() - began
        status: Status = "proved" if holds else "unknown"
        self.found.append(Checked(self.job.name, what, self.policy, status, took))

    def perform(self, rule: Rule, s: State, args: tuple[Any, ...]) -> None:
        """Let a rule fire. Its own promises are shown where it is proved, and trusted here."""
        self.trusting = True
        try:
            rule.body(s, *args)
        finally:
            self.trusting = False

    def entails(self, goal: Term) -> bool:
        """Whether a goal follows from what is assumed on this path."""
        if z3.is_true(goal) or goal.get_id() in self.hypotheses:
            return True
        first, *more = Effort.attempts
        if self._at_once(goal, first[1]):
            return True
        known = [h.formula for h in self.hypotheses.values()]
        return follows((*self.obligations.axioms, *known), goal, tuple(more))

    def _at_once(self, goal: Term, units: float) -> bool:
        """A first attempt, by the solver that knows this path already."""
        if not self.asserted <= self.hypotheses.keys() or not self.asserted:
            self.solver, self.asserted = z3.Solver(), set()
            self.solver.set("mbqi", False)
            self.solver.set("ctrl_c", False)  # Z3 would take Ctrl-C for an answer: unknown
            self.solver.add(*self.obligations.axioms)
        for id, h in self.hypotheses.items():
            if id not in self.asserted:
                self.solver.add(h.formula)
                self.asserted.add(id)
                self.obligations.alive.append(h.formula)
        self.solver.set("rlimit", int(units * UNIT))
        self.solver.push()
        self.solver.add(z3.Not(goal))
        holds = self.solver.check() == z3.unsat
        self.solver.pop()
        return bool(holds)


def parts(formula: Term) -> list[Term]:
    """The conjuncts of a formula, those behind an implication one by one."""
    formula = term(formula)
    if z3.is_and(formula):
        return [x for part in formula.children() for x in parts(part)]
    if z3.is_implies(formula):
        return [z3.Implies(formula.arg(0), x) for x in parts(formula.arg(1))]
    return [formula]


def followed(
    where: str, text: Text, sorts: str = "", given: tuple[str, ...] = (), vacuity: bool = True
) -> Found:
    """The obligations of a text about any state in which some invariants are given, under both
    policies. With `vacuity` one is added where the hypotheses contradict each other.
    """
    follower = TheoremProver(given)
    return tuple(run(follower, Job(where, "rule", text, sorts), vacuity))


def run(follower: TheoremProver, job: Job, vacuity: bool) -> Iterator[Checked]:
    """Follow one text under both policies, or once if it asks for none; equal obligations of
    several paths are told once.
    """
    for policy, priority in POLICIES.items():
        follower.found = []
        report = follower.run(job, priority)
        either = not follower.env.policy_asked
        told: dict[str, Checked] = {}
        for c in follower.found:
            old = told.get(c.what)
            if old is None or old.status == "proved":
                told[c.what] = replace(c, policy=ANY) if either else c
        yield from told.values()
        for o in report.open:
            yield Checked(job.name, o.what, policy, "unknown")
        with hurried():
            nothing = vacuity and follower.entails(z3.BoolVal(False))
        if nothing:
            yield Checked(job.name, CONTRADICTION, policy, "unknown")
        if either:
            return


def entailed(where: str, what: str, given: list[Term], goal: Term) -> Checked:
    """Whether a goal that mentions no state follows, within a limit that no machine changes."""
    began = time.process_time()
    status: Status = "proved" if follows(given, goal, Effort.attempts) else "unknown"
    return Checked(where, what, ANY, status, time.process_time() - began)


def shown(where: str, what: str, holds: bool, story: str | None = None) -> Checked:
    """The outcome of a finite search or of an evaluation: its story where it fails."""
    return Checked(where, what, ANY, "proved" if holds else "refuted", 0.0, story)


def fired(rule: Rule, s: State, args: tuple[Any, ...]) -> None:
    """Let a rule fire inside a text: on terms without showing its promises again."""
    if isinstance(Engines.prover, TheoremProver):
        Engines.prover.perform(rule, s, args)
    else:
        rule(s, *args)


# concrete states ---------------------------------------------------------------------------------


def instances(s: State, text: Text, sorts: str = "") -> Iterator[tuple[Any, ...]]:
    """The members of a concrete state for which the premises of a text hold.

    Raises Broken where its conclusion does not.
    """
    for members in s.k.members(sorts):
        try:
            text(s, *members)
        except Disabled:
            continue
        yield members


def objection(s: State, text: Text, sorts: str = "") -> str | None:
    """For which members of a concrete state a text is false; None: for none."""
    for members in s.k.members(sorts):
        try:
            text(s, *members)
        except Disabled:
            continue
        except Broken as e:
            return f"{', '.join(map(str, members))}: {e}"
    return None
