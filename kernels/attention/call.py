"""One call of attention, and what every kernel is given of it."""

from dataclasses import dataclass
from typing import Any

import torch
import triton

from nullblock.kernels.attention import launch
from nullblock.kernels.attention.context import PagedContext, Results
from nullblock.kernels.attention.launch import Numbers, Tile
from nullblock.kernels.attention.partials import Partials

LOG2_E = 1.4426950408889634


@dataclass(frozen=True, slots=True)
class Call:
    """Checked arguments of a wrapper."""

    query: torch.Tensor
    context: PagedContext
    query_start_loc: torch.Tensor | None
    """None: token ``i`` is request ``i``'s."""
    softmax_scale: float
    results: Results

    @property
    def num_heads(self) -> int:
        """Query heads."""
        return int(self.query.shape[1])

    @property
    def processors(self) -> int:
        """Multiprocessors of the device."""
        return launch.processors(self.query.device)

    @property
    def split(self) -> int:
        """Tokens of a split of one request's keys."""
        context = self.context
        return launch.split_size(
            context.capacity, self.num_heads, context.num_kv_heads, self.processors
        )

    @property
    def numbers(self) -> Numbers:
        """What Triton has to know before it compiles."""
        head_size = int(self.query.shape[2])
        return Numbers(
            group=self.num_heads // self.context.num_kv_heads,
            block_size=self.context.block_size,
            head_size=head_size,
            head_pad=max(16, triton.next_power_of_2(head_size)),
            compute=launch.compute_dtype(self.query.dtype, self.context.key_cache.dtype),
        )

    @property
    def prefill_tile(self) -> Tile:
        """How a program works on many rows."""
        return launch.prefill_tile(self.numbers, launch.shared_memory(self.query.device))

    def tensors(self, partials: Partials) -> dict[str, Any]:
        """Tensors and their strides."""
        query, context, results = self.query, self.context, self.results
        return {
            "query": query,
            "keys": context.key_cache,
            "values": context.value_cache,
            "block_table": context.block_table,
            "seq_lens": context.seq_lens,
            "starts": self.query_start_loc,
            "out": results.out,
            "lse": results.lse,
            "error": results.error,
            **self.scales(),
            "partial_acc": partials.acc,
            "partial_top": partials.top,
            "partial_total": partials.total,
            **_strides("query", query, "token", "head"),
            **_strides("key", context.key_cache, "block", "slot", "head"),
            **_strides("value", context.value_cache, "block", "slot", "head"),
            **_strides("table", context.block_table, "row"),
            **_strides("out", results.out, "token", "head"),
        }

    def scales(self) -> dict[str, torch.Tensor | None]:
        """Scales that are on the device."""
        k_scale, v_scale = self.context.k_scale, self.context.v_scale
        return {
            "key_scale": k_scale if isinstance(k_scale, torch.Tensor) else None,
            "value_scale": v_scale if isinstance(v_scale, torch.Tensor) else None,
        }

    @property
    def value_factor(self) -> float:
        """What values are multiplied by that the host knows."""
        v_scale = self.context.v_scale
        return 1.0 if isinstance(v_scale, torch.Tensor) else v_scale

    def scalars(self) -> dict[str, Any]:
        """Numbers that change from call to call."""
        context = self.context
        k_scale = 1.0 if isinstance(context.k_scale, torch.Tensor) else context.k_scale
        return {
            "key_factor": self.softmax_scale * k_scale * LOG2_E,
            "value_factor": self.value_factor,
            "num_tokens": self.query.shape[0],
            "num_heads": self.num_heads,
            "num_blocks": context.num_blocks,
            "longest": context.longest,
        }

    def constants(self, tile: Tile) -> dict[str, Any]:
        """What is compiled in, and how."""
        numbers = self.numbers
        return {
            "GROUP": numbers.group,
            "BLOCK_SIZE": numbers.block_size,
            "HEAD_SIZE": numbers.head_size,
            "HEAD_PAD": numbers.head_pad,
            "ROWS": tile.rows,
            "TILE": tile.keys,
            "COMPUTE": numbers.compute,
            "num_warps": tile.num_warps,
            "num_stages": tile.num_stages,
        }


def _strides(name: str, tensor: torch.Tensor, *dimensions: str) -> dict[str, int]:
    """The strides of a tensor's first dimensions, in elements."""
    return {f"{name}_{dim}": tensor.stride(i) for i, dim in enumerate(dimensions)}
