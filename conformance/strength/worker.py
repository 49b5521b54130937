"""Judges one trace with whatever specification stands first on the import path.

    python -m nullblock.conformance.strength.worker '{"trace": …, "profile": …, "settings": […]}'

Prints one JSON object: the verdict, and where and by which rule it was first contradicted;
nothing where the rules' text fails. A process of its own, because a mutant is planted by what a
process imports.
"""

import json
import sys
from pathlib import Path
from typing import Any

from nullblock.conformance.checker import check
from nullblock.conformance.checker.raised import TEXT_FAILS
from nullblock.spec.profiles import profile
from nullblock.spec.switches import with_switches


def main() -> int:
    """Judge what the command line says."""
    asked: dict[str, Any] = json.loads(sys.argv[1])
    semantics = None
    if asked["profile"] is not None:
        semantics = with_switches(profile(asked["profile"]), asked["settings"])
    verdict = check(Path(asked["trace"]), semantics, deep=False)
    if fails := next((m for m in verdict.missing if m.startswith(TEXT_FAILS)), None):
        sys.exit(fails)
    first = verdict.first
    found = None
    if first is not None:
        found = {"step": first.step, "line": first.line, "what": first.what}
        found["rule"] = first.rule or ""
    print(json.dumps({"verdict": verdict.verdict, "first": found}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
