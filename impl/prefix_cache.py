"""The prefix cache: which block holds which content.

The content of a full block, with all that comes before it, is a :class:`Chain`. Equal content is one
and the same object, found by the tokens themselves: no hash can collide, and a chain that no request
and no block refers to is gone.
"""

from typing import Any
from weakref import WeakValueDictionary

Extra = tuple[Any, ...]


class Chain:
    """The content of one full block and of all blocks before it."""

    __slots__ = ("__weakref__", "blocks", "content")

    def __init__(self, content: "Content") -> None:
        self.content = content
        self.blocks: list[int] = []
        """Blocks with this content, the one cached first first (HASH-15)."""


Content = tuple[Chain | None, bytes, Extra]
"""What comes before a block, its tokens as bytes, and what else tells it from others."""


class PrefixCache:
    """Chains by content, and the chain that each block carries."""

    def __init__(self, num_blocks: int) -> None:
        self._chains: WeakValueDictionary[Content, Chain] = WeakValueDictionary()
        self.carried: list[Chain | None] = [None] * num_blocks
        """By block."""

    def chain(self, parent: Chain | None, tokens: bytes, extra: Extra) -> Chain:
        """The chain of a block with these tokens (as bytes) after `parent`."""
        key = (parent, tokens, extra)
        found = self._chains.get(key)
        if found is None:
            found = self._chains[key] = Chain(key)
        return found

    def insert(self, block: int, chain: Chain) -> None:
        """A block that carries nothing is cached."""
        self.carried[block] = chain
        chain.blocks.append(block)

    def evict(self, block: int) -> None:
        """A block is cached no more; nothing happens to one that is not."""
        chain = self.carried[block]
        if chain is not None:
            self.carried[block] = None
            chain.blocks.remove(block)

    def clear(self) -> None:
        """Nothing is cached."""
        for block, chain in enumerate(self.carried):
            if chain is not None:
                self.evict(block)
