"""What the scheduler asks of the KV cache: hits, slots, and giving them back."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from nullblock.reference.full_attention import FullAttentionManager
from nullblock.reference.kv_cache_coordinator import get_kv_cache_coordinator
from nullblock.reference.kv_cache_interface import (
    KVCacheConfig,
    get_kv_cache_spec_kind,
    get_kv_cache_spec_sliding_window,
)
from nullblock.reference.kv_cache_utils import KVCacheBlock
from nullblock.reference.kv_events import AnyKVCacheEvent, BlockStored
from nullblock.reference.request import Request, RequestStatus
from nullblock.reference.stats import PrefixCacheStats
from nullblock.spec.facts import blocks_of_watermark
from nullblock.spec.profiles import VLLM_0_22_1, Semantics


@dataclass
class KVCacheBlocks:
    """Blocks by group: ``blocks[group][i]``."""

    blocks: tuple[Sequence[KVCacheBlock], ...]

    def __add__(self, other: "KVCacheBlocks") -> "KVCacheBlocks":
        """These blocks, then the other's, group by group."""
        pairs = zip(self.blocks, other.blocks, strict=True)
        return KVCacheBlocks(tuple([*mine, *theirs] for mine, theirs in pairs))

    def get_block_ids(self, allow_none: bool = False) -> tuple[list[int], ...] | None:
        """The ids by group; None, if that is allowed, when no group has a block."""
        if allow_none and not any(self.blocks):
            return None
        return tuple([block.block_id for block in group] for group in self.blocks)

    def get_unhashed_block_ids(self) -> list[int]:
        """The ids of the blocks that are not in the prefix cache."""
        assert len(self.blocks) == 1
        return [block.block_id for block in self.blocks[0] if block.block_hash is None]

    def get_unhashed_block_ids_all_groups(self) -> list[list[int]]:
        """The same by group, the null block left out."""
        return [
            [block.block_id for block in group if block.block_hash is None and not block.is_null]
            for group in self.blocks
        ]

    def new_empty(self) -> "KVCacheBlocks":
        """No blocks, for as many groups."""
        return KVCacheBlocks(tuple(() for _ in self.blocks))


class KVCacheManager:
    """The KV cache as the scheduler sees it.

    Args:
        max_model_len: no request gets slots beyond that many tokens.
        hash_block_size: tokens that one block hash covers: each group's blocks are a multiple.
        enable_caching: whether full blocks can be hit by other requests.
        semantics: the profile; vLLM 0.22.1 unless told otherwise.
    """

    def __init__(
        self,
        kv_cache_config: KVCacheConfig,
        max_model_len: int,
        hash_block_size: int,
        max_num_batched_tokens: int | None = None,
        enable_caching: bool = True,
        use_eagle: bool = False,
        log_stats: bool = False,
        enable_kv_cache_events: bool = False,
        dcp_world_size: int = 1,
        pcp_world_size: int = 1,
        metrics_collector: object | None = None,
        watermark: float = 0.0,
        *,
        semantics: Semantics | None = None,
    ) -> None:
        self.semantics = semantics or VLLM_0_22_1
        self.max_model_len = max_model_len
        self.enable_caching = enable_caching
        self.use_eagle = use_eagle
        self.log_stats = log_stats
        self.metrics_collector = metrics_collector
        self.prefix_cache_stats = PrefixCacheStats() if log_stats else None
        self.kv_cache_config = kv_cache_config
        self.num_kv_cache_groups = len(kv_cache_config.kv_cache_groups)
        self.coordinator = get_kv_cache_coordinator(
            kv_cache_config=kv_cache_config,
            max_model_len=max_model_len,
            max_num_batched_tokens=max_num_batched_tokens or max_model_len,
            use_eagle=use_eagle,
            enable_caching=enable_caching,
            enable_kv_cache_events=enable_kv_cache_events,
            dcp_world_size=dcp_world_size,
            pcp_world_size=pcp_world_size,
            hash_block_size=hash_block_size,
            metrics_collector=metrics_collector,
            semantics=self.semantics,
        )
        self.block_pool = self.coordinator.block_pool
        self.watermark_blocks = blocks_of_watermark(
            watermark, kv_cache_config.num_blocks, self.semantics
        )
        """Blocks that an admission leaves free while others run."""
        specs = [group.kv_cache_spec for group in kv_cache_config.kv_cache_groups]
        self.kv_cache_event_metadata = tuple(
            (get_kv_cache_spec_kind(spec).value, get_kv_cache_spec_sliding_window(spec))
            for spec in specs
        )
        """By group, what events tell of its layers: their kind, and their window."""
        # The one object for "no blocks": recognised by identity, which is what most steps of a
        # decoding request return.
        self.empty_kv_cache_blocks = KVCacheBlocks(tuple(() for _ in specs))
        managers = self.coordinator.single_type_managers
        self._full_attention = (
            managers[0]
            if len(managers) == 1 and type(managers[0]) is FullAttentionManager
            else None
        )
        """The only group's tables, if it is a full-attention group: the one with shortcuts."""

    @property
    def usage(self) -> float:
        """The share of the usable blocks that are held, 0 to 1."""
        return self.block_pool.get_usage()

    def make_prefix_cache_stats(self) -> PrefixCacheStats | None:
        """The look-ups since the last call; None when statistics are off."""
        if self.prefix_cache_stats is None:
            return None
        stats, self.prefix_cache_stats = self.prefix_cache_stats, PrefixCacheStats()
        return stats

    def get_computed_blocks(self, request: Request) -> tuple[KVCacheBlocks, int]:
        """The longest cached prefix of the request: its blocks, and its length in tokens.

        At most all tokens but the last, which must be computed to sample from: a prompt that is
        cached to its end, and ends with a block, loses that whole block.
        """
        request.shared_prefix_boundary = 0  # how far one kind of layers is hit, and not all
        if not self.enable_caching or request.skip_reading_prefix_cache:
            return self.empty_kv_cache_blocks, 0
        num_tokens = request.num_tokens
        blocks, num_hits = self.coordinator.find_longest_cache_hit(
            request.block_hashes, num_tokens - 1
        )
        request.shared_prefix_boundary = self.coordinator.junction(num_hits)
        if self.prefix_cache_stats is not None:
            self.prefix_cache_stats.record(num_tokens, num_hits, request.num_preemptions > 0)
        return self.create_kv_cache_blocks(blocks), num_hits

    def allocate_slots(
        self,
        request: Request,
        num_new_tokens: int,
        num_new_computed_tokens: int = 0,
        new_computed_blocks: KVCacheBlocks | None = None,
        num_lookahead_tokens: int = 0,
        num_external_computed_tokens: int = 0,
        delay_cache_blocks: bool = False,
        num_encoder_tokens: int = 0,
        full_sequence_must_fit: bool = False,
        has_scheduled_reqs: bool = True,
        reserved_blocks: int = 0,
    ) -> KVCacheBlocks | None:
        """New blocks for the tokens of this step, the hits left out; None if they are not there.

        Three phases: count (does it fit?), take over the hits, take new blocks; then the blocks
        that this step will fill enter the prefix cache. Blocks that no token needs any more are
        given back between the gate and the count, whatever comes of it.

        Args:
            num_new_tokens: tokens to compute in this step.
            num_new_computed_tokens: tokens of ``new_computed_blocks``, the prefix that was hit.
            num_lookahead_tokens: slots beyond them that drafts may need.
            num_external_computed_tokens: tokens behind the hits that somebody else brings.
            delay_cache_blocks: offer the prefix cache nothing yet.
            num_encoder_tokens: what cross-attention layers need slots for.
            full_sequence_must_fit: also refuse if all the request's tokens would not fit.
            has_scheduled_reqs: others run, so that whoever waits leaves the watermark free.
            reserved_blocks: what has to stay free besides, once the slots are given.

        Raises:
            ValueError: there is nothing to compute, and nothing to load.
        """
        if num_new_tokens == 0 and num_external_computed_tokens == 0:
            raise ValueError(f"no tokens to allocate slots for: request {request.request_id!r}")
        local = request.num_computed_tokens + num_new_computed_tokens
        uncapped = local + num_external_computed_tokens
        computed = min(uncapped, self.max_model_len)
        scheduled = computed + num_new_tokens
        slots = min(scheduled + num_lookahead_tokens, self.max_model_len)
        verified = self._verified(request, uncapped)
        known = self._known(request, uncapped, num_external_computed_tokens)
        if new_computed_blocks is None and not full_sequence_must_fit:
            if self._is_covered(request, verified, slots, scheduled):
                return self.empty_kv_cache_blocks

        request_id, coordinator, pool = request.request_id, self.coordinator, self.block_pool
        headroom = self._headroom(request, has_scheduled_reqs) if self.watermark_blocks else 0
        hits = (new_computed_blocks or self.empty_kv_cache_blocks).blocks
        if full_sequence_must_fit:
            needed = self._needed_whole(request, hits, num_encoder_tokens, known)
            if needed + headroom > pool.get_num_free_blocks():
                return None
        coordinator.remove_skipped_blocks(request_id, verified)
        needed = coordinator.get_num_blocks_to_allocate(
            request_id, slots, hits, num_encoder_tokens, known, scheduled
        )
        if needed + headroom + reserved_blocks > pool.get_num_free_blocks():
            return None

        if hits is not self.empty_kv_cache_blocks.blocks or num_external_computed_tokens > 0:
            coordinator.allocate_new_computed_blocks(
                request_id, hits, local, num_external_computed_tokens, known, delay_cache_blocks
            )
        taken = coordinator.allocate_new_blocks(request_id, slots, scheduled, num_encoder_tokens)
        if self.enable_caching and not delay_cache_blocks:
            # Lookahead slots hold drafts, which may be rejected: only real tokens are cached.
            coordinator.cache_blocks(request, min(scheduled, request.num_tokens))
        return self.create_kv_cache_blocks(taken)

    def _known(self, request: Request, tokens: int, num_external: int) -> int:
        """Tokens before the one computed next, the last one of a prompt that is loaded whole."""
        if num_external and self.semantics.last_token_sees_back:  # not so in vLLM
            return min(tokens, request.num_tokens - 1)
        return tokens

    def _verified(self, request: Request, computed: int) -> int:
        """Of so many computed tokens those that stay so, whatever becomes of drafts in flight.

        vLLM 0.22.1 takes them all to stay, and gives back blocks that a window sees again once
        drafts are rejected (upstream 47728). 0.32.0 counts nothing that is in flight.
        """
        if self.semantics.windows_await_outputs:
            return max(0, min(computed, self.max_model_len) - request.num_in_flight_tokens)
        if self.semantics.windows_await_verdicts:
            computed -= request.num_draft_placeholders
        return min(computed, self.max_model_len)

    def _needed_whole(
        self,
        request: Request,
        hits: tuple[Sequence[KVCacheBlock], ...],
        num_encoder_tokens: int,
        known: int,
    ) -> int:
        """Free blocks that all the request's tokens would take."""
        whole, known = (min(n, self.max_model_len) for n in (request.num_tokens, known))
        return self.coordinator.get_num_blocks_to_allocate(
            request.request_id, whole, hits, num_encoder_tokens, known, whole, True
        )

    def _headroom(self, request: Request, has_scheduled_reqs: bool) -> int:
        """Blocks that have to stay free if the request waits and others run: the watermark."""
        is_admitted = has_scheduled_reqs and request.status != RequestStatus.RUNNING
        return self.watermark_blocks if is_admitted else 0

    def _is_covered(self, request: Request, verified: int, slots: int, scheduled: int) -> bool:
        """Whether the request has those slots already and neither fills nor outlives a block.

        Then there is nothing to do, which is so for all but one of ``block_size`` decode steps.
        Only a shortcut: the long way comes to the same.
        """
        tables = self._full_attention
        if tables is None:
            return self.coordinator.is_covered(request, verified, slots, scheduled)
        request_id = request.request_id
        table = tables.req_to_blocks.get(request_id)
        if table is None or slots > len(table) * tables.block_size:
            return False
        if not self.enable_caching:
            return True
        num_cached = tables.num_cached_block.get(request_id, 0)
        if scheduled // tables.block_size <= num_cached:
            return True
        # Scheduling asynchronously, the last tokens are not known yet.
        return len(request._all_token_ids) // tables.block_size <= num_cached

    def free(self, request: Request) -> None:
        """Give the request's blocks back, last first."""
        self.coordinator.free(request.request_id)

    def pop_blocks_for_free(self, request: Request) -> list[KVCacheBlock]:
        """Take the request's tables, which the caller gives back, last block first."""
        managers, request_id = self.coordinator.single_type_managers, request.request_id
        return [b for tables in managers for b in tables.pop_blocks_for_free(request_id)]

    def withdraw(self, request: Request) -> None:
        """Uncache what this step would have filled for a request that is taken out of it.

        Its blocks entered the prefix cache when they were allocated, but now nobody computes
        them. vLLM 0.22.1 leaves them in (upstream pull request 43569).
        """
        if not self.semantics.withdraw_uncaches:
            return
        for manager in self.coordinator.single_type_managers:
            manager.uncache_behind(request.request_id, request.num_computed_tokens)

    def may_keep(self, request: Request, num_left: int) -> bool:
        """Whether a request whose load failed may go on from so many tokens. Of several groups it
        may not: what one of them has left need not be what the others can go on from.
        """
        managers = self.coordinator.single_type_managers
        return len(managers) == 1 and managers[0].may_go_on(request.request_id, num_left)

    def get_tables(self, request_id: str) -> Iterator[tuple[int, list[int]]]:
        """The block size and the block ids of each table of a request."""
        sizes = (manager.block_size for manager in self.coordinator.single_type_managers)
        return zip(sizes, self.get_block_ids(request_id), strict=True)

    def uncache(self, request: Request) -> None:
        """Uncache all that was not computed, last block first, one group after the other.

        It is cached again when it is.
        """
        request_id = request.request_id
        for manager in self.coordinator.single_type_managers:
            num_computed_blocks = manager.uncache_behind(request_id, request.num_computed_tokens)
            if manager.num_cached_block.get(request_id, 0) > num_computed_blocks:
                manager.num_cached_block[request_id] = num_computed_blocks

    def remove_skipped_blocks(self, request_id: str, total_computed_tokens: int) -> None:
        """Give back the blocks that no later token needs."""
        self.coordinator.remove_skipped_blocks(request_id, total_computed_tokens)

    def evict_blocks(self, block_ids: Iterable[int]) -> None:
        """Take those blocks out of the prefix cache; whoever holds them keeps holding them."""
        self.block_pool.evict_blocks(block_ids)

    def reset_prefix_cache(self) -> bool:
        """Empty the prefix cache; False, and no change, while any request holds a block."""
        if not self.block_pool.reset_prefix_cache():
            return False
        if self.prefix_cache_stats is not None:
            self.prefix_cache_stats.reset = True
        return True

    def get_num_common_prefix_blocks(self, running_request_id: str) -> list[int]:
        """For each group, how many leading blocks all requests that own blocks share.

        Owners that are not scheduled count, so a waiting one can bring the number down to 0.
        """
        return self.coordinator.get_num_common_prefix_blocks(running_request_id)

    def take_events(self) -> list[AnyKVCacheEvent]:
        """KV cache events since the last call, told of which kind of layers they are."""
        events = self.block_pool.take_events()
        for event in events:
            if isinstance(event, BlockStored) and event.group_idx is not None:
                kind, sliding_window = self.kv_cache_event_metadata[event.group_idx]
                event.kv_cache_spec_kind = kind
                event.kv_cache_spec_sliding_window = sliding_window
        return events

    def get_blocks(self, request_id: str) -> KVCacheBlocks:
        """The request's table."""
        return self.create_kv_cache_blocks(self.coordinator.get_blocks(request_id))

    def get_block_ids(self, request_id: str) -> tuple[list[int], ...]:
        """The ids in the request's table, by group."""
        block_ids = self.get_blocks(request_id).get_block_ids()
        assert block_ids is not None
        return block_ids

    def cache_blocks(self, request: Request, num_computed_tokens: int) -> None:
        """Enter the full blocks among the first tokens into the prefix cache, if it is on."""
        if not self.enable_caching:
            return
        tables = self._full_attention
        if tables is not None:
            # Mostly they are in it already, and asking here is the short way.
            num_cached = tables.num_cached_block.get(request.request_id, 0)
            if num_computed_tokens // tables.block_size <= num_cached:
                return
        self.coordinator.cache_blocks(request, num_computed_tokens)

    def create_kv_cache_blocks(self, blocks: tuple[Sequence[KVCacheBlock], ...]) -> KVCacheBlocks:
        """A wrapper of those blocks, or the one empty wrapper."""
        return KVCacheBlocks(blocks) if any(blocks) else self.empty_kv_cache_blocks

    def take_new_block_ids(self) -> list[int]:
        """The full-attention blocks taken since the last call, for workers to zero."""
        return [
            block_id
            for manager in self.coordinator.single_type_managers
            for block_id in manager.take_new_block_ids()
        ]

    def new_step_starts(self) -> None:
        """A step begins."""
        self.coordinator.new_step_starts()
