"""The kernels on a GPU: tested compiled, then timed beside floors and peers, in one call.

    python benchmarks/gpu/bench_gpu.py [--device auto|cuda|cpu] [--quick] [--only PART …]
                                       [--no-tests] [--json] [--out FOLDER]

On a GPU it writes RESULTS.md and results.json into this folder (or FOLDER). Without one it says
so and measures nothing; `--device cpu` times the twins, prints, and writes no page. Exit codes:
0 done, 1 a test failed (if it is a kernel's, nothing is timed) or the scheduler decided otherwise
than the NumPy engine, 2 usage.
"""

import argparse
import datetime
import importlib
import importlib.util
import json
import os
import platform
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
TABLES = ("step", "prepare", "update", "kv_write", "blocks", "decode", "prefill", "sampling")
DIVERGENCES = "divergences"
"""What follows the tables, on a GPU alone: a million random steps beside the NumPy engine."""
PARTS = (*TABLES, DIVERGENCES)
NO_GPU = (
    "There is no GPU here: nothing was measured, and nothing is claimed about one. "
    "`--device cpu` times the twins."
)


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=("auto", "cuda", "cpu"), default="auto")
    parser.add_argument("--quick", action="store_true", help="fewer rounds: minutes in all")
    parser.add_argument("--only", nargs="+", choices=PARTS, help="these parts alone")
    parser.add_argument("--no-tests", action="store_true", help="do not run the tests first")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument("--out", type=Path, default=HERE, help="where page and JSON go")
    return parser.parse_args()


def make_importable() -> None:
    """Where the package is not installed, a folder of links stands in for it, here and in the
    processes that this one starts."""
    if importlib.util.find_spec("nullblock") is not None:
        return
    folder = Path(tempfile.mkdtemp())
    (folder / "nullblock").mkdir()
    for layer in ("spec", "reference", "impl", "kernels", "conformance"):
        (folder / "nullblock" / layer).symlink_to(ROOT / layer, target_is_directory=True)
    sys.path.insert(0, str(folder))
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(folder), *([before] if before else [])])


def run_tests(quick: bool) -> tuple[bool, str, str]:
    """The tests, compiled: whether those of the kernels passed, and what they and the engine's
    said.
    """
    from tested import ENGINE, ENGINE_NEEDS, KERNELS, run_tests

    print("testing the kernels, compiled", file=sys.stderr)
    passed, kernels = run_tests(KERNELS, (), quick)
    if not passed:
        return False, kernels, ""
    print("testing the engine on the device", file=sys.stderr)
    passed, engine = run_tests(ENGINE, ENGINE_NEEDS, quick)
    return True, kernels, engine if passed else f"FAILED: {engine}"


def versions() -> dict[str, str]:
    """What was measured with."""
    import torch
    import triton

    found = {"torch": torch.__version__, "triton": triton.__version__}
    if torch.version.cuda:
        found["CUDA"] = torch.version.cuda
    return found | {"Python": platform.python_version()}


def measure_all(
    options: argparse.Namespace, is_gpu: bool, tests: str, engine: str
) -> "Iterator[Report]":  # noqa: F821
    """Floors first, then every table, then divergences; what is known after each of them."""
    import torch
    from divergences import QUICK, STEPS, count
    from floors import measure_floors
    from page import Report
    from timing import Clock, CpuClock, CudaClock, Effort
    from workbench import Bench

    effort = Effort.quick() if options.quick else Effort()
    clock: Clock = CudaClock() if is_gpu else CpuClock()
    if not is_gpu:
        effort = Effort.cpu()
    device = torch.device("cuda" if is_gpu else "cpu")
    torch.manual_seed(0)
    name = torch.cuda.get_device_name() if is_gpu else f"{platform.machine()} CPU, twins only"
    floors = measure_floors(clock, device, effort)
    bench = Bench(clock, device, effort, options.quick)
    date = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
    command = "python benchmarks/gpu/bench_gpu.py " + " ".join(sys.argv[1:])
    report = Report(date, name, is_gpu, command.strip(), versions(), tests, floors, [], engine)
    for part in options.only or PARTS:
        print(f"measuring {part}", file=sys.stderr)
        if part in TABLES:
            report.sections.append(measure_table(bench, part))
        elif is_gpu:
            found = count("cuda", QUICK if options.quick else STEPS)
            report = replace(report, divergences=found)
        yield report
        if is_gpu:
            torch.cuda.empty_cache()


def write(report: "Report", folder: Path) -> None:  # noqa: F821
    """The results page and its JSON."""
    from page import as_document, as_page

    folder.mkdir(parents=True, exist_ok=True)
    (folder / "RESULTS.md").write_text(as_page(report))
    (folder / "results.json").write_text(json.dumps(as_document(report), indent=1) + "\n")


def measure_table(bench: "Bench", name: str) -> "Section":  # noqa: F821
    """One table; a part of the project that is not there costs its table and no other."""
    from page import Section

    try:
        table = importlib.import_module(f"table_{name}")
    except ImportError as error:
        return Section(name, name, "", missing=f"not there: {error}")
    rows = []
    try:
        rows.extend(table.rows(bench))
    except Exception as error:  # a table that fails is reported, and the others are measured
        lines = str(error).strip().splitlines() or ["no message"]
        missing = f"{type(error).__name__}: {lines[0][:200]}"
        return Section(name, table.TITLE, table.TEXT, rows, missing)
    return Section(name, table.TITLE, table.TEXT, rows)


def main() -> int:
    """Test, measure, print, write."""
    options = arguments()
    if importlib.util.find_spec("torch") is None or importlib.util.find_spec("triton") is None:
        print("torch and triton are missing: pip install 'nullblock[gpu]'", file=sys.stderr)
        return 2
    os.environ["TRITON_INTERPRET"] = "0"  # whatever the caller had: the interpreter is not timed
    sys.path[:0] = [str(HERE)]
    make_importable()
    import torch

    is_gpu = torch.cuda.is_available() and options.device != "cpu"
    if not is_gpu and options.device != "cpu":
        print(json.dumps({"measured": False, "reason": NO_GPU}) if options.json else NO_GPU)
        return 0 if options.device == "auto" else 2
    tests = engine = "not run"
    if is_gpu and not options.no_tests:
        passed, tests, engine = run_tests(options.quick)
        if not passed:
            print(f"tests failed, so nothing is timed: {tests}", file=sys.stderr)
            return 1
    from page import as_document, as_page

    for report in measure_all(options, is_gpu, tests, engine):
        if is_gpu:  # after every table: a run that is cut short leaves what it had
            write(report, options.out)
    print(json.dumps(as_document(report), indent=1) if options.json else as_page(report))
    return int(report.has_failed)


if __name__ == "__main__":
    sys.exit(main())
