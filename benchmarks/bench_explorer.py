"""The explorer on one core: readable, compiled, and SPIN on the same model of the pool.

    python benchmarks/bench_explorer.py [--rounds N] [--quick]

A figure is distinct states between steps in a second of one core's time, of the best round,
without the time that translating and compiling take (which is shown). SPIN searches
benchmarks/pool.pml, the scope `pool` here written by hand in Promela: both count the same states,
which is checked, but SPIN checks one assertion where the explorer checks every invariant. Absolute
times drift from machine to machine: compare ratios.
"""

import argparse
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from nullblock.spec.compiled import build
from nullblock.spec.compiled.search import explore as explore_compiled
from nullblock.spec.explorer.model import Scope, Template
from nullblock.spec.explorer.result import Result
from nullblock.spec.explorer.scopes import STANDARD
from nullblock.spec.explorer.search import explore
from nullblock.spec.facts import Config

HERE = Path(__file__).parent
BLOCKS, SIZE, BUDGET, SEQS, MAX_LEN = 6, 2, 5, 3, 16
REQUESTS = ((3, 4), (3, 4), (1, 5))
"""Prompt tokens and most output tokens of the pool model's requests."""
POOL = Scope(
    "pool",
    "FCFS, prefix caching off, blocks under their own names: what pool.pml says in Promela",
    Config(
        *(BLOCKS + 1, SIZE, BUDGET, SEQS, MAX_LEN),
        scheduler_reserve_full_isl=False,
        enable_prefix_caching=False,
    ),
    tuple(
        Template(name, (1001,) * prompt, most)
        for name, (prompt, most) in zip("abc", REQUESTS, strict=True)
    ),
)


@dataclass(frozen=True, slots=True)
class Figure:
    """What one search did."""

    states: int
    seconds: float

    @property
    def rate(self) -> float:
        """Distinct states a second."""
        return self.states / self.seconds


def spent() -> tuple[float, float]:
    """Seconds of processor time that this process has used, and those it has waited for."""
    ours, theirs = (
        resource.getrusage(w) for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    return ours.ru_utime + ours.ru_stime, theirs.ru_utime + theirs.ru_stime


def best(rounds: int, search: Callable[[], Result], inside: bool) -> Figure:
    """The fastest of some rounds, which run `inside` this process or in one of their own."""
    seconds, states = [], 0
    for _ in range(rounds):
        before = spent()
        found = search()
        seconds.append(spent()[0 if inside else 1] - before[0 if inside else 1])
        if found.counterexample or not found.complete:
            sys.exit(f"scope {found.scope} does not pass: there is nothing to measure")
        states = found.states
    return Figure(states, max(min(seconds), 1e-6))


def spin(rounds: int) -> Figure | None:
    """SPIN on pool.pml; None where it is not installed."""
    if shutil.which("spin") is None:
        return None
    settings = {"R": len(REQUESTS), "N": BLOCKS, "SIZE": SIZE, "BUDGET": BUDGET, "SEQS": SEQS}
    settings |= {"MAX_LEN": MAX_LEN, "L": max(-(-(p + m) // SIZE) for p, m in REQUESTS)}
    for i, (prompt, most) in enumerate(REQUESTS):
        settings |= {f"P{i}": prompt, f"M{i}": most}
    with tempfile.TemporaryDirectory() as folder:
        given = [f"-D{name}={value}" for name, value in settings.items()]
        run(folder, "spin", *given, "-a", str(HERE / "pool.pml"))
        # Reductions are off: every state counts, as it does here.
        run(folder, *build.compiler(), "-O2", "-w", "-DSAFETY", "-DNOREDUCE", "-o", "pan", "pan.c")
        said, seconds = "", float("inf")
        for _ in range(rounds):
            before = spent()[1]
            said = run(folder, "./pan", "-m10000000", "-w22")
            seconds = min(seconds, max(spent()[1] - before, 1e-6))
    stored = re.search(r"(\d+) states, stored", said)
    if stored is None or "errors: 0" not in said:
        sys.exit(f"SPIN does not get through pool.pml: {said.strip()[:200]}")
    # The state before its first statement is one more.
    return Figure(int(stored[1]) - 1, seconds)


def run(folder: str, *command: str) -> str:
    """What a command says."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{command[0]} failed: {(done.stdout + done.stderr).strip()[:300]}")
    return done.stdout


def compiled(scope: Scope, rounds: int, checked: bool, canonical: bool) -> Figure:
    """The compiled explorer, compiled before the clock runs."""

    def search() -> Result:
        return explore_compiled(scope, checked=checked, canonical=canonical, optimized=True)

    search()
    return best(rounds, search, inside=False)


def one_core() -> str:
    """Keep to one core, where the system lets us; what was done."""
    if not hasattr(os, "sched_setaffinity"):
        return "the core is the system's choice"
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    return "one core"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="the explorer beside SPIN")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="one round: a look, no figures")
    arguments = parser.parse_args()
    rounds = 1 if arguments.quick else arguments.rounds
    where = one_core()
    table = Table(title=f"distinct states a processor second, best of {rounds} rounds, {where}")
    table.add_column("what")
    for column in ("states", "states/s", "ratio"):
        table.add_column(column, justify="right")
    core = STANDARD["core"]
    readable = best(1, lambda: explore(core), inside=True)

    def row(what: str, figure: Figure, beside: Figure) -> None:
        ratio = f"{figure.rate / beside.rate:.2f}x"
        table.add_row(what, f"{figure.states:,}", f"{figure.rate:,.0f}", ratio)

    row("core scope, readable", readable, readable)
    try:
        start = time.perf_counter()
        first = explore_compiled(core, optimized=True)
        whole = time.perf_counter() - start
        row("core scope, compiled", compiled(core, rounds, True, True), readable)
        row("core scope, compiled, nothing checked", compiled(core, rounds, False, True), readable)
        ours = compiled(POOL, rounds, True, False)
        theirs = spin(rounds)
        row("pool model, compiled", ours, theirs or ours)
        unchecked = compiled(POOL, rounds, False, False)
        row("pool model, compiled, nothing checked", unchecked, theirs or ours)
    except build.NoCompiler as error:
        Console().print(table)
        sys.exit(f"only the readable form is measured: {error}")
    if theirs is None:
        table.add_row("pool model, SPIN", "not installed", "", "")
    else:
        row("pool model, SPIN", theirs, theirs)
    Console().print(table)
    if build.cache() is None:
        print("no cache folder can be written: the compiled figures include compiling")
    print(f"translating, compiling (or finding it compiled) and searching took {whole:.1f} s")
    if first.states != readable.states:
        sys.exit(f"readable {readable.states} states, compiled {first.states}: not the same scope")
    if theirs is not None and theirs.states != ours.states:
        sys.exit(f"SPIN counts {theirs.states} states, the explorer {ours.states}: not one model")


if __name__ == "__main__":
    main()
