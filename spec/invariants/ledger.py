"""The ledger that invariants are entered in."""

from collections.abc import Callable

from nullblock.spec.catalogue import register
from nullblock.spec.kernel import State, Value, both

Invariant = Callable[[State], Value]
INVARIANTS: dict[str, Invariant] = {}


def invariant(id: str) -> Callable[[Invariant], Invariant]:
    """Register an invariant under `id`."""

    def enter(f: Invariant) -> Invariant:
        register(id, "invariant", f)
        INVARIANTS[id] = f
        return f

    return enter


def invariants(s: State) -> dict[str, Value]:
    """Every invariant's value in s."""
    return {id: f(s) for id, f in INVARIANTS.items()}


def within(lo: Value, i: Value, hi: Value) -> Value:
    """lo <= i < hi."""
    return both(lo <= i, i < hi)
