"""Requests that want a vector."""

from nullblock.spec.invariants.ledger import invariant
from nullblock.spec.kernel import State, Value, both, implies
from nullblock.spec.pooling import pools
from nullblock.spec.state import live


@invariant("UPD-52")
def vectors_come_of_prompts(s: State) -> Value:
    """A request that wants a vector has its prompt and no output, and no more than one vector is
    on its way besides such as were when a reset preempted it.
    """
    if not s.k.wants_vectors:
        return True
    return s.k.forall(
        "R",
        lambda r: implies(
            both(live(s, r), pools(s, r)),
            both(s.ntok[r] == s.k.prompt_len(r), s.ph[r] <= 1),
        ),
    )
