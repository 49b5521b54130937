"""Random scenarios, recorded and judged: what a trace tells of them has to be explained.

    python tests/fuzz/traced.py [--family F] [--engine E] [--profile P] [--seed N] [--scenarios N]
    python tests/fuzz/traced.py --profile P --replay SCENARIO.json

The engine plays a scenario of a family (`tests/fuzz/families.py`) while it is recorded, and the
checker judges the trace under the same profile. CONFORMS is right, INCONCLUSIVE is counted with
what is missing, and a VIOLATION is a difference between the engine and what the checker does with
the rules. Exit codes: 0 no violation; 1 one; 2 command line.
"""

import argparse
import io
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS), str(TESTS / "conformance")]

from fuzz import bulk, lockstep  # noqa: E402  (only found from here on)
from fuzz.families import FAMILIES, Family  # noqa: E402
from fuzz.lockstep import Scenario  # noqa: E402
from traces import trace_of  # noqa: E402

from nullblock.conformance.checker.check import check  # noqa: E402
from nullblock.conformance.checker.verdict import Verdict  # noqa: E402
from nullblock.conformance.errors import InputError  # noqa: E402
from nullblock.conformance.lines.extent import extent  # noqa: E402
from nullblock.conformance.lockstep.shrink import shrink  # noqa: E402
from nullblock.spec.profiles import PROFILES  # noqa: E402


def judged(scenario: Scenario, engine: str, profile: str) -> Verdict | None:
    """The verdict on its trace. None: the engine, or the format, does without what it uses."""
    try:
        data = trace_of(scenario, engine, profile)
    except InputError:
        return None
    return check(Path("trace"), stream=io.BytesIO(data), deep=False)


@dataclass(slots=True)
class Sum:
    """What some traces came to."""

    verdicts: Counter[str] = field(default_factory=Counter)
    missing: Counter[str] = field(default_factory=Counter)
    """What inconclusive ones lack, the first of each, with numbers left out."""
    steps: int = 0

    def add(self, verdict: Verdict | None) -> None:
        """Count one."""
        self.verdicts["not played" if verdict is None else verdict.verdict] += 1
        if verdict is not None:
            self.steps += verdict.steps
            for what in verdict.missing[:1]:
                self.missing["".join("N" if c.isdigit() else c for c in what)] += 1

    def lines(self) -> Iterator[str]:
        """A line, and one for each thing that is missing."""
        told = ", ".join(f"{n} {verdict}" for verdict, n in sorted(self.verdicts.items()))
        yield f"{told}; {self.steps:,} steps explained"
        for what, n in self.missing.most_common():
            yield f"  {n:5}  {what}"


def run(family: Family, engine: str, profile: str, seed: int, scenarios: int, size: int) -> Sum:
    """Judge so many scenarios; violations are shrunk, kept and told."""
    features, total = extent(lockstep.features((engine,)), PROFILES[profile]), Sum()
    for number in range(scenarios):
        scenario = from_a_front_end(family.make(f"{seed}:{number}", size, features))
        verdict = judged(scenario, engine, profile)
        total.add(verdict)
        if verdict is not None and verdict.verdict == "VIOLATION":
            report(scenario, engine, profile, f"traced-{family.name}-{seed}-{number}")
    return total


def from_a_front_end(scenario: Scenario) -> Scenario:
    """The same with adapters whose numbers a front end lets pass: of others no trace is judged."""
    for event in scenario["events"]:
        if event.get("lora_id") is not None:
            event["lora_id"] = abs(event["lora_id"]) + 1
    return scenario


def report(scenario: Scenario, engine: str, profile: str, name: str) -> None:
    """Shrink a scenario whose trace is not explained, and say how to see it again."""

    def fails(candidate: Scenario) -> bool:
        verdict = judged(candidate, engine, profile)
        return verdict is not None and verdict.verdict == "VIOLATION"

    small = shrink(scenario, fails)
    path = bulk.keep(name, small)
    verdict = judged(small, engine, profile)
    assert verdict is not None
    print(f"{name}: {verdict.first}", flush=True)
    print(f"  replay: python tests/fuzz/traced.py --engine {engine} --profile {profile} "
          f"--replay {path}", flush=True)  # fmt: skip


def parser(text: str, profiles: Iterable[str], scenarios: int) -> argparse.ArgumentParser:
    """The command line of a program that judges traces of families, under one of these profiles
    and, if nobody says how many, so many scenarios of each.
    """
    found = argparse.ArgumentParser(description=text.partition("\n")[0])
    found.add_argument("--family", choices=[*FAMILIES, "all"], default="all")
    found.add_argument("--profile", choices=profiles, default="vllm-0.22.1")
    found.add_argument("--seed", type=int, default=0)
    found.add_argument("--scenarios", type=int, default=scenarios, help="of each family")
    found.add_argument("--size", type=int, default=16, help="groups of events in a scenario")
    found.add_argument("--replay", type=Path, metavar="SCENARIO.json")
    return found


def each(name: str, judged: Callable[[Family], Sum]) -> Iterator[Sum]:
    """What each of the families of that name comes to, all of them for ``all``; it is printed."""
    alone = name != "all"
    for family in [FAMILIES[name]] if alone else FAMILIES.values():
        total = judged(family)
        print(f"{family.name:18}", *total.lines(), sep="\n" if alone else " ", flush=True)
        yield total


def main() -> int:
    """Run."""
    arguments = parser(__doc__, PROFILES, scenarios=100)
    arguments.add_argument("--engine", choices=["spec", "reference"], default="reference")
    options = arguments.parse_args()
    if options.replay is not None:
        verdict = judged(json.loads(options.replay.read_text()), options.engine, options.profile)
        print("not played" if verdict is None else f"{verdict.verdict}: {verdict.first}")
        return verdict is not None and verdict.verdict == "VIOLATION"

    def judge(family: Family) -> Sum:
        asked = options.engine, options.profile, options.seed, options.scenarios, options.size
        return run(family, *asked)

    return sum(total.verdicts["VIOLATION"] for total in each(options.family, judge)) > 0


if __name__ == "__main__":
    bulk.with_fixed_hashes()
    sys.exit(main())
