"""Fuzzing in bulk: random scenarios on the real engine and on ours, as long as you like.

    python tests/fuzz/bulk.py [--engine spec --engine reference] [--seed N] [--steps N]
    python tests/fuzz/bulk.py --engine reference --engine impl:twins --profile normative
    python tests/fuzz/bulk.py --replay SCENARIO.json

``impl:DEVICE`` is the engine impl on that device: ``interpreter``, ``twins`` or ``cuda``. With
another profile than the real engine's, our engines are compared with each other. Scenarios ask
only for what all the engines do. Needs the development environment (``make test`` makes it);
the real engine is installed when it is missing. The seed is printed first, so that any run can be
repeated. On a difference the scenario is shrunk and written to a file, and one line says how to
replay it. Exit codes: 0 no difference, 1 a difference, 2 command line, 3 the real engine cannot
be had.
"""

import argparse
import json
import secrets
import sys
import time
from collections import Counter
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from fuzz import lockstep, reach, second_line  # noqa: E402  (only found from here on)
from oracle.client import Oracle  # noqa: E402
from oracle.install import RELEASES, InstallError, ensure  # noqa: E402

from nullblock.conformance.engines import DeviceName, EngineName  # noqa: E402
from nullblock.conformance.lines.extent import extent  # noqa: E402
from nullblock.conformance.lockstep.generator import seeded  # noqa: E402
from nullblock.conformance.lockstep.reach import table  # noqa: E402
from nullblock.conformance.lockstep.shrink import shrink  # noqa: E402
from nullblock.spec.profiles import PROFILES, VLLM_0_22_1, VLLM_0_32_0, Semantics  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
FOUND = ROOT / ".cache" / "fuzz"
"""Where scenarios with a difference are written."""
ENGINES = [*EngineName, *(f"impl:{device}" for device in DeviceName)]
MOST_DIFFERENCES = 5
"""A run ends after that many: shrinking takes time, and one cause shows many times."""
REACH_EVERY = 20
"""Of how many scenarios one is watched for what it reaches."""


@dataclass(slots=True)
class Totals:
    """What a run has done so far."""

    scenarios: int = 0
    steps: int = 0
    exceptions: int = 0
    refused: int = 0
    differences: int = 0
    watched: int = 0
    reached: Counter[str] = field(default_factory=Counter)
    began: float = field(default_factory=time.monotonic)

    def __str__(self) -> str:
        seconds = time.monotonic() - self.began
        return (
            f"{self.scenarios} scenarios, {self.steps} steps, {self.exceptions} ended by an "
            f"exception, {self.refused} refused, {self.differences} differences, {seconds:.0f} s"
        )


class Bulk:
    """A run: scenario after scenario until there are enough steps."""

    def __init__(
        self,
        oracle: Oracle | None,
        engines: tuple[str, ...],
        seed: int,
        size: int,
        semantics: Semantics = VLLM_0_22_1,
    ) -> None:
        self.oracle, self.engines, self.seed, self.size = oracle, engines, seed, size
        self.semantics = semantics
        self.features = extent(lockstep.features(engines), semantics)
        self.totals = Totals()

    def run(self, steps: int) -> None:
        """Take at least that many steps, or stop early at too many differences."""
        totals = self.totals
        while totals.steps < steps and totals.differences < MOST_DIFFERENCES:
            self.one(totals.scenarios)
            totals.scenarios += 1
            if sys.stderr.isatty():
                print(f"\r{totals}", end="", file=sys.stderr, flush=True)
        if sys.stderr.isatty():
            print(file=sys.stderr)

    def one(self, number: int) -> None:
        """The scenario of that number."""
        scenario = self.make(f"{self.seed}:{number}")
        outcome = self.compare(scenario)
        self.totals.steps += outcome.num_steps
        self.totals.exceptions += outcome.has_raised
        self.totals.refused += bool(outcome.refused)
        if outcome.differences:
            self.totals.differences += 1
            self.report(scenario, number)
        elif number % REACH_EVERY == 0 and not outcome.refused:
            self.totals.watched += 1
            self.totals.reached.update(self.reached(scenario))

    def make(self, key: str) -> lockstep.Scenario:
        """The scenario of a key."""
        if self.semantics == VLLM_0_32_0:
            return second_line.made(key, self.size)
        return seeded(key, self.size, self.features)

    def reached(self, scenario: lockstep.Scenario) -> set[str]:
        """What a scenario reaches."""
        return reach.reached(scenario)

    def report(self, scenario: lockstep.Scenario, number: int) -> None:
        """Shrink a scenario, keep it, and say how to see it again."""

        def differs(candidate: lockstep.Scenario) -> bool:
            return bool(self.compare(candidate).differences)

        print(f"seed {self.seed}, scenario {number}: a difference; shrinking", flush=True)
        small = shrink(scenario, differs)
        path = FOUND / f"{self.seed}-{number}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(small) + "\n")
        tell(self.compare(small), path, self.engines, self.semantics)

    def compare(self, scenario: lockstep.Scenario) -> lockstep.Outcome:
        """The scenario on every engine."""
        return lockstep.run(scenario, self.engines, self.oracle, self.semantics)


def tell(
    outcome: lockstep.Outcome, path: Path, engines: tuple[str, ...], semantics: Semantics
) -> None:
    """What differs, and the line that replays it."""
    left = "real engine" if outcome.real else engines[0]
    for engine, difference in outcome.differences.items():
        print(f"  {left} and {engine}: {difference}")
    flags = " ".join(f"--engine {engine}" for engine in engines)
    if semantics != VLLM_0_22_1:
        flags += "".join(f" --profile {name}" for name, s in PROFILES.items() if s == semantics)
    print(f"  replay: {sys.executable} tests/fuzz/bulk.py {flags} --replay {path}", flush=True)


def replay(
    path: Path,
    engines: tuple[str, ...],
    oracle: Oracle | None,
    semantics: Semantics = VLLM_0_22_1,
) -> int:
    """Run one scenario file again."""
    outcome = lockstep.run(json.loads(path.read_text()), engines, oracle, semantics)
    if outcome.refused:
        print(f"refused: {outcome.refused}")
    elif outcome.differences:
        tell(outcome, path, engines, semantics)
    else:
        print(f"{outcome.num_steps} steps, no difference")
    return bool(outcome.differences)


def parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--engine", action="append", choices=ENGINES)
    parser.add_argument("--profile", choices=PROFILES, default="vllm-0.22.1")
    parser.add_argument("--seed", type=int, help="default: a fresh one, printed first")
    parser.add_argument("--steps", type=int, default=50_000, help="default: %(default)s")
    parser.add_argument("--size", type=int, default=30, help="groups of events in a scenario")
    parser.add_argument("--replay", type=Path, metavar="SCENARIO.json")
    return parser


def main() -> int:
    """Run what the command line says."""
    options = parser().parse_args()
    engines = tuple(options.engine or lockstep.ENGINES)
    semantics = PROFILES[options.profile]
    beside: AbstractContextManager[Oracle | None] = nullcontext()
    release = RELEASES.get(options.profile.removeprefix("vllm-"))
    if release is not None:
        try:
            beside = Oracle(ensure(release=release))
        except InstallError as error:
            print(f"the real vLLM is not installed: {error}", file=sys.stderr)
            return 3
    with beside as oracle:
        if options.replay:
            return replay(options.replay, engines, oracle, semantics)
        seed = secrets.randbelow(10**9) if options.seed is None else options.seed
        where = "beside vLLM" if oracle else "in profile"
        where += f" {options.profile.removeprefix('vllm-')}"
        print(f"seed {seed}: {', '.join(engines)} {where}", flush=True)
        bulk = Bulk(oracle, engines, seed, options.size, semantics)
        try:
            bulk.run(options.steps)
        except KeyboardInterrupt:
            print()
        print(f"of {bulk.totals.watched} scenarios that were watched:")
        print(table(bulk.totals.reached, bulk.totals.watched))
        print(f"seed {seed}: {bulk.totals}")
        return bool(bulk.totals.differences)


if __name__ == "__main__":
    sys.exit(main())
