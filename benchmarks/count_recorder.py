"""How many instructions recording costs: the real vLLM 0.22.1 scheduler under valgrind.

    python benchmarks/count_recorder.py [--running N] [--steps N] [--drafts N] [--floor]

needs the real engine (``make oracle``) and valgrind. A clock tells what the machine did meanwhile,
too; a count does not: it is nearly the same on a machine that is busy with other things. Counted
are all instructions of the process, on every thread, of which those of a shorter run are taken
away, so that only steps are left: encoding, compressing and writing included, the garbage
collector left out. What instructions wait for is not in a count; ``bench_recorder.py`` has times.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import bench_recorder

SHORT = 16
"""Steps of the run that is taken away."""
PROGRAM = """
import gc, os, sys
folder, kind = sys.argv[1:3]
running, depth, turnover, drafts, steps = map(int, sys.argv[3:])
sys.path[:0] = os.environ["OURS"].split(os.pathsep)
import torchless; torchless.install()
import bench_recorder
from vllm.v1.core.sched import async_scheduler, scheduler
kinds = [scheduler.Scheduler, async_scheduler.AsyncScheduler]
if kind == "recording":
    from nullblock.conformance.adapters.vllm import RecordingAsyncScheduler, RecordingScheduler
    kinds = [RecordingScheduler, RecordingAsyncScheduler]
    os.environ |= {"NULLBLOCK_TRACE": folder, "NULLBLOCK_TRACE_FLUSH_SECONDS": "3600"}
if kind == "looking":
    kinds = [type(k.__name__, (bench_recorder.Looking, k), {}) for k in kinds]
bench = bench_recorder.Bench(kinds[depth - 1], running, depth, bool(turnover), drafts, steps)
gc.disable()
bench.steps(steps)
if kind == "recording":
    bench.written()
os._exit(0)
"""


def instructions(python: Path, kind: str, *numbers: int) -> int:
    """Of a whole run: how many requests run, the depth, whether some end, drafts, and steps."""
    with tempfile.TemporaryDirectory() as folder:
        ours = [bench_recorder.ROOT / place for place in ("tests/oracle", ".src", "benchmarks")]
        environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith("NULLBLOCK_")},
            "OURS": os.pathsep.join(map(str, ours)),
            "PYTHONHASHSEED": "0",
            "OPENBLAS_NUM_THREADS": "1",  # its threads spin
        }
        tool = ["valgrind", "--tool=cachegrind", "--cache-sim=no"]
        tool += ["--cachegrind-out-file=/dev/null"]
        arguments = [folder, kind, *map(str, numbers)]
        done = subprocess.run(
            [*tool, str(python), "-B", "-c", PROGRAM, *arguments],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
    found = re.search(r"I +refs: +([\d,]+)", done.stderr)
    if done.returncode or found is None:
        sys.exit(f"counting has failed: {done.stderr[-500:]}")
    return int(found[1].replace(",", ""))


def main() -> None:
    """Count, and print a line for each way of scheduling."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--running", type=int, default=256)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--drafts", type=int, default=0, help="of each request; default: none")
    python = bench_recorder.ROOT / ".oracle" / "bin" / "python"
    parser.add_argument("--python", type=Path, default=python)
    parser.add_argument("--floor", action="store_true", help="only look: the least there is")
    options = parser.parse_args()
    if not options.python.exists():
        sys.exit(f"no real vLLM at {options.python}: make oracle")
    kind = "looking" if options.floor else "recording"
    for turnover in (0, 1):
        for depth in (1, 2):
            numbers = options.running, depth, turnover, options.drafts
            one, other = (
                (
                    instructions(options.python, k, *numbers, long)
                    - instructions(options.python, k, *numbers, SHORT)
                )
                / options.steps
                for k in ("plain", kind)
                for long in (SHORT + options.steps,)
            )
            mode = "sync" if depth == 1 else f"async, depth {depth}"
            what = "ends and arrivals" if turnover else "decodes"
            what += f" with {options.drafts} drafts" if options.drafts else ""
            print(
                f"{mode}, {options.running} {what}: {one / 1e6:.2f} million instructions a step, "
                f"{kind} {other / one - 1:+.2%}",
                flush=True,
            )


if __name__ == "__main__":
    main()
