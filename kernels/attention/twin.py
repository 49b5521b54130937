"""The plain torch that every attention kernel has to agree with.

One request after another, keys and values gathered by its block table, the whole softmax at once,
in float64: no tiles, no splits, no rescaling.
"""

import torch

from nullblock.kernels.attention.context import PagedContext, Results
from nullblock.kernels.errors import Error


def attend_torch(
    query: torch.Tensor,
    context: PagedContext,
    query_start_loc: torch.Tensor,
    softmax_scale: float,
    results: Results,
) -> None:
    """Causal attention of each request's query, which is the tail of its context, to that context.

    Row ``i`` of a request with ``n`` query tokens and ``L`` tokens in all sees its first
    ``L - n + i + 1`` tokens. A padded request (``L = 0``) gives 0, and an lse of -inf. Rows that
    belong to no request stay as they are. A request with bad metadata sets a bit of the error
    word, ``COUNT`` or ``BLOCK``, and gets NaN: nobody mistakes it for a result.
    """
    starts = query_start_loc.tolist()
    for request, length in enumerate(context.seq_lens.tolist()):
        start, end = starts[request], starts[request + 1]
        if start == end:
            continue
        rows = slice(max(start, 0), max(end, 0))
        if wrong := _wrong(query, context, request, end - start, length):
            _refuse(wrong, rows, results)
            continue
        result, logs = _attend_one(query[rows], context, request, length, softmax_scale)
        results.out[rows] = result.to(results.out.dtype)
        if results.lse is not None:
            results.lse[rows] = logs.to(results.lse.dtype)


def _wrong(
    query: torch.Tensor, context: PagedContext, request: int, num_tokens: int, length: int
) -> Error:
    """What is wrong with the metadata of a request; 0 if nothing is."""
    if not 0 <= length <= context.longest or not 0 < num_tokens <= query.shape[0]:
        return Error.COUNT
    if 0 < length < num_tokens:
        return Error.COUNT
    blocks = _blocks(context, request, length)
    # Block 0, the null block, holds no token: a table that nobody filled in names it.
    if length and not (0 < int(blocks.min()) and int(blocks.max()) < context.num_blocks):
        return Error.BLOCK
    return Error(0)


def _refuse(wrong: Error, rows: slice, results: Results) -> None:
    results.out[rows] = float("nan")
    if results.lse is not None:
        results.lse[rows] = float("nan")
    if results.error is not None:
        results.error.bitwise_or_(int(wrong))


def _attend_one(
    query: torch.Tensor, context: PagedContext, request: int, length: int, softmax_scale: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """One request: ``[n, H, head_size]`` and ``[n, H]``, float64."""
    num_tokens, num_heads, head_size = query.shape
    if length == 0:
        empty = query.new_zeros(query.shape, dtype=torch.float64)
        return empty, empty.new_full((num_tokens, num_heads), float("-inf"))
    blocks = _blocks(context, request, length)
    key = _gather(context.key_cache, blocks, length) * context.k_scale
    value = _gather(context.value_cache, blocks, length) * context.v_scale
    # Query heads h * group to (h + 1) * group - 1 share key/value head h.
    grouped = query.double().reshape(num_tokens, context.num_kv_heads, -1, head_size)
    scores = torch.einsum("nhgd,khd->nhgk", grouped, key) * softmax_scale
    seen = torch.arange(length - num_tokens, length, device=query.device) + 1
    hidden = torch.arange(length, device=query.device) >= seen[:, None]
    scores.masked_fill_(hidden[:, None, None, :], float("-inf"))
    result = torch.einsum("nhgk,khd->nhgd", scores.softmax(-1), value)
    return result.reshape(query.shape), scores.logsumexp(-1).view(num_tokens, num_heads)


def _blocks(context: PagedContext, request: int, length: int) -> torch.Tensor:
    """The blocks that hold the tokens of a request."""
    return context.block_table[request, : -(-length // context.block_size)].long()


def _gather(cache: torch.Tensor, blocks: torch.Tensor, length: int) -> torch.Tensor:
    """The first ``length`` rows of some blocks, ``[length, Hkv, head_size]``, float64."""
    return cache[blocks].flatten(0, 1)[:length].double()
