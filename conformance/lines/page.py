"""The page of what differs between the lines, made from the switches and their examples."""

import json
from functools import cache
from pathlib import Path

from nullblock.conformance.engine import ALL_FEATURES
from nullblock.conformance.errors import OutOfScope
from nullblock.conformance.lines.example import VECTORS
from nullblock.conformance.lines.examples import EXAMPLES
from nullblock.conformance.lines.extent import check_followed, extent
from nullblock.conformance.scenario import load
from nullblock.spec.profiles import PROFILES, Semantics
from nullblock.spec.switches import differences, meaning, switches

PAGE = Path(__file__).with_name("LINES.md")
RELEASES = tuple(name for name in PROFILES if name != "normative")
INTRODUCTION = """\
# What differs between the lines

A line is what one release decides, as values of named switches; `normative` is what ought to be.
The rules are one text for all of them (`spec/`): a line is a set of values, and the few parts of
rules that no other line has. This page is made by `nullblock lines --markdown` from the switches
and from one golden scenario for each, whose output is other with that switch flipped. A line that
is not followed in what a switch decides about (drafts, windows, encoder inputs, a cap on adapters)
has no value for it.

"""


def document() -> dict[str, object]:
    """Everything the page says, for programs."""
    index = json.loads((VECTORS / "index.json").read_text())
    return {
        "lines": list(PROFILES),
        "switches": [
            {
                "switch": switch,
                "decides": " ".join(meaning(switch).split()),
                "values": {name: value(name, switch) for name in PROFILES},
                "upstream": example.upstream,
                "normative_because": example.why,
                "scenario": f"{example.scenario}.json",
                "shows": index[example.scenario],
            }
            for switch, example in EXAMPLES.items()
        ],
    }


def between(a: str, b: str) -> list[str]:
    """The switches in which two lines differ, as far as both are followed."""
    found = differences(PROFILES[a], PROFILES[b])
    return [s for s in found if None not in (value(a, s), value(b, s))]


def value(line: str, switch: str) -> bool | None:
    """A switch's value in a line; None where the line is not followed in what it decides about."""
    example, semantics = EXAMPLES[switch], PROFILES[line]
    if example.feature is not None:
        if example.feature not in extent(ALL_FEATURES, semantics):
            return None
        if not _is_followed(example.scenario, semantics):
            return None
    return switches(semantics)[switch]


@cache
def _is_followed(scenario: str, semantics: Semantics) -> bool:
    """Whether a line is followed in what an example uses together."""
    try:
        check_followed(load(VECTORS / f"{scenario}.json").config, semantics)
    except OutOfScope:
        return False
    return True


def markdown() -> str:
    """The page."""
    names = list(PROFILES)
    rows = [
        "| switch | " + " | ".join(names) + " |",
        "|---|" + "---|" * len(names),
        *(
            f"| [{s}](#{s}) | " + " | ".join(_said(value(n, s)) for n in names) + " |"
            for s in EXAMPLES
        ),
    ]
    counted = ", ".join(
        f"{len(between(a, b))} between {a} and {b}"
        for i, a in enumerate(names)
        for b in names[i + 1 :]
    )
    return (
        INTRODUCTION
        + "\n".join(rows)
        + f"\n\nDifferences: {counted}.\n"
        + "".join(map(_section, EXAMPLES))
    )


def _section(switch: str) -> str:
    """One switch."""
    example = EXAMPLES[switch]
    values = "; ".join(f"{n}: {_said(value(n, switch))}" for n in PROFILES)
    shown = [n for n in RELEASES if value(n, switch) is not None][-1]
    return (
        f"\n## {switch}\n\n{' '.join(meaning(switch).split())}\n\n"
        f"* Values: {values}.\n"
        f"* In vLLM: {example.upstream}.\n"
        f"* Normative, because: {example.why}\n"
        f"* Shown by [{example.scenario}](../vectors/{example.scenario}.json):"
        f" `nullblock run --profile {shown} conformance/vectors/{example.scenario}.json`\n"
    )


def _said(value: bool | None) -> str:
    return {True: "yes", False: "no", None: "not followed"}[value]
