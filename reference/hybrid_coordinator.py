"""Prefix caching over several groups: a hit is what every kind of layers can go on from."""

from math import lcm
from typing import Any, NamedTuple

from nullblock.reference.block_tables import SingleTypeKVCacheManager, check_undivided
from nullblock.reference.group_coordinator import KVCacheCoordinator
from nullblock.reference.kv_cache_interface import (
    ChunkedLocalAttentionSpec,
    FullAttentionSpec,
    KVCacheSpec,
    MambaSpec,
)
from nullblock.reference.kv_cache_utils import (
    BlockHash,
    BlockHashList,
    BlockHashListWithBlockSize,
    KVCacheBlock,
)
from nullblock.reference.mamba import MambaManager
from nullblock.reference.request import Request


class AttentionGroup(NamedTuple):
    """The groups of one kind of layers: one look-up serves them all."""

    spec: KVCacheSpec
    group_ids: list[int]
    manager_cls: type[SingleTypeKVCacheManager]

    @property
    def is_full(self) -> bool:
        """Whether a shorter hit is a beginning of a longer one."""
        return isinstance(self.spec, FullAttentionSpec)


class HybridKVCacheCoordinator(KVCacheCoordinator):
    """Several groups, of at least two kinds of layers, whose blocks may differ in size."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for manager in self.single_type_managers:
            check_undivided(manager.dcp_world_size, manager.pcp_world_size)
        sizes = [group.kv_cache_spec.block_size for group in self.kv_cache_config.kv_cache_groups]
        assert all(size % self.hash_block_size == 0 for size in sizes), (
            f"hash_block_size {self.hash_block_size} does not divide the block sizes {sizes}"
        )
        self.verify_and_split_kv_cache_groups()
        self.asks_once = self._one_round_suffices()
        self._longest = 0
        """What the first kind said in the last look-up, before any other was asked."""

    def verify_and_split_kv_cache_groups(self) -> None:
        """Tell the kinds of layers, full attention first: its look-up is the cheapest.

        Raises:
            AssertionError: there is one kind only.
        """
        found: list[AttentionGroup] = []
        for group_id, group in enumerate(self.kv_cache_config.kv_cache_groups):
            for known in found:
                if known.spec == group.kv_cache_spec:
                    known.group_ids.append(group_id)
                    break
            else:
                manager_cls = type(self.single_type_managers[group_id])
                found.append(AttentionGroup(group.kv_cache_spec, [group_id], manager_cls))
        assert len(found) > 1, "several groups, and all of one kind"
        self.attention_groups = sorted(found, key=lambda kind: not kind.is_full)
        self.lcm_block_size = lcm(*(kind.spec.block_size for kind in found))
        self._find_eagle_groups()

    def _find_eagle_groups(self) -> None:
        """Which kinds drop the last block of a hit."""
        semantics = self.block_pool.semantics
        self.eagle_attn_group_indices: set[int] = set()
        """Those kinds, by their places among :attr:`attention_groups`."""
        self._quiet_group_indices: set[int] = set()
        """Those that count as one that drops its last hit, though they drop none."""
        for index, kind in enumerate(self.attention_groups):
            if self.eagle_group_ids.isdisjoint(kind.group_ids):
                continue
            if not (isinstance(kind.spec, MambaSpec) and semantics.states_stay_within):
                self.eagle_attn_group_indices.add(index)
                for group_id in kind.group_ids:
                    self.single_type_managers[group_id].drops_hit = True
            elif semantics.states_shorten_quietly:
                self._quiet_group_indices.add(index)

    def _one_round_suffices(self) -> bool:
        """Beside full attention alone a kind need not be asked again, since the hit that it leaves
        is one of full attention too; unless its chunks end within a block (GROUP-61).
        """
        first, *others = self.attention_groups
        if self.block_pool.semantics.chunks_asked_again and any(
            isinstance(kind.spec, ChunkedLocalAttentionSpec)
            and kind.spec.attention_chunk_size % kind.spec.block_size
            for kind in others
        ):
            return False
        return first.is_full and len(others) == 1

    def cache_blocks(self, request: Request, num_computed_tokens: int) -> None:
        """Enter what can be part of a hit, and every hit is a multiple of all block sizes.

        A full block after the last multiple waits, in a group of smaller blocks too.
        """
        for manager in self.single_type_managers:
            num_tokens = self.num_cacheable_tokens(num_computed_tokens, manager)
            manager.cache_blocks(request, num_tokens, alignment_tokens=self.lcm_block_size)

    def num_cacheable_tokens(self, num_tokens: int, manager: SingleTypeKVCacheManager) -> int:
        """The tokens up to the last multiple of all block sizes. For EAGLE a block more: it is
        looked at behind such a hit, and dropped. Not in 0.22.1.
        """
        num_hit = num_tokens // self.lcm_block_size * self.lcm_block_size
        looks_on = manager.drops_hit or (isinstance(manager, MambaManager) and manager.is_marked)
        if num_hit and looks_on and self.block_pool.semantics.dropped_hits_reach_on:
            return min(num_tokens, num_hit + manager.block_size)
        return num_hit

    def find_longest_cache_hit(
        self, block_hashes: list[BlockHash], max_cache_hit_length: int
    ) -> tuple[tuple[list[KVCacheBlock], ...], int]:
        """The longest prefix that all kinds accept, by going round until none shortens it.

        Each kind in turn answers with the longest hit of its own within the length at hand. A hit
        of full attention is looked up once and only cut afterwards; with one other kind beside it
        one round does. EAGLE takes its last block once for each length that is tried.
        """
        hits: list[list[KVCacheBlock] | None] = [None] * len(self.single_type_managers)
        kinds = self.attention_groups
        one_round = self.asks_once
        hit_length = max_cache_hit_length
        verified: set[int] = set()
        self._longest = 0
        # What is dropped may be the block of the last token; 0.22.1 does not look there.
        reach = max_cache_hit_length
        if self.block_pool.semantics.dropped_hits_reach_on:
            reach = len(block_hashes) * self.hash_block_size
        while True:
            length = hit_length
            for index, kind in enumerate(kinds):
                size = kind.spec.block_size
                if kind.is_full and hits[kind.group_ids[0]] is not None:
                    length = length // size * size
                    continue
                use_eagle = index in self.eagle_attn_group_indices and index not in verified
                most = min(length + size, reach) if use_eagle else length
                found = self._look_up(kind, block_hashes, most, use_eagle)
                found_length = len(found[0]) * size
                if use_eagle or (index in self._quiet_group_indices and index not in verified):
                    verified.add(index)
                elif found_length < length:
                    verified.clear()
                # With EAGLE a Mamba hit may be longer than what was asked for: vLLM takes its
                # word, and hands out a length that full attention has no blocks for (issue 43559).
                length = found_length
                self._longest = max(self._longest, length)
                for group_id, blocks in zip(kind.group_ids, found, strict=True):
                    hits[group_id] = blocks
            if length >= hit_length:
                break
            hit_length = length
            if one_round:
                break
        for kind in kinds if self.block_pool.semantics.hits_cut_alike else kinds[:1]:
            for group_id in kind.group_ids if kind.is_full else ():
                del (hits[group_id] or [])[hit_length // kind.spec.block_size :]
        return tuple([blocks or [] for blocks in hits]), hit_length

    def junction(self, num_hits: int) -> int:
        """How far some kind was hit beyond what all agree on; 0: no further."""
        return self._longest if self._longest > num_hits else 0

    def _look_up(
        self, kind: AttentionGroup, block_hashes: list[BlockHash], most: int, use_eagle: bool
    ) -> tuple[list[KVCacheBlock], ...]:
        """One kind's longest hit of at most so many tokens, by group."""
        size = kind.spec.block_size
        hashes: BlockHashList = block_hashes
        if size != self.hash_block_size:
            last = self.block_pool.semantics.last_hash_stands
            hashes = BlockHashListWithBlockSize(block_hashes, self.hash_block_size, size, last)
        return kind.manager_cls.find_longest_cache_hit(
            block_hashes=hashes,
            max_length=most,
            kv_cache_group_ids=kind.group_ids,
            block_pool=self.block_pool,
            kv_cache_spec=kind.spec,
            use_eagle=use_eagle,
            alignment_tokens=self.lcm_block_size,
        )
