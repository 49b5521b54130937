"""Long runs of the fast engine beside the real vLLM, or beside the specification, and their sum.

    python tests/fuzz/record_impl.py [--engine impl:twins] [--seed N] [--steps N]
    python tests/fuzz/record_impl.py --profile normative
    python tests/fuzz/record_impl.py --total

A run is added to `tests/fuzz/data/impl.json`, with the digest of the text that it is of;
``--total`` says how many steps all runs of the present text have taken. With another profile than
vLLM's it is compared with the specification. Exit codes as of `tests/fuzz/bulk.py`.
"""

import argparse
import secrets
import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import msgspec

sys.path.insert(0, str(Path(__file__).parents[1]))

from fuzz.bulk import Bulk  # noqa: E402  (only found from here on)
from oracle.client import Oracle  # noqa: E402
from oracle.install import InstallError, ensure  # noqa: E402

from nullblock.conformance.files import write_atomically  # noqa: E402
from nullblock.conformance.ledger.digest import TEXT, digest  # noqa: E402
from nullblock.spec.profiles import PROFILES, VLLM_0_22_1  # noqa: E402

RESULT = Path(__file__).parent / "data" / "impl.json"
TEXTS = {
    "impl": ("impl/*.py",),
    "impl:twins": ("impl/*.py", "impl/device/*.py", "kernels/*.py", "kernels/*/*.py"),
}
"""By engine: what decides."""
SIZE = 30
"""Groups of events in a scenario."""


class Run(msgspec.Struct, frozen=True):
    """What a run has shown."""

    of: str
    """Digest of the text that ran."""
    engine: str
    beside: str
    seed: int
    scenarios: int
    steps: int
    exceptions: int
    """Scenarios that an exception ended, the same on both."""
    differences: int


def present(engine: str, beside: str) -> str:
    """The digest of the text that a run started now would be of."""
    return digest(TEXTS[engine] + (TEXT if beside == "spec" else ()))


def gather(path: Path = RESULT) -> list[Run]:
    """All runs that were recorded."""
    return msgspec.json.decode(path.read_bytes(), type=list[Run]) if path.exists() else []


def add(run: Run, path: Path = RESULT) -> None:
    """Record a run."""
    path.parent.mkdir(exist_ok=True)
    runs = msgspec.json.encode([*gather(path), run])
    write_atomically(path, msgspec.json.format(runs, indent=1) + b"\n")


def totals(runs: list[Run]) -> str:
    """A line for each pair of engines, and one for all; of the present text only."""
    lines, steps, differences = [], 0, 0
    for engine, beside in sorted({(run.engine, run.beside) for run in runs}):
        now = present(engine, beside)
        of = [r for r in runs if (r.engine, r.beside, r.of) == (engine, beside, now)]
        many, wrong = sum(r.steps for r in of), sum(r.differences for r in of)
        lines.append(f"{engine} beside {beside}: {many:,} steps, {wrong} differences")
        steps, differences = steps + many, differences + wrong
    lines.append(f"the present text: {steps:,} random steps, {differences} differences")
    return "\n".join(lines)


def parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--engine", choices=sorted(TEXTS), default="impl")
    parser.add_argument("--profile", choices=PROFILES, default="vllm-0.22.1")
    parser.add_argument("--seed", type=int, help="default: a fresh one")
    parser.add_argument("--steps", type=int, default=60_000, help="default: %(default)s")
    parser.add_argument("--total", action="store_true", help="run nothing")
    return parser


def main() -> int:
    """Run, and add what came of it."""
    options = parser().parse_args()
    if options.total:
        print(totals(gather()))
        return 0
    seed = secrets.randbelow(10**9) if options.seed is None else options.seed
    semantics = PROFILES[options.profile]
    engines: tuple[str, ...] = (options.engine,)
    beside, other = "vLLM 0.22.1", nullcontext[Oracle | None](None)
    real: AbstractContextManager[Oracle | None] = other
    if semantics == VLLM_0_22_1:
        try:
            real = Oracle(ensure())
        except InstallError as error:
            print(f"the real vLLM is not installed: {error}", file=sys.stderr)
            return 3
    else:
        engines, beside = ("spec", options.engine), "spec"
    of = present(options.engine, beside)
    with real as oracle:
        bulk = Bulk(oracle, engines, seed, SIZE, semantics)
        bulk.run(options.steps)
    t = bulk.totals
    add(Run(of, options.engine, beside, seed, t.scenarios, t.steps, t.exceptions, t.differences))
    print(f"seed {seed}: {t}\n{totals(gather())}")
    return bool(t.differences)


if __name__ == "__main__":
    sys.exit(main())
