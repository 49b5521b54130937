"""`python -m nullblock.spec.liveness [--hints] [TEXT…]`: what is open in the ranking argument, one
a line; 1 if anything is. With --hints it writes anew what is to be tried first.
"""

import sys

from nullblock.spec.liveness.proof import HINTS, ranking
from nullblock.spec.prover.hints import document


def main(arguments: list[str]) -> int:
    """Prove the argument, or the named texts."""
    wanted = [a for a in arguments if a != "--hints"]
    reports = ranking(*wanted)
    found = [o for report in reports for o in report.open]
    for o in found:
        print(f"open: {o}")
    obligations = sum(r.obligations for r in reports)
    print(f"{obligations} obligations, {sum(r.seconds for r in reports):.1f} s")
    if "--hints" in arguments and not found and not wanted:
        HINTS.write_text(document(reports), encoding="utf-8")
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
