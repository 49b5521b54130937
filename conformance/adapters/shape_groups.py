"""The KV cache groups of a scenario in vLLM's classes, or in those of the same shape."""

from typing import Any

from nullblock.conformance.groups import alignment_of, size_on_a_rank
from nullblock.conformance.scenario_format import Config, Group


def kv_cache_groups(classes: Any, dtype: Any, config: Config) -> list[Any]:
    """A ``KVCacheGroupSpec`` for each group.

    Args:
        classes: the module ``kv_cache_interface``.
        dtype: of every layer. Nothing is allocated.
    """
    return [
        classes.KVCacheGroupSpec(
            [f"layer{index}"], _layer(classes, dtype, group, config), is_eagle_group=group.eagle
        )
        for index, group in enumerate(config.groups)
    ]


def _layer(classes: Any, dtype: Any, group: Group, config: Config) -> Any:
    """The smallest layer of the group's kind."""
    block_size = size_on_a_rank(group, config)
    layer = {"block_size": block_size, "num_kv_heads": 1, "head_size": 1, "dtype": dtype}
    match group.type:
        case "full":
            return classes.FullAttentionSpec(**layer)
        case "sliding_window":
            return classes.SlidingWindowSpec(**layer, sliding_window=group.sliding_window)
        case "chunked_local":
            return classes.ChunkedLocalAttentionSpec(**layer, attention_chunk_size=group.chunk)
        case "cross_attention":
            return classes.CrossAttentionSpec(**layer)
        case "sink":
            return classes.SinkFullAttentionSpec(**layer, sink_len=group.sink_len)
        case "mamba":
            return classes.MambaSpec(
                **_within_steps(classes.MambaSpec, alignment_of(group)),
                block_size=block_size,
                shapes=((1,),),
                dtypes=(dtype,),
                mamba_cache_mode=group.mamba_cache_mode,
                num_speculative_blocks=group.num_speculative_blocks,
            )


def _within_steps(layer: Any, alignment: int) -> dict[str, int]:
    """What says that steps may keep states within them: layers of vLLM 0.22.1 have no words for
    that.
    """
    found = {"num_prefill_checkpoint_blocks": 1, "prefill_checkpoint_alignment": alignment}
    return found if alignment and found.keys() <= layer.__dataclass_fields__.keys() else {}
