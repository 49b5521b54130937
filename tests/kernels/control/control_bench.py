"""Nothing but a pool: the kernels on blocks, beside lists that say what they should do."""

import random

import torch
import triton
import triton.language as tl

from nullblock.kernels.arguments import Backend
from nullblock.kernels.control.cache import find, find_torch, insert, insert_torch, make_index_room
from nullblock.kernels.control.compact import compact_queue
from nullblock.kernels.control.evict import evict_blocks
from nullblock.kernels.control.faults import raise_if
from nullblock.kernels.control.release import release_rows
from nullblock.kernels.control.ring import free_blocks
from nullblock.kernels.control.sizes import Sizes
from nullblock.kernels.control.state import new_state
from nullblock.kernels.control.take import take_blocks
from nullblock.kernels.control.touch import touch_blocks
from nullblock.kernels.control.words import HEAD, NUM_FREE, SLOTS_USED, STAMP, TAIL


@triton.jit
def _insert_kernel(a, blocks, keys, n, z: tl.constexpr):
    """Cache n blocks under keys whose second word is 7."""
    lane = tl.arange(0, z.lanes)
    there = lane < n
    block = tl.load(blocks + lane, mask=there, other=0)
    key = tl.load(keys + 2 * lane, mask=there, other=0)
    used = make_index_room(a, tl.load(a.words + SLOTS_USED).to(tl.int32), n, z)
    stamp = tl.load(a.words + STAMP)
    used += insert(a, block, key, tl.load(keys + 2 * lane + 1, mask=there), there, stamp, z)
    tl.debug_barrier()
    tl.store(a.words + SLOTS_USED, used.to(tl.int64))
    tl.store(a.words + STAMP, stamp + n)


@triton.jit
def _find_kernel(a, keys, n, found, z: tl.constexpr):
    """The block of each of n keys."""
    lane = tl.arange(0, z.lanes)
    there = lane < n
    key = tl.load(keys + 2 * lane, mask=there, other=0)
    second = tl.load(keys + 2 * lane + 1, mask=there, other=0)
    tl.store(found + lane, find(a, key, second, there, z), mask=there)


CPU = torch.device("cpu")


def place_of(backend: Backend, device: torch.device) -> torch.device:
    """Where the tensors of a backend lie: kernels run on a device, their twins on a CPU."""
    return device if backend == "triton" else CPU


def ints(values: list[int], device: torch.device = CPU) -> torch.Tensor:
    """int32, as kernels take lists of blocks and rows."""
    return torch.tensor(values, dtype=torch.int32, device=device)


class Bench:
    """A pool by kernels, on a device, or by their twins, on a CPU; and by lists."""

    def __init__(
        self,
        num_blocks: int,
        unhashed_first: bool,
        backend: Backend,
        lanes: int = 4,
        device: torch.device = CPU,
    ) -> None:
        self.backend, self.device = backend, place_of(backend, device)
        sizes = Sizes(num_blocks, 2, 5, 60, 9, freed_unhashed_first=unhashed_first, lanes=lanes)
        self.state = new_state(sizes, self.device, seed=0)
        self.free = list(range(1, num_blocks))
        self.ref = [0] * num_blocks
        self.cached: dict[int, list[int]] = {}
        """Blocks by key, first one first."""
        self.unhashed_first = unhashed_first
        self.compactions = self.rebuilds = 0

    def key_of(self, block: int) -> int:
        """What a block is cached under; 0: nothing."""
        return next((key for key, held in self.cached.items() if block in held), 0)

    def take(self, n: int) -> None:
        """POOL-10."""
        blocks = take_blocks(self.state, n, self.backend)
        assert blocks.tolist() == self.free[:n]
        for block in self.free[:n]:
            self.ref[block] = 1
            self._forget(block)
        del self.free[:n]
        self.same()

    def touch(self, blocks: list[int]) -> None:
        """POOL-11."""
        touch_blocks(self.state, ints(blocks, self.device), self.backend)
        for block in blocks:
            if not self.ref[block]:
                self.free.remove(block)
            self.ref[block] += 1
        self.same()

    def release(self, tables: list[list[int]]) -> None:
        """POOL-12: requests with these tables leave, in this order."""
        requests = self.state.arrays.requests
        for row, table in enumerate(tables):
            requests.table[row, : len(table)] = ints(table)
            requests.num_blocks[row] = len(table)
        before = self.state.word(TAIL) - self.state.word(HEAD)
        release_rows(self.state, ints([*range(len(tables))], self.device), self.backend)
        self.compactions += self.state.word(TAIL) - self.state.word(HEAD) < before
        for table in tables:
            freed = []
            for block in reversed(table):
                self.ref[block] -= 1
                freed += [] if self.ref[block] else [block]
            front = [b for b in freed if self.unhashed_first and not self.key_of(b)]
            self.free = front + self.free + [b for b in freed if b not in front]
        assert not requests.num_blocks.any()
        self.same()

    def insert(self, blocks: list[int], keys: list[int]) -> None:
        """HASH-12."""
        given, words = ints(blocks, self.device), self._words(keys)
        before = self.state.word(SLOTS_USED)
        if self.backend == "triton":
            _insert_kernel[(1,)](self.state.arrays, given, words, len(blocks), self.state.sizes)
        else:
            insert_torch(self.state, given, words)
        self.rebuilds += self.state.word(SLOTS_USED) < before
        for block, key in zip(blocks, keys, strict=True):
            self.cached.setdefault(key, []).append(block)
        self.same()

    def evict(self, blocks: list[int]) -> None:
        """HASH-13."""
        evict_blocks(self.state, ints(blocks, self.device), self.backend)
        for block in blocks:
            self._forget(block)
        self.same()

    def _forget(self, block: int) -> None:
        if key := self.key_of(block):
            self.cached[key].remove(block)
            if not self.cached[key]:
                del self.cached[key]

    def compact(self) -> None:
        """QUEUE-10."""
        compact_queue(self.state, self.backend)
        self.same()
        assert self.state.word(TAIL) - self.state.word(HEAD) == len(self.free)

    def find(self, keys: list[int]) -> list[int]:
        """HASH-10: the block of each key; 0: none."""
        words = self._words(keys)
        if self.backend != "triton":
            return [find_torch(self.state, word) for word in words]
        found = ints([-1] * len(keys), self.device)
        _find_kernel[(1,)](self.state.arrays, words, len(keys), found, self.state.sizes)
        return found.tolist()

    def _words(self, keys: list[int]) -> torch.Tensor:
        """Both words of keys."""
        return torch.tensor([[key, 7] for key in keys], device=self.device)

    def same(self) -> None:
        """Queue, counts, and index are those of the lists; scratch is clean."""
        state = self.state
        raise_if(state.arrays.error)
        pool, cache, scratch = state.arrays.pool, state.arrays.cache, state.arrays.scratch
        assert free_blocks(state).tolist() == self.free
        assert state.word(NUM_FREE) == len(self.free)
        assert pool.ref_cnt.tolist() == self.ref
        positions = pool.position.tolist()
        assert [b for b, p in enumerate(positions) if p >= 0] == sorted(self.free)
        for block in self.free:
            assert int(pool.ring[positions[block] % len(pool.ring)]) == block
        assert int((pool.ring >= 0).sum()) == len(self.free)
        carried = cache.carried[:, 0].tolist()
        assert carried == [self.key_of(block) for block in range(len(carried))]
        for held in self.cached.values():
            assert sorted(held, key=lambda block: int(cache.stamp[block])) == held
            assert [int(cache.slots[int(cache.slot[block])]) for block in held] == held
        assert int((cache.slots >= 0).sum()) == sum(map(len, self.cached.values()))
        assert not scratch.releases.any() and bool((scratch.last == -1).all())


def at_random(seed: int, backend: Backend, turns: int, device: torch.device = CPU) -> Bench:
    """Any calls in any order; a failure names the seed."""
    rng = random.Random(seed)
    bench = Bench(rng.choice([2, 3, 6, 9, 13]), rng.random() < 0.5, backend, device=device)
    held: list[list[int]] = []
    print(f"seed {seed}, {backend}, {bench.state.sizes}")
    for _ in range(turns):
        what = rng.random()
        if what < 0.25 and bench.free:
            n = rng.randint(1, len(bench.free))
            held.append(bench.free[:n])
            bench.take(n)
        elif what < 0.5:
            hits = rng.sample(range(1, len(bench.ref)), rng.randint(1, len(bench.ref) - 1))
            bench.touch(hits)
            held.append(hits)
        elif what < 0.6:
            bare = [b for b in range(1, len(bench.ref)) if not bench.key_of(b)]
            some = rng.sample(bare, min(len(bare), rng.randint(0, 4)))
            bench.insert(some, [rng.randint(1, 3) for _ in some])
        elif what < 0.65:
            some = rng.sample(range(len(bench.ref)), rng.randint(1, len(bench.ref)))
            bench.evict(some)
        elif what < 0.68:
            bench.compact()
        keys = [1, 2, 3, 4]
        assert bench.find(keys) == [bench.cached.get(key, [0])[0] for key in keys]
        while len(held) > 4 or (held and rng.random() < 0.35):
            n = rng.randint(1, len(held))
            bench.release(held[:n])
            del held[:n]
    return bench
