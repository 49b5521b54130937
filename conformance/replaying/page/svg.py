"""Plots as SVG, by hand: a frame with axes, and what is drawn into it."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape

Point = tuple[float, float]
LEFT, RIGHT, TOP, BOTTOM = 62.0, 14.0, 12.0, 40.0


def element(name: str, text: str | None = None, **attributes: object) -> str:
    """An element; ``class_`` is its class, and ``_`` in a name stands for ``-``."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_text(value))}"'
        for key, value in attributes.items()
    )
    return f"<{name}{written}/>" if text is None else f"<{name}{written}>{text}</{name}>"


def _text(value: object) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def ticks(low: float, high: float, about: int) -> list[float]:
    """Round numbers between two values."""
    if high <= low:
        return [low]
    rough = (high - low) / max(1, about)
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(size * factor for factor in (1, 2, 5, 10) if size * factor >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [step * n for n in range(first, math.floor(high / step + 1e-9) + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """Powers of ten between two values."""
    begin, end = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    return [10.0**power for power in range(begin, end + 1)]


def short(value: float) -> str:
    """A number for an axis: 32k, 1.5M, 0.25."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.4g}{letter}"
    return f"{value:.4g}"


@dataclass(frozen=True, slots=True)
class Frame:
    """Where values lie in a plot."""

    width: float
    height: float
    x: tuple[float, float]
    y: tuple[float, float]
    log_x: bool = False

    def at_x(self, value: float) -> float:
        """Across."""
        low, high = self.x
        if self.log_x:
            low, high, value = math.log(low), math.log(high), math.log(max(value, self.x[0]))
        share = (value - low) / (high - low) if high > low else 0.0
        return LEFT + min(1.0, max(0.0, share)) * (self.width - LEFT - RIGHT)

    def at_y(self, value: float) -> float:
        """Down."""
        low, high = self.y
        share = (value - low) / (high - low) if high > low else 0.0
        return self.height - BOTTOM - min(1.0, max(0.0, share)) * (self.height - TOP - BOTTOM)

    def path(self, points: Iterable[Point]) -> str:
        """A line through points."""
        return "M" + "L".join(f"{self.at_x(x):.1f} {self.at_y(y):.1f}" for x, y in points)

    def line(self, points: Sequence[Point], name: str) -> str:
        """A curve."""
        return element("path", d=self.path(points), class_=f"line {name}") if points else ""

    def band(
        self, xs: Sequence[float], low: Sequence[float], high: Sequence[float], name: str
    ) -> str:
        """The area between two curves."""
        if not xs:
            return ""
        there = self.path(zip(xs, high, strict=True))
        back = self.path(zip(reversed(xs), reversed(low), strict=True))
        return element("path", d=f"{there}L{back[1:]}Z", class_=f"area {name}")

    def level(self, y: float, text: str) -> str:
        """A dashed line across, with what it stands for."""
        across = self.at_y(y)
        line = element(
            "line", x1=LEFT, x2=self.width - RIGHT, y1=across, y2=across, class_="level"
        )
        # Above the line, or below it where it is at the top.
        down = across + 12 if across < TOP + 12 else across - 4
        label = element("text", escape(text), x=self.width - RIGHT - 4, y=down, class_="note end")
        return line + label

    def axes(
        self,
        x_label: str,
        y_label: str,
        x_ticks: Sequence[tuple[float, str]],
        y_format: Callable[[float], str] = short,
    ) -> str:
        """Grid, ticks and titles."""
        parts = []
        floor = self.height - BOTTOM
        for value in ticks(*self.y, about=5):
            down = self.at_y(value)
            parts.append(
                element("line", x1=LEFT, x2=self.width - RIGHT, y1=down, y2=down, class_="grid")
            )
            parts.append(
                element("text", escape(y_format(value)), x=LEFT - 7, y=down + 4, class_="tick end")
            )
        for value, text in x_ticks:
            across = self.at_x(value)
            parts.append(
                element("line", x1=across, x2=across, y1=floor, y2=floor + 4, class_="axis")
            )
            parts.append(
                element("text", escape(text), x=across, y=floor + 17, class_="tick middle")
            )
        parts.append(
            element("line", x1=LEFT, x2=self.width - RIGHT, y1=floor, y2=floor, class_="axis")
        )
        middle = (LEFT + self.width - RIGHT) / 2
        parts.append(
            element("text", escape(x_label), x=middle, y=self.height - 5, class_="label middle")
        )
        side = (TOP + floor) / 2
        parts.append(
            element(
                "text",
                escape(y_label),
                x=14.0,
                y=side,
                transform=f"rotate(-90 14 {side:.0f})",
                class_="label middle",
            )
        )
        return "".join(parts)

    def svg(self, title: str, body: str) -> str:
        """The whole plot; the title is for those who cannot see it."""
        return element(
            "svg",
            element("title", escape(title)) + body,
            viewBox=f"0 0 {self.width:.0f} {self.height:.0f}",
            role="img",
        )
