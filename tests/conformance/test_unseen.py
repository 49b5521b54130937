"""What a verdict does not see is named: whatever of a decision is left out of a trace that still
conforms.
"""

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from altered import judge, names
from bases import Lines, bases
from fields import every_field
from traces import BUSY, documents, trace_of, unsealed

from nullblock.conformance.cli import main

DECIDES = ("schedule", "update", "abort", "reset", "state")
"""Records that are compared."""


NOWHERE = {
    *("state.finished", "state.heap"),
    *(f"state.requests.{name}" for name in ("discard", "drafts", "name", "tie")),
    "state.requests.skip_reading_prefix_cache",
    *(f"state.requests.session.chunks.{name}" for name in ("arrival", "tie")),
}
"""Fields that say nothing in any of these traces."""


def paths() -> list[str]:
    """Every field of theirs, and every part that has fields."""
    every = [".".join(path[:n]) for path in every_field() for n in range(2, len(path) + 1)]
    return sorted({path for path in every if path.partition(".")[0] in DECIDES})


def without(lines: Lines, path: str) -> Lines | None:
    """A trace without a field, wherever it says something; None: it does nowhere."""
    kind, *rest = path.split(".")
    told = copy.deepcopy(lines)
    gone = [_take(line, rest) for line in told if line["ev"] == kind]
    return told if any(gone) else None


def _take(value: Any, path: list[str]) -> bool:
    """Take a field away; whether it said something."""
    if isinstance(value, list):
        return any([_take(member, path) for member in value])
    if not isinstance(value, dict) or path[0] not in value:
        return False
    if path[1:]:
        return _take(value[path[0]], path[1:])
    return value.pop(path[0]) not in ([], None, False)


def traces() -> Iterator[Lines]:
    """The traces to take something from, unsealed."""
    for name in bases():
        if name != "lost":
            header, *rest = bases()[name]
            kept = {k: v for k, v in header.items() if k not in ("sealed", "config_sha256")}
            yield [kept, *(line for line in rest if line["ev"] != "end")]


@pytest.mark.parametrize("path", paths())
def test_what_is_left_out_is_named(path: str) -> None:
    """A trace without it does not conform, or the verdict names it as unseen."""
    tried = [told for lines in traces() if (told := without(lines, path)) is not None]
    assert bool(tried) != (path in NOWHERE)
    for told in tried:
        verdict = judge(told)
        assert verdict.verdict != "CONFORMS" or names(verdict.unseen, path), verdict.unseen


def told(tmp_path: Path) -> Path:
    """A trace without KV events, common prefixes and what is free after an update."""
    lines = documents(trace_of(BUSY))
    for line in lines:
        line.pop("common_prefix", None)
        if line["ev"] == "update":
            line["state"].pop("num_free", None)
    path = tmp_path / "trace"
    path.write_bytes(unsealed(lines))
    return path


LINES = [
    "`update.events`: KV events (absent)",
    "`schedule.common_prefix`: the common prefix blocks",
    "`update.state.num_free`: how many blocks are free after it",
]


def test_every_form_of_a_verdict_names_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In text, as JSON, on the page, and for a CI server."""
    path, page, junit = told(tmp_path), tmp_path / "page.html", tmp_path / "junit.xml"
    forms = ["--page", str(page), "--junit", str(junit)]
    assert main(["check", *forms, str(path)]) == 0
    out = capsys.readouterr().out
    assert main(["check", "--json", str(path)]) == 0
    verdict = json.loads(capsys.readouterr().out)
    for line in LINES:
        assert f"not checked, for the trace does not tell: {line}" in out
        assert line in verdict["unseen"]
        assert line in page.read_text() and line in junit.read_text()
    assert "`schedule.state.num_free`" not in out


def test_a_violation_names_it_too(tmp_path: Path) -> None:
    """Up to the decision that no rule explains."""
    lines = [json.loads(line) for line in told(tmp_path).read_text().splitlines()]
    first = next(line for line in lines if line["ev"] == "schedule")
    first["tokens"][-1] += 1
    verdict = judge(lines)
    assert verdict.verdict == "VIOLATION"
    assert names(verdict.unseen, "update.events")


def test_what_is_told_is_not_named() -> None:
    """A trace that tells everything has nothing unseen; one record without is enough."""
    config = BUSY["config"] | {"kv_events": True}
    header, *rest = documents(trace_of(BUSY | {"config": config}))
    header = {k: v for k, v in header.items() if k != "config_sha256"} | {"sealed": False}
    header["observed"]["state"] = "sampled"
    lines = [header, *(line for line in rest if line["ev"] != "end")]
    found = judge(lines)
    assert found.verdict == "CONFORMS"
    assert all("update.events." in line for line in found.unseen), found.unseen
    last = max(i for i, line in enumerate(lines) if line["ev"] == "schedule")
    del lines[last]["common_prefix"]
    assert names(judge(lines).unseen, "schedule.common_prefix")
