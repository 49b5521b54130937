"""Whether anything is proved of nothing: of a rule that never fires, on a path that nobody goes,
by an invariant that forbids nothing.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from nullblock.spec.profiles import NORMATIVE, Semantics
from nullblock.spec.prover.claims import DEAD, IMPLIED
from nullblock.spec.prover.finite.bites import Bite, bites
from nullblock.spec.prover.finite.witnesses import Path, Witnesses, paths
from nullblock.spec.prover.jobs import rules


@dataclass(frozen=True, slots=True)
class Vacuity:
    """What was found: every path of every rule, and every invariant."""

    paths: tuple[Path, ...]
    bites: tuple[Bite, ...]

    def problems(self) -> Iterator[str]:
        """What shows nothing and is not claimed to, one line each."""
        witnessed = {(p.rule, p.policy) for p in self.paths if p.witness}
        for rule, policy in dict.fromkeys((p.rule, p.policy) for p in self.paths):
            if (rule, policy) not in witnessed:
                yield f"shows nothing: {rule} ({policy}) fires in no state that was found"
        for p in self.paths:
            if not p.witness and (p.rule, p.policy) in witnessed and dead(p) is None:
                yield f"shows nothing: {p}: {'; '.join(p.because)}"
        for b in self.bites:
            if not b.can_fail:
                yield f"says nothing: {b.invariant} holds in every state"
            elif not b.alone and b.invariant not in IMPLIED:
                yield f"says nothing new: {b.invariant} follows from the other invariants"


def dead(path: Path) -> str | None:
    """Why nobody goes a path, where that is known."""
    reasons = (DEAD.get((path.rule, label)) for label in path.because)
    return next((r for r in reasons if r is not None), None)


def vacuity(sem: Semantics = NORMATIVE) -> Vacuity:
    """Look for a state for every path of every rule under both policies, and for the states that
    each invariant forbids.
    """
    kept: dict[object, Witnesses] = {}
    found = (paths(job, sem, p, kept) for job in rules() for p in (True, False))
    return Vacuity(tuple(p for of in found for p in of), tuple(bites(sem)))
