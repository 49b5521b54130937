"""Several clients: who hears of what."""

from nullblock.spec.invariants.ledger import invariant
from nullblock.spec.kernel import State, Value, implies


@invariant("OUT-20")
def ends_are_of_ones_own(s: State) -> Value:
    """A client is told of the ends of its own requests, and of nobody else's."""
    if not s.k.tells_ends:
        return True
    return s.k.forall("IR", lambda c, r: implies(s.k.mem(s.ends[c], r), s.k.client(r) == c))
