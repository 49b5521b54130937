"""The free queue's surgery, for any number of blocks: THEOREM-9 of the reference's own code."""

from typing import Any

import pytest
import z3  # type: ignore[import-untyped]

from nullblock.conformance.adapters.proofs import ENGINE_THEOREMS
from nullblock.reference.free_block_queue import FreeKVCacheBlockQueue, KVCacheBlock
from nullblock.spec.theorems.linked_list import OPERATIONS, Q, surgery
from nullblock.spec.theorems.sequence import HEAD, NODE, NONE, TAIL, Heap, linked
from nullblock.spec.theorems.theorem import follows, hurried

THEOREM = ENGINE_THEOREMS["THEOREM-9"]


def test_the_reference_does_what_the_sequence_says() -> None:
    """Each method, on every path, for any queue and any list: remove, append, append_n, prepend_n,
    popleft, popleft_n.
    """
    found = THEOREM.check()
    assert [str(c) for c in found if c.status != "proved"] == []
    shown = {c.where.partition(".")[2] for c in found}
    assert {op.method for op in OPERATIONS} <= shown
    assert {"remove raises RuntimeError", "popleft raises ValueError"} <= shown
    rounds = {c.where.partition(".")[2] for c in found if c.what.startswith("after a round")}
    assert rounds == {"append_n", "prepend_n", "popleft_n"}, "the loops have been cut"


def test_the_canary_falls() -> None:
    """A `remove` that forgets the link back is not shown."""
    for name in THEOREM.canaries:
        assert any(c.status != "proved" for c in THEOREM.canary(name))


class Unmended(FreeKVCacheBlockQueue):
    """The last block does not lead to the tail."""

    def append_n(self, blocks: list[Any]) -> None:
        tail = self.fake_free_list_tail
        last: Any = tail.prev_free_block
        for block in blocks:
            last.next_free_block = block
            block.prev_free_block = last
            last = block
        tail.prev_free_block = last
        self.num_free_blocks += len(blocks)


class Backwards(FreeKVCacheBlockQueue):
    """What is put back is put back in the other order."""

    def prepend_n(self, blocks: list[Any]) -> None:
        head = self.fake_free_list_head
        following: Any = head.next_free_block
        for block in blocks:
            block.next_free_block = following
            following.prev_free_block = block
            following = block
        head.next_free_block = following
        following.prev_free_block = head
        self.num_free_blocks += len(blocks)


class Uncounted(FreeKVCacheBlockQueue):
    """The taken blocks keep a link, and the queue its count."""

    def popleft_n(self, n: int) -> list[KVCacheBlock]:
        taken: list[KVCacheBlock] = []
        head = self.fake_free_list_head
        block: Any = head.next_free_block
        for _ in range(n):
            taken.append(block)
            following = block.next_free_block
            block.prev_free_block = None
            block = following
        if taken:
            head.next_free_block = block
            block.prev_free_block = head
        return taken


class Greedy(FreeKVCacheBlockQueue):
    """It takes each block's neighbour."""

    def popleft_n(self, n: int) -> list[KVCacheBlock]:
        taken: list[Any] = []
        head = self.fake_free_list_head
        block: Any = head.next_free_block
        for _ in range(n):
            following = block.next_free_block
            taken.append(following)
            block.prev_free_block = block.next_free_block = None
            block = following
        if taken:
            head.next_free_block = block
            block.prev_free_block = head
            self.num_free_blocks -= n
        return taken


@pytest.mark.parametrize(
    ("code", "method", "what"),
    [
        (Unmended, "append_n", "at the end: the link to the next block"),
        (Backwards, "prepend_n", "after a round: the link to the next block"),
        (Uncounted, "popleft_n", "at the end: the count"),
        (Greedy, "popleft_n", "a round takes the next block"),
    ],
)
def test_a_defect_is_not_shown(code: type[Any], method: str, what: str) -> None:
    """The obligation that a defect breaks stays open."""
    with hurried():
        found = surgery(code, method)
    assert what in {c.what for c in found if c.status != "proved"}


def test_a_queue_as_it_is_built_meets_the_premises() -> None:
    """Three blocks in the reference's queue, their links as facts: a model of what the proofs
    assume, so they assume nothing contradictory.
    """
    blocks = [KVCacheBlock(n) for n in range(3)]
    queue = FreeKVCacheBlockQueue(blocks)
    names = {id(b): z3.Const(f"b{n}", NODE) for n, b in enumerate(blocks)}
    names |= {id(queue.fake_free_list_head): HEAD, id(queue.fake_free_list_tail): TAIL}
    names[id(None)] = NONE
    heap, x = Heap.of("0"), z3.Const("x", NODE)
    solver = z3.Solver()
    solver.set("rlimit", 20_000_000)
    solver.add(
        z3.Distinct(*names.values()), z3.ForAll([x], z3.Or(*(x == n for n in names.values())))
    )
    for b in (*blocks, queue.fake_free_list_head, queue.fake_free_list_tail):
        solver.add(heap.next[names[id(b)]] == names[id(b.next_free_block)])
        solver.add(heap.prev[names[id(b)]] == names[id(b.prev_free_block)])
    solver.add(Q.lo == 0, Q.hi == 3, heap.count == queue.num_free_blocks)
    for n, b in enumerate(blocks):
        solver.add(Q.at(n) == names[id(b)], Q.place(names[id(b)]) == n, Q.has(names[id(b)]))
    solver.add(*linked(heap, Q).values(), Q.sound())
    solver.add(z3.Not(Q.has(HEAD)), z3.Not(Q.has(TAIL)), z3.Not(Q.has(NONE)))
    assert solver.check() == z3.sat
    assert not follows([*linked(heap, Q).values(), Q.sound()], z3.BoolVal(False), ((0, 1),))
