"""Paged contexts of any size, and what a user might compute attention over them with instead.

Torch's own attention takes keys and values in one piece: it gets them that way, already gathered,
which no engine with a paged cache would have. vLLM's kernel reads the very same cache and tables.
"""

from dataclasses import dataclass
from functools import partial

import torch
from figures import Cost
from timing import Call
from workbench import Peer

from nullblock.kernels.attention import PagedContext
from nullblock.kernels.attention.cost import Model, paged_cost

HEADS, KV_HEADS, SIZE, PAGE = 32, 8, 128, 16
MODEL = Model(HEADS, KV_HEADS, SIZE)
SCALE = SIZE**-0.5


@dataclass(frozen=True, slots=True)
class Case:
    """Requests of one length that each compute some of their last tokens."""

    query: torch.Tensor
    context: PagedContext
    query_start_loc: torch.Tensor
    length: int
    count: int

    @property
    def cost(self) -> Cost:
        """What has to be moved and computed at least."""
        requests = self.context.num_reqs
        least = paged_cost(MODEL, [self.length] * requests, [self.count] * requests, PAGE)
        return Cost(least.num_bytes, least.flops)


def case(device: torch.device, requests: int, length: int, count: int, shared: int = 0) -> Case:
    """Blocks are drawn at random; the first `shared` of every table are those of the first."""
    columns = -(-length // PAGE)
    own = columns - shared
    blocks = shared + requests * own + 1
    shuffled = torch.randperm(blocks - 1, device=device).int() + 1
    table = torch.empty(requests, columns, dtype=torch.int32, device=device)
    table[:, :shared] = shuffled[:shared]
    table[:, shared:] = shuffled[shared:].view(requests, own)
    key, value = (
        torch.randn(blocks, PAGE, KV_HEADS, SIZE, dtype=torch.bfloat16, device=device)
        for _ in range(2)
    )
    lengths = torch.full((requests,), length, dtype=torch.int32, device=device)
    query = torch.randn(requests * count, HEADS, SIZE, dtype=torch.bfloat16, device=device)
    starts = torch.arange(requests + 1, dtype=torch.int32, device=device) * count
    return Case(query, PagedContext(key, value, table, lengths), starts, length, count)


def peers(given: Case) -> dict[str, Peer]:
    """Torch's attention, FlexAttention, vLLM's kernel."""
    return {
        "torch SDPA, dense": Peer(lambda: _sdpa(given)),
        "FlexAttention, dense": Peer(lambda: _flex(given)),
        "vLLM Triton": Peer(lambda: _vllm(given)),
    }


def _dense(given: Case) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Query, keys and values in one piece, heads before tokens."""
    requests, table = given.context.num_reqs, given.context.block_table.long()
    query = given.query.view(requests, given.count, HEADS, SIZE).transpose(1, 2).contiguous()
    key, value = (
        cache[table].flatten(1, 2)[:, : given.length].transpose(1, 2).contiguous()
        for cache in (given.context.key_cache, given.context.value_cache)
    )
    return query, key, value


def _sdpa(given: Case) -> Call:
    query, key, value = _dense(given)
    if given.count not in (1, given.length):
        raise NotImplementedError("causal only for one token or for all of them")
    attention = torch.nn.functional.scaled_dot_product_attention
    causal = given.count > 1
    return partial(attention, query, key, value, is_causal=causal, enable_gqa=True)


def _flex(given: Case) -> Call:
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    query, key, value = _dense(given)
    first = given.length - given.count
    mask = None
    if given.count > 1:
        mask = create_block_mask(
            lambda b, h, q, k: k <= q + first,
            None, None, given.count, given.length, device=query.device,
        )  # fmt: skip
    compiled = torch.compile(flex_attention)
    return partial(compiled, query, key, value, block_mask=mask, enable_gqa=True)


def _vllm(given: Case) -> Call:
    """vLLM's Triton kernel with what its own backend gives it: 16 segments where requests are
    few."""
    from vllm.v1.attention.ops.triton_unified_attention import unified_attention

    few, segments, device = 128 // KV_HEADS, 16, given.query.device

    def room(*tail: int) -> torch.Tensor:
        return torch.empty(few, HEADS, segments, *tail, dtype=torch.float32, device=device)

    return partial(
        unified_attention,
        q=given.query, k=given.context.key_cache, v=given.context.value_cache,
        out=torch.empty_like(given.query), cu_seqlens_q=given.query_start_loc,
        max_seqlen_q=given.count, seqused_k=given.context.seq_lens, max_seqlen_k=given.length,
        softmax_scale=SCALE, causal=True, window_size=(-1, -1),
        block_table=given.context.block_table, softcap=0.0,
        q_descale=None, k_descale=None, v_descale=None,
        seq_threshold_3D=few, num_par_softmax_segments=segments,
        softmax_segm_output=room(SIZE), softmax_segm_max=room(), softmax_segm_expsum=room(),
    )  # fmt: skip
