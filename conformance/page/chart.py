"""Requests by step: a row for each request, a column for each step, a letter for what it did."""

from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from nullblock.conformance.page.html import Child, Element, el

CELL, LABEL, TOP = 17, 74, 18
KINDS = {
    "n": "N new: prefill begins",
    "p": "P prefill",
    "d": "D decode",
    "r": "R resumed",
    "w": "W waiting",
    "x": "X preempted",
    "s": "· running, not scheduled",
    "f": "F ended",
}
LETTER = {"s": "·"}
R = TypeVar("R", int, str)
"""How requests are named."""


@dataclass(slots=True)
class Chart(Generic[R]):
    """What each request did in each step."""

    steps: list[int] = field(default_factory=list)
    cells: dict[R, dict[int, tuple[str, str]]] = field(default_factory=dict)
    """Request, then step: kind, and what it was in words."""

    def put(self, r: R, step: int, kind: str, what: str) -> None:
        """Fill a cell."""
        self.cells.setdefault(r, {})[step] = kind, what


def draw(
    found: Chart[R],
    rows: Sequence[R],
    label: str,
    *,
    wanted: Container[R] = (),
    fault: int | None = None,
    every: int = 10,
) -> Element:
    """The chart as a picture called `label`.

    Args:
        wanted: requests that a fault is about: their rows are framed.
        fault: the step where something went wrong: it is framed, if it is shown.
        every: which steps have their number above.
    """
    last = found.steps[-1]
    drawn: list[Child] = []
    for x, step in enumerate(found.steps):
        if step == last:
            end = LABEL + (x + 1) * CELL
            drawn.append(el("text", str(step), x=end, y=12, text_anchor="end"))
        elif step % every == 0 and (step + 4 < last or every == 1):
            drawn.append(el("text", str(step), x=LABEL + x * CELL, y=12))
    for y, r in enumerate(rows):
        drawn.append(el("text", f"request {r}", x=0, y=TOP + y * CELL + 12))
        drawn += _row(found, r, y)
    if fault in found.steps:
        x = LABEL + found.steps.index(fault) * CELL
        height = len(rows) * CELL
        drawn.append(el("rect", x=x, y=TOP, width=CELL, height=height, class_="fault"))
        for y, r in enumerate(rows):
            if r in wanted:
                place = {"x": 0, "y": TOP + y * CELL, "height": CELL}
                drawn.append(el("rect", width=x + CELL, class_="fault", **place))
    width, height = LABEL + len(found.steps) * CELL + 2, TOP + len(rows) * CELL + 2
    return el(
        "svg",
        *drawn,
        role="img",
        aria_label=label,
        width=width,
        height=height,
        viewBox=f"0 0 {width} {height}",
    )


def legend() -> Element:
    """What the letters mean."""
    return el("ul", *(el("li", text) for text in KINDS.values()), class_="legend")


def _row(found: Chart[R], r: R, y: int) -> list[Child]:
    drawn: list[Child] = []
    for x, step in enumerate(found.steps):
        if step not in found.cells[r]:
            continue
        kind, what = found.cells[r][step]
        left, top = LABEL + x * CELL, TOP + y * CELL
        size = CELL - 1
        title = el("title", f"request {r}, step {step}: {what}")
        box = el("rect", title, x=left, y=top, width=size, height=size, class_=kind)
        letter = LETTER.get(kind, kind.upper())
        drawn += [box, el("text", letter, x=left + 5, y=top + 12)]
    return drawn
