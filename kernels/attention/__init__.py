"""Attention over a paged cache. Layouts: ``context.py``.

| wrapper | what | twin |
|---|---|---|
| ``paged_decode_attention`` | one query token a request | ``paged_decode_attention_torch`` |
| ``paged_attention`` | prefill chunks and decodes together, causal | ``paged_attention_torch`` |
| ``cascade_attention`` | the same, a shared prefix read once | ``cascade_attention_torch`` |

    context = PagedContext(key_cache, value_cache, block_table, seq_lens)
    out = paged_attention(query, context, query_start_loc, softmax_scale=head_size**-0.5)

Keys and values of the query's own tokens are in the cache before attention is called. On a CPU the
wrappers take the twins, on a GPU the kernels; ``backend`` overrides that.
"""

from nullblock.kernels.attention.cascade import cascade_attention, cascade_attention_torch
from nullblock.kernels.attention.context import PagedContext, Results
from nullblock.kernels.attention.decode import paged_decode_attention, paged_decode_attention_torch
from nullblock.kernels.attention.mixed import paged_attention, paged_attention_torch

__all__ = [
    "PagedContext",
    "Results",
    "cascade_attention",
    "cascade_attention_torch",
    "paged_attention",
    "paged_attention_torch",
    "paged_decode_attention",
    "paged_decode_attention_torch",
]
