"""``python -m nullblock.kernels.checks.aot``: compile all kernels without a GPU, within a budget.

What has not changed since the budget was written is not compiled again, unless --anew asks for it.
Exit code 1 if a kernel does not compile, needs more than its budget, or is not declared; 2 for a
mistake on the command line.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict

import triton

from nullblock.kernels.checks import budget
from nullblock.kernels.checks.compiling import TARGETS, USUAL, Compiled, compile_all
from nullblock.kernels.checks.shipped import launches, undeclared


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit code."""
    parser = argparse.ArgumentParser(
        prog="aot", description=(__doc__ or "").split(": ", 1)[1].split("\n")[0]
    )
    parser.add_argument("kernels", nargs="*", help="names, or parts of them; default: all")
    parser.add_argument("--target", action="append", choices=TARGETS, help="default: the usual")
    parser.add_argument("--json", action="store_true", help="JSON instead of a table")
    parser.add_argument("--anew", action="store_true", help="compile what did not change, too")
    parser.add_argument("--write", action="store_true", help="make what is measured the budget")
    wanted = parser.parse_args(arguments)
    if wanted.write and (wanted.kernels or wanted.target):
        parser.error("--write is for all kernels and the usual targets")
    targets, declared = wanted.target or USUAL, launches()
    chosen = [
        k for k in declared if not wanted.kernels or any(w in k.name for w in wanted.kernels)
    ]
    if not chosen:
        names = sorted({launch.name for launch in declared})
        parser.error(f"no kernel is called so; there are {', '.join(names)}")
    start = time.perf_counter()
    results = []
    measured = {} if wanted.anew else budget.measured(triton.__version__)
    for result in compile_all(chosen, targets, measured):
        results.append(result)
        if not wanted.json:
            print(_row(result), flush=True)
    if wanted.write:
        budget.write(triton.__version__, results)
    limits = budget.read(triton.__version__)
    if limits is not None and wanted.kernels:
        those = {launch.name for launch in chosen}
        limits = {key: n for key, n in limits.items() if key.split(" | ")[0] in those}
    wrong = budget.complaints(results, limits, undeclared(declared), targets)
    if wanted.json:
        print(json.dumps(_document(results, wrong, limits is not None), indent=1))
        return int(bool(wrong))
    print(f"{len(results)} compiled in {time.perf_counter() - start:.0f} s, {_ruled(limits)}")
    for line in wrong:
        print(f"wrong: {line}", file=sys.stderr)
    return int(bool(wrong))


def _ruled(limits: budget.Budget | None) -> str:
    version = f"Triton {triton.__version__}"
    return f"{version}, within a budget" if limits is not None else f"{version} has no budget"


def _row(result: Compiled) -> str:
    where = f"{result.kernel:<34} {result.example:<18} {result.integers:<16} {result.target:<7}"
    if result.needs is None:
        return f"{where} does not compile"
    needs = result.needs
    return (
        f"{where} {needs.registers:>4} registers {needs.spills:>5} spilled "
        f"{needs.shared:>7} B shared {needs.matrix:>3} matrix"
    )


def _document(results: Sequence[Compiled], wrong: Sequence[str], limited: bool) -> object:
    return {
        "triton": triton.__version__,
        "budget": limited,
        "compiled": [asdict(result) for result in results],
        "wrong": list(wrong),
    }


if __name__ == "__main__":
    if triton.knobs.runtime.interpret:
        # What is jitted while this is set cannot be compiled: begin again without it.
        os.environ["TRITON_INTERPRET"] = "0"
        command = [sys.executable, "-m", "nullblock.kernels.checks.aot", *sys.argv[1:]]
        os.execv(sys.executable, command)
    raise SystemExit(main())
