"""The strength of a trace, for people and for programs."""

from collections.abc import Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from nullblock.conformance.strength.measure import Notice


def rejected(notices: Sequence[Notice]) -> int:
    """How many mutants were rejected."""
    return sum(n.said == "rejected" for n in notices)


def same(notices: Sequence[Notice]) -> int:
    """How many mutants are the same as the text under the profile."""
    return sum(n.said == "the same" for n in notices)


def summary(notices: Sequence[Notice]) -> str:
    """How many were rejected, of those that can be."""
    alike = same(notices)
    told = f"{rejected(notices)} of {len(notices) - alike} known mutants would be rejected"
    return told + (f"; {alike} more are the same under this profile" if alike else "")


def document(notices: Sequence[Notice]) -> dict[str, Any]:
    """The strength of one trace as JSON."""
    return {
        "mutants": len(notices),
        "rejected": rejected(notices),
        "same": same(notices),
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
    lines = [Text(f"  strength: {summary(notices)}", style="bold")]
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
    every = (n.mutant.name for notices in several for n in notices if n.said != "the same")
    asked = list(dict.fromkeys(every))
    left = [name for name in asked if name not in names]
    line = f"together: {len(names)} of {len(asked)} known mutants would be rejected"
    return Text(line + (f"; not noticed: {', '.join(left)}" if left else ""), style="bold")
