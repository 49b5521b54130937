"""Spec and reference, step by step over random scenarios: exit code 1 where they part.

python tests/mutants/lockstep.py SEEDS [PROFILE]
"""

import sys
from pathlib import Path

from nullblock.conformance import compare, driver, scenario
from nullblock.conformance.engines import make_engine
from nullblock.conformance.errors import InputError
from nullblock.conformance.scenario_format import Scenario
from nullblock.spec.profiles import Semantics, profile

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "reference" / "support"))
from random_scenarios import random_scenario  # noqa: E402  (found through the line above)

OUT_OF_SCOPE = ("pipeline_parallel_size", "use_v2_model_runner")


def lines(name: str, given: Scenario, semantics: Semantics) -> list[str]:
    """What an engine prints; nothing for a scenario that turns out to be unusable."""
    try:
        return list(driver.run(given, make_engine(name, given.config, semantics)))
    except InputError:
        return []


def main() -> int:
    """Compare until the first difference."""
    semantics = profile(sys.argv[2] if len(sys.argv) > 2 else "normative")
    for seed in range(int(sys.argv[1])):
        document = random_scenario(seed)
        for key in OUT_OF_SCOPE:
            document["config"].pop(key, None)
        given = scenario.from_dict(document)
        found = compare.first_difference(
            *(lines(n, given, semantics) for n in ("spec", "reference"))
        )
        if found:
            print(f"seed {seed}: {found}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
