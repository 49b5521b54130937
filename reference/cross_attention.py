"""Cross-attention: what an encoder made of the request's inputs, its own and nobody else's."""

from collections.abc import Sequence

from nullblock.reference.block_pool import BlockPool
from nullblock.reference.block_tables import SingleTypeKVCacheManager
from nullblock.reference.kv_cache_interface import KVCacheSpec
from nullblock.reference.kv_cache_utils import BlockHashList, KVCacheBlock
from nullblock.reference.request import Request


class CrossAttentionManager(SingleTypeKVCacheManager):
    """The manager of cross-attention layers: blocks for the encoder's tokens, taken once.

    Prefix caching does not go with it: vLLM switches it off for such models, and raises here.
    """

    def adopt_hits(
        self, request_id: str, new_computed_blocks: Sequence[KVCacheBlock], num_known: int
    ) -> bool:
        """False: no hit concerns this group."""
        assert not new_computed_blocks
        return False

    def cache_blocks(
        self, request: Request, num_tokens: int, alignment_tokens: int | None = None
    ) -> None:
        """Raise ``ValueError``: these blocks are nobody else's."""
        raise ValueError("cross-attention blocks are not cached")

    def is_covered(
        self, request_id: str, num_computed: int, slots: int, scheduled: int, to_cache: int
    ) -> bool:
        """Whether a running request's step changes nothing here: it never does."""
        return not self.enable_caching

    def get_num_common_prefix_blocks(self, running_request_id: str) -> int:
        """0: nothing is shared."""
        return 0

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
        """Raise ``NotImplementedError``: these blocks are not cached."""
        raise NotImplementedError("cross-attention blocks are not cached")
