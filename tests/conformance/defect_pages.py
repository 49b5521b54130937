"""Reads the pages about defects: their sections, and the lines of engines that they show."""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SECTIONS = (
    "What happens",
    "Scenario",
    "Actual and expected",
    "Cause",
    "Consequence",
    "0.32.0",
    "Remedy",
    "Normative",
    "Reports",
)
"""What a page says, in this order."""
_BLOCK = re.compile(r"^```json (?P<of>\S+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_FUNCTION = re.compile(r"`([A-Z]\w+)\.(\w+)`")


@dataclass(frozen=True, slots=True)
class Page:
    """A page, taken apart."""

    text: str

    @classmethod
    def read(cls, path: Path) -> "Page":
        """The page of that file."""
        return cls(path.read_text())

    @property
    def headings(self) -> list[str]:
        """Of its sections."""
        return [line[3:] for line in self.text.splitlines() if line.startswith("## ")]

    def section(self, heading: str) -> str:
        """The text below a heading."""
        return self.text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]

    def blocks(self, of: str) -> list[list[dict[str, Any]]]:
        """The parts of lines that it shows of an engine, a block after the other."""
        found = (match for match in _BLOCK.finditer(self.text) if match["of"] == of)
        return [[json.loads(line) for line in match["text"].splitlines()] for match in found]

    def scenarios(self) -> list[Any]:
        """The scenarios that it shows."""
        return [json.loads(m["text"]) for m in _BLOCK.finditer(self.text) if m["of"] == "scenario"]

    def kinds(self) -> set[str]:
        """What its blocks show."""
        return {match["of"] for match in _BLOCK.finditer(self.text)}

    def functions(self) -> list[tuple[str, str]]:
        """The methods of vLLM that it names: class and name."""
        return [(match[1], match[2]) for match in _FUNCTION.finditer(self.section("Cause"))]
