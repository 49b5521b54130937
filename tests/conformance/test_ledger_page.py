"""The page of the ledger: whole, self-contained, every link leads somewhere, every cell opens."""

import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from nullblock.conformance.cli import main
from nullblock.conformance.ledger.evidence import load
from nullblock.conformance.ledger.judge import judge
from nullblock.conformance.ledger.page import render
from nullblock.conformance.ledger.page.panels import anchor, in_a_row
from nullblock.conformance.ledger.page.story import charted
from nullblock.conformance.ledger.sources.fuzz import Fuzzed, cells
from nullblock.conformance.ledger.words import Word

LEDGER = judge(load())
PAGE = render(LEDGER).decode()
ROOT = ElementTree.fromstring(PAGE.partition("\n")[2])
BY_ID = {e.get("id"): e for e in ROOT.iter() if e.get("id")}
LARGEST = 2_000_000
"""Bytes of the page."""


def words(element: ElementTree.Element) -> str:
    """What a reader sees of an element."""
    return " ".join(" ".join(element.itertext()).split())


def test_nothing_is_loaded_and_nothing_runs() -> None:
    """No script, no resource, no address; links lead within the page; it is small."""
    tags = {e.tag for e in ROOT.iter()}
    assert not tags & {"script", "link", "img", "iframe", "object", "embed", "base", "form"}
    assert not re.search(r"https?:|url\(|@import|\bon\w+=\"", PAGE)
    assert "default-src 'none'" in PAGE
    assert len(PAGE.encode()) < LARGEST
    hrefs = {str(a.get("href")) for a in ROOT.iter("a")}
    # The name of nothing: it closes whatever is open and moves nothing.
    assert "closed" not in BY_ID
    assert {h for h in hrefs if h.removeprefix("#") not in BY_ID} == {"#closed"}
    ids = [e.get("id") for e in ROOT.iter() if e.get("id")]
    assert len(ids) == len(set(ids))


def test_it_is_accessible() -> None:
    """A language, one title, headings without gaps, tables with captions and headers, panels that
    take the focus, and words besides colours; dark and paper have styles of their own.
    """
    assert ROOT.get("lang") == "en" and ROOT.findtext(".//title")
    levels = [int(e.tag[1]) for e in ROOT.iter() if re.fullmatch("h[1-6]", e.tag)]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(b <= a + 1 for a, b in zip(levels, levels[1:], strict=False))
    for table in ROOT.iter("table"):
        if table.get("class") != "requests":
            assert table.find("caption") is not None
        assert {th.get("scope") for th in table.iter("th")} <= {"col", "row", "rowgroup"}
    for panel in panels():
        assert panel.get("tabindex") == "-1" and panel.get("aria-labelledby") in BY_ID
    assert "prefers-color-scheme: dark" in PAGE and "@media print" in PAGE
    assert ":focus-visible" in PAGE


def panels() -> list[ElementTree.Element]:
    """What opens."""
    return [e for e in ROOT.iter("section") if e.get("class") == "panel"]


def test_every_cell_opens_with_its_command() -> None:
    """Each cell of the ledger is a link, says its word, and leads to a panel with one command that
    makes it again.
    """
    opened = 0
    for row in LEDGER.rows:
        head = BY_ID.get(anchor(row))
        cells = [c for c in LEDGER.of(row) if c is not None]
        assert (head is not None) or not cells
        tr = next((tr for tr in ROOT.iter("tr") if tr.find("th") is head), None)
        links = [] if tr is None else [a for a in tr.iter("a") if "word" in str(a.get("class"))]
        assert [a.findtext("b") for a in links] == [c.word.value for c in cells]
        for link, cell in zip(links, cells, strict=True):
            panel = BY_ID[str(link.get("href")).removeprefix("#")]
            assert cell.command.split()[0] in words(panel)
            codes = [c.text for c in panel.iter("code")]
            assert len(codes) == 1
            assert cell.command in codes or cell.detail.title in words(panel)
            opened += 1
    assert opened == len(LEDGER.cells) > 200


def test_only_what_is_proved_is_called_so() -> None:
    """The word stands on the cells that are proved, and on the legend."""
    marked = [a for a in ROOT.iter("a") if str(a.get("class")) == "word proved"]
    proved = [c for c in LEDGER.cells.values() if c.word == Word.PROVED]
    assert len(marked) == len(proved)


def test_a_proof_shows_its_obligations() -> None:
    """The panel of a proof names every rule with how often it was asked, and the machine."""
    seen = words(BY_ID["z3-pool-3"])
    assert "A block stands in the free queue if and only if" in seen
    for text in LEDGER.records["proofs"].texts:
        assert text.name in seen
    assert re.search(r"schedule \(guards and loops\) [\d,]+, [\d.]+ s", seen)


def test_a_counterexample_is_shown_action_by_action() -> None:
    """Each action has its sentences, a row for each request, and every block of the pool with its
    reference count, content, holders and place; what changed is framed; the broken statement ends
    it.
    """
    for d in LEDGER.records["departures"].departures:
        panel = BY_ID[f"exhibit-{d.name}"]
        beats = panel.findall("ol[@class='beats']/li")
        assert [b.findtext("h4") for b in beats] == [b.action for b in d.story.beats]
        for drawn, beat in zip(beats, d.story.beats, strict=True):
            strip = drawn.findall("ol[@class='pool']/li")
            assert len(strip) == len(beat.frame.blocks)
            for item, block in zip(strip, beat.frame.blocks, strict=True):
                said = str(item.text)
                assert said.startswith(f"{block.id} ref {block.ref}")
                assert (f"chain {block.hash}" in said) == (block.hash is not None)
                assert (f"free #{block.place}" in said) == (block.place is not None)
            requests = [*beat.frame.running, *beat.frame.waiting]
            rows = drawn.findall("table/tbody/tr")
            assert [r.findtext("th") for r in rows] == [r.id for r in requests]
            assert all(change in words(drawn) for change in map(plain, beat.changes))
        seen = words(panel)
        assert plain(d.story.sentence) in seen and d.command in seen
    framed = BY_ID["exhibit-uncomputed-hit"].findall("ol/li/ol/li[@class='held about']")
    assert [str(item.text)[0] for item in framed] == ["1", "2", "3", "4", "5"]
    lasso = words(BY_ID["exhibit-start-over"])
    assert "Actions 6 to 7 lead back to the same state" in lasso


def plain(text: str) -> str:
    """Text as a page spaces it."""
    return " ".join(text.split())


def test_the_chart_has_a_letter_for_every_request() -> None:
    """New, decoding, resumed, preempted, waiting and gone requests are told from the states."""
    kinds: set[str] = set()
    for d in LEDGER.records["departures"].departures:
        found = charted(d.story)
        assert found.steps == list(range(1, len(d.story.beats) + 1))
        kinds |= {kind for cells in found.cells.values() for kind, _ in cells.values()}
    assert kinds == set("npdrwxsf")
    (beats,) = [
        d.story for d in LEDGER.records["departures"].departures if d.name == "uncomputed-hit"
    ]
    letters = {r: "".join(k for k, _ in c.values()) for r, c in charted(beats).cells.items()}
    assert letters == {"a": "wnspx", "b": "wnf"}


def test_what_is_wrong_stands_at_the_top() -> None:
    """A shortfall turns the banner; nothing is called shown in full."""
    wrong = replace(LEDGER, shortfalls=("POOL-3, Z3: open: push_new",))
    root = ElementTree.fromstring(render(wrong).decode().partition("\n")[2])
    banner = root.find(".//*[@role='alert']")
    assert banner is not None and "POOL-3, Z3: open: push_new" in words(banner)
    assert root.find(".//*[@role='status']") is None
    fine = ROOT.find(".//*[@role='status']")
    assert (fine is not None) == (not LEDGER.shortfalls)


def test_the_command_writes_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The file is the page; two outputs at once, or a folder that is not there, are refused."""
    target = tmp_path / "ledger.html"
    code = main(["ledger", "--html", str(target)])
    assert code == bool(LEDGER.shortfalls) and target.read_text() == PAGE
    text = tmp_path / "ledger.md"
    assert main(["ledger", "--markdown", str(text)]) == code
    assert text.read_text().startswith("# What is known\n")
    capsys.readouterr()
    assert main(["ledger", "--json", "--html", str(target)]) == 2
    assert main(["ledger", "--html", str(tmp_path / "no" / "x.html")]) == 2
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 2 and "--json, --html" in said[0] and "no such folder" in said[1]


def test_situations_that_are_seldom_met_stand_in_one_line() -> None:
    """Under one in a hundred; each of the others has its own, the most frequent first."""
    met = {"now and then": 10, "often": 500, "twice": 2, "once": 1}
    run = Fuzzed("0" * 64, ("spec",), "vLLM", 1, 1000, 9000, 0, 0, 0, watched=1000, reached=met)
    facts = [(fact.name, fact.value) for fact in next(cells(run)).detail.facts]
    assert facts[:2] == [("often", "50%"), ("now and then", "1%")]
    assert facts[2:] == [("once, twice", "less than 1% each")]


def test_what_names_begin_with_is_said_once() -> None:
    """Up to a colon, and what stands behind it, too; a name without one stands alone."""
    some = [f"{rule}: {what}" for rule in ("push", "pop") for what in ("it ran", "it waits")]
    told = in_a_row(["core", *some, "end: it ran", "twins"])
    assert told == "core, twins; push, pop: it ran, it waits; end: it ran"
    assert in_a_row(["a", "b"]) == "a, b" and in_a_row([]) == ""
