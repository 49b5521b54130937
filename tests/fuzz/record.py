"""A long run of the lockstep, whose totals the ledger shows.

    python tests/fuzz/record.py [--seed N] [--steps N]

Writes `conformance/ledger/results/fuzz.json`, in some minutes. Exit codes as of
`tests/fuzz/bulk.py`.
"""

import argparse
import secrets
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from fuzz import lockstep  # noqa: E402  (only found from here on)
from fuzz.bulk import Bulk  # noqa: E402
from oracle.client import Oracle  # noqa: E402
from oracle.install import InstallError, ensure  # noqa: E402

from nullblock.conformance.ledger.sources import fuzz  # noqa: E402
from nullblock.conformance.ledger.sources.departures import NAME  # noqa: E402

SIZE = 30
"""Groups of events in a scenario."""


def recorded(bulk: Bulk, of: str) -> fuzz.Fuzzed:
    """What a run has shown of the text with that digest."""
    t = bulk.totals
    return fuzz.Fuzzed(
        *(of, bulk.engines, NAME, bulk.seed, t.scenarios, t.steps, t.exceptions, t.refused),
        *(t.differences, t.watched, dict(sorted(t.reached.items()))),
    )


def main() -> int:
    """Run, and leave the totals."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", type=int, help="default: a fresh one")
    parser.add_argument("--steps", type=int, default=60_000, help="default: %(default)s")
    options = parser.parse_args()
    seed = secrets.randbelow(10**9) if options.seed is None else options.seed
    of = fuzz.present()
    try:
        folder = ensure()
    except InstallError as error:
        print(f"the real vLLM is not installed: {error}", file=sys.stderr)
        return 3
    with Oracle(folder) as oracle:
        bulk = Bulk(oracle, lockstep.ENGINES, seed, SIZE)
        bulk.run(options.steps)
    fuzz.write(recorded(bulk, of))
    print(f"seed {seed}: {bulk.totals}")
    return bool(bulk.totals.differences)


if __name__ == "__main__":
    sys.exit(main())
