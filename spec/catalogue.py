"""Every statement of the specification, by its ID.

A statement is one testable sentence. `rules/` and `machine/` say what a step does, `invariants.py`
says what holds between any two rules. The decorator that registers a statement takes the sentence
from the first line of the definition's docstring, so prose, code and ID cannot drift apart. IDs
are `FAMILY-n` and never reused.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, Literal, TypeVar

FAMILIES = (
    "POOL",
    "QUEUE",
    "HASH",
    "TABLE",
    "GROUP",
    "ALLOC",
    "RUN",
    "WAIT",
    "PREEMPT",
    "OUT",
    "UPD",
    "DRAFT",
    "ENC",
    "SESS",
    "REMOTE",
    "LIFE",
    "LIVE",
    "EVENT",
    "THEOREM",
)
F = TypeVar("F", bound=Callable[..., Any])
Kind = Literal["rule", "clause", "invariant", "theorem", "witness", "liveness"]
_ID = re.compile(rf"(?:{'|'.join(FAMILIES)})-[1-9][0-9]*")


@dataclass(frozen=True, slots=True)
class Statement:
    """One sentence of the specification and the text that defines it."""

    id: str
    kind: Kind
    sentence: str
    note: str
    source: str
    definition: str
    """Module and name of the defining function."""
    file: str
    line: int


CATALOGUE: dict[str, Statement] = {}


def register(id: str, kind: Kind, definition: Callable[..., Any]) -> None:
    """Enter `definition` under `id`.

    Raises ValueError for a malformed or reused ID and for a missing docstring.
    """
    if not _ID.fullmatch(id):
        raise ValueError(f"{id!r} is not FAMILY-n with a family of {', '.join(FAMILIES)}")
    code = definition.__code__
    where = f"{definition.__module__}.{definition.__qualname__}"
    if id in CATALOGUE and CATALOGUE[id].definition != where:
        raise ValueError(f"{id} is defined twice: {CATALOGUE[id].definition} and {where}")
    doc = " ".join((definition.__doc__ or "").split())
    if not doc:
        raise ValueError(f"{id}: {where} has no docstring to take the sentence from")
    text, _, source = doc.partition("Source:")
    sentence, stop, note = text.partition(". ")
    CATALOGUE[id] = Statement(
        id=id,
        kind=kind,
        sentence=sentence.strip().rstrip(".") + ".",
        note=note.strip() if stop else "",
        source=source.strip(),
        definition=where,
        file=code.co_filename,
        line=code.co_firstlineno,
    )


def clause(id: str) -> Callable[[F], F]:
    """Register a reading: a decision that rules and machine refer to."""

    def enter(f: F) -> F:
        register(id, "clause", f)
        return f

    return enter


def order(id: str) -> tuple[int, int]:
    """Sort key: families in the order of a request's way through the engine, then numbers."""
    family, _, number = id.partition("-")
    return FAMILIES.index(family), int(number)


MODULES = (
    "nullblock.spec.state",
    "nullblock.spec.flight",
    "nullblock.spec.later",
    "nullblock.spec.facts",
    "nullblock.spec.keys",
    "nullblock.spec.cache_events",
    "nullblock.spec.drafts",
    "nullblock.spec.waiting",
    "nullblock.spec.groups",
    "nullblock.spec.mamba",
    "nullblock.spec.aligned",
    "nullblock.spec.prompt_states",
    "nullblock.spec.encoder",
    "nullblock.spec.cross",
    "nullblock.spec.sessions",
    "nullblock.spec.turns",
    "nullblock.spec.pooling",
    "nullblock.spec.rules.pool",
    "nullblock.spec.rules.lookup",
    "nullblock.spec.rules.queues",
    "nullblock.spec.rules.steps",
    "nullblock.spec.rules.drafts",
    "nullblock.spec.rules.waiting",
    "nullblock.spec.rules.groups",
    "nullblock.spec.rules.aligned",
    "nullblock.spec.rules.loaded",
    "nullblock.spec.rules.encoder",
    "nullblock.spec.rules.cross",
    "nullblock.spec.rules.sessions",
    "nullblock.spec.rules.pooling",
    "nullblock.spec.machine.schedule",
    "nullblock.spec.machine.update",
    "nullblock.spec.machine.events",
    "nullblock.spec.machine.output",
    "nullblock.spec.invariants",
    "nullblock.spec.explorer.transitions",
    "nullblock.spec.explorer.liveness",
    "nullblock.spec.liveness.properties",
    "nullblock.spec.liveness.ranking",
    "nullblock.spec.liveness.line",
    "nullblock.spec.kv_events.law",
)
"""Where statements are defined, but for theorems."""
THEOREMS = "nullblock.spec.theorems"
"""Where those are: it loads Z3, which takes longer than judging a short trace."""


def catalogue() -> list[Statement]:
    """Every statement but the theorems, in the order of `order`."""
    for module in MODULES:
        import_module(module)
    return sorted((s for s in CATALOGUE.values() if s.kind != "theorem"), key=_place)


@cache
def is_gone(id: str) -> bool:
    """Whether that is the ID of a statement that is no more, or never was."""
    catalogue()
    return bool(_ID.fullmatch(id)) and id not in CATALOGUE and not id.startswith("THEOREM-")


def everything() -> list[Statement]:
    """Every statement, theorems among them, in the order of `order`."""
    catalogue()
    import_module(THEOREMS)
    return sorted(CATALOGUE.values(), key=_place)


def _place(statement: Statement) -> tuple[int, int]:
    return order(statement.id)
