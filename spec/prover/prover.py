"""Follows one text along every path and shows what must be shown, for any number of blocks,
requests and tokens.
"""

import time
from dataclasses import replace
from typing import Any

from nullblock.spec.fields import FIELDS
from nullblock.spec.invariants import invariants
from nullblock.spec.kernel import Rule
from nullblock.spec.profiles import Semantics
from nullblock.spec.prover.axioms import AXIOMS, formula
from nullblock.spec.prover.environment import SymbolicEnv
from nullblock.spec.prover.finite.refuter import Refuter
from nullblock.spec.prover.follower import Enough, Follower
from nullblock.spec.prover.hints import hints
from nullblock.spec.prover.jobs import UNPROVED, Job
from nullblock.spec.prover.obligations import Hypothesis, Obligations
from nullblock.spec.prover.paths import attached
from nullblock.spec.prover.report import Checked, JobReport, Status
from nullblock.spec.prover.symbols import (
    SymbolicState,
    Term,
    TermMap,
    sort_of,
    term,
)


class Prover(Follower):
    """Decides the obligations of one text after another."""

    def __init__(
        self, sem: Semantics, stop_at_first: bool, only: frozenset[str] = frozenset()
    ) -> None:
        """Show everything, or just what is named in `only`."""
        super().__init__()
        self.sem, self.stop_at_first, self.only = sem, stop_at_first, only
        self.hints = hints()
        self.hypotheses: dict[int, Hypothesis] = {}
        self.settled: set[int] = set()
        """The hypotheses that are invariants of the latest state."""
        self.report: JobReport
        self.posed: set[tuple[bool, int, frozenset[int]]] = set()
        self.ledger: dict[tuple[int, ...], list[tuple[str, Term]]] = {}
        """The invariants of a state, by the ids of its terms."""
        self.places: dict[tuple[Any, ...], list[tuple[str, Term]]] = {}
        """The same, by the place in a text and the way there, where paths come again."""
        self.states = 0
        with attached(self):
            k = SymbolicEnv(False, sem)
            axioms = tuple(formula(axiom, k) for axiom in AXIOMS)
        self.obligations = Obligations(axioms)
        self.refuter = Refuter(sem)

    def run(self, job: Job, priority: bool) -> JobReport:
        """Follow every path of a job under one policy."""
        began = time.process_time()
        self.posed.clear()
        self.report = JobReport(job.name, job.kind)
        self.follow(job, priority)
        self.report.never -= self.report.fired
        self.report.seconds = time.process_time() - began
        return self.report

    # states ----------------------------------------------------------------------------------
    def fresh(self) -> SymbolicState:
        """Any state whatever."""
        self.hypotheses, self.settled, self.states = {}, set(), 0
        s = SymbolicState()
        s.k = SymbolicEnv(self.priority, self.sem)
        for f in FIELDS:
            self.forget(s, f)
        return s

    def forget(self, s: SymbolicState, field: str) -> None:
        """Let a field be anything."""
        x = s.k.const(field, sort_of(FIELDS[field]))
        setattr(s, field, TermMap(x) if ">" in FIELDS[field] else x)

    def same(self, was: Any, is_: Any) -> Term:
        """Whether a field's value is what it was; True if nobody wrote it."""
        was, is_ = term(was), term(is_)
        return True if was is is_ or was.eq(is_) else was == is_

    def invariants(self, s: SymbolicState) -> list[tuple[str, Term]]:
        """The invariants of s as terms, those left out that are true by themselves, and those of
        which nothing is claimed: nobody may rest on them.
        """
        self.states += 1
        place = (self.priority, self.job.name, self.forks.way, self.states)
        if place not in self.places:
            self.places[place] = self._invariants(s)
        return self.places[place]

    def _invariants(self, s: SymbolicState) -> list[tuple[str, Term]]:
        terms = s.terms()
        key = (self.priority, *(x.get_id() for x in terms))
        if key not in self.ledger:
            # Z3 gives the id of a dead term to another: as long as the key is known, they live.
            self.obligations.alive.append(terms)
            self.forks.frozen = True
            every = {id: x for id, x in invariants(s).items() if id not in UNPROVED}
            found = [(id, term(x)) for id, x in every.items() if x is not True]
            self.forks.frozen = False
            self.ledger[key] = found
        return self.ledger[key]

    def settle(self, s: SymbolicState) -> None:
        """Assume the invariants of s; those of the states before step back."""
        new = {x.get_id(): Hypothesis(x, name=id) for id, x in self.invariants(s)}
        for id in self.settled - new.keys():
            self.hypotheses[id] = replace(self.hypotheses[id], superseded=True)
        self.hypotheses |= new
        self.settled = set(new)

    # words -----------------------------------------------------------------------------------
    def assume(self, fact: Term) -> None:
        """Use `fact` from here on."""
        formula = term(fact)
        self.hypotheses[formula.get_id()] = Hypothesis(formula)
        self.settled.discard(formula.get_id())

    def prove(self, goal: Term, what: str) -> None:
        """Show `goal`. Raises Enough in a hurry."""
        if self.only and what not in self.only:
            return
        if self.forks.again:
            return  # posed already, with the same hypotheses, on the path that came this way first
        began = time.process_time()
        hint = self.hints.get(self.job.name, {}).get(what, frozenset())
        name = f"{self.job.name}: {what}"
        told: list[str] = []

        def refuted() -> bool:
            found = self.refuter.refute(self.job, what, self.priority)
            told.extend([str(found)] if found is not None else [])
            return found is not None

        answer = self.obligations.decide(goal, self.hypotheses, name, hint, refuted)
        key = (self.priority, term(goal).get_id(), frozenset(self.hypotheses))
        if key in self.posed:
            return
        self.posed.add(key)
        self.report.asked += answer.asked
        if answer.core:
            self.report.used.setdefault(what, set()).update(answer.core)
        status: Status = "proved" if answer.proved else "refuted" if told else "unknown"
        self._enter(what, status, time.process_time() - began, *told)

    def _enter(
        self, what: str, status: Status, seconds: float = 0.0, story: str | None = None
    ) -> None:
        self.report.add(Checked(self.job.name, what, self.policy, status, seconds, story))
        self.report.obligations += 1
        self.report.proved += status == "proved"
        if status != "proved" and self.stop_at_first:
            raise Enough

    # what is noticed on the way --------------------------------------------------------------
    def fired(self, rule: Rule) -> None:
        """The machine has fired a rule: could it ever?"""
        if self.forks.again:
            return
        if not self.stop_at_first and rule.name not in self.report.fired:
            if not self.obligations.contradictory(self.hypotheses):
                self.report.fired.add(rule.name)
            else:
                self.report.never.add(rule.name)

    def finished(self) -> None:
        """A path has ended: could anything ever go it?"""
        self.report.paths += 1
        if not self.stop_at_first and not self.report.reached:
            self.report.reached = not self.obligations.contradictory(self.hypotheses)

    def unreadable(self, error: Exception) -> None:
        """The text cannot be followed."""
        self._enter(f"the text cannot be followed: {error}", "unknown")
