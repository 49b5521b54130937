"""What the torch twins share: a masked load, spelled in torch."""

import torch


def load(values: torch.Tensor, there: torch.Tensor, *at: torch.Tensor) -> torch.Tensor:
    """``values[at]`` where `there`, and 0 elsewhere, whatever `at` says there."""
    if not values.numel():
        return torch.zeros_like(there, dtype=values.dtype)
    inside = tuple(torch.where(there, index, 0).long() for index in at)
    return torch.where(there, values[inside], 0)
