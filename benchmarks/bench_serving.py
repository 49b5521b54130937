"""The small decoder served on a CPU: tokens a second, and what of a step is scheduling.

    python benchmarks/bench_serving.py [--requests 4,16,64] [--json]

So many requests arrive together, with prompts of 32 tokens of which half have 16 in common, and
each gets 32 more. The model is a toy (two layers of 64) and computes through the kernels' torch
twins, which are written to be read: its time says nothing of an engine's. What the figure is good
for is the other part: what the scheduler and the worker's bookkeeping add to a step. A step's time
is the median of its part, in one thread. `share` is that of
schedule and update. Tokens are judged; exit code 1 if one is wrong.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any, TypeVar

from rich.console import Console
from rich.table import Table

from nullblock.impl import Request, Scheduler
from nullblock.impl.decoder import Outcome, Shape, Worker, judge, random_weights, use_one_thread
from nullblock.spec.facts import Config

PARTS = ("schedule", "take", "compute", "update")
T = TypeVar("T")
Figures = dict[str, Any]


def prompt(number: int) -> list[int]:
    """32 tokens; those of every second request begin alike."""
    own = [(number * 37 + place * place * 11) % 256 for place in range(32)]
    return own if number % 2 else [*range(16), *own[16:]]


def serve(requests: int) -> Figures:
    """Serve so many requests to their end; seconds of each part by step."""
    weights = random_weights(Shape(num_layers=2), 0)
    config = Config(
        num_blocks=8 * requests + 8,
        block_size=16,
        max_num_scheduled_tokens=2048,
        max_num_seqs=requests,
        max_model_len=128,
    )
    scheduler, worker = Scheduler(config), Worker(weights, config.num_blocks, 16, poison=False)
    for number in range(requests):
        scheduler.add_request(Request(f"r{number}", prompt(number), 32))
    parts: dict[str, list[float]] = {part: [] for part in PARTS}

    def timed(part: str, call: Callable[..., T], *arguments: Any) -> T:
        began = time.perf_counter()
        found = call(*arguments)
        parts[part].append(time.perf_counter() - began)
        return found

    tokens: dict[str, list[int]] = {f"r{number}": [] for number in range(requests)}
    began = time.perf_counter()
    while scheduler.num_unfinished():
        step = timed("schedule", scheduler.schedule)
        timed("take", worker.take, step)
        sampled = timed("compute", worker.compute, step)
        outputs = timed("update", scheduler.update_from_output, sampled)
        for id, token in zip(outputs.ids, outputs.tokens.tolist(), strict=True):
            tokens[id].append(token)
    seconds = time.perf_counter() - began
    found = [judge(weights, prompt(n), tokens[f"r{n}"]).outcome for n in range(requests)]
    medians = {part: statistics.median(times) for part, times in parts.items()}
    return {
        "requests": requests,
        "steps": len(parts["schedule"]),
        "tokens_per_second": sum(map(len, tokens.values())) / seconds,
        "seconds_a_step": medians,
        "scheduling_share": (medians["schedule"] + medians["update"]) / sum(medians.values()),
        "verdicts": {outcome.value: found.count(outcome) for outcome in Outcome},
    }


def table(rows: list[Figures]) -> Table:
    """What a person reads."""
    made = Table(title="a step, median, microseconds of one core")
    names = ("requests", "tokens/s", *PARTS, "share", "judged")
    for name in names:
        made.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        parts = [f"{row['seconds_a_step'][part] * 1e6:,.0f}" for part in PARTS]
        said = "\n".join(f"{n} {name}" for name, n in row["verdicts"].items() if n)
        made.add_row(
            str(row["requests"]),
            f"{row['tokens_per_second']:,.0f}",
            *parts,
            f"{row['scheduling_share']:.1%}",
            said,
        )
    return made


def main() -> None:
    """Serve, judge, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", default="4,16,64", help="how many, several sizes")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    use_one_thread()
    serve(2)  # the first operations of torch take a while
    rows = [serve(int(size)) for size in options.requests.split(",")]
    if options.json:
        print(json.dumps(rows))
    else:
        Console().print(table(rows))
    raise SystemExit(any(row["verdicts"]["wrong"] for row in rows))


if __name__ == "__main__":
    main()
