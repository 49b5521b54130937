"""The reference beside the real vLLM 0.22.1: one table, with ratios.

    python benchmarks/bench_reference.py [--rounds N] [--quick] [--features]

The real one runs in a subprocess, under the interpreter named by NULLBLOCK_ORACLE_PYTHON or else
``.oracle/bin/python`` in the checkout. The two take turns, so that both meet the same machine; a
figure is the best of the rounds, in processor time. Without a real vLLM the reference is measured
alone, and that is said. Absolute times drift from machine to machine: compare ratios.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

HERE = Path(__file__).parent
ROOT = HERE.parent


def oracle_python() -> Path | None:
    """The interpreter that has the real vLLM, or None."""
    named = os.environ.get("NULLBLOCK_ORACLE_PYTHON")
    python = Path(named) if named else ROOT / ".oracle" / "bin" / "python"
    if python.exists():
        return python
    if named:
        sys.exit(f"NULLBLOCK_ORACLE_PYTHON: no such file: {named}")
    return None


def run_once(python: Path, package: str, *options: str) -> dict[str, float]:
    """Measure one engine in an interpreter of its own."""
    done = subprocess.run(
        [str(python), str(HERE / "workloads.py"), package, *options],
        env={**os.environ, "PYTHONHASHSEED": "0", "VLLM_LOGGING_LEVEL": "ERROR"},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        reason = (done.stderr.strip() or "no message").splitlines()[-1]
        sys.exit(f"measuring {package} under {python} failed: {reason}")
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def best(rounds: list[dict[str, float]]) -> dict[str, float]:
    """Of each figure the smallest."""
    return {name: min(figures[name] for figures in rounds) for name in rounds[0]}


def in_microseconds(seconds: float) -> str:
    """Three figures' worth of microseconds."""
    us = seconds * 1e6
    return f"{us:,.0f}" if us >= 100 else f"{us:.3g}"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="the reference beside the real vLLM")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="one round: a look, no figures")
    parser.add_argument("--features", action="store_true", help="only inputs, adapters, events")
    arguments = parser.parse_args()
    rounds = 1 if arguments.quick else arguments.rounds
    options = ["--features"] * arguments.features
    oracle = oracle_python()
    ours, theirs = [], []
    for _ in range(rounds):
        ours.append(run_once(Path(sys.executable), "nullblock.reference", *options))
        if oracle is not None:
            theirs.append(run_once(oracle, "vllm", *options))
    table = Table(title=f"best of {rounds} rounds, microseconds")
    table.add_column("what")
    for column in ("reference", "vLLM 0.22.1", "faster by"):
        table.add_column(column, justify="right")
    mine = best(ours)
    real = best(theirs) if theirs else {}
    for name, seconds in mine.items():
        there = real.get(name)
        table.add_row(
            name,
            in_microseconds(seconds),
            "not here" if there is None else in_microseconds(there),
            "" if there is None else f"{there / seconds:.2f}x",
        )
    Console().print(table)
    if oracle is None:
        print("no real vLLM: set NULLBLOCK_ORACLE_PYTHON, or let `make test` install .oracle")


if __name__ == "__main__":
    main()
