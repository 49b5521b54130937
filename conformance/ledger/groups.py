"""How statements are put together: groups of rows, and families within a group."""

from dataclasses import dataclass
from typing import Final

GROUPS: Final[dict[str, tuple[str, str]]] = {
    "invariant": ("Invariants", "What holds in every state, or of every step."),
    "theorem": (
        "Theorems",
        "What follows from the invariants and the rules; what a proof rests on stands behind it.",
    ),
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


@dataclass(frozen=True, slots=True)
class Table:
    """How exhibits of one kind are shown."""

    title: str
    about: str
    head: tuple[str, ...]
    command: str


EXHIBITS: Final[dict[str, Table]] = {
    "departure": Table(
        "Departures of vLLM 0.22.1, found again from the rules",
        "Where that release breaks a statement: the explorer finds each by itself, by a shortest "
        "way, and in the normative profile none of them.",
        ("departure", "what happens", "upstream", "breaks", "actions", "normative"),
        "nullblock explore --departures",
    ),
    "condition": Table(
        "What progress takes",
        "Everybody is served in the end under these conditions. Each is needed: where it alone is "
        "violated, somebody is never served.",
        ("condition", "what it says", "who sees to it", "without it falls"),
        "nullblock explore --liveness --preconditions",
    ),
}
"""In the order in which they are shown."""

FAMILIES: Final[dict[str, str]] = {
    "POOL": "the block pool",
    "QUEUE": "the free queue",
    "HASH": "hashes and the prefix cache",
    "TABLE": "block tables",
    "GROUP": "layers that see a part of the past, and several KV-cache groups",
    "ALLOC": "allocation",
    "RUN": "running requests and the step",
    "WAIT": "the waiting queue and admission",
    "PREEMPT": "preemption",
    "OUT": "what the worker is told",
    "UPD": "outputs that come back",
    "ENC": "encoder inputs",
    "SESS": "streaming sessions",
    "REMOTE": "KV that other engines have computed",
    "LIFE": "arrival, end, and everything from outside",
    "LIVE": "what happens in the end",
    "THEOREM": "theorems",
    "EVENT": "KV events",
}


def family(id: str) -> str:
    """The family of a statement, in words; empty for what has none."""
    return FAMILIES.get(id.partition("-")[0], "")
