"""The plain torch that every attention kernel has to agree with.

One request after another, keys and values gathered by its block table, the whole softmax at once,
in float64: no tiles, no splits, no rescaling.
"""

import torch

from nullblock.kernels.attention.context import Fault, PagedContext


def attend_torch(
    query: torch.Tensor,
    context: PagedContext,
    query_start_loc: torch.Tensor,
    softmax_scale: float,
    out: torch.Tensor,
    lse: torch.Tensor | None,
    error: torch.Tensor | None,
) -> None:
    """Causal attention of each request's query, which is the tail of its context, to that context.

    Writes ``out``, ``lse`` and ``error`` (shapes: ``context.py``); rows that belong to no request
    stay as they are. Row ``i`` of a request with ``n`` query tokens and ``L`` tokens in all sees
    its first ``L - n + i + 1`` tokens. A padded request (``L = 0``) gives 0, and an lse of -inf.
    """
    starts = query_start_loc.tolist()
    for request, length in enumerate(context.seq_lens.tolist()):
        start, end = starts[request], starts[request + 1]
        if start == end:
            continue
        fault = _fault(query, context, request, start, end, length)
        rows = slice(max(start, 0), max(end, 0))
        if fault:
            _report(fault, rows, out, lse, error)
            continue
        result, logs = _attend_one(query[rows], context, request, length, softmax_scale)
        out[rows] = result.to(out.dtype)
        if lse is not None:
            lse[rows] = logs.to(lse.dtype)


def _fault(
    query: torch.Tensor, context: PagedContext, request: int, start: int, end: int, length: int
) -> Fault:
    """What is wrong with the metadata of a request."""
    fault = Fault(0)
    if not 0 <= length <= context.max_seq_len:
        return Fault.SEQ_LEN
    if not 0 <= start <= end <= query.shape[0] or 0 < length < end - start:
        fault |= Fault.QUERY_LEN
    ids = context.block_table[request, : -(-length // context.block_size)]
    if ids.numel() and not (0 <= int(ids.min()) and int(ids.max()) < len(context.key_cache)):
        fault |= Fault.BLOCK_ID
    return fault


def _report(
    fault: Fault,
    rows: slice,
    out: torch.Tensor,
    lse: torch.Tensor | None,
    error: torch.Tensor | None,
) -> None:
    out[rows] = float("nan")
    if lse is not None:
        lse[rows] = float("nan")
    if error is not None:
        error |= int(fault)


def _attend_one(
    query: torch.Tensor, context: PagedContext, request: int, length: int, softmax_scale: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """One request: ``[n, H, head_size]`` and ``[n, H]``, float64."""
    num_tokens, num_heads, head_size = query.shape
    if length == 0:
        empty = query.new_zeros(query.shape, dtype=torch.float64)
        return empty, empty.new_full((num_tokens, num_heads), float("-inf"))
    blocks = context.block_table[request, : -(-length // context.block_size)].long()
    key = _gather(context.key_cache, blocks, length) * context.k_scale
    value = _gather(context.value_cache, blocks, length) * context.v_scale
    # Query heads h * group to (h + 1) * group - 1 share key/value head h.
    grouped = query.double().view(num_tokens, context.num_kv_heads, -1, head_size)
    scores = torch.einsum("nhgd,khd->nhgk", grouped, key) * softmax_scale
    seen = torch.arange(length - num_tokens, length, device=query.device) + 1
    hidden = torch.arange(length, device=query.device) >= seen[:, None]
    scores.masked_fill_(hidden[:, None, None, :], float("-inf"))
    result = torch.einsum("nhgk,khd->nhgd", scores.softmax(-1), value)
    return result.reshape(query.shape), scores.logsumexp(-1).view(num_tokens, num_heads)


def _gather(cache: torch.Tensor, blocks: torch.Tensor, length: int) -> torch.Tensor:
    """The first ``length`` rows of some blocks, ``[length, Hkv, head_size]``, float64."""
    return cache[blocks].flatten(0, 1)[:length].double()
