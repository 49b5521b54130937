"""Every invariant says something: there is a state that it forbids and no other invariant does."""

from dataclasses import dataclass
from typing import Any

import z3  # type: ignore[import-untyped]

from nullblock.spec.invariants import INVARIANTS, invariants
from nullblock.spec.profiles import Semantics
from nullblock.spec.prover.finite.cells import word
from nullblock.spec.prover.finite.decode import Decoder
from nullblock.spec.prover.finite.search import INSTANCES, Found, Seeker
from nullblock.spec.prover.follower import Enough
from nullblock.spec.prover.jobs import UNPROVED, Job, anything

ANY = Job("any state", "rule", anything)
"""A text that does nothing."""


@dataclass(frozen=True, slots=True)
class Bite:
    """Whether an invariant says something: there is a state that breaks it."""

    invariant: str
    can_fail: bool
    alone: bool
    """Whether a state breaks it that satisfies all others: then they do not imply it."""


class Biter(Seeker):
    """Looks for states that break an invariant."""

    def settle(self, s: Any) -> None:
        """Every state. Of each invariant a switch says whether it is to hold, or to fail."""
        self.solver = z3.SolverFor("QF_FD")
        self.solver.add(*self.facts, *map(word, s.k.room(s)))
        for id, value in self.invariants(s):
            self.solver.add(z3.Implies(z3.Bool(f"{id} holds"), word(value)))
            self.solver.add(z3.Implies(z3.Bool(f"{id} fails"), z3.Not(word(value))))
        raise Enough

    def breaks(self, id: str, others: bool) -> bool:
        """Whether some state breaks this invariant, with the `others` all true or anyhow."""
        holding = [z3.Bool(f"{i} holds") for i in INVARIANTS if i != id] if others else []
        if self.solver.check(z3.Bool(f"{id} fails"), *holding) != z3.sat:
            return False
        s, arguments = self.current
        model = self.solver.model()
        found = Found(self.instance, self.start.k, s, arguments, model, None)
        values = invariants(Decoder(found).state(found.state))
        return not values[id] and (
            not others or sum(map(bool, values.values())) == len(values) - 1
        )


def bites(sem: Semantics) -> list[Bite]:
    """For every invariant, the states that break it."""
    biters = [Biter(i, sem, priority) for i in INSTANCES for priority in (False, True)]
    for biter in biters:
        biter.follow(ANY, biter.priority)
    found = []
    for id in (i for i in INVARIANTS if i not in UNPROVED):
        alone = any(b.breaks(id, True) for b in biters)
        found.append(Bite(id, alone or any(b.breaks(id, False) for b in biters), alone))
    return found
