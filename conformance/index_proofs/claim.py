"""What a claim is, and how it is decided."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import z3  # type: ignore[import-untyped]

from nullblock.conformance.index_proofs.numbers import Number, Term, Trail

MILLISECONDS = 20_000
"""For each question to Z3."""
Verdict = Literal["proved", "refuted", "unknown", "vacuous", "idle premise"]


class Arithmetic:
    """The expressions of the kernels on terms: ``arithmetic.slot_index(block, offset, size)``."""

    def __init__(self, expressions: Mapping[str, Callable[..., Any]]) -> None:
        self.expressions, self.trail = expressions, Trail()
        self.used: set[str] = set()

    def __getattr__(self, name: str) -> Callable[..., Term]:
        text = self.expressions[name]
        self.used.add(name)

        def run(*terms: Term) -> Term:
            return text(*[Number(term, self.trail) for term in terms]).term

        return run


@dataclass(frozen=True, slots=True)
class Problem:
    """What follows from what."""

    premises: Mapping[str, Term]
    """By what a person would call them; IDs of the specification where they are its own."""
    goal: Term
    needed: tuple[str, ...]
    """Premises without which the goal is refuted."""
    definitions: tuple[Term, ...] = ()
    """Facts about the names in it that are true of any integers."""
    examples: tuple[Term, ...] = ()
    """Where to look for examples: a small world, that Z3 need not search a large one."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A sentence, and how to state it."""

    name: str
    sentence: str
    state: Callable[[Arithmetic], Problem]


@dataclass(frozen=True, slots=True)
class Proof:
    """What became of a claim."""

    name: str
    sentence: str
    expressions: tuple[str, ...]
    rests_on: tuple[str, ...]
    verdict: Verdict
    without: Mapping[str, str]
    """For each needed premise, an example that refutes the claim without it."""
    detail: str
    seconds: float


def decide(claim: Claim, expressions: Mapping[str, Callable[..., Any]]) -> Proof:
    """Prove a claim, see that its premises can be met, and refute it without those it needs."""
    began, arithmetic = time.perf_counter(), Arithmetic(expressions)
    problem = claim.state(arithmetic)
    # Quotients are what they are called, whichever premise is left out.
    given = (*problem.definitions, *arithmetic.trail.facts)
    verdict, detail = _verdict(problem, given)
    without: dict[str, str] = {}
    if verdict == "proved":
        for name in problem.needed:
            rest = [premise for other, premise in problem.premises.items() if other != name]
            answer, example = _ask([*given, *rest, *problem.examples, z3.Not(problem.goal)])
            if answer != z3.sat:
                verdict, detail = "idle premise", f"nothing refutes it without: {name}"
            without[name] = example
    return Proof(
        claim.name,
        claim.sentence,
        tuple(sorted(arithmetic.used)),
        tuple(problem.premises),
        verdict,
        without,
        detail,
        time.perf_counter() - began,
    )


def _verdict(problem: Problem, given: tuple[Term, ...]) -> tuple[Verdict, str]:
    premises = [*given, *problem.premises.values()]
    answer, example = _ask([*premises, z3.Not(problem.goal)])
    if answer == z3.sat:
        return "refuted", example
    if answer != z3.unsat:
        return "unknown", example
    answer, example = _ask([*premises, *problem.examples])
    if answer != z3.sat:
        return "vacuous", f"no example of the premises: {answer}"
    return "proved", example


def _ask(formulas: list[Term]) -> tuple[Any, str]:
    """Whether there is an example of all of them; in words, the example or why there is none."""
    solver = z3.Solver()
    solver.set("timeout", MILLISECONDS)
    solver.add(*formulas)
    answer = solver.check()
    if answer != z3.sat:
        return answer, "" if answer == z3.unsat else solver.reason_unknown()
    model = solver.model()
    return answer, ", ".join(sorted(f"{x} = {model[x]}" for x in model if _plain(x, model)))


def _plain(name: Any, model: Any) -> bool:
    return name.arity() == 0 and z3.is_int_value(model[name]) and "!" not in str(name)
