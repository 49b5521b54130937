"""The strength of a trace, for people and for programs."""

from collections.abc import Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from nullblock.conformance.strength.measure import Notice


def rejected(notices: Sequence[Notice]) -> int:
    """How many mutants were rejected."""
    return sum(n.said == "rejected" for n in notices)


def document(notices: Sequence[Notice]) -> dict[str, Any]:
    """The strength of one trace as JSON."""
    return {
        "mutants": len(notices),
        "rejected": rejected(notices),
        "by_mutant": [
            {
                "mutant": n.mutant.name,
                "defect": n.mutant.defect,
                "changes": n.mutant.rule,
                "said": n.said,
                "step": n.step or None,
                "line": n.line or None,
                "rule": n.rule or None,
                "what": n.what,
            }
            for n in notices
        ],
    }


def screen(notices: Sequence[Notice]) -> RenderableType:
    """The strength of one trace as a table."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("mutant", no_wrap=True)
    table.add_column("the defect", ratio=2)
    table.add_column("rejected at", no_wrap=True)
    table.add_column("by", no_wrap=True)
    table.add_column("what came out otherwise, or why nothing did", ratio=3)
    for n in notices:
        if n.said == "rejected":
            where = f"step {n.step:,}, line {n.line:,}" if n.line else "at once"
            row = (Text(where, style="green"), n.rule, n.what)
        else:
            row = (Text(n.said, style="yellow"), "", n.what)
        table.add_row(n.mutant.name, n.mutant.defect, row[0], row[1], Text(row[2]))
    head = f"  strength: {rejected(notices)} of {len(notices)} known mutants would be rejected"
    return Group(Text(head, style="bold"), table)


def together(several: Sequence[Sequence[Notice]]) -> RenderableType:
    """What several traces come to: a mutant counts once."""
    names = {n.mutant.name for notices in several for n in notices if n.said == "rejected"}
    left = [n.mutant.name for n in several[0] if n.mutant.name not in names]
    line = f"together: {len(names)} of {len(several[0])} known mutants would be rejected"
    return Text(line + (f"; not noticed: {', '.join(left)}" if left else ""), style="bold")
