"""The explorer over standard scopes, in one process: a JSON line a scope, `killed` if it objects.

    python tests/mutants/scopes.py SCOPE…

It objects with a counterexample, or with a witness that it no longer reaches. A defect that only
makes more states is given up on. Where there is a compiler the compiled form searches, which
objects as the readable one does: `tests/spec/test_compiled.py`.
"""

import json
import sys

from nullblock.spec.compiled import build, search
from nullblock.spec.compiled.values import Untranslatable
from nullblock.spec.explorer.result import Result
from nullblock.spec.explorer.scopes import STANDARD
from nullblock.spec.explorer.search import explore

LIMIT = 60_000
"""States; no standard scope has as many."""


def searched(name: str) -> Result:
    """The search of a scope."""
    try:
        return search.explore(STANDARD[name], limit=LIMIT)
    except (build.NoCompiler, Untranslatable):
        return explore(STANDARD[name], limit=LIMIT)


def main() -> int:
    """Explore, scope by scope."""
    for name in sys.argv[1:]:
        result = searched(name)
        objects = result.counterexample is not None or bool(result.missing)
        print(json.dumps([name, "killed" if objects else "survived"]), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
