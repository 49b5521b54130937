"""What is written down: links that lead somewhere, no leftovers, no machine of anybody's."""

import re
from pathlib import Path

import pytest
from project import ROOT, TEXT, files, name_of

# Put together, so that this file does not hold what it looks for.
MARKERS = re.compile(rf"\b({'TO' + 'DO'}|{'FIX' + 'ME'}|{'X' * 3}|{'HA' + 'CK'})\b")
HOMES = re.compile(r"/(?:home|root|Users|work)/\w+")
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ +(.*)$", re.MULTILINE)
CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)
GOOD_README = "## Two words\n[a](#two-words) [b](file.md) [c](https://example.org/x)\n"


def read(path: Path) -> str:
    """The text of a file; empty if it has none."""
    try:
        return path.read_text()
    except UnicodeDecodeError:
        return ""


def readable() -> list[Path]:
    """Files that people read, but for the licence and this test's own folder."""
    return [path for path in files() if path.suffix in TEXT and path.name != "LICENSE"]


def matches(pattern: re.Pattern[str]) -> list[str]:
    """Where a pattern stands in the project."""
    return [
        f"{name_of(path)}:{number}: {line.strip()[:100]}"
        for path in readable()
        for number, line in enumerate(read(path).splitlines(), start=1)
        if pattern.search(line)
    ]


def test_no_marker_is_left_over() -> None:
    """Nothing is left for later in the text: open work is an issue."""
    assert matches(MARKERS) == []


def test_no_home_folder_is_mentioned() -> None:
    """No path of anybody's machine is part of the project."""
    assert [line for line in matches(HOMES) if not line.startswith("tests/tidy/")] == []


def dead_links(path: Path, text: str) -> list[str]:
    """The links of a Markdown page that lead nowhere in the project."""
    return [
        f"{path.name}: {link}"
        for link in LINK.findall(CODE.sub("", text))
        if "://" not in link and not link.startswith("mailto:") and not _leads(path, text, link)
    ]


def _leads(path: Path, text: str, link: str) -> bool:
    file, _, anchor = link.partition("#")
    target = (path.parent / file) if file else path
    if not target.exists():
        return False
    if not anchor:
        return True
    return anchor in _anchors(text if not file else read(target))


def _anchors(text: str) -> set[str]:
    """The names that a page's headings get: lower case, punctuation dropped, blanks to dashes."""
    plain = (heading.replace("`", "").strip().lower() for heading in HEADING.findall(text))
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in plain}


def test_every_link_leads_somewhere() -> None:
    """Links between pages name files, and headings, that exist."""
    pages = [path for path in files() if path.suffix == ".md"]
    assert ROOT / "README.md" in pages
    assert [dead for page in pages for dead in dead_links(page, read(page))] == []


@pytest.mark.parametrize(
    ("good", "bad"),
    [("#two-words", "#three-words"), ("file.md", "gone.md"), ("file.md", "file.md#nowhere")],
)
def test_a_dead_link_is_found(tmp_path: Path, good: str, bad: str) -> None:
    """The check tells a link that leads nowhere from one that does not."""
    (tmp_path / "file.md").write_text("# Title\n")
    page = tmp_path / "README.md"
    page.write_text("")
    assert dead_links(page, GOOD_README) == []
    assert dead_links(page, GOOD_README.replace(f"]({good})", f"]({bad})")) == [
        f"README.md: {bad}"
    ]
