"""What is kept of a call of the engine until it is told: as little as tells it.

Nothing of the engine's is held that it would let go of at once: memory is quickest used again.
Lists that run in parallel are in schedule order, and are never changed: calls share them.

What waits here is counted by Python's garbage collector, which looks through all that is young
whenever there are 700 more of it. So these are no objects that it counts (none of them refers to
itself), and hold few.
"""

from array import array
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import compress
from operator import ne
from sys import byteorder
from typing import Any

from msgspec import Struct

Many = bytes | list[int]
"""A number for each: bytes, which are compared and counted in no time, where no number is larger
than a byte."""


OfStep = tuple[list[tuple[str, int]], list[str], list[tuple[str, bool]], list[tuple[str, int]]]
"""Items that a step computes, whose and where, and what is evicted; what an encoder connector
answers, and of which items it is told, whose and where."""


def lengths(of: Collection[Any]) -> Many:
    """How long each is."""
    try:
        return bytes(map(len, of))
    except ValueError:
        return list(map(len, of))


def differing(one: Many, other: Many) -> list[int]:
    """The places where these, equally long, have different numbers."""
    if not (isinstance(one, bytes) and isinstance(other, bytes)):
        return list(compress(range(len(one)), map(ne, one, other)))
    found = int.from_bytes(one, byteorder) ^ int.from_bytes(other, byteorder)
    return list(compress(range(len(one)), found.to_bytes(len(one), byteorder))) if found else []


class Counts(Struct, gc=False, eq=False):
    """What is cheap to know of the state."""

    free: int
    running: int
    waiting: int

    def each(self) -> tuple[int, int, int]:
        """One after another."""
        return self.free, self.running, self.waiting


class New(Struct, gc=False, eq=False):
    """A request that the worker has not seen."""

    id: str
    computed: int
    blocks: Any
    owed: bool
    """Whether it gets a token from the step."""
    prefill: int | None
    """Tokens that are sent besides the prompt's own; None: none."""


class Others(Struct, gc=False, eq=False):
    """What few steps have: whoever does not just go on."""

    new: list[New]
    resumed: list[str]
    sent: dict[str, int]
    """Tokens sent again."""
    preempted: list[str]
    finished: list[str]


NO_OTHERS = Others([], [], {}, [], [])
NOBODY: list[Any] = []
"""A list that calls share."""


def spread(blocks: Any) -> Any:
    """The blocks of one, by group; ``blocks`` as ``Seen`` has them."""
    return ((blocks,),) if isinstance(blocks, int) else blocks


class Seen(Struct, gc=False, eq=False):
    """A step that was decided."""

    number: int
    decided: Any
    """The scheduler's output, until its update: kept, so that its identity is nobody else's."""
    ids: list[str]
    """One list for steps in a row that are equal in this; so are the tokens."""
    tokens: list[int]
    known: list[str]
    """Those that the worker has seen; ``ids``, where that is everybody."""
    words: "array[int] | None"
    """Of those: their computed tokens, then their outputs; None where a count has no word."""
    gets: list[str]
    """Those of them that got blocks."""
    blocks: Sequence[Any]
    """What each of these got: a number where it is one block of the only group, else what the
    engine says, by group."""
    others: Others
    prefix: list[int]
    counted: Counts | None
    lists: tuple[list[int], list[int]] = ([], [])
    """What ``words`` has, where there are none."""
    drafts: Many | None = None
    """How many each has; None: nobody has any."""
    hashes: list[list[bytes]] | None = None
    """Each one's block hashes, which grow by themselves; None where positions tell who fills a
    block."""
    alike: bool = False
    """Whether it is like the one before: the same requests, a token each, nothing else."""
    odd: bool = False
    """Whether it is like the one before but for the counts."""
    encoder: OfStep | None = None
    """What there is of encoder inputs; None: nothing."""
    zeroed: list[int] | None = None
    """Blocks that workers zero before it; None: there are none."""
    compiled: list[str] | None = None
    """Whose grammars were found to be compiled; None: nobody's."""
    asked: list[dict[str, Any]] | None = None
    """What a KV connector answered; None: it was not asked."""
    loose: bool = False
    """Whether tokens may end elsewhere than the step says: somebody was preempted meanwhile."""

    def counts(self) -> tuple[list[int], list[int]]:
        """Computed tokens and outputs of those that the worker has seen."""
        if self.words is None:
            return self.lists
        many, words = len(self.known), self.words.tolist()
        return words[:many], words[many:]

    def facts(self, start: int, new: Iterable[New]) -> Iterator[tuple[str, tuple[int, int]]]:
        """Computed tokens and outputs of new requests, and of known ones from a place on, as far
        as a worker is told: it takes a new one to have none.
        """
        for request in new:
            yield request.id, (request.computed, 0)
        if start < len(self.known):
            computed, outputs = self.counts()
            pairs = zip(computed[start:], outputs[start:], strict=True)
            yield from zip(self.known[start:], pairs, strict=True)


class Taken(Struct, gc=False, eq=False):
    """An output that was taken in, and what the engine made of it."""

    step: Seen
    tokens: Many | None
    """How many were sampled; None: one each."""
    frames: Any
    """The tokens, where one of them ends some request; else None."""
    passed_on: tuple[list[str], Many] | None
    """Who got an output, and how many tokens; None: everybody, what was sampled."""
    ended: list[Any]
    """Outputs that say so."""
    full: list[int] | None
    """How many block hashes each has, where they are looked up."""
    counted: Counts | None
    remote: dict[str, Any] | None = None
    """What workers of a KV connector reported with it; None: nothing."""

    @property
    def plain(self) -> bool:
        """Whether everybody got one token, which ended nobody."""
        odd = self.frames is not None or self.passed_on is not None or self.ended
        return self.tokens is None and not odd


class Arrival(Struct, gc=False, eq=False):
    """A request that was taken."""

    request: Any
    features: list[str]
    blocks: int
    """Full ones of its prompt."""
    tokens: int
    """Those that it has."""


class Proposal(Struct, gc=False, eq=False):
    """Drafts for the steps to come."""

    ids: list[str]
    counts: Many


Entry = Seen | Taken | Arrival | Proposal
