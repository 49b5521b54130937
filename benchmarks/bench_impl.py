"""The fast engine on a CPU beside the real vLLM 0.22.1: one table, with ratios.

    python benchmarks/bench_impl.py [--rounds N] [--quick] [--json]

The two take turns, each in an interpreter of its own, so that both meet the same machine. Rounds
are alike step by step, so a step's time is its best of the rounds; a figure is the median step of
plain decodes, and the mean step where requests come and go or are preempted. "Ahead" is
asynchronous scheduling: each step is decided with the one before in flight. The decisions of
both are compared: exit code 1 if they differ. Without a real vLLM the engine is measured alone,
and that is said. Absolute times drift: compare ratios.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from bench_reference import in_microseconds, oracle_python
from rich.console import Console
from rich.table import Table

HERE = Path(__file__).parent
SIZES, STEPS = "64,256,1024", 120
QUICK_SIZES, QUICK_STEPS = "64,256", 40
Figures = dict[str, Any]


def run_once(python: Path, engine: str, sizes: str, steps: int) -> Figures:
    """Measure one engine in an interpreter of its own."""
    done = subprocess.run(
        [str(python), str(HERE / "players.py"), engine, sizes, str(steps)],
        env={**os.environ, "PYTHONHASHSEED": "0", "VLLM_LOGGING_LEVEL": "ERROR"},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        reason = (done.stderr.strip() or "no message").splitlines()[-1]
        sys.exit(f"measuring {engine} under {python} failed: {reason}")
    figures: Figures = json.loads(done.stdout.splitlines()[-1])
    return figures


def step_time(name: str, rounds: list[Figures]) -> float:
    """Seconds a step of a workload."""
    best = [min(times) for times in zip(*(figures[name][0] for figures in rounds), strict=True)]
    return statistics.median(best) if name.startswith("decodes") else statistics.mean(best)


def result(ours: list[Figures], theirs: list[Figures]) -> list[dict[str, Any]]:
    """By workload: seconds a step of both, the ratio, and whether they decided the same."""
    rows = []
    for name, (_, digest, preempted) in ours[0].items():
        mine = step_time(name, ours)
        row = {"workload": name, "impl_s": mine, "preemptions": preempted}
        if theirs:
            real = step_time(name, theirs)
            same = all(figures[name][1] == digest for figures in (*ours, *theirs))
            row |= {"vllm_s": real, "faster": real / mine, "same_decisions": same}
        rows.append(row)
    return rows


def table(rows: list[dict[str, Any]], rounds: int) -> Table:
    """What a person reads."""
    found = Table(title=f"a step, each best of {rounds} rounds, microseconds of one core")
    found.add_column("what, requests running")
    for column in ("impl", "vLLM 0.22.1", "faster by", "decisions"):
        found.add_column(column, justify="right")
    for row in rows:
        there = row.get("vllm_s")
        preempted = f" ({row['preemptions']} preempted)" if row["preemptions"] else ""
        found.add_row(
            row["workload"] + preempted,
            in_microseconds(row["impl_s"]),
            "not here" if there is None else in_microseconds(there),
            "" if there is None else f"{row['faster']:.1f}x",
            "" if there is None else "the same" if row["same_decisions"] else "DIFFER",
        )
    return found


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="the fast engine beside the real vLLM")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="one short round, up to 256 running")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rounds = 1 if options.quick else options.rounds
    sizes, steps = (QUICK_SIZES, QUICK_STEPS) if options.quick else (SIZES, STEPS)
    oracle = oracle_python()
    ours, theirs = [], []
    for _ in range(rounds):
        ours.append(run_once(Path(sys.executable), "impl", sizes, steps))
        if oracle is not None:
            theirs.append(run_once(oracle, "vllm", sizes, steps))
    rows = result(ours, theirs)
    if options.json:
        print(json.dumps({"rounds": rounds, "rows": rows}))
    else:
        Console().print(table(rows, rounds))
        if oracle is None:
            print("no real vLLM: set NULLBLOCK_ORACLE_PYTHON, or let `make test` install .oracle")
    return int(not all(row.get("same_decisions", True) for row in rows))


if __name__ == "__main__":
    sys.exit(main())
