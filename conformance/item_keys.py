"""What identifies the blocks of requests with encoder inputs: which are found in which block."""

from collections.abc import Iterable, Sequence

from nullblock.spec.facts import Item
from nullblock.spec.keys import ItemKey, find_items
from nullblock.spec.profiles import Semantics

Found = tuple[ItemKey, ...]


class ItemKeys:
    """Which items are found in which block: how they are looked for depends on what is hashed at
    once.
    """

    def __init__(self, semantics: Semantics) -> None:
        self.semantics = semantics
        self.batches: dict[str, list[range]] = {}
        """By request, the blocks that are hashed at once: of its prompt, of a chunk."""
        self.first: dict[str, int] = {}
        """By request, the item from which the next block's are looked for."""

    def introduce(self, r: str, blocks: int) -> None:
        """So many blocks are full when r arrives."""
        self.batches[r], self.first[r] = [range(blocks)], 0

    def extend(self, r: str, hashed: int, blocks: int) -> None:
        """A chunk of session r fills those from `hashed` to before `blocks`."""
        self.batches[r].append(range(hashed, blocks))

    def of_hash(self, r: str, items: Sequence[Item], n: int, size: int) -> Found:
        """Those in block n of r, asked block by block."""
        block, first = range(n * size, (n + 1) * size), self.first[r]
        alone = n > 0 and not any(n in batch and n > batch.start for batch in self.batches[r])
        found, self.first[r] = find_items(self.semantics, items, block, first, alone)
        return found

    def of_event(self, items: Sequence[Item], blocks: Iterable[int], size: int) -> list[Found]:
        """Those in blocks that are stored together."""
        told, first = list[Found](), 0
        for n in blocks:
            block = range(n * size, (n + 1) * size)
            found, first = find_items(self.semantics, items, block, first, alone=False)
            told.append(found)
        return told
