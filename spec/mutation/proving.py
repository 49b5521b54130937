"""A defect before the prover: the rules that it reaches are proved again, and what stays open has
noticed it.

Z3 is given less time an obligation than `nullblock prove` gives it, because what is false stays
open for as long as it is given. What it cannot prove of the specification itself within that time
is not counted against a mutant.
"""

import ast
from collections.abc import Container, Iterable
from functools import cache

from nullblock.spec.kernel import RULES
from nullblock.spec.mutation.forks import Json, with_defect
from nullblock.spec.mutation.generate import DECISIONS, Defect, source

ATTEMPTS = 3
"""Attempts an obligation, of those that `obligations.py` lists."""
SECONDS = 60.0


@cache
def uses() -> dict[str, frozenset[str]]:
    """What each function of rules and readings names, itself included, helpers' helpers too."""
    named: dict[str, set[str]] = {}
    for file in DECISIONS:
        for f in source(file).functions():
            named[f.name] = {n.id for n in ast.walk(f) if isinstance(n, ast.Name)} | {f.name}
    grown = True
    while grown:
        grown = False
        for found in named.values():
            more = set().union(*(named.get(n, set()) for n in found)) - found
            grown = grown or bool(more)
            found |= more
    return {name: frozenset(found) for name, found in named.items()}


def concerned(defect: Defect) -> list[str]:
    """The rules whose text a defect changes."""
    return [name for name in RULES if defect.functions & uses()[name]]


def judge(defect: Defect, hard: Container[tuple[str, str]]) -> Json:
    """Which statement stays open of the rules that a defect changes; nothing if all are proved.

    What is `hard` for the specification too is asked again with all the time there is.
    """
    names = concerned(defect)
    said = prove(defect, names)
    if said.get("open") and tuple(said["open"]) in hard:
        said = prove(defect, names, full=True)
    if "open" not in said:
        return said
    where, what = (said["open"] or ["", ""])[:2]
    return {"by": what, "job": where} if where else {"jobs": len(names)}


def hard() -> list[list[str]]:
    """What Z3 cannot prove of the specification itself in so little time."""
    found: list[list[str]] = prove(None, RULES, every=True)["every"]
    return found


def prove(
    defect: Defect | None, jobs: Iterable[str], full: bool = False, every: bool = False
) -> Json:
    """The first that stays open of some rules and operations, `{"open": [job, what]}`; or
    `{"every": [[job, what], …]}`. `full`: with all the time that `nullblock prove` has.
    """
    names = list(jobs)

    def work() -> Json:
        from nullblock.spec.prover import obligations
        from nullblock.spec.prover import prove as ask

        if not full:
            obligations.ATTEMPTS = obligations.ATTEMPTS[:ATTEMPTS]
        found: list[list[str]] = []
        for name in names:
            found += [[o.where, o.what] for o in ask(name, stop_at_first=not every).open]
            if found and not every:
                return {"open": found[0]}
        return {"every": found} if every else {"open": []}

    return with_defect(defect, work, SECONDS * (1 + 9 * every))
