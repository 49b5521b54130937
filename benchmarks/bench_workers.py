"""Telling workers of a step of decodes, and what they make of it: two tables, with ratios.

    python benchmarks/bench_workers.py [--rounds N] [--quick] [--json]

Ours beside what a user would pick: the real vLLM 0.22.1's `SchedulerOutput`, pickled as vLLM does
it, or packed by msgspec; and, to pass it on, torch's broadcast_object_list. Both schedulers serve
the same requests; rounds take turns, a figure is the median step of the best round. Then: keeping
a batch up to date beside building it anew from lists of requests. The numbers in parentheses are
claims of the article that this design comes from, on a machine that it does not name. Without a
real vLLM or without torch their columns are empty, and that is said.
"""

import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from bench_reference import in_microseconds, oracle_python
from rich.console import Console
from rich.table import Table
from workloads import BLOCK_SIZE, PROMPT_TOKENS

from nullblock.impl import Request, Scheduler, update_from_output
from nullblock.impl.workers import Encoder, Mirror, model_input
from nullblock.spec.facts import Config
from nullblock.spec.profiles import VLLM_0_22_1

HERE = Path(__file__).parent
SIZES, STEPS = (32, 64, 128, 256, 512), 120
QUICK_SIZES, QUICK_STEPS = (32, 256), 40
CLAIMED_MS = {32: (0.5, 0.01), 128: (1.0, 0.02), 256: (1.8, 0.04), 512: (3.2, 0.08)}
"""Milliseconds to build a batch anew, and to update it, that the article states."""
CLAIMED_BYTES, CLAIMED_US = 12, 8
"""A request; a whole broadcast at 256."""
Figures = dict[str, Any]


def new_scheduler(running: int, prompt_tokens: int, steps: int) -> Scheduler:
    """So many requests that share nothing, all of which run from the first step on."""
    blocks = 1 + running * (2 + (prompt_tokens + steps) // BLOCK_SIZE)
    scheduler = Scheduler(
        Config(
            num_blocks=blocks,
            block_size=BLOCK_SIZE,
            max_num_scheduled_tokens=running * (prompt_tokens + 1),
            max_num_seqs=running,
            max_model_len=8192,
            semantics=VLLM_0_22_1,
        )
    )
    for i in range(running):
        prompt = np.arange(i * prompt_tokens, (i + 1) * prompt_tokens - i % BLOCK_SIZE)
        scheduler.add_request(Request(f"request-{i}", prompt, 10_000))
    return scheduler


class Rebuilding:
    """A worker that keeps objects and lists, and builds its batch of them in every step."""

    def __init__(self, mirror: Mirror) -> None:
        held = mirror.view()
        ends = np.cumsum(held.num_tokens), np.cumsum(held.num_blocks)
        self.tokens = [part.tolist() for part in np.split(held.tokens, ends[0][:-1])]
        self.blocks = [part.tolist() for part in np.split(held.blocks, ends[1][:-1])]
        self.computed = held.num_computed.tolist()

    def build(self) -> list[Any]:
        """The input of a step of decodes: one request after another, then arrays."""
        input_ids, positions, slots, seq_lens = list[int](), list[int](), list[int](), list[int]()
        for tokens, blocks, computed in zip(self.tokens, self.blocks, self.computed, strict=True):
            position = computed - 1
            input_ids.append(tokens[position])
            positions.append(position)
            slots.append(blocks[position // BLOCK_SIZE] * BLOCK_SIZE + position % BLOCK_SIZE)
            seq_lens.append(computed)
        table = np.zeros((len(self.blocks), max(map(len, self.blocks))), np.int32)
        for row, blocks in enumerate(self.blocks):
            table[row, : len(blocks)] = blocks
        return [*map(np.array, (input_ids, positions, slots, seq_lens)), table]


def ours(running: int, steps: int, folder: Path) -> dict[str, float]:
    """Median bytes and seconds a step; the median message is left in the folder."""
    scheduler, encoder = new_scheduler(running, PROMPT_TOKENS, steps), Encoder()
    mirror, sampled = Mirror(scheduler.config), np.full(running, 7)
    times: dict[str, list[float]] = {what: [] for what in ("encode", "apply", "input", "take")}
    rebuilds, messages = list[float](), list[bytes]()
    for number in range(steps):
        step = scheduler.schedule()
        moments = [time.perf_counter()]
        message = encoder.encode(step)
        moments.append(time.perf_counter())
        mirror.apply(message)
        moments.append(time.perf_counter())
        read = model_input(mirror)
        moments.append(time.perf_counter())
        mirror.take(sampled)
        moments.append(time.perf_counter())
        update_from_output(scheduler, sampled)
        if number:
            messages.append(message)
            for what, start, end in zip(times, moments, moments[1:], strict=False):
                times[what].append(end - start)
        if number % 8 == 1:
            rebuilding = Rebuilding(mirror)
            start = time.perf_counter()
            built = rebuilding.build()
            rebuilds.append(time.perf_counter() - start)
            assert all(
                np.array_equal(mine, theirs)
                for mine, theirs in zip(
                    (read.input_ids, read.positions, read.slot_mapping, read.seq_lens),
                    built,
                    strict=False,
                )
            )
    messages.sort(key=len)
    median = messages[len(messages) // 2]
    (folder / f"{running}.message").write_bytes(median)
    figures = {what: statistics.median(found) for what, found in times.items()}
    return figures | {"bytes": len(median), "rebuild": statistics.median(rebuilds)}


def lifetime(running: int, prompt_tokens: int, steps: int) -> float:
    """Bytes that a request costs from its arrival to its last token, all of `running` alike."""
    scheduler, encoder, total = new_scheduler(running, prompt_tokens, steps), Encoder(), 0
    for _ in range(steps):
        total += len(encoder.encode(scheduler.schedule()))
        update_from_output(scheduler, np.full(running, 7))
    return total / running


def theirs(python: Path, sizes: tuple[int, ...], steps: int, folder: Path) -> Figures:
    """The same of vLLM, in the interpreter that has it."""
    command = [str(python), str(HERE / "pickles.py"), ",".join(map(str, sizes)), str(steps)]
    done = subprocess.run(
        [*command, str(folder)],
        env={**os.environ, "PYTHONHASHSEED": "0", "VLLM_LOGGING_LEVEL": "ERROR"},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        reason = (done.stderr.strip() or "no message").splitlines()[-1]
        sys.exit(f"measuring vLLM under {python} failed: {reason}")
    figures: Figures = json.loads(done.stdout.splitlines()[-1])
    return figures


def broadcasts(folder: Path, rounds: int) -> dict[str, dict[str, float]]:
    """Median seconds from one process to another over gloo: by file, by way."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as store:
        command = [f"{store}/store", str(folder), str(rounds)]
        pair = [
            subprocess.Popen(
                [sys.executable, str(HERE / "gloo_pair.py"), str(rank), *command],
                env=environment,
                stdout=subprocess.PIPE,
                text=True,
            )
            for rank in range(2)
        ]
        try:
            outputs = [rank.communicate(timeout=600)[0] for rank in pair]
        finally:
            for rank in pair:
                rank.kill()
    if any(rank.returncode for rank in pair):
        sys.exit("the pair of processes over gloo failed: see above")
    found: dict[str, dict[str, list[float]]] = json.loads(outputs[1])
    return {
        name: {way: statistics.median(times) for way, times in ways.items() if times}
        for name, ways in found.items()
    }


def measure(sizes: tuple[int, ...], steps: int, rounds: int) -> list[Figures]:
    """A row for each size: seconds and bytes a step."""
    python = oracle_python()
    mine: dict[int, list[dict[str, float]]] = {size: [] for size in sizes}
    real = list[Figures]()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for _ in range(rounds):
            for size in sizes:
                mine[size].append(ours(size, steps, folder))
            if python is not None:
                real.append(theirs(python, sizes, steps, folder))
        with_torch = importlib.util.find_spec("torch") is not None
        passed = broadcasts(folder, 40 * rounds) if with_torch else {}
    rows = []
    for size in sizes:
        row: Figures = {"running": size}
        row |= {what: min(found[what] for found in mine[size]) for what in mine[size][0]}
        for kind in ("pickle", "msgspec") if real else ():
            columns = zip(*(found[str(size)][kind] for found in real), strict=True)
            names = (f"{kind}_bytes", f"{kind}_write", f"{kind}_read")
            row |= dict(zip(names, map(min, columns), strict=True))
        row["broadcast"] = passed.get(f"{size}.message", {}).get("channel")
        row["as_object"] = passed.get(f"{size}.message", {}).get("object")
        row["pickle_as_object"] = passed.get(f"{size}.pickle", {}).get("object")
        rows.append(row)
    return rows


def times(more: float | None, less: float | None) -> str:
    """How many times more."""
    return "" if more is None or less is None else f"{more / less:.1f}x"


def shown(seconds: float | None) -> str:
    """Microseconds, if there are any."""
    return "not here" if seconds is None else in_microseconds(seconds)


def table_of_messages(rows: list[Figures]) -> Table:
    """Bytes and time to tell."""
    found = Table(title="a step of decodes, told: bytes, microseconds")
    for column in (
        *("running", "bytes (claim)", "vLLM, pickled", "", "msgspec", "encode", "pickle", ""),
        *("msgspec", "gloo", "pickle by gloo", ""),
    ):
        found.add_column(column, justify="right")
    for row in rows:
        found.add_row(
            f"{row['running']:,}",
            f"{row['bytes']:,} ({CLAIMED_BYTES * row['running']:,})",
            f"{row.get('pickle_bytes', 0):,.0f}",
            times(row.get("pickle_bytes"), row["bytes"]),
            f"{row.get('msgspec_bytes', 0):,.0f}",
            shown(row["encode"]),
            shown(row.get("pickle_write")),
            times(row.get("pickle_write"), row["encode"]),
            shown(row.get("msgspec_write")),
            shown(row["broadcast"]),
            shown(row["pickle_as_object"]),
            times(row["pickle_as_object"], row["broadcast"]),
        )
    return found


def table_of_batches(rows: list[Figures]) -> Table:
    """Time to take in."""
    found = Table(title="and taken in by a worker: microseconds (the article's claim)")
    for column in (
        *(
            "running",
            "apply",
            "input",
            "together",
            "built anew",
            "",
            "pickle.loads",
            "take tokens",
        ),
    ):
        found.add_column(column, justify="right")
    for row in rows:
        anew, update = CLAIMED_MS.get(row["running"], (None, None))
        together = row["apply"] + row["input"]
        found.add_row(
            f"{row['running']:,}",
            shown(row["apply"]),
            shown(row["input"]),
            shown(together) + (f" ({1000 * update:.0f})" if update else ""),
            shown(row["rebuild"]) + (f" ({1000 * anew:,.0f})" if anew else ""),
            times(row["rebuild"], together),
            shown(row.get("pickle_read")),
            shown(row["take"]),
        )
    return found


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="what workers are told, and what it costs")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="one short round: a look, no figures")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rounds = 1 if options.quick else options.rounds
    sizes, steps = (QUICK_SIZES, QUICK_STEPS) if options.quick else (SIZES, STEPS)
    rows = measure(sizes, steps, rounds)
    whole = lifetime(256, 2048, 500)
    if options.json:
        print(json.dumps({"rounds": rounds, "rows": rows, "lifetime_bytes": whole}))
        return 0
    console = Console(width=140)
    console.print(table_of_messages(rows))
    console.print(table_of_batches(rows))
    console.print(
        "A request of 2,048 prompt and 500 output tokens among 256 such costs "
        f"{whole:,.0f} bytes in all (14,400)."
    )
    if "pickle_bytes" not in rows[0]:
        print("no real vLLM: set NULLBLOCK_ORACLE_PYTHON, or let `make test` install .oracle")
    if rows[0]["broadcast"] is None:
        print("no torch: pip install 'nullblock[gpu]'")
    return 0


if __name__ == "__main__":
    sys.exit(main())
