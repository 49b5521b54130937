"""Plays decodes on the real vLLM 0.22.1 and prints how long its scheduler took, in seconds.

    python benchmarks/decodes.py RUNNING STEPS DEPTH [TRACE]

Runs where vLLM is. RUNNING requests decode side by side; one that ends is followed by a new one
at once, as in a service that is kept busy. DEPTH steps are in flight: scheduling is in step with
one, ahead with more. With TRACE the recorder writes along. The engine's own calls are timed,
nothing else: no arrivals, no sampling.
"""

import json
import os
import sys
import time
from collections import deque
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
BLOCK_SIZE = 16
PROMPT_TOKENS = 100
OUTPUTS = (64, 1024)
"""The shortest and the longest answer, in tokens."""


class Service:
    """Clients and a model around a scheduler, all of them deterministic."""

    def __init__(self, scheduler: Any, hasher: Any, depth: int) -> None:
        self.scheduler, self.hasher, self.depth = scheduler, hasher, depth
        self.in_flight: deque[tuple[Any, Any]] = deque()
        self.count = 0
        self.seconds = self.request_steps = 0.0

    def add(self) -> None:
        """A prompt that shares nothing with any other, and an answer of some length."""
        from vllm.sampling_params import SamplingParams
        from vllm.v1.request import Request

        number = self.count
        self.count += 1
        first, length = number * PROMPT_TOKENS, PROMPT_TOKENS - number % BLOCK_SIZE
        shortest, longest = OUTPUTS
        answer = shortest + number * 2654435761 % (longest - shortest)
        parameters = SamplingParams(max_tokens=answer, ignore_eos=True)
        self.scheduler.add_request(
            Request(
                request_id=f"request-{number}",
                prompt_token_ids=list(range(first, first + length)),
                sampling_params=parameters,
                pooling_params=None,
                arrival_time=float(number),
                block_hasher=self.hasher,
            )
        )

    def step(self) -> None:
        """One step more in flight, and the output of the oldest when there are enough: timed."""
        from vllm.v1.outputs import ModelRunnerOutput

        start = time.process_time()
        decided = self.scheduler.schedule()
        scheduled = time.process_time()
        ids, requests = list(decided.num_scheduled_tokens), self.scheduler.requests
        sampled = ModelRunnerOutput(
            req_ids=ids,
            req_id_to_index={name: i for i, name in enumerate(ids)},
            sampled_token_ids=[[] if requests[name].is_prefill_chunk else [7] for name in ids],
        )
        self.in_flight.append((decided, sampled))
        self.seconds += scheduled - start
        self.request_steps += len(ids)
        if len(self.in_flight) == self.depth:
            self.update()

    def update(self) -> None:
        """The output of the oldest step in flight, timed."""
        decided, sampled = self.in_flight.popleft()
        start = time.process_time()
        self.scheduler.update_from_output(decided, sampled)
        self.seconds += time.process_time() - start


def main() -> None:
    """Play, and print the figures as JSON."""
    running, steps, depth = map(int, sys.argv[1:4])
    sys.path[:0] = [str(ROOT / "tests" / "oracle"), str(ROOT / ".src")]
    import setup_engine
    import torchless

    torchless.install()
    if len(sys.argv) > 4:
        os.environ["NULLBLOCK_TRACE"] = sys.argv[4]
        from vllm.v1.core.sched import async_scheduler
        from vllm.v1.core.sched import scheduler as vllm_scheduler

        from nullblock.conformance.adapters import vllm as recorders

        vllm_scheduler.Scheduler = recorders.RecordingScheduler
        async_scheduler.AsyncScheduler = recorders.RecordingAsyncScheduler
    config = {
        "block_size": BLOCK_SIZE,
        "num_blocks": 1 + running * (1 + (PROMPT_TOKENS + OUTPUTS[1]) // BLOCK_SIZE),
        "max_num_batched_tokens": max(2048, 2 * running),
        "max_num_seqs": running,
        "max_model_len": 8192,
        "async_scheduling": depth > 1,
    }
    scheduler, hasher = setup_engine.build({**setup_engine.DEFAULTS, **config})
    service = Service(scheduler, hasher, depth)
    for _ in range(steps):
        while len(scheduler.running) + len(scheduler.waiting) < running:
            service.add()
        service.step()
    while service.in_flight:
        service.update()
    scheduler.shutdown()
    json.dump({"seconds": service.seconds, "request_steps": service.request_steps}, sys.stdout)


if __name__ == "__main__":
    main()
