"""Runs the systematic mutants, and writes what came of it and the pages about it.

    python tests/mutants/systematic.py [ENGINE…]   explorer, prover, lockstep, traces, statements
    python tests/mutants/systematic.py [ENGINE…] --only ID…   those that begin so, as rules.drafts
    python tests/mutants/systematic.py [ENGINE…] --new   those of which nothing is known
    python tests/mutants/systematic.py --scopes SCOPE…   what nothing notices, in new scopes
    python tests/mutants/systematic.py --pages     only the pages, from what is kept

What was said of this text before is kept: a run that was broken off goes on. What was said of an
earlier text is kept where the mutant's functions are as they were, and asked anew after what is
not known. Results lie under `spec/mutation/results/`; the pages are `spec/MUTATION.md` and
`spec/ZOO.md`.
"""

import sys
import time
from pathlib import Path

from nullblock.conformance.mutation import page
from nullblock.conformance.mutation.run import record, record_scopes, record_statements
from nullblock.spec.mutation.exploring import scopes
from nullblock.spec.mutation.forks import Json
from nullblock.spec.mutation.generate import Defect
from nullblock.spec.mutation.results import ENGINES
from nullblock.spec.zoo import page as zoo

ROOT = Path(__file__).resolve().parents[2]
MUTATION, ZOO = ROOT / "spec" / "MUTATION.md", ROOT / "spec" / "ZOO.md"


def pages() -> dict[Path, str]:
    """What the pages should say."""
    return {MUTATION: page.markdown(len(scopes())), ZOO: zoo.markdown()}


def main() -> int:
    """Run what is named, or everything."""
    names = [a for a in sys.argv[1:] if not a.startswith("--")]
    only: tuple[str, ...] = ()
    if "--only" in sys.argv:
        at = sys.argv.index("--only")
        names, only = sys.argv[1:at], tuple(sys.argv[at + 1 :])
    wanted = names or [*ENGINES, *([] if only else ["statements"])]
    began, done = time.monotonic(), 0

    def progress(defect: Defect, said: Json) -> None:
        nonlocal done
        done += 1
        if "by" not in said:
            print(
                f"{time.monotonic() - began:6.0f} s {done:5} {defect.id}: {defect.what}",
                flush=True,
            )

    if "--scopes" in sys.argv:
        record_scopes(names, progress)
        wanted = []
    for engine in () if "--pages" in sys.argv else wanted:
        if engine == "statements":
            record_statements(progress, only, "--new" in sys.argv)
        else:
            record(next(e for e in ENGINES if e == engine), progress, only, "--new" in sys.argv)
    for path, text in pages().items() if not only else ():
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
