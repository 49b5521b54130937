"""Follows one text along every path and collects what must be shown.

A rule: assume every invariant and the guards, show every invariant afterwards.
The machine: every guard of every rule it fires must be shown; afterwards the invariants may be
assumed, because they are shown once for the rule. A loop is cut where it starts: show `keep`,
forget the fields in `changes`, and follow two paths: out of the loop, and once through its body,
which must restore `keep`, lower `decreases` and leave all other fields alone.
"""

import time
from collections.abc import Callable, Iterator
from typing import Any

import z3  # type: ignore[import-untyped]

from nullblock.spec.fields import FIELDS
from nullblock.spec.invariants import invariants
from nullblock.spec.kernel import Rule
from nullblock.spec.profiles import Semantics
from nullblock.spec.prover.axioms import AXIOMS, formula
from nullblock.spec.prover.environment import SymbolicEnv
from nullblock.spec.prover.jobs import Job, anything
from nullblock.spec.prover.obligations import Hypothesis, Obligations
from nullblock.spec.prover.paths import Forks, PathEnd, Undecidable, attached
from nullblock.spec.prover.report import Checked, JobReport, Status
from nullblock.spec.prover.symbols import (
    SORTS,
    SymbolicState,
    Term,
    TermMap,
    sort_of,
    term,
)

Thunk = Callable[[], Any]


class Refuted(Exception):
    """One open obligation is enough."""


class Prover:
    """The words of the kernel on terms, and the obligations they give rise to."""

    conj, implies = staticmethod(z3.And), staticmethod(z3.Implies)
    neg, ite = staticmethod(z3.Not), staticmethod(z3.If)

    def __init__(self, sem: Semantics, stop_at_first: bool) -> None:
        self.sem, self.stop_at_first = sem, stop_at_first
        self.forks = Forks()
        self.hypotheses: dict[int, Hypothesis] = {}
        self.settled: set[int] = set()
        """The hypotheses that are invariants of the latest state."""
        self.calling: Rule | None = None
        self.job: Job
        self.report: JobReport
        self.priority = False
        self.posed: set[tuple[bool, int, frozenset[int]]] = set()
        self.ledger: dict[tuple[int, ...], list[tuple[str, Term]]] = {}
        with attached(self):
            k = SymbolicEnv(False, sem)
            axioms = tuple(formula(axiom, k) for axiom in AXIOMS)
        self.obligations = Obligations(axioms)

    # states ----------------------------------------------------------------------------------
    def fresh(self) -> SymbolicState:
        """Any state whatever."""
        s = SymbolicState()
        s.k = SymbolicEnv(self.priority, self.sem)
        for f in FIELDS:
            self._forget(s, f)
        return s

    def _forget(self, s: SymbolicState, field: str) -> None:
        x = s.k.const(field, sort_of(FIELDS[field]))
        setattr(s, field, TermMap(x) if ">" in FIELDS[field] else x)

    def invariants(self, s: SymbolicState) -> list[tuple[str, Term]]:
        """The invariants of s as terms, those left out that are true by themselves."""
        terms = s.terms()
        key = (self.priority, *(x.get_id() for x in terms))
        if key not in self.ledger:
            # Z3 gives the id of a dead term to another: as long as the key is known, they live.
            self.obligations.alive.append(terms)
            self.forks.frozen = True
            found = [(id, term(x)) for id, x in invariants(s).items() if x is not True]
            self.forks.frozen = False
            self.ledger[key] = found
        return self.ledger[key]

    def settle(self, s: SymbolicState) -> None:
        """Assume the invariants of s; those of the states before step back."""
        new = {x.get_id(): x for _, x in self.invariants(s)}
        for id in self.settled - new.keys():
            self.hypotheses[id] = Hypothesis(self.hypotheses[id].formula, True)
        self.hypotheses |= {id: Hypothesis(x) for id, x in new.items()}
        self.settled = set(new)

    # words -----------------------------------------------------------------------------------
    def assume(self, fact: Term) -> None:
        """Use `fact` from here on."""
        formula = term(fact)
        self.hypotheses[formula.get_id()] = Hypothesis(formula)
        self.settled.discard(formula.get_id())

    def require(self, guard: Term, why: str) -> None:
        """A guard: shown where the machine fires the rule, assumed where the rule is proved."""
        if self.calling is not None:
            self.prove(guard, f"{self.calling.name} is enabled: {why}")
        self.assume(guard)

    def prove(self, goal: Term, what: str) -> None:
        """Show `goal`. Raises Refuted in a hurry."""
        began = time.process_time()
        answer = self.obligations.decide(goal, self.hypotheses, f"{self.job.name}: {what}")
        key = (self.priority, term(goal).get_id(), frozenset(self.hypotheses))
        if key in self.posed:
            return
        self.posed.add(key)
        self.report.asked += answer.asked
        self._enter(what, answer.proved, time.process_time() - began)

    def _enter(self, what: str, proved: bool, seconds: float = 0.0) -> None:
        policy = "priority" if self.priority else "fcfs"
        status: Status = "proved" if proved else "unknown"
        self.report.add(Checked(self.job.name, what, policy, status, seconds))
        self.report.obligations += 1
        self.report.proved += proved
        if not proved and self.stop_at_first:
            raise Refuted

    def branch(self, condition: Term) -> bool:
        """Which way an `if` goes on this path."""
        way, assumed = self.forks.decide(condition)
        if assumed is not None:
            self.assume(assumed)
        return way

    def fire(self, rule: Rule, s: SymbolicState, args: tuple[Any, ...]) -> None:
        """The machine fires a rule."""
        self.calling = rule
        rule.body(s, *args)
        self.calling = None
        self.settle(s)
        if not self.stop_at_first and rule.name not in self.report.fired:
            if not self.obligations.contradictory(self.hypotheses):
                self.report.fired.add(rule.name)
            else:
                self.report.never.add(rule.name)

    def loop(
        self,
        s: SymbolicState,
        until: Thunk,
        changes: frozenset[str],
        decreases: Thunk,
        keep: Thunk,
    ) -> Iterator[None]:
        """Cut a loop where it starts."""
        self.prove(keep(), "a loop's invariant holds on entry")
        for f in FIELDS:
            if f in changes:
                self._forget(s, f)
        self.settle(s)
        self.assume(keep())
        if until():
            return
        head, before = s.copy(), decreases()
        yield
        self.prove(keep(), "a loop's invariant holds again")
        self.prove(z3.And(before >= 0, decreases() < before), "a loop's variant falls")
        for f in FIELDS:
            was, is_ = term(getattr(head, f)), term(getattr(s, f))
            if f not in changes and not was.eq(is_):
                self.prove(was == is_, f"a loop leaves {f} alone")
        raise PathEnd

    # every path ------------------------------------------------------------------------------
    def run(self, job: Job, priority: bool) -> JobReport:
        """Follow every path of a job under one policy."""
        began = time.process_time()
        self.job, self.priority, self.forks = job, priority, Forks()
        self.posed.clear()
        self.report = JobReport(job.name, job.kind)
        with attached(self):
            try:
                while True:
                    self._path(job)
                    self.report.paths += 1
                    if not self.forks.next_path():
                        break
            except Refuted:
                pass
        self.report.never -= self.report.fired
        self.report.seconds = time.process_time() - began
        return self.report

    def _path(self, job: Job) -> None:
        self.forks.start()
        self.hypotheses, self.calling, self.settled = {}, None, set()
        args = [z3.Const(f"arg{n}", SORTS[sort]) for n, sort in enumerate(job.sorts)]
        s = self.fresh()
        try:
            if job.given:
                self.settle(s)
            self.assume(job.before(s, *args))
            job.text(s, *args)
            if job.after is not anything:
                self.prove(job.after(s, *args), "what holds after it is brought about")
            if job.keeps:
                for id, goal in self.invariants(s):
                    self.prove(goal, id)
        except PathEnd:
            pass
        except (TypeError, z3.Z3Exception, Undecidable) as error:
            self._enter(f"the text cannot be followed: {error}", False)
        if not self.stop_at_first and not self.report.reached:
            self.report.reached = not self.obligations.contradictory(self.hypotheses)
