"""Plays workloads on one engine and prints, as JSON, the seconds that every step took.

    python benchmarks/players.py vllm|impl SIZES STEPS

Runs in the interpreter that has that engine. What is timed, in processor time (both use one core):
constructing and adding a request, `schedule()`, `update_from_output()`. What is not: the model,
here a constant, and the digest of all decisions, by which the two are seen to have decided the
same.
"""

import importlib
import importlib.util
import json
import sys
import time
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from workloads import BLOCK_SIZE, PROMPT_TOKENS, Engine, prepare

MAX_MODEL_LEN = 8192
TOKEN = 7
"""What the model always says."""
Decision = tuple[list[str], list[int], list[list[int]], int]
"""Ids, tokens, new blocks, and how many were preempted."""


class Player(Protocol):
    """An engine and a model that answers at once, or, scheduling ahead, one step later."""

    def add(self, name: str, prompt: list[int], max_tokens: int) -> float:
        """A request arrives; seconds."""
        ...

    def step(self) -> tuple[float, int, Decision]:
        """One step: seconds, requests alive afterwards, and what was decided."""
        ...


class Real:
    """The real vLLM."""

    def __init__(self, num_blocks: int, max_num_seqs: int, depth: int) -> None:
        self.engine, self.depth = Engine("vllm"), depth
        self.scheduler = self.engine.new_scheduler(num_blocks, max_num_seqs, ahead=depth > 1)
        self.in_flight: deque[Any] = deque()

    def add(self, name: str, prompt: list[int], max_tokens: int) -> float:
        """A request arrives; seconds."""
        start = time.process_time()
        self.scheduler.add_request(self.engine.new_request(name, prompt, max_tokens))
        return time.process_time() - start

    def step(self) -> tuple[float, int, Decision]:
        """One step: seconds, requests alive afterwards, and what was decided."""
        start = time.process_time()
        decided = self.scheduler.schedule()
        seconds = time.process_time() - start
        ids = list(decided.num_scheduled_tokens)
        self.in_flight.append(decided)
        if len(self.in_flight) == self.depth:
            seconds += self.answer(self.in_flight.popleft())
        cached = decided.scheduled_cached_reqs
        blocks = {new.req_id: new.block_ids for new in decided.scheduled_new_reqs}
        blocks |= dict(zip(cached.req_ids, cached.new_block_ids, strict=True))
        got = [list(blocks[name][0]) if blocks[name] else [] for name in ids]
        tokens = list(decided.num_scheduled_tokens.values())
        preempted = len(decided.preempted_req_ids or ())
        return seconds, len(self.scheduler.requests), (ids, tokens, got, preempted)

    def answer(self, step: Any) -> float:
        """The output of a step comes; seconds."""
        ids = list(step.num_scheduled_tokens)
        output = self.engine.outputs.ModelRunnerOutput(
            req_ids=ids,
            req_id_to_index={name: i for i, name in enumerate(ids)},
            sampled_token_ids=[[TOKEN] for _ in ids],
        )
        start = time.process_time()
        self.scheduler.update_from_output(step, output)
        return time.process_time() - start


class Ours:
    """The fast engine. The sampled tokens come as an array, as a worker would have them."""

    def __init__(self, num_blocks: int, max_num_seqs: int, depth: int) -> None:
        self.depth = depth
        self.impl = importlib.import_module("nullblock.impl")
        self.numpy: Any = importlib.import_module("numpy")
        facts = importlib.import_module("nullblock.spec.facts")
        profiles = importlib.import_module("nullblock.spec.profiles")
        budget = max_num_seqs * (PROMPT_TOKENS + 1)
        self.scheduler = self.impl.Scheduler(
            facts.Config(
                num_blocks=num_blocks,
                block_size=BLOCK_SIZE,
                max_num_scheduled_tokens=budget,
                max_num_seqs=max_num_seqs,
                max_model_len=MAX_MODEL_LEN,
                async_scheduling=depth > 1,
                semantics=profiles.VLLM_0_22_1,
            )
        )

    def add(self, name: str, prompt: list[int], max_tokens: int) -> float:
        """A request arrives; seconds."""
        start = time.process_time()
        self.scheduler.add_request(self.impl.Request(name, prompt, max_tokens))
        return time.process_time() - start

    def step(self) -> tuple[float, int, Decision]:
        """One step: seconds, requests alive afterwards, and what was decided."""
        start = time.process_time()
        decided = self.scheduler.schedule()
        seconds = time.process_time() - start
        if len(self.scheduler.in_flight) == self.depth:
            sampled = self.numpy.full(len(self.scheduler.step.ids), TOKEN)
            start = time.process_time()
            self.impl.update_from_output(self.scheduler, sampled)
            seconds += time.process_time() - start
        new, got = decided.new_block_ids.tolist(), list[list[int]]()
        for count in decided.new_block_counts.tolist():
            got.append(new[:count])
            del new[:count]
        tokens = decided.num_scheduled_tokens.tolist()
        return (
            seconds,
            len(self.scheduler.requests),
            (decided.ids, tokens, got, len(decided.preempted)),
        )


Make = Callable[[int, int, int], Player]
"""From blocks, requests that may run, and steps in flight."""


def clients(shortest: int, longest: int) -> Iterator[tuple[str, list[int], int]]:
    """Requests that share nothing; prompts end at different places of their last block."""
    number = 0
    while True:
        first, length = number * PROMPT_TOKENS, PROMPT_TOKENS - number % BLOCK_SIZE
        answer = shortest + number * 2654435761 % (longest - shortest)
        yield f"request-{number}", list(range(first, first + length)), answer
        number += 1


def play(
    make: Make,
    running: int,
    steps: int,
    *,
    blocks: int,
    answers: tuple[int, int],
    depth: int = 1,
) -> tuple[list[float], int, int]:
    """So many clients, each with a new request as soon as the last one is answered.

    Seconds of each step with the arrivals before it, the digest of all decisions, preemptions.
    """
    player, arrivals = make(1 + running * blocks, running, depth), clients(*answers)
    times, digest, alive, preempted = list[float](), 0, 0, 0
    for _ in range(steps):
        seconds = sum((player.add(*next(arrivals)) for _ in range(running - alive)), 0.0)
        taken, alive, decision = player.step()
        times.append(seconds + taken)
        digest = zlib.crc32(repr(decision).encode(), digest)
        preempted += decision[3]
    # Of the first step everything is an arrival.
    return times[1:], digest, preempted


def measure(make: Make, sizes: list[int], steps: int) -> dict[str, Any]:
    """By workload, what :func:`play` tells of it."""
    figures: dict[str, Any] = {}
    for n in sizes:
        enough = 1 + (PROMPT_TOKENS + max(steps, 512)) // BLOCK_SIZE
        long, mixed = (steps, steps + 1), (32, 512)
        figures[f"decodes, {n}"] = play(make, n, steps, blocks=enough, answers=long)
        figures[f"ends, arrivals, {n}"] = play(make, n, 2 * steps, blocks=enough, answers=mixed)
        figures[f"ends, arrivals, ahead, {n}"] = play(
            make, n, 2 * steps, blocks=enough, answers=mixed, depth=2
        )
        figures[f"too few blocks, {n}"] = play(make, n, steps, blocks=10, answers=mixed)
    return figures


def main() -> None:
    """Measure the engine named on the command line."""
    name, sizes, steps = sys.argv[1:4]
    prepare(name)
    make = Real if name == "vllm" else Ours
    json.dump(measure(make, [int(size) for size in sizes.split(",")], int(steps)), sys.stdout)


if __name__ == "__main__":
    main()
