"""Looks for counterexamples, and believes only what the ordinary rule does.

What a solver found is performed by the concrete rule on a concrete state. Only what is then seen
to go wrong is told.
"""

from typing import Any

from nullblock.spec.catalogue import CATALOGUE
from nullblock.spec.concrete import State, initial
from nullblock.spec.explorer.story import at_fault
from nullblock.spec.facts import Config
from nullblock.spec.invariants import INVARIANTS, invariants
from nullblock.spec.kernel import CONFUSED, RULES, Broken, Disabled, Rule
from nullblock.spec.profiles import Semantics
from nullblock.spec.prover.finite.counterexample import Counterexample, Fallen, setting, told
from nullblock.spec.prover.finite.decode import Decoder, World
from nullblock.spec.prover.finite.environment import Instance
from nullblock.spec.prover.finite.search import INSTANCES, Found, Seeker
from nullblock.spec.prover.jobs import Job
from nullblock.spec.prover.paths import detached

FIRED = " is enabled: "
"""What is said of a guard where the machine fires its rule."""


class Refuter:
    """Looks for counterexamples under one profile."""

    def __init__(self, sem: Semantics) -> None:
        self.sem = sem
        self.seekers: dict[tuple[Instance, bool], Seeker] = {}
        self.known: dict[tuple[str, str, bool], Counterexample | None] = {}

    def refute(self, job: Job, what: str, priority: bool) -> Counterexample | None:
        """A counterexample to an obligation of `job`, if one is found."""
        key = (job.name, what, priority)
        if key not in self.known:
            with detached():
                self.known[key] = self._refute(job, what, priority)
        return self.known[key]

    def _refute(self, job: Job, what: str, priority: bool) -> Counterexample | None:
        if job.kind == "initial":
            return _first(self.sem, what, priority)
        if job.kind == "machine" and FIRED not in what:
            return None  # of a loop that was cut no state tells how it came there
        for instance in INSTANCES:
            seeker = self.seekers.get((instance, priority))
            if seeker is None:
                seeker = Seeker(instance, self.sem, priority)
                self.seekers[instance, priority] = seeker
            found = seeker.seek(job, what)
            if found is not None:
                with detached():
                    told = _told_of(found, job, what)
                if told is not None:
                    return told
        return None


def _told_of(found: Found, job: Job, what: str) -> Counterexample | None:
    """What is confirmed; nothing where a text under change cannot even read the state."""
    try:
        return confirmed(found, job, what)
    except CONFUSED:
        return None


def confirmed(found: Found, job: Job, what: str) -> Counterexample | None:
    """What the concrete rule does in the state that was found; None if nothing goes wrong."""
    decoder = Decoder(found)
    s = decoder.state(found.state)
    rule = found.rule or RULES.get(job.name)
    if rule is None:
        return None
    arguments = decoder.arguments(rule.sorts)
    if not all(invariants(s).values()):
        return None
    fell = _fell(s.copy(), rule, arguments, what)
    return told(s, rule, arguments, fell) if fell is not None else None


def _first(sem: Semantics, what: str, priority: bool) -> Counterexample | None:
    """The first state of all, which has no state before it."""
    policy = "priority" if priority else "fcfs"
    first: Any = initial(World(Config(4, 2, 4, 2, 8, policy=policy, semantics=sem), 0, {}))
    if what not in INVARIANTS or INVARIANTS[what](first):
        return None
    falls = f"{what}: {CATALOGUE[what].sentence}"
    nothing = "nothing has happened yet"
    return Counterexample(setting(first), (), nothing, (), falls, tuple(at_fault(what, first)))


def _fell(s: State, rule: Rule, arguments: tuple[Any, ...], what: str) -> Fallen | None:
    """Perform the rule on s; what then fell, if it is what was looked for."""
    try:
        rule.body(s, *arguments)
    except Disabled as e:
        if what == f"{rule.name} is enabled: {e.guard}":
            return Fallen(s, what, f"the machine fires it where it is not enabled: {e.guard}", ())
        return None
    except Broken as e:
        return Fallen(s, what, f"a promise of the rule: {e}", ()) if str(e) == what else None
    except CONFUSED:
        return None
    if what not in INVARIANTS or INVARIANTS[what](s):
        return None
    return Fallen(s, what, f"{what}: {CATALOGUE[what].sentence}", tuple(at_fault(what, s)))
