"""What identifies the blocks of requests with encoder inputs: which are found in which block."""

from collections.abc import Iterable, Sequence

from nullblock.spec.facts import Item
from nullblock.spec.keys import ItemKey, items_from, items_in
from nullblock.spec.profiles import Semantics

Found = tuple[ItemKey, ...]


class ItemKeys:
    """Finds the items of blocks as vLLM 0.22.1 does, where its keys are asked for; else all."""

    def __init__(self, semantics: Semantics) -> None:
        self.finds_all = semantics.extra_keys_tagged
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
        start, end = n * size, (n + 1) * size
        if self.finds_all:
            return items_in(items, start, end)
        if n and not any(n in batch and n > batch.start for batch in self.batches[r]):
            self.first[r] = max(0, len(items) - 1)
        found, self.first[r] = items_from(items, start, end, self.first[r])
        return found

    def of_event(self, items: Sequence[Item], blocks: Iterable[int], size: int) -> list[Found]:
        """Those in blocks that are stored together."""
        told, first = list[Found](), 0
        for n in blocks:
            if self.finds_all:
                told.append(items_in(items, n * size, (n + 1) * size))
                continue
            found, first = items_from(items, n * size, (n + 1) * size, first)
            told.append(found)
        return told
