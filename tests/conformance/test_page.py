"""The page of a verdict: complete, self-contained, and safe whatever a trace has in it."""

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from traces import BUSY, documents, trace_of, unsealed
from violations import altered

from nullblock.conformance import bundled
from nullblock.conformance.checker import Verdict, check
from nullblock.conformance.checker.page import pool as page_pool
from nullblock.conformance.checker.page import render
from nullblock.conformance.checker.page.steps import ROWS, STEPS, chart
from nullblock.conformance.checker.verdict import First
from nullblock.conformance.checker.views import blocks
from nullblock.conformance.cli import main
from nullblock.conformance.minimal.ask import ask
from nullblock.conformance.page.chart import CELL, LABEL
from nullblock.conformance.page.html import el
from nullblock.conformance.page.pool import runs

WINDOW = 400


def page_of(path: Path, *, scenario: bool = False) -> str:
    """The page of one trace."""
    verdict = check(path, window=WINDOW)
    if scenario:
        verdict.scenario = ask(verdict, path)
    return render([verdict]).decode()


def tree(page: str) -> ElementTree.Element:
    """The page as XML: every element is closed, everything is escaped."""
    assert page.startswith("<!doctype html>\n")
    return ElementTree.fromstring(page.partition("\n")[2])


def words(page: str) -> str:
    """What a reader sees."""
    body = tree(page).find("body")
    assert body is not None
    return " ".join(" ".join(body.itertext()).split())


@pytest.fixture(scope="module")
def violation(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The page of a preemption that did not happen."""
    path, _ = altered(tmp_path_factory.mktemp("page"), "nobody is preempted")
    return page_of(path, scenario=True)


def test_a_violation_tells_everything(violation: str) -> None:
    """Both decisions, the rule and its source, the quantities, what to do, the state, the lines
    before, the scenario and the evidence.
    """
    seen = words(violation)
    for part in (
        "VIOLATION",
        "The first wrong decision: step 301, who is preempted",
        "The rules of vllm-0.22.1 say [52] The trace says []",
        "PREEMPT-2 When slots are short the victim leaves the running list",
        "Source in vLLM: Scheduler.schedule, running phase",
        "slots needed 128, free 97",
        "so request 52 was preempted: the last of the running list",
        "What to do next",
        "compare with the settings that the server really ran with: num_blocks=8192",
        "request 52: prompt of 2244 tokens",
        "schedule 300: 0:1, 1:1",
        "2 requests and 16 steps before the decision",
        "nullblock run --profile vllm-0.22.1 fault.json",
        "never exercised: ",
    ):
        assert part in seen, part
    code = tree(violation).find(".//pre[@class='copy']/code")
    assert code is not None and code.text is not None
    assert [e["op"] for e in json.loads(code.text)["events"]] == ["add", "add", "step", "schedule"]


def test_an_update_of_an_older_step_is_framed_where_it_belongs(tmp_path: Path) -> None:
    """And the page tells the settings, the steps in flight, and only rules that could fire."""
    scenario = {
        "config": {"async_scheduling": True, "queue_depth": 3},
        "events": [
            {"op": "add", "id": "a", "prompt": {"range": [0, 8]}, "max_tokens": 9},
            {"op": "add", "id": "b", "prompt": {"range": [50, 58]}, "max_tokens": 3},
            {"op": "run"},
        ],
    }
    lines = documents(trace_of(scenario))
    at = next(i for i, x in enumerate(lines) if x["ev"] == "update" and x.get("finish"))
    lines[at]["finish"][0]["reason"] = "stop"
    path = tmp_path / "t.jsonl"
    path.write_bytes(unsealed(lines[: at + 1]))
    page = page_of(path)
    framed = [r.get("x") for r in tree(page).iter("rect") if r.get("class") == "fault"]
    assert lines[at]["step"] == 3 and framed[0] == str(LABEL + 2 * CELL)
    seen = words(page)
    for part in ("2 steps are in flight", "max_num_seqs", "scheduler", "NULLBLOCK_TRACE_NAMES=1"):
        assert part in seen, part
    never = seen.partition("never exercised: ")[2]
    assert "PREEMPT-2" in never and not re.search("SESS|REMOTE|ENC-|GROUP|DRAFT", never)


def test_the_mismatch_is_framed(violation: str) -> None:
    """The chart has a row for each request and a column for each step; the wrong step, and the
    request that it is about, are framed.
    """
    svg = tree(violation).find(".//svg")
    assert svg is not None
    assert svg.get("aria-label") == f"54 requests in steps {301 - STEPS + 1} to 301"
    assert len([r for r in svg.iter("rect") if r.get("class") == "fault"]) == 2
    titles = {t.text for t in svg.iter("title")}
    assert "request 0, step 301: 1 token" in titles
    assert "request 52, step 299: 254 tokens" in titles


def test_nothing_is_loaded_and_nothing_runs(violation: str) -> None:
    """No script, no link, no image, no address, and a policy that forbids them."""
    names = {e.tag for e in tree(violation).iter()}
    assert not names & {"script", "link", "img", "iframe", "object", "embed", "a", "base", "form"}
    assert not re.search(r"https?:|url\(|@import|\bon\w+=", violation)
    assert "default-src 'none'" in violation


def test_it_is_accessible(violation: str) -> None:
    """A language, a title, headings in their order, a name for the picture, headers for tables,
    and letters besides colours; dark and paper have styles of their own.
    """
    root = tree(violation)
    assert root.get("lang") == "en" and root.findtext(".//title")
    levels = [e.tag for e in root.iter() if re.fullmatch("h[1-6]", e.tag)]
    assert levels[0] == "h1" and set(levels) == {"h1", "h2", "h3"}
    assert all(table.find("caption") is not None for table in root.iter("table"))
    assert {th.get("scope") for th in root.iter("th")} == {"col"}
    assert "prefers-color-scheme: dark" in violation and "@media print" in violation
    svg = root.find(".//svg")
    assert svg is not None and {"D", "P", "N", "W"} <= {t.text for t in svg.iter("text")}


HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\"'&\x00\u202e"


def hostile(tmp_path: Path) -> list[Path]:
    """Traces with markup wherever a trace may have text."""
    lines = documents(trace_of(BUSY))
    lines[0]["engine"] = dict.fromkeys(("name", "version", "commit", "scheduler"), HOSTILE)
    wrong = json.loads(json.dumps(lines))
    next(x for x in wrong if x["ev"] == "update" and x.get("finish"))["finish"][0]["reason"] = (
        HOSTILE
    )
    unknown = json.loads(json.dumps(lines))
    unknown[0]["features"] = [HOSTILE]
    lost = [*json.loads(json.dumps(lines))[:-1], {"ev": "lost", "reason": HOSTILE}]
    named = json.loads(json.dumps(lines))
    named[0]["spec"] = HOSTILE
    broken = [lines[0], {"ev": HOSTILE}]
    folder = tmp_path / "<b onclick=alert(1)>"
    folder.mkdir()
    paths = []
    for name, kept in (
        *(("wrong", wrong), ("unknown", unknown), ("lost", lost), ("named", named)),
        ("broken", broken),
    ):
        paths.append(folder / name)
        paths[-1].write_bytes(unsealed(kept))
    return paths


def test_a_hostile_trace_injects_nothing(tmp_path: Path) -> None:
    """Markup in names, reasons, features, profiles and keys is shown as text."""
    target = tmp_path / "page.html"
    main(["check", "--page", str(target), *map(str, hostile(tmp_path))])
    page = target.read_text()
    root = tree(page)
    assert [v.text for v in root.iter("span") if "verdict" in str(v.get("class"))] == [
        *("VIOLATION", "INCONCLUSIVE", "INCONCLUSIVE", "INCONCLUSIVE", "MALFORMED")
    ]
    names = {e.tag for e in root.iter()}
    assert not names & {"script", "img", "b"}
    assert not any(key.startswith("on") for e in root.iter() for key in e.keys())  # noqa: SIM118
    assert words(page).count("<script>alert(1)</script>") >= 5


def test_a_page_of_each_verdict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What conforms shows its evidence, open; what is damaged or not known says what and where."""
    whole = trace_of(BUSY)
    (tmp_path / "good").write_bytes(whole)
    (tmp_path / "broken").write_bytes(whole[:-40])
    cut = documents(whole)
    cut[0]["features"] = ["kv_connector"]
    (tmp_path / "unknown").write_bytes(unsealed(cut))
    target = tmp_path / "page.html"
    for name, code, said in (
        ("good", 0, "rules had a part in it"),
        ("broken", 4, "The trace is damaged"),
        ("unknown", 3, "the feature kv_connector"),
    ):
        assert main(["check", "--page", str(target), str(tmp_path / name)]) == code
        assert said in words(target.read_text())
    details = tree(page_of(tmp_path / "good")).find(".//details")
    assert details is not None and details.get("open") is not None


def test_a_long_trace_has_a_page_of_one_size() -> None:
    """Thousands of steps and blocks: a window of the last steps, runs of blocks alike."""
    page = page_of(bundled.TRACE)
    assert len(page) < 600_000
    svg = tree(page).find(".//svg")
    assert svg is not None
    assert f"in steps {5000 - STEPS + 1} to 5000" in str(svg.get("aria-label"))
    rows = [t.text for t in svg.iter("text") if str(t.text).startswith("request ")]
    assert 0 < len(rows) <= ROWS


def test_the_strip_shows_every_block_of_a_small_pool(tmp_path: Path) -> None:
    """One item a block, with its reference count, its holders, its content, its place; in a large
    pool blocks alike are put together, and none is lost.
    """
    path = tmp_path / "trace"
    path.write_bytes(trace_of(BUSY))
    verdict = check(path)
    assert verdict.replay is not None
    strip = tree(render([verdict]).decode()).findall(".//ol[@class='pool']/li")
    assert len(strip) == 11
    assert all(re.match(r"\d+ ref \d+", str(item.text)) for item in strip)
    found = blocks(verdict.replay)
    assert sum(b.place is not None for b in found) == verdict.replay.s.nfree
    many = page_pool.blocks(found) * 40
    put_together = list(runs(many, set()))
    assert sum(r.last.id - r.first.id + 1 for r in put_together) == len(many)


def test_the_chart_follows_every_kind_of_event(tmp_path: Path) -> None:
    """New, chunks, decodes, waiting, preempted by a reset and resumed, ended, aborted."""
    path = tmp_path / "trace"
    path.write_bytes(trace_of(BUSY))
    found = chart(check(path, window=WINDOW))
    kinds = {kind for cells in found.cells.values() for kind, _ in cells.values()}
    assert {"n", "p", "d", "r", "w", "f"} <= kinds
    assert "ended: aborted" in str(found.cells)


def test_values_are_escaped_and_elements_are_not() -> None:
    """A string is text; an element, made here, is markup."""
    assert el("p", "<b>", el("em", "&"), title='"x"') == (
        '<p title="&quot;x&quot;">&lt;b&gt;<em>&amp;</em></p>'
    )


def test_a_verdict_without_records_has_a_page() -> None:
    """Damage before the header leaves nothing to draw."""
    first = First(1, 0, None, "what", "remedy", "what", ("line 1: what",))
    verdict: Any = Verdict("t", verdict="MALFORMED", first=first)
    assert "The trace is damaged" in words(render([verdict]).decode())
