"""Fuzzing of speculative decoding in bulk, beside the real vLLM 0.22.1.

    python tests/fuzz/bulk_drafts.py [--beside groups|waits] [--seed N] [--steps N] [--size N]

``--beside groups``: on hybrid models; ``--beside waits``: while requests wait for adapters, remote
KV, chunks of their sessions, or grammars. Otherwise as ``bulk.py`` does it.
"""

import secrets
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from fuzz import bulk, drafts, drafts_reach, lockstep  # noqa: E402  (only found from here on)
from fuzz.groups import Groups  # noqa: E402
from fuzz.waits import Waits  # noqa: E402
from oracle.client import Oracle  # noqa: E402
from oracle.install import ensure  # noqa: E402

from nullblock.conformance.errors import InputError  # noqa: E402
from nullblock.conformance.lockstep.choices import Seeded  # noqa: E402
from nullblock.conformance.lockstep.reach import table  # noqa: E402
from nullblock.conformance.scenario import from_dict  # noqa: E402

ATTEMPTS = 100


class BulkDrafts(bulk.Bulk):
    """A run with drafts."""

    beside: str | None = None
    """Another feature that the scenarios use."""

    def make(self, key: str) -> lockstep.Scenario:
        """The scenario of a key."""
        match self.beside:
            case "groups":
                return hybrid(key, self.size)
            case "waits":
                return waiting(key, self.size)
            case _:
                return drafts.seeded(key, self.size)

    def reached(self, scenario: lockstep.Scenario) -> set[str]:
        """What happens to drafts."""
        return drafts_reach.reached(scenario)


def hybrid(key: str, size: int) -> lockstep.Scenario:
    """The scenario of a key on a hybrid model: the first that can be built."""
    for attempt in range(ATTEMPTS):
        scenario = drafts.seeded(f"{key}:{attempt}", size)
        config = scenario["config"]
        config["groups"] = groups = Groups(f"{key}:{attempt}", config).draw()
        # Each group takes blocks from the pool: it has as many slots for each as it had for one.
        slots = (config["num_blocks"] - 1) * config["block_size"]
        sizes = [group.get("block_size", config["block_size"]) for group in groups]
        config["num_blocks"] = 1 + sum(-(-slots // each) for each in sizes)
        try:
            from_dict(scenario)
        except InputError:
            continue
        return scenario
    raise AssertionError(f"no hybrid model for {key}")


def waiting(key: str, size: int) -> lockstep.Scenario:
    """The scenario of a key with requests that wait for something else than their turn."""
    ask = Seeded(key)
    base = hybrid(key, size) if ask.chance(20) else drafts.make(ask, size)
    return Waits(ask, base).scenario()


def main() -> int:
    """Run what the command line says."""
    parser = bulk.parser()
    parser.add_argument("--beside", choices=("groups", "waits"), help="another feature as well")
    options = parser.parse_args()
    engines = tuple(options.engine or ("reference",))
    with Oracle(ensure()) as oracle:
        if options.replay:
            return bulk.replay(options.replay, engines, oracle)
        seed = secrets.randbelow(10**9) if options.seed is None else options.seed
        print(f"seed {seed}: drafts on {', '.join(engines)} beside vLLM 0.22.1", flush=True)
        run = BulkDrafts(oracle, engines, seed, options.size)
        run.beside = options.beside
        run.run(options.steps)
        print(table(run.totals.reached, run.totals.watched))
        print(f"seed {seed}: {run.totals}")
        return bool(run.totals.differences)


if __name__ == "__main__":
    sys.exit(main())
