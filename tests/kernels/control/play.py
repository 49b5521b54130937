"""Random games for both engines: small pools, few contents, everything that is rare made often."""

import random
from collections import Counter
from dataclasses import replace

import torch
from beside import Beside
from control_bench import CPU

from nullblock.impl import Request
from nullblock.kernels.arguments import Backend
from nullblock.kernels.control.compact import compact_queue
from nullblock.spec.facts import Config
from nullblock.spec.profiles import NORMATIVE, VLLM_0_22_1

TOKENS = 2
"""Different tokens: so few that contents are often equal."""
EXTRAS: list[tuple[tuple[str, ...], tuple[str, ...]]] = [((), ()), (("s",), ()), (("a",), ("a",))]


def config_of(rng: random.Random) -> Config:
    """A small engine; sizes that are no powers of two, every switch either way."""
    semantics = replace(
        rng.choice([NORMATIVE, VLLM_0_22_1]),
        withdraw_uncaches=rng.random() < 0.5,
        victim_shifts_index=rng.random() < 0.5,
        freed_unhashed_first=rng.random() < 0.5,
    )
    return Config(
        num_blocks=rng.choice([5, 8, 9, 12]),
        block_size=rng.choice([1, 2, 3, 4]),
        max_num_scheduled_tokens=rng.choice([5, 9, 16, 40]),
        max_num_seqs=rng.choice([1, 3, 5, 7]),
        max_model_len=rng.choice([7, 13, 24]),
        long_prefill_token_threshold=rng.choice([0, 0, 2, 5]),
        enable_chunked_prefill=rng.random() < 0.75,
        enable_prefix_caching=rng.random() < 0.8,
        scheduler_reserve_full_isl=rng.random() < 0.6,
        policy=rng.choice(["fcfs", "priority"]),
        semantics=semantics,
    )


def request_of(rng: random.Random, number: int, config: Config) -> Request:
    """A request that may share a prefix with others."""
    length = rng.randint(1, min(config.max_model_len - 1, 10))
    shared = rng.choice([0, 0, length // 2, length])
    start = rng.randrange(2)
    prompt = [start] * shared + [rng.randrange(TOKENS) for _ in range(length - shared)]
    most = rng.randint(1, 14)
    return Request(
        f"r{number:03d}",
        prompt=prompt,
        max_tokens=most,
        min_tokens=rng.randint(0, most) if rng.random() < 0.2 else 0,
        priority=rng.randrange(3),
        arrival_time=float(rng.choice([number, rng.randrange(4)])),
        eos=rng.choice([0, 7, 7]),
        skip_reading_prefix_cache=rng.random() < 0.1,
        extras=rng.choice(EXTRAS) if rng.random() < 0.3 else EXTRAS[0],
    )


def play(
    seed: int,
    backend: Backend,
    turns: int = 30,
    fused: bool = True,
    device: torch.device = CPU,
) -> Counter[str]:
    """A game; what happened in it. A failure names the seed."""
    rng, seen = random.Random(seed), Counter[str]()
    config = config_of(rng)
    both, number = Beside(config, backend, fused, device=device), 0
    print(f"seed {seed}, backend {backend}: {config}")
    for _ in range(turns):
        what = rng.random()
        if what < 0.35:
            number += 1
            seen["added"] += both.add(request_of(rng, number, config))
        elif what < 0.43 and both.rows:
            ids = rng.sample(sorted(both.rows), rng.randint(1, min(3, len(both.rows))))
            both.finish(ids)
            seen["aborted"] += len(ids)
        elif what < 0.45:
            both.reset(reset_running=rng.random() < 0.5)
            seen["resets"] += 1
        elif what < 0.47:
            both.evict(rng.sample(range(config.num_blocks), rng.randint(1, config.num_blocks)))
        elif what < 0.49:
            both.pause(rng.choice([0, 0, 0, 1, 2]))
        elif what < 0.51:
            compact_queue(both.state, backend)
            both.same()
        else:
            step, outputs = both.step(iter(lambda: rng.randrange(TOKENS), None))
            seen["scheduled"] += len(step.ids)
            seen["preempted"] += len(step.preempted)
            seen["ended"] += int((outputs.why != 0).sum())
            hits = sum(
                1 for r in range(step.running, len(step.ids)) if step.num_computed_tokens[r]
            )
            seen["hit"] += hits
    return seen
