"""The block tables of one KV-cache group: what all kinds of layers have in common."""

from abc import ABC, abstractmethod
from collections import defaultdict, deque
from collections.abc import Sequence

from nullblock.reference.block_pool import BlockPool
from nullblock.reference.kv_cache_interface import (
    AttentionSpec,
    FullAttentionSpec,
    KVCacheSpec,
    TQFullAttentionSpec,
)
from nullblock.reference.kv_cache_utils import BlockHashList, KVCacheBlock
from nullblock.reference.request import Request
from nullblock.reference.utils import cdiv

MOST_UNTAKEN = 2**22
"""Ids of new blocks that are kept for whoever takes them: more than a step ever takes."""


class SingleTypeKVCacheManager(ABC):
    """Block tables that grow at the end, until a request gives its blocks back.

    ``req_to_blocks[id]`` is a request's table: block ``i`` holds its tokens ``[i*bs, (i+1)*bs)``,
    or is the null block where no later token needs them. ``num_cached_block[id]`` says how many
    of them the prefix cache was offered; there is no entry before the first one was.

    Args:
        dcp_world_size, pcp_world_size: ranks of context parallelism, in decode and in prefill.
        max_admission_blocks_per_request: what a request of this kind ever holds at once; None if
            it holds all its blocks to the end.
    """

    def __init__(
        self,
        kv_cache_spec: KVCacheSpec,
        block_pool: BlockPool,
        enable_caching: bool,
        kv_cache_group_id: int,
        dcp_world_size: int = 1,
        pcp_world_size: int = 1,
        max_admission_blocks_per_request: int | None = None,
    ) -> None:
        self.kv_cache_spec = kv_cache_spec
        self.dcp_world_size, self.pcp_world_size = dcp_world_size, pcp_world_size
        # A block is divided among the ranks of context parallelism: it has a part on each.
        self.block_size = kv_cache_spec.block_size * dcp_world_size * pcp_world_size
        self.block_pool = block_pool
        self.enable_caching = enable_caching
        self.kv_cache_group_id = kv_cache_group_id
        self._max_admission_blocks_per_request = max_admission_blocks_per_request
        self.req_to_blocks: defaultdict[str, list[KVCacheBlock]] = defaultdict(list)
        self.num_cached_block: dict[str, int] = {}
        self.drops_hit = False
        """Whether a look-up drops the last block that it hits: its coordinator knows."""
        # Where no worker zeroes any, nobody takes them, and in vLLM they pile up for ever.
        self.new_block_ids = deque[int](maxlen=MOST_UNTAKEN)
        # vLLM 0.22.1 asks for the exact kind: blocks of kinds derived from these are not zeroed.
        self.tells_new_blocks = (
            isinstance(kv_cache_spec, AttentionSpec)
            if block_pool.semantics.windows_zeroed
            else type(kv_cache_spec) in (FullAttentionSpec, TQFullAttentionSpec)
        )
        """Whether somebody wants to know which blocks were taken, to zero them."""
        self._null_block = block_pool.null_block

    def get_num_blocks_to_allocate(
        self,
        request_id: str,
        num_tokens: int,
        new_computed_blocks: Sequence[KVCacheBlock],
        total_computed_tokens: int,
        num_tokens_main_model: int,
        apply_admission_cap: bool = False,
    ) -> int:
        """How many free blocks it takes to give the request ``num_tokens`` slots.

        A hit block that nobody holds is free now and will not be: it counts, if it is kept.

        The cap bounds what is taken besides what the request has alone. In vLLM a long prefix that
        is hit or skipped is taken off the cap instead, and the answer is too small.
        """
        num_required = cdiv(num_tokens, self.block_size)
        cap = self._max_admission_blocks_per_request if apply_admission_cap else None
        behind = self.block_pool.semantics.gate_asks_behind_hits
        if cap is not None and not behind:
            num_required, cap = min(num_required, cap), None
        table = self.req_to_blocks.get(request_id, ())
        num_owned = len(table)
        if cap is not None:
            cap = max(cap - sum(b.ref_cnt == 1 and not b.is_null for b in table), 0)
        if request_id in self.num_cached_block:
            # Only a request that the cache was never offered anything of is looked up.
            assert not new_computed_blocks
            num_new = max(num_required - num_owned, 0)
            return num_new if cap is None else min(num_new, cap)
        num_skipped = self.get_num_skipped_tokens(total_computed_tokens) // self.block_size
        there = max(num_skipped, num_owned + len(new_computed_blocks))
        kept = new_computed_blocks[max(0, num_skipped - num_owned) :]
        num_new, num_free = max(num_required - there, 0), _num_free(kept)
        return (
            num_new + num_free if cap is None else min(num_new, max(cap - num_free, 0)) + num_free
        )

    def adopt_hits(
        self, request_id: str, new_computed_blocks: Sequence[KVCacheBlock], num_known: int
    ) -> bool:
        """Start the request's table: nulls for what is skipped, the hits; whether it had none yet.

        Args:
            num_known: tokens before the one that is computed next.
        """
        if request_id in self.num_cached_block:
            assert not new_computed_blocks
            return False
        table = self.req_to_blocks[request_id]
        assert not table
        num_skipped = self.get_num_skipped_tokens(num_known) // self.block_size
        if num_skipped > 0:
            new_computed_blocks = new_computed_blocks[num_skipped:]
            table.extend([self._null_block] * num_skipped)
        if self.enable_caching:
            self.block_pool.touch(new_computed_blocks)
        else:
            assert not new_computed_blocks
        table.extend(new_computed_blocks)
        self.num_cached_block[request_id] = len(table)
        return True

    def allocate_new_computed_blocks(
        self,
        request_id: str,
        new_computed_blocks: Sequence[KVCacheBlock],
        num_local_computed_tokens: int,
        num_external_computed_tokens: int,
        num_known: int | None = None,
        loads_late: bool = False,
    ) -> None:
        """Start the request's table with the blocks that were hit, and those to load into.

        Args:
            num_known: tokens before the one that is computed next; None: all of both.
            loads_late: the load takes longer than the step.
        """
        num_tokens = num_local_computed_tokens + num_external_computed_tokens
        known = num_tokens if num_known is None else num_known
        is_new = self.adopt_hits(request_id, new_computed_blocks, known)
        if is_new and num_external_computed_tokens:
            self.take_to_load(request_id, num_tokens, known, loads_late)

    def take_to_load(
        self, request_id: str, num_tokens: int, num_known: int, loads_late: bool
    ) -> None:
        """Take blocks for the tokens that a connector loads, up to the last of ``num_tokens``, if
        any of them is seen. vLLM 0.22.1 does too where no whole block is unseen.

        Blocks of a load that takes longer than the step are not to be zeroed, or what has come
        into them would be wiped: not so in vLLM 0.22.1 (upstream 48481).
        """
        num_skipped = self.get_num_skipped_tokens(num_known)
        if not self.block_pool.semantics.hits_precede_loads and num_skipped < self.block_size:
            num_skipped = 0
        if num_tokens > num_skipped:
            table = self.req_to_blocks[request_id]
            stays = loads_late and self.block_pool.semantics.loads_not_zeroed
            self._extend(table, cdiv(num_tokens, self.block_size) - len(table), zeroed=not stays)

    def allocate_new_blocks(
        self, request_id: str, num_tokens: int, num_tokens_main_model: int
    ) -> list[KVCacheBlock]:
        """Extend the request's table to ``num_tokens`` slots; the new blocks."""
        table = self.req_to_blocks[request_id]
        num_new_blocks = cdiv(num_tokens, self.block_size) - len(table)
        return self._extend(table, num_new_blocks) if num_new_blocks > 0 else []

    def _extend(
        self, table: list[KVCacheBlock], num_new_blocks: int, zeroed: bool = True
    ) -> list[KVCacheBlock]:
        """Take blocks for the end of a table."""
        new_blocks = self.block_pool.get_new_blocks(num_new_blocks)
        table.extend(new_blocks)
        if zeroed and self.tells_new_blocks:
            self.new_block_ids.extend([block.block_id for block in new_blocks])
        return new_blocks

    def take_new_block_ids(self) -> list[int]:
        """The blocks taken since the last call, for workers to zero."""
        block_ids = list(self.new_block_ids)
        self.new_block_ids.clear()
        return block_ids

    def cache_blocks(
        self, request: Request, num_tokens: int, alignment_tokens: int | None = None
    ) -> None:
        """Enter the full blocks among the first ``num_tokens`` tokens into the prefix cache.

        Args:
            alignment_tokens: every hit is a multiple of it, so that kinds which need only the end
                of a hit leave out what can be no such end.
        """
        request_id = request.request_id
        num_full_blocks = num_tokens // self.block_size
        num_cached_blocks = self.num_cached_block.get(request_id, 0)
        if num_cached_blocks >= num_full_blocks:
            return
        alignment = alignment_tokens or self.block_size
        mask = self._cache_block_mask(num_cached_blocks, num_full_blocks, alignment)
        self.block_pool.cache_full_blocks(
            request=request,
            blocks=self.req_to_blocks[request_id],
            num_cached_blocks=num_cached_blocks,
            num_full_blocks=num_full_blocks,
            block_size=self.block_size,
            kv_cache_group_id=self.kv_cache_group_id,
            block_mask=mask,
        )
        self.num_cached_block[request_id] = num_full_blocks

    def _cache_block_mask(
        self, num_cached_blocks: int, num_full_blocks: int, alignment_tokens: int
    ) -> list[bool] | None:
        """Which of those blocks can be part of a hit; None: any of them."""
        return None

    def is_covered(
        self, request_id: str, num_computed: int, slots: int, scheduled: int, to_cache: int
    ) -> bool:
        """Whether a running request's step changes nothing here: the usual case in a decode.

        Only a shortcut: the long way comes to the same.

        Args:
            num_computed: tokens computed before the step.
            slots: tokens that need a slot, drafts to come included.
            scheduled: tokens computed after the step.
            to_cache: tokens whose full blocks belong into the prefix cache; 0 if it is off.
        """
        table = self.req_to_blocks.get(request_id)
        if table is None or slots > len(table) * self.block_size:
            return False
        if to_cache // self.block_size > self.num_cached_block.get(request_id, 0):
            return False
        num_skipped = self.get_num_skipped_tokens(num_computed) // self.block_size
        return num_skipped <= 0 or table[min(num_skipped, len(table)) - 1].is_null

    def free(self, request_id: str) -> None:
        """Give the request's blocks back, last first: a chain is reused from its tail."""
        self.block_pool.free_blocks(reversed(self.pop_blocks_for_free(request_id)))

    def pop_blocks_for_free(self, request_id: str) -> list[KVCacheBlock]:
        """Forget the request; its table, which the caller gives back."""
        self.num_cached_block.pop(request_id, None)
        return self.req_to_blocks.pop(request_id, [])

    def remove_skipped_blocks(self, request_id: str, total_computed_tokens: int) -> None:
        """Give back the blocks that no later token needs, the last of them first.

        Null blocks take their places; before one of those there are only others.
        """
        num_skipped_tokens = self.get_num_skipped_tokens(total_computed_tokens)
        if num_skipped_tokens <= 0:
            return
        table = self.req_to_blocks.get(request_id, [])
        removed: list[KVCacheBlock] = []
        for index in reversed(range(min(num_skipped_tokens // self.block_size, len(table)))):
            if table[index].is_null:
                break
            removed.append(table[index])
            table[index] = self._null_block
        self.block_pool.free_blocks(removed)

    def uncache_behind(self, request_id: str, num_computed_tokens: int) -> int:
        """Uncache every block of a request that is not wholly computed, last first.

        The number of those that are is returned.
        """
        num_computed_blocks = num_computed_tokens // self.block_size
        for block in reversed(self.req_to_blocks.get(request_id, [])[num_computed_blocks:]):
            self.block_pool._maybe_evict_cached_block(block)
        return num_computed_blocks

    def may_go_on(self, request_id: str, num_tokens: int) -> bool:
        """Whether a request may go on from so many tokens, of those that it has: they are some,
        what was cached or hit is among them, and no block is null that the next token sees.
        """
        if not num_tokens:
            return False
        if num_tokens < self.num_cached_block.get(request_id, 0) * self.block_size:
            return False
        first = self.get_num_skipped_tokens(num_tokens) // self.block_size
        table = self.req_to_blocks.get(request_id, [])
        return first >= len(table) or not table[first].is_null

    def get_num_skipped_tokens(self, num_computed_tokens: int) -> int:
        """How many leading tokens nobody needs once so many are computed."""
        return 0

    def new_step_starts(self) -> None:  # noqa: B027 (most kinds do not care)
        """A step begins."""

    @abstractmethod
    def get_num_common_prefix_blocks(self, running_request_id: str) -> int:
        """How many leading blocks every request that owns blocks shares with this one."""

    @classmethod
    @abstractmethod
    def find_longest_cache_hit(
        cls,
        block_hashes: BlockHashList,
        max_length: int,
        kv_cache_group_ids: list[int],
        block_pool: BlockPool,
        kv_cache_spec: KVCacheSpec,
        use_eagle: bool,
        alignment_tokens: int,
        dcp_world_size: int = 1,
        pcp_world_size: int = 1,
    ) -> tuple[list[KVCacheBlock], ...]:
        """The longest prefix of at most ``max_length`` tokens that is cached in all the groups.

        Args:
            use_eagle: leave out the last block: its hidden states are needed, and not cached.
            alignment_tokens: what the length has to be a multiple of.

        Returns:
            By group the blocks of the prefix, null where they are not needed.
        """


def align_down(num_blocks: int, block_size: int, alignment_tokens: int) -> int:
    """The most blocks, of at most so many, whose tokens are a multiple of the alignment."""
    while num_blocks * block_size % alignment_tokens:
        num_blocks -= 1
    return num_blocks


def _num_free(blocks: Sequence[KVCacheBlock]) -> int:
    """How many of the blocks nobody holds."""
    return sum(block.ref_cnt == 0 and not block.is_null for block in blocks)


def check_undivided(dcp_world_size: int, pcp_world_size: int) -> None:
    """Of layers that see a part of the past no block is divided among ranks. Raises
    AssertionError.
    """
    num_ranks = dcp_world_size * pcp_world_size
    assert num_ranks == 1, f"blocks of such layers are not divided among {num_ranks} ranks"
