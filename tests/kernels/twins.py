"""A kernel beside its twin: the same tensors, changed by each, and compared to the last bit."""

import copy
from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass

import torch

from nullblock.kernels.errors import Error, new_error


def tensors(value: object) -> list[torch.Tensor]:
    """The tensors of a structure, in order."""
    if isinstance(value, torch.Tensor):
        return [value]
    if is_dataclass(value):
        return [t for field in fields(value) for t in tensors(getattr(value, field.name))]
    if isinstance(value, Iterable) and not isinstance(value, str):
        return [t for part in value for t in tensors(part)]
    return []


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor as whole numbers, so that NaN equals NaN and 0.0 is not -0.0."""
    whole = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    return tensor.contiguous().view(whole[tensor.element_size()])


def same(kernel: Callable[..., object], twin: Callable[..., object], *values: object) -> Error:
    """Run both on copies of `values` and an error word; every tensor has to end up the same.
    `values` then hold what came of it. What the error word says."""
    others = copy.deepcopy(values)
    device = tensors(values)[0].device
    error, other_error = new_error(device), new_error(device)
    kernel(*values, error)
    twin(*others, other_error)
    assert Error(int(error)) == Error(int(other_error))
    for mine, theirs in zip(tensors(values), tensors(others), strict=True):
        assert torch.equal(bits(mine), bits(theirs))
    return Error(int(error))
