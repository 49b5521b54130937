"""The description of the KV cache that the scheduler is built on: groups, block size, blocks."""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Self

from nullblock.reference.utils import cdiv


class KVCacheSpecKind(StrEnum):
    """The kinds of KV cache that vLLM knows, as its events spell them."""

    FULL_ATTENTION = "full_attention"
    MLA_ATTENTION = "mla_attention"
    SLIDING_WINDOW = "sliding_window"
    SLIDING_WINDOW_MLA = "sliding_window_mla"
    MAMBA = "mamba"
    CHUNKED_LOCAL_ATTENTION = "chunked_local_attention"
    SINK_FULL_ATTENTION = "sink_full_attention"
    ENCODER_ONLY_ATTENTION = "encoder_only_attention"
    CROSS_ATTENTION = "cross_attention"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class KVCacheSpec:
    """The KV cache of one layer."""

    block_size: int
    """Tokens a block."""

    def copy_with_new_block_size(self, block_size: int) -> Self:
        """The same layer cut into blocks of another size."""
        return replace(self, block_size=block_size)


@dataclass(frozen=True, kw_only=True)
class AttentionSpec(KVCacheSpec):
    """An attention layer. Heads, sizes and dtype matter to workers, not to the scheduler."""

    num_kv_heads: int
    head_size: int
    dtype: object
    page_size_padded: int | None = None


@dataclass(frozen=True, kw_only=True)
class FullAttentionSpec(AttentionSpec):
    """A layer that keeps every token's KV until the request gives up its blocks."""

    head_size_v: int | None = None
    sliding_window: int | None = None
    attention_chunk_size: int | None = None

    def __post_init__(self) -> None:
        if self.head_size_v is None:
            object.__setattr__(self, "head_size_v", self.head_size)


@dataclass(frozen=True, kw_only=True)
class TQFullAttentionSpec(FullAttentionSpec):
    """Full attention over a quantised cache."""

    tq_slot_size: int = 0


@dataclass(frozen=True, kw_only=True)
class MLAAttentionSpec(FullAttentionSpec):
    """Full attention over a latent cache: scheduled like any other."""

    cache_dtype_str: str | None = None
    alignment: int | None = None
    compress_ratio: int = 1
    model_version: str | None = None


@dataclass(frozen=True, kw_only=True)
class HiddenStateCacheSpec(MLAAttentionSpec):
    """A layer that keeps hidden states for somebody else."""


@dataclass(frozen=True)
class SinkFullAttentionSpec(FullAttentionSpec):
    """Full attention that also sees some tokens which belong to no request."""

    sink_len: int | None = None
    """Those tokens: whole blocks."""


@dataclass(frozen=True, kw_only=True)
class ChunkedLocalAttentionSpec(AttentionSpec):
    """A layer that sees the tokens of its own chunk, and none before it."""

    attention_chunk_size: int
    """Tokens a chunk."""

    def max_admission_blocks_per_request(
        self, max_num_batched_tokens: int, max_model_len: int
    ) -> int:
        """The blocks that a request ever holds: a chunk, and what a step adds."""
        num_tokens = min(self.attention_chunk_size + max_num_batched_tokens, max_model_len)
        return cdiv(num_tokens, self.block_size)


@dataclass(frozen=True, kw_only=True)
class SlidingWindowSpec(AttentionSpec):
    """A layer that sees the last tokens only."""

    sliding_window: int
    """Tokens that are seen, the one at hand included."""
    head_size_v: int | None = None

    def __post_init__(self) -> None:
        if self.head_size_v is None:
            object.__setattr__(self, "head_size_v", self.head_size)

    def max_admission_blocks_per_request(
        self, max_num_batched_tokens: int, max_model_len: int
    ) -> int:
        """The blocks that a request ever holds: a window, what a step adds, and one that both
        ends share with what is outside.
        """
        num_tokens = min(self.sliding_window - 1 + max_num_batched_tokens, max_model_len)
        return cdiv(num_tokens, self.block_size) + 1


@dataclass(frozen=True, kw_only=True)
class SlidingWindowMLASpec(SlidingWindowSpec):
    """A window over a latent cache: scheduled like any other."""

    cache_dtype_str: str | None = None
    alignment: int | None = None
    compress_ratio: int = 1
    model_version: str | None = None


@dataclass(frozen=True)
class MambaSpec(KVCacheSpec):
    """A layer whose whole past is one state: a block holds the state after its last token."""

    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[object, ...]
    page_size_padded: int | None = None
    mamba_type: object = None
    mamba_cache_mode: str = "none"
    """``align`` keeps states at the ends of blocks, and as few as it can; the others keep one
    for each block."""
    num_speculative_blocks: int = 0
    """States beside the last one, for drafts."""
    num_prefill_checkpoint_blocks: int = 0
    """Of ``align``, in lines after vLLM 0.22.1: states that a step may keep within it."""
    prefill_checkpoint_alignment: int | None = None
    """How far from a step's begin such a state is, in tokens, or a multiple of that."""


@dataclass(frozen=True)
class EncoderOnlyAttentionSpec(AttentionSpec):
    """A layer that keeps nothing from step to step."""


@dataclass(frozen=True)
class CrossAttentionSpec(AttentionSpec):
    """A layer that sees what an encoder made of the request's inputs."""


_KINDS: tuple[tuple[type[KVCacheSpec], KVCacheSpecKind], ...] = (
    (SlidingWindowMLASpec, KVCacheSpecKind.SLIDING_WINDOW_MLA),
    (MLAAttentionSpec, KVCacheSpecKind.MLA_ATTENTION),
    (SinkFullAttentionSpec, KVCacheSpecKind.SINK_FULL_ATTENTION),
    (FullAttentionSpec, KVCacheSpecKind.FULL_ATTENTION),
    (ChunkedLocalAttentionSpec, KVCacheSpecKind.CHUNKED_LOCAL_ATTENTION),
    (SlidingWindowSpec, KVCacheSpecKind.SLIDING_WINDOW),
    (MambaSpec, KVCacheSpecKind.MAMBA),
    (EncoderOnlyAttentionSpec, KVCacheSpecKind.ENCODER_ONLY_ATTENTION),
    (CrossAttentionSpec, KVCacheSpecKind.CROSS_ATTENTION),
)
"""Special kinds before the general ones that they are derived from."""


def get_kv_cache_spec_kind(kv_cache_spec: KVCacheSpec) -> KVCacheSpecKind:
    """What KV events call a layer of that kind."""
    for layer, kind in _KINDS:
        if isinstance(kv_cache_spec, layer):
            return kind
    return KVCacheSpecKind.UNKNOWN


def get_kv_cache_spec_sliding_window(kv_cache_spec: KVCacheSpec) -> int | None:
    """The window that KV events tell of a layer: None where it has none."""
    if isinstance(kv_cache_spec, SlidingWindowSpec):
        return kv_cache_spec.sliding_window
    return None


@dataclass
class KVCacheTensor:
    """One allocation on the device."""

    size: int
    """Bytes."""
    shared_by: list[str]
    """Names of the layers that share it."""


@dataclass
class KVCacheGroupSpec:
    """Layers that share one block table."""

    layer_names: list[str]
    kv_cache_spec: KVCacheSpec
    is_eagle_group: bool = False


@dataclass
class KVCacheConfig:
    """The KV cache of a model."""

    num_blocks: int
    """Blocks in the pool, the null block included."""
    kv_cache_tensors: list[KVCacheTensor]
    kv_cache_groups: list[KVCacheGroupSpec]

    @property
    def has_mamba_layers(self) -> bool:
        """Whether any group is a Mamba group."""
        return any(isinstance(group.kv_cache_spec, MambaSpec) for group in self.kv_cache_groups)

    @property
    def needs_kv_cache_zeroing(self) -> bool:
        """Whether workers must zero freshly allocated blocks; only Mamba needs it."""
        return self.has_mamba_layers
