"""The page: figures and plots of one replay, or of several side by side.

One file that needs nothing else: style, plots and the few lines of script are inside.
"""

import json
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path
from typing import assert_never

from nullblock.conformance.replaying import plans, summary
from nullblock.conformance.replaying.configuration import as_written
from nullblock.conformance.replaying.engine import ReplayEngineName
from nullblock.conformance.replaying.page.charts import PLOT_EDGES, Chart, Scales, charts, scales
from nullblock.conformance.replaying.page.findings import findings
from nullblock.conformance.replaying.page.svg import element
from nullblock.conformance.replaying.run import Result

_WIDTH = 1180.0
_FOLDER = Path(__file__).parent


def page(results: Sequence[Result]) -> str:
    """The whole document."""
    first = results[0]
    name = first.plan.workload.name
    title = f"{name}: {' and '.join(_engines(results))}"
    parts = [
        element("h1", escape(title)),
        element("p", escape(_subtitle(first)), class_="soft"),
        _tiles(first) if len(results) == 1 else "",
        element("h2", "What happened"),
        _side_by_side(results, _sentences),
        *(element("p", escape(f"{line}.")) for line in summary.agreement(results)),
        _plots(results),
        element("h2", "Figures"),
        _figures(results),
        element("h2", "Configuration"),
        _configuration(results),
        element("h2", "The same again"),
        element("pre", escape(plans.command_line([result.plan for result in results]))),
    ]
    style = (_FOLDER / "page.css").read_text()
    script = (_FOLDER / "page.js").read_text()
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{escape(title)} (nullblock replay)</title><style>{style}</style>"
    )
    return (
        f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>\n'
        + "\n".join(part for part in parts if part)
        + f"\n<script>{script}</script></body></html>\n"
    )


def _engines(results: Sequence[Result]) -> list[str]:
    return [_in_words(name) for name in dict.fromkeys(r.plan.engine for r in results)]


def _in_words(name: ReplayEngineName) -> str:
    match name:
        case ReplayEngineName.spec:
            return "the specification"
        case ReplayEngineName.reference:
            return "the reference engine"
        case ReplayEngineName.impl:
            return "the fast engine"
        case ReplayEngineName.vllm:
            return "vLLM 0.22.1"
    assert_never(name)


def _subtitle(result: Result) -> str:
    plan = result.plan
    parts = [f"a {result.format.value} workload"]
    if plan.scale > 1:
        parts.append(f"lengths divided by {plan.scale}")
    if plan.pace.speed != 1:
        parts.append(f"{plan.pace.speed:g} times as fast")
    parts.append(f"on a clock on which a step takes {plan.step_time}")
    return ", ".join(parts)


def _tiles(result: Result) -> str:
    figures, totals = result.figures, result.figures.totals
    told = (
        (f"{totals.finished:,}", "requests finished"),
        (f"{totals.steps:,}", "steps"),
        (summary.percent(summary.ratio(totals.hit_tokens, totals.looked_up_tokens)), "hit rate"),
        (f"{totals.preemptions:,}", "preemptions"),
        (summary.percent(summary.ratio(figures.mean("held"), figures.usable)), "of the pool held"),
        (summary.seconds(figures.waits.first_token.quantile(0.5)), "to the first token, median"),
        (
            summary.seconds(figures.waits.first_token.quantile(0.99)),
            "first token, 99th percentile",
        ),
    )
    return element(
        "div",
        "".join(
            element("div", element("b", value) + element("span", what), class_="tile")
            for value, what in told
        ),
        class_="tiles",
    )


def _side_by_side(results: Sequence[Result], make: Callable[[Result], str]) -> str:
    cells = "".join(
        element("div", _heading(result, results) + make(result), class_="run")
        for result in results
    )
    return _columns(len(results), cells)


def _columns(many: int, cells: str) -> str:
    columns = f"grid-template-columns:repeat({many},minmax(0,1fr))"
    return element("div", cells, class_="runs", style=columns)


def _heading(result: Result, results: Sequence[Result]) -> str:
    return element("h3", escape(result.plan.label)) if len(results) > 1 else ""


def _sentences(result: Result) -> str:
    told = [element("li", escape(one)) for one in findings(result)]
    told += [element("li", escape(f"{one}."), class_="soft") for one in summary.notes(result)]
    return element("ul", "".join(told))


def _plots(results: Sequence[Result]) -> str:
    """Each kind of plot as a row, with a column a run."""
    common = scales(results, max(360.0, _WIDTH / len(results)))
    by_run = [charts(result, common) for result in results]
    rows = []
    for kind in zip(*by_run, strict=True):
        cells = "".join(
            element("div", _heading(result, results) + _figure(chart, number), class_="run")
            for number, (chart, result) in enumerate(zip(kind, results, strict=True))
        )
        rows.append(element("h2", escape(kind[0].title)))
        rows.append(_columns(len(results), cells))
        rows.append(element("p", escape(kind[0].hint), class_="hint"))
    data = "".join(_data(result, common, number) for number, result in enumerate(results))
    return "\n".join([*rows, data])


def _figure(chart: Chart, number: int) -> str:
    legend = "".join(
        element(
            "span",
            element("i", "", class_=name)
            + escape(what)
            + (element("b", "", data_name=name) if chart.values else ""),
        )
        for name, what in chart.legend
    )
    if chart.values:
        legend += element("span", "", class_="clock soft")
    values = json.dumps(chart.values, separators=(",", ":"))
    return element(
        "figure",
        element("div", legend, class_="legend") + chart.svg,
        data_of=number,
        data_values=values,
    )


def _data(result: Result, common: Scales, number: int) -> str:
    """What the script has to know of a run."""
    timeline = result.figures.timeline
    left, right = PLOT_EDGES
    data = {
        "number": number,
        "clock": common.clock,
        "width": timeline.width,
        "bins": len(timeline.bins),
        "left": left,
        "right": right,
    }
    return element("div", "", data_run=json.dumps(data), hidden="")


def _figures(results: Sequence[Result]) -> str:
    lines = [element("tr", _cells("th", [""] + [r.plan.label for r in results]))]
    if len(results) == 1:
        lines = []
    for line in zip(*(summary.rows(result) for result in results), strict=True):
        cells = element("th", escape(line[0][0])) + _cells("td", [value for _, value in line])
        lines.append(element("tr", cells, class_="" if line[0][0] else "gap"))
    return element("table", "".join(lines))


def _cells(name: str, texts: Sequence[str]) -> str:
    return "".join(element(name, escape(text)) for text in texts)


def _configuration(results: Sequence[Result]) -> str:
    written = [as_written(result.plan.config) for result in results]
    keys = list(dict.fromkeys(key for config in written for key in config))
    lines = []
    if len(results) > 1:
        lines.append(element("tr", _cells("th", [""] + [r.plan.label for r in results])))
    profiles = [
        "–" if result.plan.engine == ReplayEngineName.vllm else result.plan.profile
        for result in results
    ]
    lines.append(element("tr", element("th", "profile") + _cells("td", profiles)))
    for key in keys:
        values = [_value(config.get(key)) for config in written]
        lines.append(element("tr", element("th", escape(key)) + _cells("td", values)))
    return element("table", "".join(lines))


def _value(value: object) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "on", False: "off", None: "–"}[value]
    return f"{value:,}" if isinstance(value, int) else str(value)
