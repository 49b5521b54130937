"""The strength of a trace, for people and for programs."""

from collections.abc import Sequence
from typing import Any

from rich.console import Group, RenderableType
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
    """The strength of one trace: of each mutant what it is, and below that what became of it."""
    head = f"  strength: {rejected(notices)} of {len(notices)} known mutants would be rejected"
    lines = [Text(head, style="bold")]
    for n in notices:
        if n.said == "rejected":
            where = f"step {n.step:,}, line {n.line:,}" if n.line else "at once"
            by = f", by {n.rule}" if n.rule else ""
            said = Text(f"rejected at {where}{by}: ", style="green")
        else:
            said = Text(f"{n.said}: ", style="yellow")
        lines.append(Text(f"  {n.mutant.name}: {n.mutant.defect}"))
        lines.append(Text("    ").append_text(said).append(n.what))
    return Group(*lines)


def together(several: Sequence[Sequence[Notice]]) -> RenderableType:
    """What several traces come to: a mutant counts once."""
    names = {n.mutant.name for notices in several for n in notices if n.said == "rejected"}
    left = [n.mutant.name for n in several[0] if n.mutant.name not in names]
    line = f"together: {len(names)} of {len(several[0])} known mutants would be rejected"
    return Text(line + (f"; not noticed: {', '.join(left)}" if left else ""), style="bold")
