"""Long runs of the lockstep, added to those recorded before.

    python tests/fuzz/record.py [--family F] [--engine E] [--profile P] [--seed N] [--steps N]
    python tests/fuzz/record.py --family all --until 125000
    python tests/fuzz/record.py --total

As `tests/fuzz/bulk.py`, and every few thousand steps what they came to is added to
`conformance/ledger/results/fuzz.json`, with the digest of the text that ran: a run that is ended
has left what it did. ``--until`` goes on to so many steps in all that are recorded of the present
text, of each family; a seed that ran before goes on where it stopped. ``--total`` runs nothing and
says what there is. Several may record at once. Exit codes as of `tests/fuzz/bulk.py`.
"""

import fcntl
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from fuzz import bulk  # noqa: E402  (only found from here on)
from oracle.install import InstallError  # noqa: E402

from nullblock.conformance.ledger import sums  # noqa: E402
from nullblock.spec.profiles import PROFILES  # noqa: E402

PIECE = 5_000
"""Steps after which a run is recorded as far as it is."""


def start(run: bulk.Bulk, beside: str) -> sums.Sum:
    """Nothing yet, of the text that will run."""
    of = {engine: sums.present(engine) for engine in run.engines}
    return sums.Sum(run.family.name, of, beside, {})


def recorded(of: sums.Sum, path: Path = sums.RESULT) -> sums.Sum:
    """What there is of the same text."""
    known = sums.gather(path) if path.exists() else []
    return next((one for one in known if one.key == of.key), of)


def go_on(run: bulk.Bulk, of: sums.Sum, steps: int, path: Path = sums.RESULT) -> None:
    """Take at least that many steps, and record them piece by piece."""
    run.next = recorded(of, path).seeds.get(str(run.seed), 0)
    while steps > 0 and not run.totals.differences:
        before = run.next
        run.totals = bulk.Totals()
        run.run(min(steps, PIECE))
        t = run.totals
        steps -= t.steps
        piece = sums.Sum(
            *(of.family, of.of, of.beside, {str(run.seed): run.next - before}),
            *(t.steps, t.exceptions, t.refused, t.differences, t.watched, dict(t.reached)),
        )
        with alone(path):
            whole = sums.add(piece, path)
        print(f"{of.family}: {t}; in all {whole.steps:,} steps", flush=True)


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Nobody else records meanwhile."""
    lock = bulk.FOUND / f"{path.name}.lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def main() -> int:
    """Run, and add what came of it."""
    arguments = bulk.parser(__doc__, steps=60_000)
    arguments.add_argument("--until", type=int, metavar="N", help="so many steps in all")
    arguments.add_argument("--total", action="store_true", help="run nothing")
    options = arguments.parse_args()
    if options.total:
        print(sums.totals(sums.gather()))
        return 0
    todo, semantics = bulk.runs(options, arguments), PROFILES[options.profile]
    try:
        real = bulk.beside(options.profile)
    except InstallError as error:
        print(f"the real vLLM is not installed: {error}", file=sys.stderr)
        return 3
    seed = secrets.randbelow(10**9) if options.seed is None else options.seed
    differences = 0
    with real as oracle:
        beside = f"{'vLLM ' if oracle else ''}{options.profile.removeprefix('vllm-')}"
        for family, engines in todo:
            print(f"seed {seed}: {family.name}: {', '.join(engines)}, {beside}", flush=True)
            run = bulk.Bulk(oracle, engines, seed, options.size, semantics, family)
            of = start(run, beside)
            steps = options.steps
            if options.until is not None:
                steps = options.until - recorded(of).steps
            go_on(run, of, steps)
            differences += run.totals.differences
    print(sums.totals(sums.gather()))
    return bool(differences)


if __name__ == "__main__":
    bulk.with_fixed_hashes()
    sys.exit(main())
