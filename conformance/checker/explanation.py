"""What a verdict of VIOLATION explains: values, ready for text, JSON and the page."""

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class RequestView:
    """A request that a decision is about, by the rules, after the decision."""

    id: int
    text: str
    name: str | None = None
    """What the engine calls it; None: the trace does not tell."""


@dataclass(frozen=True, slots=True)
class BlockView:
    """A block of the pool, by the rules, after the decision."""

    id: int
    ref_cnt: int
    chain: int | None
    """The chain number that it carries in the prefix cache."""
    holders: tuple[int, ...]
    """The requests whose tables have it."""
    place: int | None
    """Place in the free queue, from 0; None: it is not free."""


@dataclass(frozen=True, slots=True)
class Like:
    """A departure that a mismatch looks like."""

    name: str
    upstream: str
    story: str
    switch: str


@dataclass(frozen=True, slots=True)
class Tried:
    """What came of judging by other semantics."""

    names: tuple[str, ...] = ()
    """Profiles and single switches with which the rules decide as recorded."""
    tried: str = ""
    """Which switches were tried, in words; empty: none."""
    untried: int = 0
    """Switches that were not, for it would have taken long."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why the rules decide otherwise, whom it concerns, and what to do next."""

    expected: str
    recorded: str
    sentence: str
    note: str
    source: str
    because: tuple[str, ...] = ()
    """The quantities that decided, in the order in which the rules looked at them."""
    totals: str = ""
    """Running, waiting, free, budget."""
    requests: tuple[RequestView, ...] = ()
    blocks: tuple[BlockView, ...] = ()
    before: tuple[tuple[int, str], ...] = ()
    """Line and content of the last records before it."""
    variants: tuple[str, ...] = ()
    """Profiles and single switches with which the rules decide as recorded."""
    tried: str = ""
    """Which switches were tried, in words; empty: none."""
    untried: int = 0
    """Switches that were not, for it would have taken long."""
    like: tuple[Like, ...] = ()
    settings: dict[str, Any] = field(default_factory=dict)
    """Of the header, those that the rule depends on."""
    next: tuple[str, ...] = ()
    """What to do, first things first."""

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)


def when(step: int, scheduled: int) -> str:
    """The step of a decision in words, where so many were scheduled by then."""
    return f"step {step}" + f" (in its update, after step {scheduled})" * (step < scheduled)


def describe(block: BlockView) -> str:
    """A block in words."""
    held = ", ".join(f"request {r}" for r in block.holders[:4])
    state = f"held by {held}" if block.holders else "not held"
    if len(block.holders) > 4:
        state += f" and {len(block.holders) - 4} more"
    if block.place is not None:
        state += f", number {block.place} of the free queue"
    state += ", no hash" if block.chain is None else f", carries chain {block.chain}"
    return f"block {block.id}: ref_cnt {block.ref_cnt}, {state}"
