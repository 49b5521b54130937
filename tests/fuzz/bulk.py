"""Fuzzing in bulk: random scenarios on the real engine and on ours, as long as you like.

    python tests/fuzz/bulk.py [--family F] [--engine E] [--profile P] [--seed N] [--steps N]
    python tests/fuzz/bulk.py --family all --steps 20000
    python tests/fuzz/bulk.py --engine reference --engine impl:twins --profile normative
    python tests/fuzz/bulk.py --replay SCENARIO.json

A family (`tests/fuzz/families.py`) is a kind of scenario; ``all`` runs one after the other, as
many steps of each, on those of spec and reference that do what it needs. ``impl:DEVICE`` is the
engine impl on that device: ``interpreter``, ``twins`` or ``cuda``. With another profile than the
real engine's, our engines are compared with each other. Scenarios ask only for what all the
engines do. Needs the development environment (``make test`` makes it); the real engine is
installed when it is missing. The seed is printed first, so that any run can be repeated. On a
difference the scenario is shrunk and written to a file, and one line says how to replay it. Exit
codes: 0 no difference, 1 a difference, 2 command line, 3 the real engine cannot be had.
"""

import argparse
import json
import os
import secrets
import sys
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from fuzz import lockstep  # noqa: E402  (only found from here on)
from fuzz.families import FAMILIES, Family  # noqa: E402
from oracle.client import Oracle  # noqa: E402
from oracle.install import RELEASES, InstallError, ensure  # noqa: E402

from nullblock.conformance.engines import DeviceName, EngineName  # noqa: E402
from nullblock.conformance.lines.extent import extent  # noqa: E402
from nullblock.conformance.lockstep.reach import table  # noqa: E402
from nullblock.conformance.lockstep.shrink import shrink  # noqa: E402
from nullblock.spec.profiles import PROFILES, VLLM_0_22_1, VLLM_0_32_0, Semantics  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
FOUND = ROOT / ".cache" / "fuzz"
"""Where scenarios with a difference are written."""
ENGINES = [*EngineName, *(f"impl:{device}" for device in DeviceName)]
PATIENCE = 3600.0
"""Seconds for the real engine to answer: a run that gives way to all others waits for its turn."""
MOST_DIFFERENCES = 5
"""A run ends after that many: shrinking takes time, and one cause shows many times."""


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
    """A run: scenario after scenario of a family until there are enough steps.

    Args:
        size: about how many groups of events a scenario has.
        first: the number of its first scenario.
    """

    def __init__(
        self,
        oracle: Oracle | None,
        engines: tuple[str, ...],
        seed: int,
        size: int,
        semantics: Semantics = VLLM_0_22_1,
        family: Family = FAMILIES["core"],
        first: int = 0,
    ) -> None:
        self.oracle, self.engines, self.seed, self.size = oracle, engines, seed, size
        self.semantics, self.family, self.next = semantics, family, first
        self.features = extent(lockstep.features(engines), semantics)
        self.totals = Totals()

    def run(self, steps: int) -> None:
        """Take at least that many steps, or stop early at too many differences."""
        totals = self.totals
        while totals.steps < steps and totals.differences < MOST_DIFFERENCES:
            self.one(self.next)
            self.next += 1
            if sys.stderr.isatty():
                print(f"\r{totals}", end="", file=sys.stderr, flush=True)
        if sys.stderr.isatty():
            print(file=sys.stderr)

    def one(self, number: int) -> None:
        """The scenario of that number."""
        family, totals = self.family, self.totals
        scenario = family.make(f"{self.seed}:{number}", self.size, self.features)
        is_watched, seen = number % family.every == 0, Counter[str]()
        with family.watching(seen) if is_watched else nullcontext():
            outcome = self.compare(scenario)
        totals.scenarios += 1
        totals.steps += outcome.num_steps
        totals.exceptions += outcome.has_raised
        if outcome.refused:
            totals.refused += 1
            print(f"scenario {number}: {outcome.refused}", flush=True)
        if outcome.differences:
            totals.differences += 1
            self.report(scenario, number)
        elif is_watched and not outcome.refused:
            totals.watched += 1
            totals.reached.update({*seen, *family.reached(scenario, outcome.lines)})

    def report(self, scenario: lockstep.Scenario, number: int) -> None:
        """Shrink a scenario, keep it, and say how to see it again."""

        def differs(candidate: lockstep.Scenario) -> bool:
            return bool(self.compare(candidate).differences)

        print(f"seed {self.seed}, scenario {number}: a difference; shrinking", flush=True)
        small = shrink(scenario, differs)
        path = keep(f"{self.family.name}-{self.seed}-{number}", small)
        tell(self.compare(small), path, self.engines, self.semantics)

    def compare(self, scenario: lockstep.Scenario) -> lockstep.Outcome:
        """The scenario on every engine."""
        return lockstep.run(scenario, self.engines, self.oracle, self.semantics)


def keep(name: str, scenario: lockstep.Scenario) -> Path:
    """Write a scenario that was found where those lie; where that is."""
    path = FOUND / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(scenario) + "\n")
    return path


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
    if outcome.differences:
        tell(outcome, path, engines, semantics)
    elif outcome.ours:
        print(f"{outcome.num_steps} steps, no difference")
    return bool(outcome.differences)


def default_engines(family: Family, semantics: Semantics) -> tuple[str, ...]:
    """Those that do what a family needs and wants; if none does, what it needs."""
    whole = replace(family, needs=family.needs | family.wants)
    able = (
        tuple(e for e in lockstep.ENGINES if not lacking(one, (e,), semantics))
        for one in (whole, family)
    )
    return next(filter(None, able), ())


def lacking(family: Family, engines: tuple[str, ...], semantics: Semantics) -> list[str]:
    """What a family needs and those engines do not do, by name."""
    return family.lacking(extent(lockstep.features(engines), semantics))


def chosen(name: str | None, semantics: Semantics) -> list[Family]:
    """The families of that name: for ``all`` those that some engine follows the line in."""
    if name == "all":
        later = semantics == VLLM_0_32_0
        candidates = [f for f in FAMILIES.values() if f.name.startswith("later") == later]
        return [f for f in candidates if default_engines(f, semantics)]
    return [FAMILIES[name or ("later" if semantics == VLLM_0_32_0 else "core")]]


def beside(profile: str) -> AbstractContextManager[Oracle | None]:
    """The real engine of a profile, if it is one's. Raises InstallError."""
    release = RELEASES.get(profile.removeprefix("vllm-"))
    return nullcontext() if release is None else Oracle(ensure(release=release), seconds=PATIENCE)


def with_fixed_hashes() -> None:
    """Start this program again if strings are hashed by chance: several ids of one report are
    dealt with in the order of a set, which is the real engine's only where the seed is.
    """
    if os.environ.get("PYTHONHASHSEED") != "0":
        fixed = {**os.environ, "PYTHONHASHSEED": "0"}
        os.execve(sys.executable, [sys.executable, *sys.argv], fixed)


def parser(text: str, steps: int) -> argparse.ArgumentParser:
    """The command line of a program that runs families."""
    parser = argparse.ArgumentParser(
        description=text.partition("\n")[0],
        epilog="; ".join(f"{f.name}: {f.about}" for f in FAMILIES.values()),
    )
    parser.add_argument("--family", choices=[*FAMILIES, "all"], help="default: core")
    parser.add_argument("--engine", action="append", choices=ENGINES)
    parser.add_argument("--profile", choices=PROFILES, default="vllm-0.22.1")
    parser.add_argument("--seed", type=int, help="default: a fresh one, printed first")
    parser.add_argument("--steps", type=int, default=steps, help="default: %(default)s")
    parser.add_argument("--size", type=int, default=30, help="groups of events in a scenario")
    return parser


def runs(
    options: argparse.Namespace, parser: argparse.ArgumentParser
) -> list[tuple[Family, tuple[str, ...]]]:
    """The families that a command line asks for, with the engines. Ends with 2 where the engines
    do not do what the family needs.
    """
    semantics = PROFILES[options.profile]
    found = []
    for family in chosen(options.family, semantics):
        engines = tuple(options.engine or default_engines(family, semantics))
        missing = ", ".join(lacking(family, engines or lockstep.ENGINES, semantics))
        if missing:
            who = f"{' and '.join(engines)}: without" if engines else "no engine does"
            parser.error(f"--family {family.name} in {options.profile}: {who} {missing}")
        found.append((family, engines))
    return found


def rows(done: Iterable[Bulk]) -> str:
    """A line for each run, and their sum."""
    lines = [f"{'family':14} {'scenarios':>9} {'steps':>9} {'exceptions':>10} {'differences':>11}"]
    steps = differences = 0
    for run in done:
        t = run.totals
        steps, differences = steps + t.steps, differences + t.differences
        lines.append(
            f"{run.family.name:14} {t.scenarios:9,} {t.steps:9,} {t.exceptions:10,} "
            f"{t.differences:11,}  {', '.join(run.engines)}"
        )
    return "\n".join([*lines, f"{'together':14} {'':9} {steps:9,} {'':10} {differences:11,}"])


def main() -> int:
    """Run what the command line says."""
    arguments = parser(__doc__, steps=50_000)
    arguments.add_argument("--replay", type=Path, metavar="SCENARIO.json")
    options = arguments.parse_args()
    semantics = PROFILES[options.profile]
    todo = runs(options, arguments)
    try:
        real = beside(options.profile)
    except InstallError as error:
        print(f"the real vLLM is not installed: {error}", file=sys.stderr)
        return 3
    with real as oracle:
        if options.replay:
            engines = tuple(options.engine or lockstep.ENGINES)
            return replay(options.replay, engines, oracle, semantics)
        seed = secrets.randbelow(10**9) if options.seed is None else options.seed
        done = []
        for family, engines in todo:
            where = "beside vLLM" if oracle else "in profile"
            where += f" {options.profile.removeprefix('vllm-')}"
            print(f"seed {seed}: {family.name}: {', '.join(engines)} {where}", flush=True)
            bulk = Bulk(oracle, engines, seed, options.size, semantics, family)
            done.append(bulk)
            try:
                bulk.run(options.steps)
            except KeyboardInterrupt:
                print()
                break
            finally:
                print(f"of {bulk.totals.watched} scenarios that were watched:")
                print(table(bulk.totals.reached, bulk.totals.watched))
                print(f"seed {seed}: {bulk.totals}", flush=True)
    if len(todo) > 1:
        print(rows(done))
    return any(bulk.totals.differences for bulk in done)


if __name__ == "__main__":
    with_fixed_hashes()
    sys.exit(main())
