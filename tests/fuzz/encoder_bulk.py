"""Fuzzing encoder inputs and the output contract in bulk, beside the real engine.

    PYTHONHASHSEED=0 python tests/fuzz/encoder_bulk.py [--waits] [--seed N] [--steps N]

With ``--waits`` requests wait for sessions, remote KV, adapters and grammars as well; the variable
gives several requests that end at once one order. Exit codes as of ``tests/fuzz/bulk.py``.
"""

import argparse
import secrets
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from fuzz import bulk  # noqa: E402  (only found from here on)
from fuzz.encoder_reach import MUST_REACH, reached  # noqa: E402
from fuzz.encoder_scenarios import encoder_scenario  # noqa: E402
from fuzz.encoder_waits import encoder_waits  # noqa: E402
from fuzz.lockstep import Scenario  # noqa: E402
from oracle.client import Oracle  # noqa: E402
from oracle.install import ensure  # noqa: E402

from nullblock.conformance.lockstep.reach import table  # noqa: E402

ENGINES = ("reference",)
STRIDE = 1_000_000
"""Scenarios of two seeds are that far apart."""


class EncoderBulk(bulk.Bulk):
    """A run over those scenarios."""

    def __init__(self, oracle: Oracle, seed: int, make: Callable[[int], Scenario]) -> None:
        super().__init__(oracle, ENGINES, seed, size=0)
        self.make = make
        self.seen: Counter[str] = Counter()

    def one(self, number: int) -> None:
        """The scenario of that number."""
        scenario = self.make(self.seed * STRIDE + number)
        outcome, totals = self.compare(scenario), self.totals
        totals.steps += outcome.num_steps
        totals.exceptions += outcome.has_raised
        totals.refused += bool(outcome.refused)
        if outcome.refused:
            print(f"scenario {number}: {outcome.refused}")
        elif outcome.differences:
            totals.differences += 1
            self.report(scenario, number)
        elif number % bulk.REACH_EVERY == 0:
            totals.watched += 1
            self.seen.update(what for what in reached(scenario) if what in MUST_REACH)


def main() -> int:
    """Run what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--waits", action="store_true", help="requests wait as well")
    parser.add_argument("--seed", type=int, help="default: a fresh one, printed first")
    parser.add_argument("--steps", type=int, default=20_000, help="default: %(default)s")
    options = parser.parse_args()
    seed = secrets.randbelow(10**6) if options.seed is None else options.seed
    print(f"seed {seed}: the reference beside vLLM 0.22.1", flush=True)
    with Oracle(ensure()) as oracle:
        run = EncoderBulk(oracle, seed, encoder_waits if options.waits else encoder_scenario)
        try:
            run.run(options.steps)
        except KeyboardInterrupt:
            print()
    print(table(run.seen, run.totals.watched))
    print(f"seed {seed}: {run.totals}")
    return bool(run.totals.differences)


if __name__ == "__main__":
    sys.exit(main())
