"""Which invariants an obligation was proved from before: what to try first.

Generated: `hints.json` here by `python -m nullblock.spec.prover --hints`, that of the ranking
argument by `python -m nullblock.spec.liveness --hints`. A hint that is out of date costs time and
nothing else: what it does not prove is asked again with every hypothesis.
"""

import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from nullblock.spec.prover.report import JobReport

FILE = Path(__file__).with_name("hints.json")
Hints = dict[str, dict[str, frozenset[str]]]
"""By text, and by what is to hold: the invariants; `X before` is X of an earlier state."""


@cache
def hints(file: Path = FILE) -> Hints:
    """The hints of a file; none without it."""
    if not file.exists():
        return {}
    known = json.loads(file.read_text(encoding="utf-8"))
    return {
        where: {what: frozenset(names) for what, names in of.items()}
        for where, of in known.items()
    }


def document(reports: Iterable[JobReport]) -> str:
    """The text of a file, from a run that proved everything."""
    found = {
        r.name: {what: sorted(used) for what, used in sorted(r.used.items())}
        for r in reports
        if r.used
    }
    lines = []
    for name, of in found.items():
        rows = ",\n".join(f"  {json.dumps(what)}: {json.dumps(ids)}" for what, ids in of.items())
        lines.append(f" {json.dumps(name)}: {{\n{rows}\n }}")
    return "{\n" + ",\n".join(lines) + "\n}\n"
