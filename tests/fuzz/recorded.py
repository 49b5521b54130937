"""Random scenarios, played by the real vLLM while it is recorded, and judged.

    python tests/fuzz/recorded.py [--family F] [--profile P] [--seed N] [--scenarios N] [--size N]
    python tests/fuzz/recorded.py --profile P --replay SCENARIO.json

The scenarios are those of `tests/fuzz/families.py`; what the recorder is told to observe, when it
writes a state, and from which event on it records, is drawn for each. A VIOLATION or MALFORMED is
a fault of the recorder or of the checker, and so is a recorder that changes what is decided, and a
verdict that depends on the form in which the text runs. INCONCLUSIVE is counted with what is
missing. Exit codes: 0 no fault; 1 one; 2 command line; 3 the real engine cannot be had.
"""

import json
import math
import random
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS), str(TESTS / "conformance")]

from fuzz import bulk, lockstep  # noqa: E402  (only found from here on)
from fuzz.families import Family  # noqa: E402
from fuzz.lockstep import Scenario  # noqa: E402
from fuzz.traced import Sum, each, from_a_front_end, parser  # noqa: E402
from oracle.install import RELEASES, InstallError, ensure  # noqa: E402
from record_again import decided_otherwise, record_all  # noqa: E402
from traces import said  # noqa: E402

from nullblock.conformance.checker import fast  # noqa: E402
from nullblock.conformance.checker.check import check  # noqa: E402
from nullblock.conformance.checker.verdict import Verdict  # noqa: E402
from nullblock.conformance.lines.extent import extent  # noqa: E402
from nullblock.conformance.lockstep.shrink import shrink  # noqa: E402
from nullblock.spec.profiles import PROFILES  # noqa: E402

AT_ONCE = 25
"""Scenarios that one process of the real engine plays."""
FORMS = {"as it is": math.inf, "erased": 0}
"""The forms in which the text runs, and after how many requests it is erased."""
OBSERVED = ("all", "all", "all", "blocks", "blocks,counts", "counts", "none", "events,blocks")
RIGHT = ("CONFORMS", "INCONCLUSIVE")
GAVE_UP = "anything after the recorder gave up"


def recording(key: str, scenario: Scenario) -> Scenario:
    """The same, and what its recorder is told."""
    rng = random.Random(f"recorded {key}")
    told: Scenario = {
        "optional": True,
        "observe": rng.choice(OBSERVED),
        "state_every": rng.choice([0, 0, 1, 3, 10]),
    }
    if rng.random() < 0.25 and len(scenario["events"]) > 1:
        told["recorded_from"] = rng.randrange(1, len(scenario["events"]))
    return from_a_front_end(scenario) | told


@dataclass(frozen=True, slots=True)
class Found:
    """What became of a recording."""

    verdict: Verdict | None
    """None: nothing was recorded."""
    fault: str
    """What is wrong; "": nothing."""


@dataclass(slots=True)
class Recorder:
    """The real engine of a profile, recorded."""

    python: Path
    profile: str
    faults: list[str] = field(default_factory=list)
    """The names of what was at fault."""

    def judged(self, scenarios: dict[str, Scenario]) -> Iterator[tuple[str, Found]]:
        """What became of each of them."""
        with tempfile.TemporaryDirectory() as where:
            folder = Path(where)
            record_all(self.python, scenarios, folder)
            any_made = any(folder.glob("*.jsonl"))
            changed = {Path(name).stem for name in decided_otherwise(folder)} if any_made else ()
            for name in scenarios:
                found = self.found(folder / f"{name}.jsonl")
                if name in changed:
                    found = Found(found.verdict, "decides otherwise when it is recorded")
                yield name, found

    def found(self, path: Path) -> Found:
        """The verdict on a recording, which may not be there."""
        if not path.exists():
            return Found(None, "")
        verdicts = [_verdict(path, after) for after in FORMS.values()]
        first = verdicts[0]
        if first.verdict not in RIGHT:
            return Found(first, f"{first.verdict}: {first.first or first.missing}")
        if any(what.startswith(GAVE_UP) for what in first.missing):
            return Found(first, first.missing[0])
        if said(first) != said(verdicts[1]):
            told = "; ".join(f"{f}: {v.verdict}" for f, v in zip(FORMS, verdicts, strict=True))
            return Found(first, f"the forms of the text say different things: {told}")
        return Found(first, "")

    def run(self, family: Family, seed: int, scenarios: int, size: int) -> Sum:
        """Judge so many scenarios; those at fault are shrunk, kept and told."""
        features, total = extent(lockstep.features(("spec",)), PROFILES[self.profile]), Sum()
        for first in range(0, scenarios, AT_ONCE):
            made = {}
            for number in range(first, min(first + AT_ONCE, scenarios)):
                key = f"{seed}:{number}"
                one = recording(key, family.make(key, size, features))
                made[f"recorded-{family.name}-{seed}-{number}"] = one
            for name, found in self.judged(made):
                total.add(found.verdict)
                if found.fault:
                    self.report(name, made[name], found.fault)
        return total

    def report(self, name: str, scenario: Scenario, fault: str) -> None:
        """Shrink a scenario whose recording is at fault, and say how to see it again."""
        self.faults.append(name)
        print(f"{name}: {fault}; shrinking", flush=True)

        def fails(candidate: Scenario) -> bool:
            return any(found.fault for _, found in self.judged({"one": candidate}))

        path = bulk.keep(name, shrink(scenario, fails, budget=100))
        program = "python tests/fuzz/recorded.py"
        print(f"  replay: {program} --profile {self.profile} --replay {path}", flush=True)


def _verdict(path: Path, after: float) -> Verdict:
    before, fast.AFTER = fast.AFTER, after  # type: ignore[assignment]
    try:
        return check(path, deep=False)
    finally:
        fast.AFTER = before


def main() -> int:
    """Run."""
    released = [name for name in PROFILES if name.removeprefix("vllm-") in RELEASES]
    options = parser(__doc__, released, scenarios=AT_ONCE).parse_args()
    try:
        release = RELEASES[options.profile.removeprefix("vllm-")]
        recorder = Recorder(ensure(release=release), options.profile)
    except InstallError as error:
        print(f"the real vLLM is not installed: {error}", file=sys.stderr)
        return 3
    if options.replay is not None:
        scenarios = {"one": json.loads(options.replay.read_text())}
        for _, found in recorder.judged(scenarios):
            print(found.fault or (found.verdict and found.verdict.verdict) or "not recorded")
            recorder.faults += [found.fault] if found.fault else []
        return bool(recorder.faults)
    asked = options.seed, options.scenarios, options.size
    for _ in each(options.family, lambda family: recorder.run(family, *asked)):
        pass
    return bool(recorder.faults)


if __name__ == "__main__":
    bulk.with_fixed_hashes()
    sys.exit(main())
