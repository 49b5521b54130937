"""Runs the systematic mutants, and writes what came of it and the pages about it.

    python tests/mutants/systematic.py [ENGINE…]   explorer, prover, lockstep, traces, statements
    python tests/mutants/systematic.py [ENGINE…] --only ID…   those that begin so, as rules.drafts
    python tests/mutants/systematic.py [ENGINE…] --new   those of which nothing is known
    python tests/mutants/systematic.py --scopes SCOPE…   what nothing notices, in new scopes
    python tests/mutants/systematic.py --pages     only the pages, from what is kept
    python tests/mutants/systematic.py --under-way   and the list of what is not looked at yet

What was said of this text before is kept: a run that was broken off goes on. What was said of an
earlier text is kept where the mutant's functions are as they were, and asked anew after what is
not known. Results lie under `spec/mutation/results/`; the pages are `spec/MUTATION.md` and
`spec/ZOO.md`.
"""

import argparse
import sys
import time
from argparse import RawDescriptionHelpFormatter as RawText
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
UNDER_WAY = ROOT / "spec" / "mutation" / "under_way.py"


def pages() -> dict[Path, str]:
    """What the pages should say."""
    return {MUTATION: page.markdown(len(scopes())), ZOO: zoo.markdown()}


def arguments() -> argparse.Namespace:
    """What is asked for. Ends the process with exit code 2 where that is not understood."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=RawText)
    what = (*ENGINES, "statements")
    parser.add_argument("engines", nargs="*", metavar="ENGINE", help=f"{', '.join(what)}; all")
    parser.add_argument("--only", nargs="+", metavar="ID", default=[])
    parser.add_argument("--new", action="store_true")
    parser.add_argument("--scopes", nargs="+", metavar="SCOPE", default=[])
    parser.add_argument("--pages", action="store_true")
    parser.add_argument("--under-way", action="store_true")
    args = parser.parse_args()
    unknown = [e for e in args.engines if e not in what]
    unknown += [s for s in args.scopes if s not in scopes()]
    if unknown:
        parser.error(f"{unknown[0]!r}: choose from {', '.join((*what, *scopes()))}")
    return args


def main() -> int:
    """Run what is named, or everything."""
    args = arguments()
    only = tuple(args.only)
    wanted = args.engines or [*ENGINES, *([] if only else ["statements"])]
    began, done = time.monotonic(), 0

    def progress(defect: Defect, said: Json) -> None:
        nonlocal done
        done += 1
        if "by" not in said:
            print(
                f"{time.monotonic() - began:6.0f} s {done:5} {defect.id}: {defect.what}",
                flush=True,
            )

    if args.scopes:
        record_scopes(args.scopes, progress)
    if args.under_way:
        UNDER_WAY.write_text(page.under_way())
    for engine in () if args.pages or args.scopes or args.under_way else wanted:
        if engine == "statements":
            record_statements(progress, only, args.new)
        else:
            record(next(e for e in ENGINES if e == engine), progress, only, args.new)
    for path, text in pages().items() if not only else ():
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
