"""Inputs that come between steps, and have nothing decided with them."""

from nullblock.conformance.trace.base import BlockId, Line, PauseName, RequestNumber


class Pause(Line, frozen=True, kw_only=True, tag="pause"):
    """Input: how much may be scheduled from now on."""

    pause_state: PauseName


class Compiled(Line, frozen=True, kw_only=True, tag="compiled"):
    """Input: the grammars of requests are compiled."""

    ids: list[RequestNumber]


class Evict(Line, frozen=True, kw_only=True, tag="evict"):
    """Input: blocks are taken out of the prefix cache."""

    blocks: list[BlockId]
    """Where a header's ``block_ids`` is ``absent`` the list is empty, and says nothing."""


class Feature(Line, frozen=True, kw_only=True, tag="feature"):
    """Input: the engine was told something that decides, and that no other record tells."""

    name: str
    """As in the ``features`` of a header: whoever does not know it cannot judge what follows."""
