"""Chain hashes of full blocks: what makes two blocks the same content.

    hash(block) = f((hash of the parent block, tokens of the block, extra keys))

A first block's parent is ``NONE_HASH``. Extra keys keep apart what equal tokens do not
(:mod:`nullblock.reference.extra_keys`).
"""

import os
from collections.abc import Callable, Iterator, Sequence
from math import gcd, lcm
from typing import Any, overload

from nullblock.reference.extra_keys import (
    ExtraKeys,
    differ_by_block,
    generate_block_hash_extra_keys,
    need_extra_keys,
    to_event_extra_keys,
)
from nullblock.reference.free_block_queue import (
    BlockHash,
    BlockHashWithGroupId,
    FreeKVCacheBlockQueue,
    KVCacheBlock,
)
from nullblock.reference.kv_cache_interface import KVCacheConfig, MambaSpec
from nullblock.reference.request import Request
from nullblock.spec.profiles import VLLM_0_22_1, Semantics

__all__ = [
    "NONE_HASH",
    "BlockHash",
    "BlockHashList",
    "BlockHashListWithBlockSize",
    "BlockHashWithGroupId",
    "ExternalBlockHash",
    "FreeKVCacheBlockQueue",
    "KVCacheBlock",
    "block_hashes_of",
    "generate_block_hash_extra_keys",
    "get_block_hash",
    "get_group_id",
    "get_request_block_hasher",
    "hash_block_tokens",
    "init_none_hash",
    "make_block_hash_with_group_id",
    "maybe_convert_block_hash",
    "need_extra_keys",
    "resolve_kv_cache_block_sizes",
    "to_event_extra_keys",
]

ExternalBlockHash = bytes | int

NONE_HASH: BlockHash
"""The parent of every first block. Set by :func:`init_none_hash`, and absent before."""


def init_none_hash(hash_fn: Callable[[Any], bytes]) -> None:
    """Set ``NONE_HASH``: the hash of the string ``PYTHONHASHSEED``; 32 random bytes if unset."""
    global NONE_HASH
    seed = os.environ.get("PYTHONHASHSEED")
    NONE_HASH = BlockHash(os.urandom(32) if seed is None else hash_fn(seed))


def make_block_hash_with_group_id(block_hash: BlockHash, group_id: int) -> BlockHashWithGroupId:
    """The cache key: the hash, then the group as four bytes, most significant first."""
    return BlockHashWithGroupId(block_hash + group_id.to_bytes(4, "big"))


def get_block_hash(key: BlockHashWithGroupId) -> BlockHash:
    """The hash in a cache key."""
    return BlockHash(key[:-4])


def get_group_id(key: BlockHashWithGroupId) -> int:
    """The group in a cache key."""
    return int.from_bytes(key[-4:], "big")


def maybe_convert_block_hash(hash_bytes: BlockHash) -> ExternalBlockHash:
    """The hash as other processes see it: its low 64 bits.

    All its bytes with the variable ``VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES`` at 0; ``ValueError`` if
    that is not a number.
    """
    if int(os.environ.get("VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES", "1")):
        return int.from_bytes(hash_bytes, "big") & 0xFFFF_FFFF_FFFF_FFFF
    return hash_bytes


def hash_block_tokens(
    hash_function: Callable[[Any], bytes],
    parent_block_hash: BlockHash | None,
    curr_block_token_ids: Sequence[int],
    extra_keys: ExtraKeys = None,
) -> BlockHash:
    """The hash of one full block; no parent means the first block of a sequence."""
    parent = parent_block_hash or NONE_HASH
    return BlockHash(hash_function((parent, tuple(curr_block_token_ids), extra_keys)))


def get_request_block_hasher(
    block_size: int,
    caching_hash_fn: Callable[[Any], bytes],
    *,
    semantics: Semantics = VLLM_0_22_1,
) -> Callable[[Request], list[BlockHash]]:
    """A function that hashes the full blocks of a request which it has no hash for yet."""

    def request_block_hasher(request: Request) -> list[BlockHash]:
        token_ids = request._all_token_ids
        hashes = request.block_hashes
        start = len(hashes) * block_size
        if start + block_size > len(token_ids):
            return []
        parent: BlockHash | None = hashes[-1] if hashes else None
        # One tuple of what is left to hash: its slices are the tuples that are hashed.
        tokens = tuple(token_ids[start:])
        extra_keys: ExtraKeys = None
        new_hashes: list[BlockHash] = []
        varied = differ_by_block(request)
        # vLLM's shortcut: whoever fills a block later has sampled its way past all but the last
        # encoder input.
        mm_idx = -1 if start > 0 and request.mm_features else 0
        for offset in range(0, len(tokens) - block_size + 1, block_size):
            if varied or offset == 0 or start + offset == block_size:
                # Mostly they differ between the first block and the others, and nowhere else.
                begin = start + offset
                extra_keys, mm_idx = generate_block_hash_extra_keys(
                    request, begin, begin + block_size, mm_idx, semantics=semantics
                )
            parent = BlockHash(
                caching_hash_fn(
                    (parent or NONE_HASH, tokens[offset : offset + block_size], extra_keys)
                )
            )
            new_hashes.append(parent)
        return new_hashes

    return request_block_hasher


class BlockHashListWithBlockSize(Sequence[BlockHash]):
    """Hashes of small blocks, seen as those of bigger ones: each is a few of them in a row, or
    the last of these alone, which tells the whole prefix too.

    A view: it grows with the list that it is made of.
    """

    def __init__(
        self,
        block_hashes: list[BlockHash],
        hash_block_size: int,
        target_block_size: int,
        last_stands: bool = False,
    ) -> None:
        assert target_block_size % hash_block_size == 0
        self.block_hashes = block_hashes
        self.last_stands = last_stands
        self.scale_factor = target_block_size // hash_block_size

    def __len__(self) -> int:
        return len(self.block_hashes) // self.scale_factor

    @overload
    def __getitem__(self, index: int) -> BlockHash: ...

    @overload
    def __getitem__(self, index: slice) -> list[BlockHash]: ...

    def __getitem__(self, index: int | slice) -> BlockHash | list[BlockHash]:
        if isinstance(index, slice):
            return [self._joined(i) for i in range(*index.indices(len(self)))]
        return self._joined(index)

    def __iter__(self) -> Iterator[BlockHash]:
        return map(self._joined, range(len(self)))

    def _joined(self, index: int) -> BlockHash:
        first = index * self.scale_factor
        if self.last_stands:
            return self.block_hashes[first + self.scale_factor - 1]
        return BlockHash(b"".join(self.block_hashes[first : first + self.scale_factor]))


BlockHashList = list[BlockHash] | BlockHashListWithBlockSize


def block_hashes_of(
    request: Request, hash_block_size: int, block_size: int, last_stands: bool = False
) -> BlockHashList:
    """A request's hashes for blocks of that size, a multiple of what one hash covers."""
    hashes = request.block_hashes
    if block_size == hash_block_size:
        return hashes
    return BlockHashListWithBlockSize(hashes, hash_block_size, block_size, last_stands)


def resolve_kv_cache_block_sizes(
    kv_cache_config: KVCacheConfig, vllm_config: Any
) -> tuple[int, int]:
    """The scheduler's block size and the hash block size.

    For one group, both are the cache's, of all ranks of context parallelism together. For several,
    what a prefix hit is a multiple of, and what all groups' blocks are multiples of.

    Raises:
        ValueError: the hash block size that was asked for does not divide a group's; or blocks of
            several groups are to be divided among ranks.
    """
    parallel = vllm_config.parallel_config
    num_ranks = parallel.decode_context_parallel_size * parallel.prefill_context_parallel_size
    cache = vllm_config.cache_config
    specs = [group.kv_cache_spec for group in kv_cache_config.kv_cache_groups]
    if len(specs) <= 1:
        return int(cache.block_size) * num_ranks, int(cache.block_size) * num_ranks
    if num_ranks != 1:
        raise ValueError(f"blocks of several groups cannot be divided among {num_ranks} ranks")
    sizes = [spec.block_size for spec in specs]
    scheduler_block_size = lcm(*sizes)
    hashes_are_used = cache.enable_prefix_caching or vllm_config.kv_transfer_config is not None
    if not hashes_are_used or any(
        isinstance(spec, MambaSpec) and spec.block_size != cache.block_size for spec in specs
    ):
        return scheduler_block_size, scheduler_block_size
    requested = cache.hash_block_size
    hash_block_size = gcd(*sizes) if requested is None else int(requested)
    if any(size % hash_block_size for size in sizes):
        raise ValueError(
            f"hash_block_size {hash_block_size} does not divide the groups' block sizes {sizes}"
        )
    return scheduler_block_size, hash_block_size
