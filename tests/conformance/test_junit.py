"""What a CI server reads: JUnit reports of verdicts, and text of strangers in them."""

import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from alterations import first
from traces import BUSY, documents, trace_of, unsealed

from nullblock.conformance.cli import main
from nullblock.conformance.verdicts import MOST_MESSAGE, Case, junit_report

Lines = list[dict[str, Any]]
ODD = "\x1b[2J\x07</failure>\r\n<&\x00\uffff]]>"


def lost(lines: Lines) -> None:
    """The recorder lost records, and says why."""
    lines[-1:] = [{"ev": "gap", "records": 3, "reason": ODD}] * 50


def uncovered(lines: Lines) -> None:
    """Several features that nobody knows."""
    lines[0]["features"] = ["telepathy", ODD]


def raised(lines: Lines) -> None:
    """An exception with a name that no class has."""
    lines[first(lines, "schedule") :] = [{"ev": "error", "during": "schedule", "type": ODD}]


def wrong(lines: Lines) -> None:
    """A step with a token too many."""
    lines[first(lines, "schedule")]["tokens"][0] += 1


ALTERED = {f.__name__: f for f in (lost, uncovered, raised, wrong)}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A trace of each kind, and a broken one."""
    whole = trace_of(BUSY)
    (tmp_path / "good").write_bytes(whole)
    (tmp_path / "broken").write_bytes(whole[:-40])
    for name, alter in ALTERED.items():
        lines = documents(whole)
        alter(lines)
        (tmp_path / name).write_bytes(unsealed(lines))
    return tmp_path


@pytest.fixture
def root(folder: Path) -> ElementTree.Element:
    """The report on all of them."""
    report = folder / "report.xml"
    names = ["good", "broken", *ALTERED]
    main(["check", "--junit", str(report), *(str(folder / name) for name in names)])
    return ElementTree.parse(report).getroot()


def case(root: ElementTree.Element, name: str) -> ElementTree.Element:
    """The case of a trace."""
    return next(c for c in root.iter("testcase") if Path(str(c.get("name"))).name == name)


def test_numbers_add_up_on_both_levels(root: ElementTree.Element) -> None:
    """Readers take them from the suite or from the root; each suite and case has a time."""
    kinds = {"failures": 2, "errors": 1, "skipped": 2, "tests": 6}
    for element in (root, root[0]):
        assert {kind: int(str(element.get(kind))) for kind in kinds} == kinds
    for element in (root[0], *root.iter("testcase")):
        assert float(str(element.get("time"))) > 0


def test_a_case_has_one_name_whatever_comes_out(root: ElementTree.Element) -> None:
    """A CI server knows a test by class and name, over all runs; what is behind the last point of
    a class it takes for the class's own name.
    """
    assert {c.get("classname") for c in root.iter("testcase")} == {"nullblock.check"}
    assert "profile vllm-0.22.1" in str(case(root, "good").findtext("system-out"))


def test_the_message_alone_says_what_is_wrong(root: ElementTree.Element) -> None:
    """Lists of failures show nothing else: step, decision, both sides and the rule; the exception;
    the place of damage; what is not known.
    """
    for name, tag, words in (
        ("wrong", "failure", ("step 1: ", "the rules say 8, the trace says 9", "(RUN-1)")),
        ("raised", "failure", ("step 1: schedule raises: the engine raised ",)),
        ("broken", "error", ("line ", "column ")),
        ("uncovered", "skipped", ("not known: the feature telepathy", "and 1 more")),
        ("lost", "skipped", ("not known: 3 records that the recorder lost", "and 49 more")),
    ):
        found = case(root, name).find(tag)
        assert found is not None, name
        for word in words:
            assert word in str(found.get("message")), name
        assert "\n" not in str(found.get("message"))
        assert found.get("type") in ("VIOLATION", "MALFORMED", "INCONCLUSIVE")


def test_the_text_names_the_place(root: ElementTree.Element, folder: Path) -> None:
    """Not every reader shows a case's file and line."""
    text = str(case(root, "wrong").findtext("failure"))
    assert text.startswith(f"line 4 of {folder / 'wrong'}\n")
    assert case(root, "wrong").get("line") == "4"


def test_many_findings_stay_readable(root: ElementTree.Element) -> None:
    """Text names the first of them, and how many there are."""
    text = str(case(root, "lost").findtext("skipped"))
    assert text.count("records that the recorder lost") == 20
    assert text.endswith("not known: … 50 in all") and text.count("\n") == 20


def test_one_trace_twice_is_two_cases(folder: Path) -> None:
    """Servers put cases of one name together; these are told apart."""
    report = folder / "report.xml"
    main(["check", "--junit", str(report), str(folder / "good"), str(folder / "good")])
    names = [str(c.get("name")) for c in ElementTree.parse(report).getroot().iter("testcase")]
    assert names == [str(folder / "good"), f"{folder / 'good'} (2)"]


def test_no_string_of_a_stranger_reaches_a_terminal(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Control characters are shown as a mark, in text as in the report."""
    main(["check", *(str(folder / name) for name in ALTERED)])
    out = capsys.readouterr().out
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", out)


def test_a_long_message_is_cut() -> None:
    """Of whatever length a string is, a message fits a list; the text is whole."""
    long = "x" * 5000
    root = ElementTree.fromstring(junit_report("s", [Case("c", "n", "MALFORMED", long, long, "")]))
    found = root.find(".//error")
    assert found is not None and len(str(found.get("message"))) == MOST_MESSAGE
    assert found.text == long
