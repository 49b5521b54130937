"""A state between two actions as a picture shows it: blocks and requests, as plain values."""

from dataclasses import dataclass
from typing import Any

from nullblock.spec.kernel import State
from nullblock.spec.names import STATUS
from nullblock.spec.sessions import prompt
from nullblock.spec.state import live, place


@dataclass(frozen=True, slots=True)
class BlockFrame:
    """A block of the pool."""

    id: int
    ref: int
    hash: int | None
    """The number of the chain of tokens that a lookup finds it by; None: no content."""
    owners: tuple[str, ...]
    """The requests whose tables have it."""
    place: int | None
    """Place in the free queue, from 0; None: it is not in it."""


@dataclass(frozen=True, slots=True)
class RequestFrame:
    """A request that the engine knows."""

    id: str
    status: str
    computed: int
    """Tokens whose content is computed or being computed."""
    tokens: int
    """Tokens known: prompt and output."""
    prompt: int
    tables: tuple[tuple[int, ...], ...]
    """Block ids, of each KV-cache group."""
    flying: int
    """Tokens in flight that it will take."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A state."""

    blocks: tuple[BlockFrame, ...]
    running: tuple[RequestFrame, ...]
    """In the order of the running list."""
    waiting: tuple[RequestFrame, ...]
    """In the order of the queue."""

    @property
    def free(self) -> tuple[BlockFrame, ...]:
        """The free queue, the block that is given out next first."""
        found = [b for b in self.blocks if b.place is not None]
        return tuple(sorted(found, key=lambda b: b.place or 0))


def frame(s: State) -> Frame:
    """What there is to see of s."""
    places = sorted((b for b in s.k.domain("B") if s.stamp[b]), key=lambda b: s.stamp[b])
    running = [s.run[i] for i in range(s.nr)]
    queue = sorted(s.waitset, key=lambda r: place(s, r))
    tables = {r: _tables(s, r) for r in s.k.requests if live(s, r) or r in running}
    blocks = tuple(
        BlockFrame(
            b,
            s.ref[b],
            s.hsh[b],
            tuple(r for r, found in tables.items() if any(b in table for table in found)),
            places.index(b) if b in places else None,
        )
        for b in s.k.domain("B")
    )
    return Frame(
        blocks, tuple(_request(s, r) for r in running), tuple(_request(s, r) for r in queue)
    )


def _tables(s: State, r: Any) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(s.tab[t, i] for i in range(s.tlen[t])) for t in s.k.tables(r))


def _request(s: State, r: Any) -> RequestFrame:
    status = STATUS.get(s.stage[r], "LEAVING")
    return RequestFrame(r, status, s.comp[r], s.ntok[r], prompt(s, r), _tables(s, r), s.ph[r])
