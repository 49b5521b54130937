"""A defect before the prover: the rules that it reaches are proved again, and what stays open has
noticed it.

Z3 is given less time an obligation than `nullblock prove` gives it, because what is false stays
open for as long as it is given: as much as it takes to prove the specification itself.
"""

import ast
from collections.abc import Iterable
from functools import cache

from nullblock.spec.kernel import RULES
from nullblock.spec.mutation.forks import Json, with_defect
from nullblock.spec.mutation.generate import DECISIONS, Defect, source

LATE, LATE_WHERE_HARD = 0, 2
"""Long attempts an obligation, of those that `obligations.py` lists."""
HARD = frozenset({"pop_block", "finish", "take_token"})
"""Rules of which the specification itself needs more attempts."""
SECONDS = 120.0


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


def judge(defect: Defect) -> Json:
    """Which statement stays open of the rules that a defect changes; nothing if all are proved."""
    names = concerned(defect)
    said = prove(defect, names)
    if "open" not in said:
        return said
    where, what = said["open"] or ["", ""]
    return {"by": what, "job": where} if where else {"jobs": len(names)}


def prove(defect: Defect | None, jobs: Iterable[str]) -> Json:
    """The first that stays open of some rules: `{"open": [rule, what]}`, or `{"open": []}`."""
    names = list(jobs)

    def work() -> Json:
        from nullblock.spec.prover import obligations
        from nullblock.spec.prover import prove as ask

        every = obligations.LATE
        for name in names:
            obligations.LATE = every[: LATE_WHERE_HARD if name in HARD else LATE]
            for o in ask(name, stop_at_first=True).open:
                return {"open": [o.where, o.what]}
        return {"open": []}

    return with_defect(defect, work, SECONDS)
