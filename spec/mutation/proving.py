"""A defect before the prover: the rules that it reaches are proved again, and what stays open has
noticed it.

Z3 is given less time an obligation than `nullblock prove` gives it, because what is false stays
open for as long as it is given: as much as it takes to prove the specification itself.
"""

import ast
import hashlib
from collections.abc import Iterable
from functools import cache
from typing import Any

from nullblock.spec.kernel import RULES
from nullblock.spec.machine import events as events  # importing the machine registers every rule
from nullblock.spec.machine import schedule as schedule
from nullblock.spec.machine import update as update
from nullblock.spec.mutation.forks import Json, with_defect
from nullblock.spec.mutation.generate import DECISIONS, STATEMENTS, Defect, source
from nullblock.spec.profiles import NORMATIVE

LATE, LATE_WHERE_HARD = 0, 2
"""Long attempts an obligation, of those that `obligations.py` lists."""
HARD = frozenset({"pop_block", "finish", "take_token", "schedule_running", "advance"})
"""Rules of which the specification itself needs more attempts."""
SECONDS = 120.0


@cache
def uses() -> dict[str, frozenset[str]]:
    """What each function of rules and readings names, itself included, helpers' helpers too."""
    named: dict[str, set[str]] = {}
    for file in DECISIONS:
        for f in source(file).functions():
            named[f.name] = _asked(f) | {f.name}
    grown = True
    while grown:
        grown = False
        for found in named.values():
            more = set().union(*(named.get(n, set()) for n in found)) - found
            grown = grown or bool(more)
            found |= more
    return {name: frozenset(found) for name, found in named.items()}


def _asked(text: ast.AST) -> set[str]:
    """The names in it that it takes from elsewhere: a variable of its own is no function."""
    names = [n for n in ast.walk(text) if isinstance(n, ast.Name)]
    own = {n.id for n in names if isinstance(n.ctx, ast.Store)}
    own |= {a.arg for a in ast.walk(text) if isinstance(a, ast.arg)}
    return {n.id for n in names} - own


def concerned(defect: Defect) -> list[str]:
    """The proved rules whose text a defect changes."""
    from nullblock.spec.prover.jobs import UNPROVED

    return [n for n in RULES if n not in UNPROVED and defect.functions & uses()[n]]


@cache
def _written() -> dict[str, str]:
    """The text of each function of rules and readings, by its name."""
    found: dict[str, str] = {}
    for file in DECISIONS:
        for f in source(file).functions():
            found[f.name] = found.get(f.name, "") + ast.unparse(f)
    return found


@cache
def _stated() -> tuple[str, frozenset[str]]:
    """The text of all statements, and what rules and readings they use."""
    some = [source(file) for file in STATEMENTS]
    asked = set().union(*(_asked(f) for s in some for f in s.functions()))
    used = frozenset().union(*(uses().get(name, frozenset()) for name in asked))
    return "\0".join(s.text for s in some), used


@cache
def basis(names: tuple[str, ...]) -> str:
    """What tells one version from another of all that decides whether rules are proved: their text
    and that of what they use, all statements, what these use, and the switches of the profile.
    """
    stated, used = _stated()
    used = used.union(*(uses()[name] for name in names))
    texts = [text for name, text in sorted(_written().items()) if name in used]
    every = "\0".join((*texts, stated, repr(NORMATIVE)))
    return hashlib.sha256(every.encode()).hexdigest()[:16]


BEYOND = "AttributeError: 'SymbolicEnv' object has no attribute "
"""Windows and a cap on adapters are searched, and not proved: the prover has no facts of them."""
NO_GROUPS = "KeyError: 'G'"
"""Nor has it groups to quantify over."""


def judge(defect: Defect) -> Json:
    """Which statement stays open of the rules that a defect changes; nothing if all are proved.
    `beyond`: it asks for what only configurations have that are not proved.
    """
    names = concerned(defect)
    said = prove(defect, names)
    if said.get("failed") == NO_GROUPS:
        return {"beyond": "several groups", "of": basis(tuple(names))}
    if said.get("failed", "").startswith(BEYOND):
        return {"beyond": said["failed"].removeprefix(BEYOND), "of": basis(tuple(names))}
    if "open" not in said:
        return said
    where, what = said["open"] or ["", ""]
    found = {"by": what, "job": where} if where else {"jobs": len(names)}
    return {**found, "of": basis(tuple(names))}


def _unsought(refuter: Any, job: Any, what: str, priority: bool) -> None:
    """No counterexample is looked for."""


def prove(defect: Defect | None, jobs: Iterable[str]) -> Json:
    """The first that stays open of some rules: `{"open": [rule, what]}`, or `{"open": []}`."""
    # Z3 loads only where something is proved, and before the child is made: once for all of them.
    from nullblock.spec.prover import obligations
    from nullblock.spec.prover import prove as ask
    from nullblock.spec.prover.finite.refuter import Refuter
    from nullblock.spec.prover.prover import Prover as Prover

    names, every, refute = list(jobs), obligations.LATE, Refuter.refute

    def work() -> Json:
        for name in names:
            obligations.LATE = every[: LATE_WHERE_HARD if name in HARD else LATE]
            # A counterexample spares long attempts, and tells a story: here nobody asks for it.
            setattr(Refuter, "refute", refute if obligations.LATE else _unsought)  # noqa: B010
            for o in ask(name, stop_at_first=True).open:
                return {"open": [o.where, o.what]}
        return {"open": []}

    return with_defect(defect, work, SECONDS)
