"""What vLLM 0.22.1 tells its workers of a step of decodes: bytes, seconds to write and read it.

    python benchmarks/pickles.py SIZES STEPS FOLDER

Runs where vLLM is; prints JSON. What is told is the `SchedulerOutput` of its own scheduler,
pickled as vLLM's executor does it, and beside that as msgspec would. The median pickle of each
size is left in FOLDER.
"""

import json
import pickle
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
from workloads import BLOCK_SIZE, PROMPT_TOKENS, Engine, prepare

Sample = tuple[int, float, float]
"""Bytes, seconds to write, seconds to read."""


def steps_of(running: int, steps: int) -> list[Any]:
    """So many steps of decodes; of the first one everything is an arrival."""
    engine = Engine("vllm")
    blocks = 1 + running * (2 + (PROMPT_TOKENS + steps) // BLOCK_SIZE)
    scheduler = engine.new_scheduler(blocks, running, ahead=False)
    for i in range(running):
        prompt = list(range(i * PROMPT_TOKENS, (i + 1) * PROMPT_TOKENS - i % BLOCK_SIZE))
        scheduler.add_request(engine.new_request(f"request-{i}", prompt))
    decided = []
    for _ in range(steps):
        step = scheduler.schedule()
        ids = list(step.num_scheduled_tokens)
        output = engine.outputs.ModelRunnerOutput(
            req_ids=ids,
            req_id_to_index={name: i for i, name in enumerate(ids)},
            sampled_token_ids=[[7] for _ in ids],
        )
        scheduler.update_from_output(step, output)
        decided.append(step)
    return decided[1:]


def pickled(step: Any) -> tuple[bytes, Sample]:
    """As vLLM does it."""
    start = time.perf_counter()
    written = pickle.dumps(step, protocol=pickle.HIGHEST_PROTOCOL)
    middle = time.perf_counter()
    pickle.loads(written)
    return written, (len(written), middle - start, time.perf_counter() - middle)


def packed(step: Any) -> Sample:
    """As msgspec would, read back as plain lists and dicts."""
    start = time.perf_counter()
    written = msgspec.msgpack.encode(step)
    middle = time.perf_counter()
    msgspec.msgpack.decode(written)
    return len(written), middle - start, time.perf_counter() - middle


def medians(samples: list[Sample]) -> list[float]:
    """Of each column."""
    return [statistics.median(column) for column in zip(*samples, strict=True)]


def main() -> None:
    """Measure the sizes named on the command line."""
    sizes, count, folder = sys.argv[1:4]
    prepare("vllm")
    found = {}
    for running in map(int, sizes.split(",")):
        steps = steps_of(running, int(count))
        by_pickle = [pickled(step) for step in steps]
        written = sorted((written for written, _ in by_pickle), key=len)[len(steps) // 2]
        (Path(folder) / f"{running}.pickle").write_bytes(written)
        found[running] = {
            "pickle": medians([sample for _, sample in by_pickle]),
            "msgspec": medians([packed(step) for step in steps]),
        }
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
