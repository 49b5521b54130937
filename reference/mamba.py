"""Mamba layers: the past is one state, and a block holds the state after its last token.

Only the newest state is needed to go on, and one at a block's end to be hit. In the mode ``align``
a request holds no more than those: the state at hand and ``num_speculative_blocks`` beside it,
which move along, with nulls between what was kept.
"""

from collections.abc import Sequence
from typing import Any

from nullblock.reference.block_pool import BlockPool
from nullblock.reference.block_tables import SingleTypeKVCacheManager, check_undivided
from nullblock.reference.kv_cache_interface import KVCacheSpec, MambaSpec
from nullblock.reference.kv_cache_utils import (
    BlockHashList,
    BlockHashWithGroupId,
    KVCacheBlock,
)
from nullblock.reference.request import Request
from nullblock.reference.utils import cdiv


def keeps_inner(begin: int, end: int, block_size: int, alignment: int) -> bool:
    """Whether a step from a block's end on may keep the state at ``end`` within it: a whole block
    is before that, and so many times the alignment. 0: none is ever kept.
    """
    if not alignment or begin % block_size:
        return False
    return begin + block_size <= end and (end - begin) % alignment == 0


class MambaManager(SingleTypeKVCacheManager):
    """The manager of Mamba layers."""

    def __init__(self, kv_cache_spec: MambaSpec, block_pool: BlockPool, **kwargs: Any) -> None:
        super().__init__(kv_cache_spec, block_pool, **kwargs)
        self.mamba_cache_mode = kv_cache_spec.mamba_cache_mode
        self.aligns = self.mamba_cache_mode == "align"
        self.num_speculative_blocks = kv_cache_spec.num_speculative_blocks
        self.cached_blocks_this_step: set[BlockHashWithGroupId] = set()
        """Keys of states that this step will compute: no other request can start from them yet."""
        self.last_state_block_idx: dict[str, int] = {}
        """In the mode ``align``: where the state stood before the table last grew."""
        self.loses_last_block = False
        """Whether a hit loses its last block, of whichever kind: its coordinator knows."""
        self.is_marked = False
        """Whether its group counts as one of an EAGLE-like method: its coordinator knows."""
        self._tables_stay = block_pool.semantics.long_tables_stay
        keeps = self.aligns and block_pool.semantics.inner_states_kept
        self._alignment = kv_cache_spec.prefill_checkpoint_alignment or 0 if keeps else 0
        """How far from its begin a step may keep a state within it; 0: none is kept."""
        self._inner_states: dict[str, int] = {}
        """The places of those that the last steps have kept."""
        self._allocated_block_reqs: set[str] = set()
        """Requests that have had a state of their own, not only one that was hit."""

    @classmethod
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
        """The last cached state at a multiple of the alignment, nulls before it.

        EAGLE makes no difference here: the state looked for one block further is not left out, so
        that the hit may be longer than that of the other groups (upstream issue 43559).
        """
        assert isinstance(kv_cache_spec, MambaSpec)
        check_undivided(dcp_world_size, pcp_world_size)
        block_size = kv_cache_spec.block_size
        for index in reversed(range(max_length // block_size)):
            if (index + 1) * block_size % alignment_tokens:
                continue
            cached = block_pool.get_cached_block(block_hashes[index], kv_cache_group_ids)
            if cached is not None:
                return tuple([block_pool.null_block] * index + [block] for block in cached)
        return tuple([] for _ in kv_cache_group_ids)

    def get_num_blocks_to_allocate(
        self,
        request_id: str,
        num_tokens: int,
        new_computed_blocks: Sequence[KVCacheBlock],
        total_computed_tokens: int,
        num_tokens_main_model: int,
        apply_admission_cap: bool = False,
    ) -> int:
        """How many free blocks it takes; more than there are, if the hit is not computed yet.

        In the mode ``align`` a table that is longer than needed counts against the other groups.
        """
        if new_computed_blocks and (
            new_computed_blocks[-1].block_hash in self.cached_blocks_this_step
        ):
            return self.block_pool.num_gpu_blocks + 1
        if not self.aligns:
            return super().get_num_blocks_to_allocate(
                request_id,
                self._with_speculative(num_tokens),
                new_computed_blocks,
                total_computed_tokens,
                num_tokens_main_model,
                apply_admission_cap,
            )
        num_required = self._num_aligned_blocks(num_tokens_main_model)
        num_owned = len(self.req_to_blocks.get(request_id, ()))
        num_new = num_required - num_owned - len(new_computed_blocks)
        inner = self._inner_state(request_id, total_computed_tokens, num_tokens_main_model)
        if not apply_admission_cap:
            self._inner_states.pop(request_id, None)
            if inner is not None:
                self._inner_states[request_id] = inner
        if num_new > 0:
            has_state = request_id in self._allocated_block_reqs
            most = (1 if has_state else 1 + self.num_speculative_blocks) + (inner is not None)
            num_new = min(num_new, most) if self._tables_stay else most
        free_hits = sum(b.ref_cnt == 0 and not b.is_null for b in new_computed_blocks)
        return num_new + free_hits

    def _inner_state(self, request_id: str, begin: int, end: int) -> int | None:
        """The place of the state that a step keeps besides that at its end, if it keeps one: right
        before the block of its last token, where there is no state that is needed.
        """
        size = self.block_size
        index = (end - 1) // size - 1
        if not keeps_inner(begin, (index + 1) * size, size, self._alignment):
            return None
        table = self.req_to_blocks.get(request_id, ())
        if index >= len(table) or table[index].is_null:
            return index
        is_beside = index >= len(table) - self.num_speculative_blocks
        return index if is_beside and request_id in self._allocated_block_reqs else None

    def allocate_new_blocks(
        self, request_id: str, num_tokens: int, num_tokens_main_model: int
    ) -> list[KVCacheBlock]:
        """Extend the request's table; what was added, moved blocks and nulls included."""
        if not self.aligns:
            return super().allocate_new_blocks(
                request_id, self._with_speculative(num_tokens), num_tokens_main_model
            )
        table = self.req_to_blocks[request_id]
        num_required, num_before = self._num_aligned_blocks(num_tokens_main_model), len(table)
        if num_required == num_before:
            if self._tables_stay:
                self._allocated_block_reqs.add(request_id)
            return []
        if num_required < num_before and self._tables_stay:
            # Drafts that were rejected had needed more.
            self._allocated_block_reqs.add(request_id)
            return []
        assert num_required > num_before, f"{num_before} blocks, {num_required} needed"
        num_speculative = self.num_speculative_blocks
        has_state = request_id in self._allocated_block_reqs
        if has_state:
            self.last_state_block_idx[request_id] = num_before - 1 - num_speculative
        elif num_before:
            self.last_state_block_idx[request_id] = num_before - 1
        num_inner = int(request_id in self._inner_states)
        state_index = num_required - num_speculative - 1 - num_inner
        table.extend([self._null_block] * (state_index - num_before))
        if has_state:
            # The states for drafts move along; nobody needs them where they stand.
            for index in range(num_before - num_speculative, min(num_before, state_index)):
                moved = table[index]
                if self.block_pool.semantics.gaps_swept:
                    assert not moved.is_null, "a state that moves has been given back"
                table.append(moved)
                table[index] = self._null_block
        num_new = num_required - len(table)
        assert num_new <= (1 if has_state else 1 + num_speculative) + num_inner
        table.extend(self.block_pool.get_new_blocks(num_new))
        self._allocated_block_reqs.add(request_id)
        return table[num_before:]

    def _settled(self, num_computed: int) -> int:
        """Of so many computed tokens those that no rejected draft takes back; in lines that leave
        out what is in flight all of them.
        """
        if self.block_pool.semantics.windows_await_outputs:
            return num_computed
        return max(0, num_computed - self.num_speculative_blocks)

    def _with_speculative(self, num_tokens: int) -> int:
        """The tokens, and a block's worth more for each state beside the last."""
        return num_tokens + self.block_size * self.num_speculative_blocks

    def _num_aligned_blocks(self, num_tokens: int) -> int:
        """The length of a table in the mode ``align``.

        Slots for drafts to come do not count: no draft model has such layers.
        """
        return cdiv(num_tokens, self.block_size) + self.num_speculative_blocks

    def is_covered(
        self, request_id: str, num_computed: int, slots: int, scheduled: int, to_cache: int
    ) -> bool:
        """Whether a running request's step changes nothing here."""
        num_computed = self._settled(num_computed)
        if self.aligns:
            table = self.req_to_blocks.get(request_id, ())
            if self._num_aligned_blocks(scheduled) != len(table):
                return False
            if self._tables_stay and request_id not in self._allocated_block_reqs:
                return False
            if request_id in self._inner_states:
                return False  # It is looked at no longer.
            if self.block_pool.semantics.prompt_states_awaited and self._has_state(
                table, to_cache
            ):
                return False  # Perhaps it is the one that a prompt can be hit by.
            if self.block_pool.semantics.gaps_swept and not self._is_swept(table, num_computed):
                return False
            index = self.last_state_block_idx.get(request_id)
            if index is not None and not table[index].is_null:
                return False  # Perhaps it is outlived, perhaps not yet.
            slots = 0
        else:
            slots = self._with_speculative(slots)
        return super().is_covered(request_id, num_computed, slots, scheduled, to_cache)

    def remove_skipped_blocks(self, request_id: str, total_computed_tokens: int) -> None:
        """Give back the states before the last one.

        Drafts that were counted as computed may be rejected yet: as many tokens are taken off.
        """
        num_computed = self._settled(total_computed_tokens)
        if self.aligns and self.block_pool.semantics.gaps_swept:
            self._sweep(request_id, num_computed)
        else:
            super().remove_skipped_blocks(request_id, num_computed)
        index = self._outlived_state(request_id, num_computed)
        if index is not None:
            table = self.req_to_blocks[request_id]
            self.block_pool.free_blocks([table[index]])
            table[index] = self._null_block

    def _sweep(self, request_id: str, num_computed: int) -> None:
        """Give back the states before the last settled one, the last of them first; between them
        there are nulls.
        """
        table = self.req_to_blocks.get(request_id, [])
        removed: list[KVCacheBlock] = []
        for index in reversed(range(self._num_outlived(table, num_computed))):
            if not table[index].is_null:
                removed.append(table[index])
                table[index] = self._null_block
        self.block_pool.free_blocks(removed)

    def _has_state(self, table: Sequence[KVCacheBlock], num_tokens: int) -> bool:
        """Whether the state after so many tokens is in a table."""
        index, rest = divmod(num_tokens, self.block_size)
        return not rest and 0 < index <= len(table) and not table[index - 1].is_null

    def _is_swept(self, table: Sequence[KVCacheBlock], num_computed: int) -> bool:
        """Whether there is nothing to give back."""
        return all(b.is_null for b in table[: self._num_outlived(table, num_computed)])

    def _num_outlived(self, table: Sequence[KVCacheBlock], num_computed: int) -> int:
        """How many places of a table are before that of the last settled state."""
        num_skipped = self.get_num_skipped_tokens(num_computed) // self.block_size
        return max(min(num_skipped, len(table)), 0)

    def _outlived_state(self, request_id: str, num_computed: int) -> int | None:
        """Where the state of two steps ago stands, which the previous step was computed from.

        The table may have holes before it, so that the usual way does not come to it.
        """
        index = self.last_state_block_idx.get(request_id)
        if index is None or index >= cdiv(num_computed, self.block_size) - 1:
            return None
        return None if self.req_to_blocks[request_id][index].is_null else index

    def pop_blocks_for_free(self, request_id: str) -> list[KVCacheBlock]:
        """Forget the request; its table, which the caller gives back."""
        self._allocated_block_reqs.discard(request_id)
        self.last_state_block_idx.pop(request_id, None)
        self._inner_states.pop(request_id, None)
        return super().pop_blocks_for_free(request_id)

    def get_num_skipped_tokens(self, num_computed_tokens: int) -> int:
        """All but the last: its state says everything. -1 where nothing is computed."""
        return num_computed_tokens - 1

    def cache_blocks(
        self, request: Request, num_tokens: int, alignment_tokens: int | None = None
    ) -> None:
        """Enter the full blocks among the first tokens into the cache, for the steps to come.

        Raises IndexError, in lines that note states by their places, for a prompt longer than
        max_model_len with more full blocks than its table.
        """
        before = self.num_cached_block.get(request.request_id, 0)
        super().cache_blocks(request, num_tokens, alignment_tokens)
        after = self.num_cached_block.get(request.request_id, 0)
        table = self.req_to_blocks[request.request_id]
        if after > len(table) and self.block_pool.semantics.states_noted_by_place:
            raise IndexError(f"{len(table)} blocks, {after} to note")
        for block in table[before:after]:
            if not block.is_null:
                assert block.block_hash is not None
                self.cached_blocks_this_step.add(block.block_hash)
        if self.aligns and self.block_pool.semantics.prompt_states_awaited:
            self._await_prompt_state(request, num_tokens)

    def _await_prompt_state(self, request: Request, num_tokens: int) -> None:
        """The state that a prompt can be hit by counts as computed in this step while no further
        block is, if the request has it still; where a step has kept one within it, that is asked.
        """
        index, table = num_tokens // self.block_size - 1, self.req_to_blocks[request.request_id]
        inner = self._inner_states.get(request.request_id)
        if inner is not None:
            index = inner  # Which counts as computed by its growth already.
        elif num_tokens <= 0 or num_tokens != self._prompt_state(request.num_prompt_tokens):
            return
        if index >= len(table) or table[index].is_null:
            return
        if table[index].block_hash is None:
            # It was evicted from outside, and is cached again.
            self.block_pool.cache_full_blocks(
                request=request,
                blocks=table,
                num_cached_blocks=index,
                num_full_blocks=index + 1,
                block_size=self.block_size,
                kv_cache_group_id=self.kv_cache_group_id,
            )
        block_hash = table[index].block_hash
        assert block_hash is not None
        self.cached_blocks_this_step.add(block_hash)

    def _prompt_state(self, num_tokens: int) -> int:
        """The tokens before the last state of a prompt that can be hit: with EAGLE one before."""
        if self.loses_last_block:
            return (num_tokens // self.block_size - 1) * self.block_size
        return (num_tokens - 1) // self.block_size * self.block_size

    def new_step_starts(self) -> None:
        """A step begins: what the one before has cached can be hit."""
        self.cached_blocks_this_step.clear()

    def get_num_common_prefix_blocks(self, running_request_id: str) -> int:
        """0: states are not a prefix."""
        return 0
