"""What scopes have to reach in which requests want a vector."""

from collections.abc import Callable

from nullblock.spec.fields import PREEMPTED
from nullblock.spec.kernel import State

POOLING_WITNESSES: dict[str, str] = {
    "stop-vector": "a request stops with its vector",
    "vector-to-preempted": "a preempted request takes its vector",
    "vector-despite-reset": "a request takes a vector from before a reset, another in flight",
}


class PoolingWatch:
    """Notes them."""

    reached: set[str]

    def pooling_handlers(self) -> dict[str, Callable[[State], None]]:
        """What is called after which rule of vectors."""
        return {"UPD-51": self.took_vector}

    def took_vector(self, s: State) -> None:
        """UPD-51: a request takes a vector."""
        r = s.taker
        if s.stage[r] == PREEMPTED:
            self.reached.add("vector-to-preempted")
        if s.ph[r] or s.drop[r]:
            # At most one is to be taken, so this one was to be dropped.
            self.reached.add("vector-despite-reset")
