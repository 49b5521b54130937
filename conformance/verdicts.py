"""The four verdicts: what they mean to a shell, to a CI server, and on a screen."""

from collections import Counter
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
MOST_MESSAGE = 400
"""Characters of a message, which stands in lists."""
MOST_LINES = 20
"""Lines about what is not known."""
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
    seconds: float = 0.0
    """How long it took."""


def junit_report(name: str, cases: Sequence[Case]) -> bytes:
    """All verdicts as a JUnit report: VIOLATION fails, MALFORMED errs, INCONCLUSIVE is skipped.

    A CI server knows a case by its class and name, so that the same trace given twice is numbered.
    """
    counts = {"tests": str(len(cases))}
    for word, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        counts[word] = str(sum(_JUNIT.get(c.verdict) == tag for c in cases))
    counts["time"] = f"{sum(case.seconds for case in cases):.3f}"
    root = ElementTree.Element("testsuites", counts)
    suite = ElementTree.SubElement(root, "testsuite", {"name": name, **counts})
    seen: Counter[str] = Counter()
    for case in cases:
        seen[case.name] += 1
        again = f" ({seen[case.name]})" if seen[case.name] > 1 else ""
        named = {"classname": case.classname, "name": case.name + again, **case.place}
        named["time"] = f"{case.seconds:.3f}"
        attributes = {key: one_line(value) for key, value in named.items()}
        element = ElementTree.SubElement(suite, "testcase", attributes)
        if case.verdict in _JUNIT:
            message = one_line(case.message)
            if len(message) > MOST_MESSAGE:
                message = message[: MOST_MESSAGE - 1] + "…"
            told = {"message": message, "type": case.verdict}
            found = ElementTree.SubElement(element, _JUNIT[case.verdict], told)
            found.text = clean(case.text)
        ElementTree.SubElement(element, "system-out").text = clean(case.out)
    ElementTree.indent(root)
    text: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return text + b"\n"


def first_of(values: Sequence[str]) -> list[str]:
    """The first of many lines, and how many there are."""
    more = [f"… {len(values):,} in all"] if len(values) > MOST_LINES else []
    return [*values[:MOST_LINES], *more]


def one_line(text: str) -> str:
    """Text from anywhere, fit for one line of a terminal or a report."""
    return clean(text).replace("\n", "\ufffd").replace("\t", " ")


def clean(text: str) -> str:
    """Without the characters that XML cannot hold, or that a terminal obeys: names and values may
    come from anywhere.
    """
    return "".join(
        c if c in "\n\t" or (c.isprintable() and not 0xD800 <= ord(c) <= 0xDFFF) else "\ufffd"
        for c in text
    )
