"""What every wrapper asks of its arguments, and whether it launches a kernel or its twin."""

from collections.abc import Collection
from typing import Literal

import torch

Backend = Literal["auto", "triton", "torch"]
"""``auto``: Triton on a GPU, the twin on a CPU. On a CPU ``triton`` needs the interpreter."""
INTEGERS = (torch.int32, torch.int64)


def check(
    name: str,
    tensor: torch.Tensor,
    dtypes: Collection[torch.dtype],
    shape: tuple[int | None, ...],
    device: torch.device,
) -> None:
    """Raise ValueError, in one line, unless a tensor is what a kernel takes it for.

    `shape` has None where any size will do. Rows may lie apart; the last dimension may not.
    """
    if tensor.dtype not in dtypes:
        wanted = " or ".join(str(dtype).removeprefix("torch.") for dtype in dtypes)
        raise ValueError(f"{name} is {str(tensor.dtype).removeprefix('torch.')}: give {wanted}")
    if tensor.device != device:
        raise ValueError(f"{name} is on {tensor.device}, others on {device}: move it there")
    fits = tensor.dim() == len(shape) and all(
        wanted is None or wanted == size for wanted, size in zip(shape, tensor.shape, strict=True)
    )
    if not fits:
        wanted = ", ".join("any" if size is None else str(size) for size in shape)
        raise ValueError(f"{name} has shape {list(tensor.shape)}: give [{wanted}]")
    if tensor.numel() > 1 and tensor.shape[-1] > 1 and tensor.stride(-1) != 1:
        raise ValueError(f"{name} is strided in its last dimension: call .contiguous()")


def check_count(name: str, tensor: torch.Tensor, device: torch.device) -> None:
    """Raise ValueError unless a tensor is one integer on the device."""
    check(name, tensor, INTEGERS, (1,), device)


def check_error(tensor: torch.Tensor, device: torch.device) -> None:
    """Raise ValueError unless a tensor is an error word on the device."""
    check("error", tensor, (torch.int32,), (1,), device)


def use_triton(tensor: torch.Tensor, backend: Backend) -> bool:
    """Whether a wrapper launches its kernel, rather than its twin."""
    return backend == "triton" or (backend == "auto" and tensor.device.type != "cpu")


def lanes(size: int, most: int) -> int:
    """How many lanes work on `size` things at once: a power of two, at least 16."""
    return max(16, min(most, 1 << (max(size, 1) - 1).bit_length()))
