"""`python -m nullblock.spec.prover [--fast] [RULE|OPERATION|INVARIANT…]`: open obligations, one a
line; 1 if there are any. With --hints it writes anew what is to be tried first.
"""

import sys

from nullblock.spec.prover import UnknownJob, prove
from nullblock.spec.prover.hints import FILE, document


def main(arguments: list[str]) -> int:
    """Prove what is named, or everything; with --fast stop at the first open obligation."""
    wanted = [a for a in arguments if a not in ("--fast", "--hints")]
    try:
        report = prove(*wanted, stop_at_first="--fast" in arguments)
    except UnknownJob as error:
        print(error, file=sys.stderr)
        return 2
    for o in report.open:
        print(f"open: {o}")
    print(f"{report.obligations} obligations, {report.proved} proved, {report.seconds:.1f} s")
    if "--hints" in arguments and not report.open and not wanted:
        FILE.write_text(document(report.per_rule.values()), encoding="utf-8")
    return 1 if report.open else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
