"""The plots of one replay."""

from collections.abc import Sequence
from dataclasses import dataclass

from nullblock.conformance.replaying import summary
from nullblock.conformance.replaying.configuration import budget
from nullblock.conformance.replaying.page.svg import (
    BOTTOM,
    LEFT,
    RIGHT,
    TOP,
    Frame,
    element,
    log_ticks,
    ticks,
)
from nullblock.conformance.replaying.run import Result
from nullblock.conformance.replaying.series import Distribution

HEIGHT = 250.0
_UNITS = ((7200.0, 3600.0, "hours"), (300.0, 60.0, "minutes"), (0.0, 1.0, "seconds"))


@dataclass(frozen=True, slots=True)
class Scales:
    """What plots that stand side by side have in common."""

    width: float
    """Of one plot."""
    clock: float
    """Seconds."""
    requests: float
    tokens: float
    """A step."""
    waits: tuple[float, float]
    """Seconds, the shortest and the longest shown."""
    rate: float
    """Hit rate, in per cent."""


@dataclass(frozen=True, slots=True)
class Chart:
    """A plot, what its colours mean, and its values for whoever points at it."""

    title: str
    svg: str
    legend: tuple[tuple[str, str], ...]
    """Names of series and what they are."""
    values: dict[str, list[float | None]]
    """By series, one for each stretch of time; empty: not over time."""
    hint: str = ""


class Columns:
    """A timeline as columns, one value for each stretch of time."""

    def __init__(self, result: Result) -> None:
        timeline = result.figures.timeline
        self.bins = timeline.bins
        self.times = [
            min((place + 0.5) * timeline.width, result.figures.clock)
            for place in range(len(self.bins))
        ]

    def level(self, name: str) -> list[float]:
        """Means of a level."""
        return [one.mean(name) or 0.0 for one in self.bins]

    def count(self, name: str) -> list[float]:
        """Sums of a count."""
        return [one.counts.get(name, 0.0) for one in self.bins]

    def a_step(self, name: str) -> list[float]:
        """Means of a count over the steps."""
        steps = self.count("steps")
        return [n / max(1.0, m) for n, m in zip(self.count(name), steps, strict=True)]


def scales(results: Sequence[Result], width: float) -> Scales:
    """Scales that fit all results."""
    all_columns = [Columns(result) for result in results]
    requests = max(
        (max([*c.level("running"), *c.level("waiting"), 1.0]) for c in all_columns), default=1.0
    )
    tokens = max(
        max(
            [
                budget(result.plan.config),
                *(
                    sum(parts)
                    for parts in zip(
                        *(c.a_step(name) for name in ("prefill", "decode", "again")), strict=True
                    )
                ),
            ]
        )
        for result, c in zip(results, all_columns, strict=True)
    )
    waits = [w for result in results for w in _waits(result)]
    seconds = [point[0] for wait in waits for point in wait.cumulative() if point[0] > 0]
    low, high = min(seconds, default=0.001), max(seconds, default=1.0)
    return Scales(
        width=width,
        clock=max((result.figures.clock for result in results), default=1.0) or 1.0,
        requests=requests * 1.05,
        tokens=tokens * 1.05,
        waits=(min(max(low, 0.001), high / 10), high * 1.1),
        rate=_rate_scale(results),
    )


def _rate_scale(results: Sequence[Result]) -> float:
    """Per cent that a plot of hit rates goes up to."""
    most = 0.0
    for result in results:
        totals = result.figures.totals
        here = totals.hit_tokens / max(1, totals.looked_up_tokens)
        most = max(most, here, summary.ceiling(result) or 0.0)
    return next((top for top in (5.0, 10.0, 25.0, 50.0) if 130 * most <= top), 100.0)


def charts(result: Result, common: Scales) -> list[Chart]:
    """Every plot, in the order in which the page shows them."""
    columns = Columns(result)
    return [
        _requests(columns, common),
        _pool(result, columns, common),
        _tokens(result, columns, common),
        _hits(result, columns, common),
        _durations(result, common),
    ]


def _over_time(common: Scales, y: tuple[float, float]) -> Frame:
    return Frame(common.width, HEIGHT, (0.0, common.clock), y)


def _time_axis(common: Scales) -> tuple[str, list[tuple[float, str]]]:
    size, unit = next((s, u) for least, s, u in _UNITS if common.clock >= least)
    about = max(3, int(common.width / 110))
    marks = ticks(0.0, common.clock / size, about)
    return f"time on the clock, {unit}", [(mark * size, f"{mark:g}") for mark in marks]


def _timed(frame: Frame, common: Scales, y_label: str, body: str, title: str) -> str:
    label, marks = _time_axis(common)
    pointer = element(
        "line", x1=LEFT, x2=LEFT, y1=TOP, y2=HEIGHT - BOTTOM, class_="pointer", hidden=""
    )
    return frame.svg(title, frame.axes(label, y_label, marks) + body + pointer)


def _requests(columns: Columns, common: Scales) -> Chart:
    frame = _over_time(common, (0.0, common.requests))
    times, running, waiting = columns.times, columns.level("running"), columns.level("waiting")
    body = frame.band(times, [0.0] * len(times), running, "running")
    body += frame.line(list(zip(times, running, strict=True)), "running")
    body += frame.line(list(zip(times, waiting, strict=True)), "waiting")
    lost = columns.count("preemptions")
    floor = HEIGHT - BOTTOM
    for time, many in zip(times, lost, strict=True):
        if many:
            across = frame.at_x(time)
            body += element("line", x1=across, x2=across, y1=floor, y2=floor - 9, class_="lost")
    return Chart(
        "Requests running and waiting",
        _timed(frame, common, "requests", body, "Requests running and waiting over time"),
        (("running", "running"), ("waiting", "waiting"), ("lost", "preemptions")),
        {"running": _rounded(running), "waiting": _rounded(waiting), "lost": _rounded(lost)},
        "Means of short stretches of time. A red mark on the floor: somebody was preempted.",
    )


def _pool(result: Result, columns: Columns, common: Scales) -> Chart:
    usable = float(result.figures.usable)
    frame = _over_time(common, (0.0, usable or 1.0))
    times, held, cached = columns.times, columns.level("held"), columns.level("cached")
    both = [h + c for h, c in zip(held, cached, strict=True)]
    body = frame.band(times, [0.0] * len(times), held, "held")
    body += frame.band(times, held, both, "cached")
    body += frame.line(list(zip(times, held, strict=True)), "held")
    free = [max(0.0, usable - b) for b in both]
    return Chart(
        "Blocks of the KV-cache pool",
        _timed(frame, common, "blocks", body, "Blocks held, cached and empty over time"),
        (("held", "held by requests"), ("cached", "free, still cached"), ("empty", "empty")),
        {"held": _rounded(held), "cached": _rounded(cached), "empty": _rounded(free)},
        "A full pool is no fault: what is free stays cached until somebody needs the block.",
    )


def _tokens(result: Result, columns: Columns, common: Scales) -> Chart:
    frame = _over_time(common, (0.0, common.tokens))
    times = columns.times
    low, body = [0.0] * len(times), ""
    values = {}
    for name in ("decode", "prefill", "again"):
        part = columns.a_step(name)
        high = [a + b for a, b in zip(low, part, strict=True)]
        body += frame.band(times, low, high, name)
        low, values[name] = high, _rounded(part)
    limit = budget(result.plan.config)
    body += frame.level(limit, f"budget {limit:,}")
    return Chart(
        "Tokens a step",
        _timed(frame, common, "tokens a step", body, "Tokens a step over time, and the budget"),
        (("decode", "decode"), ("prefill", "prefill"), ("again", "computed again")),
        values,
        "Means over the steps of a stretch. Computed again: lost by a preemption.",
    )


def _hits(result: Result, columns: Columns, common: Scales) -> Chart:
    frame = _over_time(common, (0.0, common.rate))
    looked, hit = columns.count("looked_up"), columns.count("hit")
    so_far: list[float | None] = []
    here: list[float | None] = []
    all_looked = all_hit = 0.0
    body, points = "", []
    for time, some, found in zip(columns.times, looked, hit, strict=True):
        all_looked, all_hit = all_looked + some, all_hit + found
        so_far.append(round(100 * all_hit / all_looked, 1) if all_looked else None)
        here.append(round(100 * found / some, 1) if some else None)
        if some:
            x, y = frame.at_x(time), frame.at_y(100 * found / some)
            body += element("circle", cx=x, cy=y, r=1.8, class_="dot")
        if all_looked:
            points.append((time, 100 * all_hit / all_looked))
    body += frame.line(points, "rate")
    most = summary.ceiling(result)
    if most:
        body += frame.level(100 * most, f"an unlimited cache: up to {most:.1%}")
    return Chart(
        "Prefix-cache hit rate",
        _timed(frame, common, "% of prompt tokens", body, "Prefix-cache hit rate over time"),
        (("rate", "so far, %"), ("dot", "in this stretch, %")),
        {"rate": so_far, "dot": here},
        "Of the prompt tokens of requests at their first admission. A dot at the upper "
        "edge may lie higher.",
    )


def _durations(result: Result, common: Scales) -> Chart:
    low, high = common.waits
    frame = Frame(common.width, HEIGHT, (low, high), (0.0, 100.0), log_x=True)
    body = ""
    names = ("queue", "first", "latency")
    for name, wait in zip(names, _waits(result), strict=True):
        points = [(max(low, s), 100 * share) for s, share in wait.cumulative()]
        body += frame.line([(low, 0.0), *_stairs(points)], name)
        for share in (0.5, 0.99):
            at = wait.quantile(share)
            if at is not None:
                x, y = frame.at_x(max(low, at)), frame.at_y(100 * share)
                body += element("circle", cx=x, cy=y, r=3.2, class_=f"mark {name}")
    marks = [(value, _duration(value)) for value in log_ticks(low, high)]
    axes = frame.axes("seconds on the clock, logarithmic", "% of requests", marks)
    return Chart(
        "How long requests took",
        frame.svg("Shares of requests by wait, time to first token and latency", axes + body),
        (
            ("queue", _legend("wait in the queue", result.figures.waits.queue)),
            ("first", _legend("first token", result.figures.waits.first_token)),
            ("latency", _legend("latency", result.figures.waits.end)),
        ),
        {},
        "The share of requests that took no longer. Dots: median and 99th percentile.",
    )


def _stairs(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    stairs, before = [], 0.0
    for x, y in points:
        stairs += [(x, before), (x, y)]
        before = y
    return stairs


def _legend(name: str, wait: Distribution) -> str:
    half = wait.quantile(0.5)
    return name if half is None else f"{name} (median {half:.3g} s)"


def _waits(result: Result) -> tuple[Distribution, Distribution, Distribution]:
    waits = result.figures.waits
    return waits.queue, waits.first_token, waits.end


def _duration(seconds: float) -> str:
    return f"{seconds:g} s" if seconds >= 1 else f"{seconds * 1000:g} ms"


def _rounded(values: Sequence[float]) -> list[float | None]:
    return [round(value, 1) for value in values]


PLOT_EDGES = (LEFT, RIGHT)
"""Left and right of what is drawn, for whoever points at a time."""
