"""The trace checker beside the real vLLM 0.22.1 that made the steps: one table, with ratios.

    python benchmarks/bench_checker.py [--rounds N] [--quick | --million | --features]

The real one plays decodes in a subprocess (``decodes.py``), under the interpreter named by
NULLBLOCK_ORACLE_PYTHON or else ``.oracle/bin/python``: once to be timed, once more with the
recorder. ``nullblock check`` then judges that recording, reading and all preparation included,
in a process of its own. The two take turns; a figure is the best of the rounds, in seconds of CPU
time, so that other programs on the machine count little. Compare ratios, not microseconds. Rows
with a connector are of an engine whose requests are loaded from a remote side, and sent there;
those with failures of one that does not get all that it loads; those with adapters of one where
not all that are asked for may run at once; those with documents of one that is asked about some
long ones, again and again;
those with drafts of one that takes one draft of three in each step, those with groups of a model
with windows beside full attention, with states of one with Mamba layers (`align`), with sizes of
one whose window has larger blocks.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench_reference import HERE, oracle_python
from rich.console import Console
from rich.table import Table

MILLION = ((256, 4_000, 1, ""),)
"""Requests running side by side, steps, steps in flight, option: a million request-steps."""
LONG = "--documents --groups"
OPTIONS = (
    *("--connector", "--failures", "--adapters", "--drafts", "--groups", "--states", "--sizes"),
    *(LONG, f"{LONG} --drafts"),
)
FEATURES = tuple(
    (running, 1_000, depth, option)
    for option in OPTIONS
    for running in (64, 256)
    for depth in (1, 2)
)
BATCHES = (
    *((32, 1_000, 1, ""), (32, 1_000, 2, ""), (32, 16_000, 1, "")),
    *((256, 1_000, 1, ""), (256, 1_000, 2, ""), *MILLION, (1024, 1_000, 1, "")),
    *FEATURES,
)
WIDTH = 156
"""Columns of text that the table needs."""
QUICK = (
    *((32, 1_000, 1, ""), (256, 200, 1, ""), (256, 200, 2, "")),
    *((64, 200, 1, option) for option in OPTIONS),
)


def measured(command: list[Any]) -> dict[str, Any]:
    """What a program printed as JSON on its last line."""
    done = subprocess.run(
        [str(part) for part in command],
        env={**os.environ, "PYTHONHASHSEED": "0", "VLLM_LOGGING_LEVEL": "ERROR"},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        reason = (done.stderr.strip() or "no message").splitlines()[-1]
        sys.exit(f"{command[1]} under {command[0]} failed: {reason}")
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures


def judge(trace: Path) -> None:
    """Check a trace, and print what that took."""
    from nullblock.conformance.checker.check import check

    before, start = peak_mib(), time.process_time()
    verdict = check(trace)
    seconds = time.process_time() - start
    if verdict.exit_code:
        sys.exit(f"{verdict.verdict}: {verdict.first or verdict.missing}")
    found = {"seconds": seconds, "loading": start, "mib": peak_mib(), "idle_mib": before}
    print(json.dumps(found))


def peak_mib() -> float:
    """The most memory that this process has had."""
    kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return kib / (2**20 if sys.platform == "darwin" else 2**10)


def row(python: Path, rounds: int, running: int, steps: int, depth: int, option: str) -> list[str]:
    """One batch: play it, record it, check the recording."""
    play = [python, "-B", HERE / "decodes.py", running, steps, depth]
    play += option.split()
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "trace.jsonl"
        measured([*play, trace])
        ours, theirs = [], []
        for _ in range(rounds):
            theirs.append(measured(play))
            ours.append(measured([sys.executable, __file__, "--judge", trace]))
        size = trace.stat().st_size
    many = theirs[0]["request_steps"]
    real = min(figures["seconds"] for figures in theirs)
    mine = min(figures["seconds"] for figures in ours)
    return [
        str(running),
        f"{steps:,}",
        ("ahead" if depth > 1 else "in step") + option.replace(" ", "").replace("--", ", "),
        f"{many:,.0f}",
        f"{real / many * 1e6:.2f}",
        f"{mine / many * 1e6:.2f}",
        f"{real / mine:.2f}x",
        f"{real:.2f}",
        f"{mine:.2f}",
        f"{min(figures['loading'] for figures in ours):.2f}",
        f"{max(figures['mib'] for figures in ours):.0f}",
        f"{size / 2**20:.1f}",
    ]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="the checker beside the real vLLM")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="short runs: a look, no figures")
    parser.add_argument("--million", action="store_true", help="one run of so many request-steps")
    parser.add_argument("--features", action="store_true", help="those with an option alone")
    parser.add_argument("--judge", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.judge is not None:
        judge(arguments.judge)
        return
    python = oracle_python()
    if python is None:
        sys.exit("no real vLLM: set NULLBLOCK_ORACLE_PYTHON, or let `make test` install .oracle")
    table = Table(title=f"best of {arguments.rounds} rounds, CPU time a request-step")
    for column in (
        "running",
        "steps",
        "scheduling",
        "request-steps",
        "vLLM 0.22.1 µs",
        "check µs",
        "faster by",
        "vLLM s",
        "check s",
        "loading s",
        "peak MiB",
        "trace MiB",
    ):
        table.add_column(column, justify="right")
    batches = QUICK if arguments.quick else MILLION if arguments.million else BATCHES
    for batch in FEATURES if arguments.features else batches:
        table.add_row(*row(python, arguments.rounds, *batch))
    console = Console()
    console.width = max(console.width, WIDTH)
    console.print(table)


if __name__ == "__main__":
    main()
