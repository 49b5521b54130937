"""Which of a kernel and its twin a wrapper takes."""

from typing import Literal

import torch

Backend = Literal["auto", "triton", "torch"]
"""``auto``: Triton on a GPU, the twin on a CPU. On a CPU ``triton`` needs the interpreter."""


def use_triton(tensor: torch.Tensor, backend: Backend) -> bool:
    """Whether a wrapper launches its kernel, rather than its twin."""
    return backend == "triton" or (backend == "auto" and tensor.device.type != "cpu")
