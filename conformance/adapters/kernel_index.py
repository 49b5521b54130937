"""The index expressions of the kernels, as plain functions on whatever computes like integers."""

from collections.abc import Callable, Mapping
from typing import Any


def expressions() -> Mapping[str, Callable[..., Any]]:
    """Each expression by its name. Raises ImportError without Triton."""
    from nullblock.kernels import index

    return {
        name: value.fn
        for name, value in vars(index).items()
        if getattr(getattr(value, "fn", None), "__module__", "") == index.__name__
    }
