"""The ceilings of the device, measured before anything else, in the same call."""

import torch
from figures import Cost, Floors, spread
from timing import Clock, Effort

COPY_BYTES = {"cuda": 2 << 30, "cpu": 64 << 20}
SIDE = {"cuda": 8192, "cpu": 512}


def measure_floors(clock: Clock, device: torch.device, effort: Effort) -> Floors:
    """Copy bandwidth, matmul rate and what a launch costs."""
    size = COPY_BYTES[device.type]
    source = torch.randint(0, 99, (size // 4,), dtype=torch.int32, device=device)
    target = torch.empty_like(source)
    # A graph copies by a node of its own kind, which may be slower than a kernel is.
    ways = (lambda: target.copy_(source), lambda: torch.bitwise_not(source, out=target))
    copy = min(per_call(clock, way, 2, effort) for way in ways)

    side = SIDE[device.type]
    left = torch.randn(side, side, device=device).bfloat16()
    right = torch.randn(side, side, device=device).bfloat16()
    out = torch.empty_like(left)
    product = per_call(clock, lambda: torch.mm(left, right, out=out), 4, effort)

    small = torch.zeros(32, device=device)
    launch = per_call(clock, lambda: small.add_(1), 200, effort)
    eager = spread([clock.host_seconds(lambda: small.add_(1)) for _ in range(effort.host_rounds)])
    bandwidth = Cost(bytes=2 * size).bytes / copy
    return Floors(bandwidth, Cost(flops=2 * side**3).flops / product, launch, eager.median)


def per_call(clock: Clock, call: object, calls: int, effort: Effort) -> float:
    """Seconds of device time of one of several calls in a graph."""
    start = clock.capture([call] * calls)
    start()
    return spread([clock.device_seconds(start) for _ in range(effort.rounds)]).median / calls
