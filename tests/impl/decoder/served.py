"""Requests served by the small decoder under any schedule, and what their tokens have to be."""

import random
from collections import Counter, deque
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
import torch
from where import TENSORS_ON

from nullblock.impl.decoder.criterion import MARGIN
from nullblock.impl.decoder.shape import Shape
from nullblock.impl.decoder.unpaged import generate
from nullblock.impl.decoder.weights import Weights, random_weights
from nullblock.impl.prefix_cache import ROOT
from nullblock.spec.facts import Config
from nullblock.spec.profiles import NORMATIVE, VLLM_0_22_1

SOUND_0_22_1 = replace(
    VLLM_0_22_1,
    withdraw_uncaches=True,
    frames_match_request=True,
    outputs_owed_once=True,
    discards_add_up=True,
)
"""That release without the departures that change tokens."""
LONGEST = 12
"""Output tokens."""


@cache
def weights() -> Weights:
    """Of the model that all tests share."""
    return random_weights(Shape(num_layers=2), 0)


def weights_on(device: str) -> Weights:
    """The same, there."""
    return weights().to(device, torch.float32)


@cache
def prompts() -> tuple[tuple[int, ...], ...]:
    """Prompts of 1 to 34 tokens, many of which begin alike; whoever has a token too many or too
    few is among them. All have a continuation that float32 decides.
    """
    draw, made = random.Random(11), list[tuple[int, ...]]()
    heads = [tuple(draw.randrange(256) for _ in range(20)) for _ in range(2)]
    while len(made) < 40:
        head = draw.choice(heads)[: draw.choice([0, 0, 4, 7, 8, 12, 16, 20])]
        tail = tuple(draw.randrange(256) for _ in range(draw.randrange(0, 15)))
        prompt = head + tail
        if prompt and min(_continued(prompt)[1]) >= MARGIN:
            made.append(prompt)
    return tuple(made)


@cache
def _continued(prompt: tuple[int, ...]) -> tuple[list[int], list[float]]:
    return generate(weights(), list(prompt), LONGEST)


def expected(prompt: tuple[int, ...], max_tokens: int) -> list[int]:
    """What the unpaged decoder says, everything computed again for each token."""
    tokens, margins = _continued(prompt)
    assert min(margins) >= MARGIN, "float32 does not decide this continuation"
    return tokens[:max_tokens]


@dataclass
class Case:
    """One way to schedule some requests, drawn from a seed."""

    seed: int
    constants: dict[str, Any] = field(init=False)
    requests: list[tuple[int, dict[str, Any]]] = field(init=False)
    """The step before which each arrives, and what it asks for."""
    events: dict[int, str] = field(init=False)
    """By step: what happens beside it."""
    depth: int = field(init=False)
    """Steps in flight, at most."""

    def __post_init__(self) -> None:
        draw = random.Random(self.seed)
        size = draw.choice([1, 2, 4, 4, 8, 16])
        chunked = draw.random() < 0.85
        most = max(map(len, prompts())) + LONGEST
        blocks = -(-most // size)
        self.constants = {
            "block_size": size,
            "num_blocks": 1 + blocks + draw.randrange(0, 2 * blocks),
            "max_num_scheduled_tokens": draw.randrange(1, 40) if chunked else most + 8,
            "long_prefill_token_threshold": draw.choice([0, 0, 0, 3, 7]),
            "enable_chunked_prefill": chunked,
            "enable_prefix_caching": draw.random() < 0.9,
            "scheduler_reserve_full_isl": draw.random() < 0.6,
            "max_num_seqs": draw.randrange(1, 9),
            "max_model_len": 64,
            "policy": draw.choice(["fcfs", "priority"]),
            "semantics": draw.choice([NORMATIVE, SOUND_0_22_1]),
        }
        self.depth = draw.choice([1, 1, 2, 3])
        self.constants["async_scheduling"] = self.depth > 1
        arrival = 0
        self.requests = []
        for number in range(draw.randrange(4, 10)):
            arrival += draw.choice([0, 0, 1, 3])
            asked = {
                "id": f"r{number}",
                "prompt": draw.choice(prompts()),
                "max_tokens": draw.randrange(1, LONGEST + 1),
                "priority": draw.randrange(3),
                "arrival_time": float(number),
            }
            self.requests.append((arrival, asked))
        self.events = {}
        if draw.random() < 0.4:
            kinds = ["reset", "reset in flight", "abort", "abort in flight"]
            for _ in range(2):
                self.events[draw.randrange(2, 30)] = draw.choice(kinds)

    def expected(self) -> dict[str, list[int]]:
        """By request, what the unpaged decoder says."""
        return {r["id"]: expected(r["prompt"], r["max_tokens"]) for _, r in self.requests}


MANY_STEPS = 1500


class Play:
    """A case played by the fast engine and a worker: on a CPU, unless its kernels are compiled.

    A block that is free and caches nothing holds NaN, unless the worker's `poison` is False.
    """

    def __init__(self, case: Case, seen: Counter[str], **of_worker: Any) -> None:
        # By name: a planted defect is in the modules that are imported now.
        impl, worker = import_module("nullblock.impl"), import_module("nullblock.impl.decoder")
        self.case, self.seen, self.impl = case, seen, impl
        self.scheduler = impl.Scheduler(Config(**case.constants))
        sizes = case.constants["num_blocks"], case.constants["block_size"]
        device = TENSORS_ON if of_worker.get("backend") == "triton" else "cpu"
        self.worker = worker.Worker(weights_on(device), *sizes, **of_worker)
        self.tokens: dict[str, list[int]] = {}
        self.aborted: set[str] = set()

    def run(self) -> dict[str, list[int]]:
        """Play to the end; the tokens of each request."""
        coming, in_flight = list(self.case.requests), deque[Any]()
        for number in range(MANY_STEPS):
            while coming and coming[0][0] <= number:
                request = self.impl.Request(**coming.pop(0)[1])
                self.tokens[request.id] = []
                self.scheduler.add_request(request)
            if not (coming or self.scheduler.requests):
                return self.tokens
            event = self.case.events.get(number, "")
            if "flight" not in event:
                self.happen(event)
            step = self.scheduler.schedule()
            self.worker.take(step)
            self.look(step, len(in_flight))
            if "flight" in event:
                self.happen(event)
            in_flight.append(self.worker.compute(step))
            if len(in_flight) == self.case.depth or not step.ids:
                self.update(in_flight.popleft())
        raise AssertionError(f"case {self.case.seed}: not served after {MANY_STEPS} steps")

    def update(self, sampled: Any) -> None:
        """What the oldest step in flight sampled comes back."""
        outputs = self.impl.update_from_output(self.scheduler, sampled)
        for id, token in zip(outputs.ids, outputs.tokens.tolist(), strict=True):
            self.tokens[id].append(token)
        assert not outputs.rejected
        if self.worker.poison:
            self.poison()

    def happen(self, event: str) -> None:
        """Something besides steps."""
        if event.startswith("reset"):
            self.seen["reset of running requests"] += self.scheduler.running.count > 0
            assert self.scheduler.reset_prefix_cache(reset_running=True)
        elif event and self.scheduler.running.count:
            self.aborted |= set(self.scheduler.finish_requests(self.scheduler.running.ids[:1]))
            self.seen["abort of a running request"] += 1

    def look(self, step: Any, ahead: int) -> None:
        """Count what schedules are there to do."""
        seen, size = self.seen, self.case.constants["block_size"]
        seen["ahead of outputs"] += ahead > 0 and len(step.ids) > 0
        seen["preemption ahead of outputs"] += ahead > 0 and len(step.preempted) > 0
        seen["preemption"] += len(step.preempted)
        again = np.array([r.num_preemptions > 0 for r in step.admitted], bool)
        hits = step.num_computed_tokens[step.running :] > 0
        seen["resumption"] += int(again.sum())
        seen["resumption with a prefix hit"] += int((again & hits).sum())
        seen["prefix hit"] += int(hits.sum())
        seen["chunk"] += int((~step.samples).sum())
        seen["last chunk"] += int(
            (
                step.samples
                & (step.num_computed_tokens % size > 0)
                & (step.num_scheduled_tokens > 1)
            ).sum()
        )
        several = step.num_scheduled_tokens > 1
        seen["prefill beside decode"] += bool(several.any() and not several.all())
        seen["shared block"] += int((self.scheduler.pool.ref_cnt > 1).any())
        seen["three together"] += len(step.ids) >= 3
        seen["priority"] += len(step.preempted) if self.scheduler.config.policy != "fcfs" else 0

    def poison(self) -> None:
        """Nothing stands in blocks that nobody holds and nobody can hit."""
        pool = self.scheduler.pool
        dead = (pool.ref_cnt == 0) & (pool.cache.carried == ROOT)
        self.worker.cache.poison(torch.from_numpy(dead.nonzero()[0]))


def differing(case: Case, seen: Counter[str], **of_worker: Any) -> list[str]:
    """The requests of a case whose tokens are not those of the unpaged decoder."""
    play = Play(case, seen, **of_worker)
    tokens = play.run()
    return [
        id
        for id, right in case.expected().items()
        if tokens[id] != (right[: len(tokens[id])] if id in play.aborted else right)
    ]
