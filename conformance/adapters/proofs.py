"""Theorems about the code of an engine, which the specification may not import."""

from nullblock.reference.free_block_queue import FreeKVCacheBlockQueue
from nullblock.spec.catalogue import CATALOGUE
from nullblock.spec.theorems.linked_list import ASSUMES, ENGINE, ID, surgery
from nullblock.spec.theorems.theorem import Found, Theorem


class _Unlinked(FreeKVCacheBlockQueue):
    """A queue whose `remove` forgets the link back."""

    def remove(self, block):  # type: ignore[no-untyped-def]
        before, after = block.prev_free_block, block.next_free_block
        before.next_free_block = after
        block.prev_free_block = block.next_free_block = None
        self.num_free_blocks -= 1


def reference_queue() -> Found:
    """The reference's free queue, method by method."""
    return surgery(FreeKVCacheBlockQueue)


ENGINE_THEOREMS: dict[str, Theorem] = {
    ID: Theorem(
        ID,
        CATALOGUE[ID].sentence,
        ENGINE,
        ("QUEUE-1", "QUEUE-2", "THEOREM-10"),
        ASSUMES,
        reference_queue,
        {"the link back is forgotten": lambda: surgery(_Unlinked, "remove")},
    )
}
"""By ID, as `nullblock.spec.theorems.THEOREMS`."""
