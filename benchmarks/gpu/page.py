"""What was measured, as a document, as tables for a terminal, and as the results page."""

from dataclasses import asdict, dataclass, field

from divergences import Divergences
from figures import Floors, Row, Spread, microseconds
from targets import GOALS

Document = dict[str, object]
COMMAND = "make bench-gpu"
UNMEASURED = "Not measured on a GPU yet."
VERDICTS = {True: "met", False: "missed", None: "–"}
NO_GPU_TITLE = "The twins on a CPU: no figure here is about a GPU"


@dataclass(frozen=True, slots=True)
class Section:
    """One table, or why it could not be measured."""

    name: str
    title: str
    text: str
    rows: list[Row] = field(default_factory=list)
    missing: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that one run found out."""

    date: str
    device: str
    is_gpu: bool
    command: str
    versions: dict[str, str]
    tests: str
    """What the tests said, run compiled; or that they were not run."""
    floors: Floors
    sections: list[Section]
    engine: str = "not run"
    """What the tests of the engine on the device said."""
    divergences: Divergences | None = None
    """Of the scheduler's decisions; None: nobody counted."""

    @property
    def has_failed(self) -> bool:
        """Whether the engine failed its tests, or decided otherwise than it should."""
        found = self.divergences is not None and self.divergences.found
        return self.engine.startswith("FAILED") or bool(found)


def as_document(report: Report) -> Document:
    """For JSON; times in seconds, with the ratios beside them."""
    document: Document = asdict(report)
    sections: list[Document] = []
    for section in report.sections:
        rows = []
        for row in section.rows:
            judged = {
                "floor_seconds": report.floors.seconds(row.cost),
                "share_of_floor": row.share(report.floors),
                "meets_target": row.meets(report.floors),
                "faster_than": {peer: row.faster(peer) for peer in row.peers},
            }
            rows.append(asdict(row) | judged)
        sections.append(asdict(section) | {"rows": rows})
    return document | {"sections": sections}


def between(spread: Spread) -> str:
    """A median and its deciles, in microseconds."""
    low, high = microseconds(max(spread.low, 0.0)), microseconds(spread.high)
    return f"{microseconds(spread.median)} ({low}–{high})"


def percent(share: float | None) -> str:
    """A share; noise has none."""
    return "–" if share is None else f"{share:.0%}"


def peer_cell(row: Row, name: str) -> str:
    """A peer's time and the ratio, or why there is none."""
    times = row.peers.get(name)
    if times is None:
        return "–"
    if isinstance(times, str):
        return times
    ratio = row.faster(name)
    return microseconds(times.cold.median) + ("" if ratio is None else f", {ratio:.2f}×")


def header(section: Section, is_gpu: bool) -> list[str]:
    """The columns of a table."""
    peers = list(dict.fromkeys(peer for row in section.rows for peer in row.peers))
    if not is_gpu:
        return ["what", "twin on the CPU, µs", *(f"{p}: µs, the twin is faster by" for p in peers)]
    return [
        "what", "device, cold, µs", "warm, µs", "host: graph, µs", "host: eager, µs",
        "bytes", "floor, µs", "floor ÷ cold", "target",
        *(f"{p}: µs, ours is faster by" for p in peers),
    ]  # fmt: skip


def cells(section: Section, row: Row, report: Report) -> list[str]:
    """One line of a table."""
    peers = list(dict.fromkeys(peer for each in section.rows for peer in each.peers))
    others = [peer_cell(row, peer) for peer in peers]
    if not report.is_gpu:
        return [row.what, between(row.times.cold), *others]
    return [
        row.what,
        between(row.times.cold),
        microseconds(row.times.warm.median),
        microseconds(row.times.host.median),
        microseconds(row.times.eager.median),
        f"{row.cost.bytes:,}",
        microseconds(report.floors.seconds(row.cost)),
        percent(row.share(report.floors)),
        VERDICTS[row.meets(report.floors)],
        *others,
    ]


def as_table(columns: list[str], lines: list[list[str]]) -> str:
    """A Markdown table."""
    rows = [columns, ["---"] * len(columns), *lines]
    return "\n".join("| " + " | ".join(line) + " |" for line in rows)


def goals_table(report: Report | None) -> str:
    """The targets, and beside them what was measured, if it was."""
    found: dict[str, list[str]] = {}
    if report is not None and report.is_gpu:
        for section in report.sections:
            for row in section.rows:
                if row.target is not None:
                    found.setdefault(row.target.name, []).append(measured(row, report.floors))
        if report.divergences is not None:
            found["divergences"] = [str(report.divergences)]
    lines = [
        [goal.figure, goal.target, goal.moonshot, "; ".join(found.get(goal.name, []))]
        for goal in GOALS
    ]
    return as_table(["figure on one H200", "target", "moonshot", "measured"], lines)


def measured(row: Row, floors: Floors) -> str:
    """A row's figure in the unit of its target."""
    assert row.target is not None
    verdict = VERDICTS[row.meets(floors)]
    if row.target.share is not None:
        return f"{percent(row.share(floors))} ({verdict}; {row.what})"
    return f"{microseconds(row.times.cold.median)} µs ({verdict}; {row.what})"


def floors_lines(report: Report) -> list[str]:
    """What the device can do."""
    floors = report.floors
    return [
        f"* copy: {floors.copy_bandwidth / 1e12:.3f} TB/s, read plus written",
        f"* bfloat16 matmul: {floors.matmul_rate / 1e12:.1f} TFLOP/s",
        f"* an empty kernel: {microseconds(floors.launch)} µs as a node of a graph, "
        f"{microseconds(floors.eager_launch)} µs of host time outside one",
    ]


def as_page(report: Report) -> str:
    """The results page of a run."""
    line = f"{report.date}, {report.device}, `{report.command}`; "
    line += ", ".join(f"{name} {version}" for name, version in report.versions.items())
    parts = [f"# {'Results on a GPU' if report.is_gpu else NO_GPU_TITLE}", line]
    if report.is_gpu:
        parts += [
            f"Tests of the kernels, compiled, before anything was timed: {report.tests}. "
            f"Of the engine that launches them, and of its tokens: {report.engine}.",
            "## Targets",
            goals_table(report),
            "What stands without a figure was not measured in this run. Divergences are counted "
            "step by step beside the NumPy engine, which tests compare with the specification; "
            "bundled traces are not played here.",
            "## Floors, measured in the same run",
            "\n".join(floors_lines(report)),
        ]
    for section in report.sections:
        parts += [f"## {section.title}", section.text]
        parts.append(f"Not measured: {section.missing}." if section.missing else "")
        if section.rows:
            lines = [cells(section, row, report) for row in section.rows]
            parts.append(as_table(header(section, report.is_gpu), lines))
    return "\n\n".join(part for part in parts if part) + "\n"


def empty_page() -> str:
    """The results page before anybody ran it."""
    parts = [
        "# Results on a GPU",
        f"**{UNMEASURED}** No figure about a GPU is claimed. On a machine that has one,",
        f"    {COMMAND}",
        "tests the kernels compiled, measures, and writes this page.",
        "## Targets",
        goals_table(None),
    ]
    return "\n\n".join(parts) + "\n"
