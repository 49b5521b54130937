"""In which sizes and types the toys are launched."""

import torch

from toys.things import breaks, ships


def small() -> None:
    """As a wrapper would launch them."""
    x = torch.empty(100, dtype=torch.int32, device="meta")
    for _ in range(2):
        ships[(2,)](x, x, 100, WIDTH=64, num_warps=2)
    breaks[(1,)](x, WIDTH=48)


EXAMPLES = (small,)
