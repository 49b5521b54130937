"""The scheduler's step, resident on the device: decide, tell, take tokens, stop, free."""

from collections.abc import Callable, Iterator

import numpy as np
import torch
from agreement import compare
from figures import Cost, Row, Target
from workbench import Bench

from nullblock.impl.device.scheduler import Scheduler
from nullblock.impl.requests import Request
from nullblock.kernels.control.exchange import Rings
from nullblock.spec.facts import Config
from nullblock.spec.profiles import VLLM_0_22_1

TITLE = "Scheduler step"
TEXT = (
    "One whole step between two forward passes: letters taken in, schedule and allocate, the "
    "record for the host, then tokens taken, stops checked, ended requests freed. One row in 16 "
    "gains a block in a step of decodes; where some end, one request in 128 does. The host reads "
    "and decides nothing. Before it is timed it plays random requests, some of them preempted, "
    "beside the NumPy engine; at a difference nothing is timed. vLLM's scheduler runs on the "
    "host: `make bench` compares with it."
)
BLOCK_SIZE, MOST_TOKENS, TOKEN = 16, 128, 7
TARGETS = {256: 15e-6, 1024: 20e-6, 4096: 40e-6}


def rows(bench: Bench) -> Iterator[Row]:
    """256, 1024 and 4096 running requests; then the same with some that end."""
    on_gpu = bench.device.type == "cuda"
    steps = 50 if bench.quick or not on_gpu else 1000
    if not compare("cuda" if on_gpu else "twins", steps)["preempted"]:
        raise RuntimeError("the comparison had no preemption: it shows too little")
    sizes = (256, 1024, 4096) if on_gpu else (16, 64)
    for some_end in (False, True):
        for running in sizes:
            yield _row(bench, running, some_end)


def _row(bench: Bench, running: int, some_end: bool) -> Row:
    scheduler = crowd(bench.device, running, some_end)
    resident = scheduler.resident
    sampled = torch.full((running,), TOKEN, dtype=torch.int32, device=bench.device)

    def step() -> None:
        resident.launch_schedule()
        resident.launch_update(sampled)

    put_back = snapshot([resident.state.arrays, resident.exchange.log])
    seconds = TARGETS.get(running)
    row = bench.row(
        f"{running} running, {'some end' if some_end else 'decodes'}",
        step,
        # Of each request: tokens, blocks, limits and the token itself, read or written once.
        Cost(bytes=running * 16 * 4),
        reset=put_back,
        target=Target(f"step-{running}", seconds=seconds) if seconds and some_end else None,
    )
    if error := int(resident.state.arrays.error):
        raise RuntimeError(f"the kernels set their error word: {error}")
    return row


def crowd(device: torch.device, running: int, some_end: bool) -> Scheduler:
    """So many requests that run, at all places of their blocks; the next step is as any later."""
    fewest = 131_072 if device.type == "cuda" else 0
    config = Config(
        num_blocks=max(running * MOST_TOKENS // BLOCK_SIZE + 1, fewest),
        block_size=BLOCK_SIZE,
        max_num_scheduled_tokens=running * MOST_TOKENS,
        max_num_seqs=running,
        max_model_len=MOST_TOKENS,
        semantics=VLLM_0_22_1,
    )
    scheduler = Scheduler(
        config,
        "cuda" if device.type == "cuda" else "twins",
        num_rows=running,
        row_tokens=MOST_TOKENS + 1,
        rings=Rings(letters=min(running, 256)),
    )
    draw = np.random.default_rng(0)
    for number in range(running):
        prompt = draw.integers(0, 50_000, 64 + number % BLOCK_SIZE)
        # The first token comes with the prompt, the second below, the third where it is timed.
        ends = some_end and number % 128 == 0
        scheduler.add_request(Request(str(number), prompt, max_tokens=3 if ends else 40))
    for _ in range(2):
        step = scheduler.schedule()
        assert len(step.ids) == running, "everybody runs before anything is timed"
        scheduler.update_from_output(np.full(running, TOKEN))
    return scheduler


def snapshot(structures: object) -> Callable[[], None]:
    """Remembers all tensors of a structure; what it gives puts them back as they were."""
    kept = [(tensor, tensor.clone()) for tensor in tensors(structures)]

    def put_back() -> None:
        for tensor, before in kept:
            tensor.copy_(before)

    return put_back


def tensors(structure: object) -> Iterator[torch.Tensor]:
    """The tensors of nested tuples and lists."""
    if isinstance(structure, torch.Tensor):
        yield structure
    elif isinstance(structure, tuple | list):
        for part in structure:
            yield from tensors(part)
