"""How statements are put together: groups of rows, and families within a group."""

from typing import Final

GROUPS: Final[dict[str, tuple[str, str]]] = {
    "invariant": ("Invariants", "What holds in every state, or of every step."),
    "theorem": ("Theorems", "What follows from the invariants."),
    "liveness": ("Progress", "What happens in the end."),
    "helper": ("Helpers", "Functions that rules and engines compute with."),
    "rule": (
        "Rules",
        "What a step does, one change at a time. Proved: it keeps every invariant. Exhaustive: it "
        "fires only where it may.",
    ),
    "clause": ("Readings", "What rules and reports read off a state: who is next, what is told."),
}
"""In the order in which they are shown."""

FAMILIES: Final[dict[str, str]] = {
    "POOL": "the block pool",
    "QUEUE": "the free queue",
    "HASH": "hashes and the prefix cache",
    "TABLE": "block tables",
    "ALLOC": "allocation",
    "RUN": "running requests and the step",
    "WAIT": "the waiting queue and admission",
    "PREEMPT": "preemption",
    "OUT": "what the worker is told",
    "UPD": "outputs that come back",
    "LIFE": "arrival, end, and everything from outside",
    "EVENT": "KV events",
}


def family(id: str) -> str:
    """The family of a statement, in words; empty for what has none."""
    return FAMILIES.get(id.partition("-")[0], "")
