"""The four verdicts: what they mean to a shell, to a CI server, and on a screen."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal
from xml.etree import ElementTree

Name = Literal["CONFORMS", "VIOLATION", "INCONCLUSIVE", "MALFORMED"]
EXIT: dict[Name, int] = {"CONFORMS": 0, "VIOLATION": 1, "INCONCLUSIVE": 3, "MALFORMED": 4}
STYLE: dict[Name, str] = {
    "CONFORMS": "bold green",
    "VIOLATION": "bold red",
    "INCONCLUSIVE": "bold yellow",
    "MALFORMED": "bold magenta",
}
_WORST_FIRST = (1, 4, 3, 0)
_JUNIT: dict[Name, str] = {
    "VIOLATION": "failure",
    "MALFORMED": "error",
    "INCONCLUSIVE": "skipped",
}


def worst(verdicts: Iterable[Name]) -> int:
    """The exit code for several files: 1 before 4 before 3 before 0."""
    codes = {EXIT[v] for v in verdicts}
    return next((code for code in _WORST_FIRST if code in codes), 0)


@dataclass(frozen=True, slots=True)
class Case:
    """A verdict as a JUnit report tells it."""

    classname: str
    name: str
    verdict: Name
    message: str
    """In one line, what is wrong or missing."""
    text: str
    """The same at length."""
    out: str
    """What the verdict rests on."""
    place: dict[str, str] = field(default_factory=dict)
    """The attributes by which CI servers show a place: file and line."""


def junit_report(name: str, cases: Sequence[Case]) -> bytes:
    """All verdicts as a JUnit report: VIOLATION fails, MALFORMED errs, INCONCLUSIVE is skipped."""
    count = {t: sum(_JUNIT.get(c.verdict) == t for c in cases) for t in _JUNIT.values()}
    suite = ElementTree.Element(
        "testsuite",
        name=name,
        tests=str(len(cases)),
        failures=str(count["failure"]),
        errors=str(count["error"]),
        skipped=str(count["skipped"]),
    )
    for case in cases:
        named = {"classname": case.classname, "name": case.name, **case.place}
        attributes = {key: clean(value) for key, value in named.items()}
        element = ElementTree.SubElement(suite, "testcase", attributes)
        if case.verdict in _JUNIT:
            tag, message = _JUNIT[case.verdict], clean(case.message)
            ElementTree.SubElement(element, tag, message=message).text = clean(case.text)
        ElementTree.SubElement(element, "system-out").text = clean(case.out)
    root = ElementTree.Element("testsuites")
    root.append(suite)
    ElementTree.indent(root)
    text: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return text + b"\n"


def clean(text: str) -> str:
    """Without the characters that XML cannot hold: names and values may come from anywhere."""
    return "".join(
        c if c in "\n\t" or (c.isprintable() and not 0xD800 <= ord(c) <= 0xDFFF) else "\ufffd"
        for c in text
    )
