"""KV cache groups in a recording: what layers see, and which group a cached block is for."""

from collections.abc import Iterable, Iterator
from itertools import combinations
from typing import Any

Fields = dict[str, Any]
SIZES = {
    "FullAttentionSpec": (),
    "SlidingWindowSpec": ("sliding_window",),
    "ChunkedLocalAttentionSpec": ("attention_chunk_size",),
    "MLAAttentionSpec": (),
    "SlidingWindowMLASpec": ("sliding_window",),
    "CrossAttentionSpec": (),
    "SinkFullAttentionSpec": ("sink_len",),
}
"""The kinds of layers that a trace has words for, and what it says of them; and beside them"""
PARTS = ("sliding_window", "attention_chunk_size")
"""What it says of layers that see a part of the past."""
STATES = "MambaSpec"
SPARSE = frozenset(("SlidingWindowSpec", "SlidingWindowMLASpec", STATES))
"""Those of which 0.32.0 may keep fewer hits than there are, as a server is configured."""
LATENT = frozenset(("MLAAttentionSpec", "SlidingWindowMLASpec"))
"""Those that are latent attention: scheduled as others, and of a kind of their own."""


def constants(scheduler: Any) -> Fields | None:
    """What a header's ``config`` says of groups; None where it has no words for them."""
    groups = scheduler.kv_cache_config.kv_cache_groups
    specs = [group.kv_cache_spec for group in groups]
    if any(type(spec).__name__ not in (*SIZES, STATES) for spec in specs):
        return None
    told = [_told(spec) for spec in specs]
    is_strange = any(told)
    if len(groups) > 1:
        size = size_of_chains(scheduler)
        for group, own, fields in zip(groups, block_sizes(scheduler), told, strict=True):
            fields |= {"eagle": True} if group.is_eagle_group else {}
            fields |= {"block_size": own} if own != size else {}
    elif not is_strange:
        return {}
    found: Fields = {"groups": told}
    see_part = any(name in fields for name in PARTS for fields in told)
    batched = scheduler.scheduler_config.max_num_batched_tokens
    if see_part and batched != scheduler.max_num_scheduled_tokens:
        found["max_num_batched_tokens"] = batched
    if see_part and hasattr(scheduler, "use_eagle_block_drop"):  # since 0.32.0
        flight = scheduler.vllm_config.max_concurrent_batches
        found |= {"max_concurrent_batches": flight} if flight > 1 else {}
    if getattr(scheduler, "need_mamba_block_aligned_split", False):
        found["mamba_split"] = scheduler.cache_config.block_size
    return found


def grants_beyond_a_step(scheduler: Any) -> bool:
    """Whether more is set for a step than it may have, as since 0.32.0 it may be: beside Mamba
    layers in the mode align prefills are cut by what is set.
    """
    is_later = hasattr(scheduler, "kv_holding_waiting")
    splits = getattr(scheduler, "need_mamba_block_aligned_split", False)
    batched = scheduler.scheduler_config.max_num_batched_tokens
    return bool(is_later and splits and scheduler.max_num_scheduled_tokens > batched)


def unsaid(scheduler: Any) -> Iterator[str]:
    """Names of what is on in some group that decisions depend on and no words are for."""
    cache = scheduler.kv_cache_config
    groups, caching = cache.kv_cache_groups, bool(scheduler.kv_cache_manager.enable_caching)
    specs = [group.kv_cache_spec for group in groups]
    for group, spec in zip(groups, specs, strict=True):  # these are all since 0.32.0
        if getattr(group, "role", "default") != "default":
            yield "kv_cache_role"
        if getattr(spec, "extra_retained_tokens", 0):
            yield "extra_retained_tokens"
        if not getattr(spec, "prefix_cacheable", True):
            yield "bounded_replay"
    if any(map(_keeps_inner, specs)) and not _inner_is_told(scheduler, specs):
        yield "num_prefill_checkpoint_blocks"
    sparse = getattr(cache, "prefix_cache_retention_interval", None) is not None
    if caching and sparse and not SPARSE.isdisjoint(type(spec).__name__ for spec in specs):
        yield "prefix_cache_retention_interval"
    if caching and _are_apart(specs):
        yield "equal_groups_apart"


def _keeps_inner(spec: Any) -> bool:
    """Whether a step may keep a state within it."""
    aligned = getattr(spec, "mamba_cache_mode", None) == "align"
    return aligned and getattr(spec, "num_prefill_checkpoint_blocks", 0) > 0


def _inner_is_told(scheduler: Any, specs: list[Any]) -> bool:
    """Whether such states are where `prefill_checkpoint_alignment` says: not if an EAGLE-like
    method drops what is hit, nor where hashes are of other sizes than blocks. Layers that keep one
    and never where stand beside none that keep some.
    """
    kept = [s.prefill_checkpoint_alignment is None for s in specs if _keeps_inner(s)]
    covered = scheduler.kv_cache_manager.block_pool.hash_block_size
    alike = all(s.block_size == covered for s in specs if _keeps_inner(s))
    drops = getattr(scheduler, "use_eagle_block_drop", False)
    caching = scheduler.kv_cache_manager.enable_caching
    return bool(caching and alike and not drops and len(set(kept)) == 1)


def _are_apart(specs: list[Any]) -> bool:
    """Whether some have the same words here, and are looked up apart all the same: the engine
    compares all that they say, the sizes of heads and how they are stored among it.
    """
    pairs = combinations((spec for spec in specs if type(spec).__name__ in SIZES), 2)
    return any(
        one != other and one.block_size == other.block_size and _told(one) == _told(other)
        for one, other in pairs
        if type(one) is type(other)
    )


def _told(spec: Any) -> Fields:
    kind = type(spec).__name__
    if kind == "CrossAttentionSpec":
        return {"cross_attention": True}
    if kind != STATES:
        sizes: Fields = {name: getattr(spec, name) for name in SIZES[kind]}
        return sizes | ({"mla": True} if kind in LATENT else {})
    fields: Fields = {"mamba": spec.mamba_cache_mode}
    if spec.num_speculative_blocks:
        fields["num_speculative_blocks"] = spec.num_speculative_blocks
    if _keeps_inner(spec) and spec.prefill_checkpoint_alignment:
        fields["prefill_checkpoint_alignment"] = spec.prefill_checkpoint_alignment
    return fields


def size_of_chains(scheduler: Any) -> int:
    """Tokens that a chain number is for, and mostly those of a block: what one block hash covers
    or, where there are none, a block of the first group.
    """
    sizes = block_sizes(scheduler)
    if scheduler.kv_cache_manager.enable_caching or not sizes:
        return int(scheduler.kv_cache_manager.block_pool.hash_block_size)
    return sizes[0]


def block_sizes(scheduler: Any) -> list[int]:
    """Tokens in a block of each group, of all ranks of context parallelism together."""
    managers = scheduler.kv_cache_manager.coordinator.single_type_managers
    return [int(manager.block_size) for manager in managers]


def are_divided(scheduler: Any) -> bool:
    """Whether there is context parallelism that `block_size` does not tell all of: beside anything
    but one group of full attention.
    """
    parallel = scheduler.parallel_config
    sizes = parallel.decode_context_parallel_size, parallel.prefill_context_parallel_size
    names = [type(g.kv_cache_spec).__name__ for g in scheduler.kv_cache_config.kv_cache_groups]
    return max(sizes) > 1 and names not in (["FullAttentionSpec"], ["MLAAttentionSpec"])


def hashes_in_blocks(scheduler: Any) -> list[int]:
    """How many hashes stand one after another in what a block of each group is known by. Since
    0.32.0 it is known by its last one.
    """
    covered = scheduler.kv_cache_manager.block_pool.hash_block_size
    sizes = block_sizes(scheduler)
    if hasattr(scheduler, "kv_holding_waiting"):
        return [1] * len(sizes)
    return [max(size // covered, 1) for size in sizes]


def last_hash(known_by: Any, many: int) -> Any:
    """Of so many hashes one after another the last one; a number is its last bytes already."""
    return known_by if isinstance(known_by, int) else known_by[-(len(known_by) // many) :]


class Taken:
    """How many blocks are taken from the pool, at least."""

    def __init__(self, scheduler: Any) -> None:
        specs = [group.kv_cache_spec for group in scheduler.kv_cache_config.kv_cache_groups]
        aligned = [getattr(spec, "mamba_cache_mode", "none") == "align" for spec in specs]
        sizes = block_sizes(scheduler)
        self.sizes = [0 if a else size for a, size in zip(aligned, sizes, strict=True)]
        """Tokens in a block of each group; 0: its tables have null blocks anywhere, and blocks
        that have moved along, so that none of its blocks are counted."""
        self.counts_all = all(self.sizes)

    def hits(self, computed: int) -> int:
        """Of those in whole tables the ones that hold so many computed tokens: nobody took
        them.
        """
        return sum(computed // size for size in self.sizes if size)

    def of_growth(self, blocks: Iterable[list[int]]) -> int:
        """Of what tables, by group, have grown by."""
        return sum(len(ids) for ids, size in zip(blocks, self.sizes, strict=True) if size)
