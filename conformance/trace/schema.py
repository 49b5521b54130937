"""The JSON Schema of a trace's lines, generated from the types that decode them."""

import json
from pathlib import Path
from typing import Any

import msgspec

from nullblock.conformance.trace.deltas import Delta
from nullblock.conformance.trace.records import FORMAT, VERSION, Record

PATH = Path(__file__).with_name("trace.schema.json")
"""The committed copy; ``nullblock schema -o`` writes it anew."""


def schema() -> dict[str, Any]:
    """One line of a trace, draft 2020-12. What relates records to one another is in FORMAT.md."""
    generated = msgspec.json.schema(Record | Delta)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"A line of a {FORMAT} {VERSION}",
        **generated,
    }


def text() -> str:
    """The schema as the committed file has it."""
    return json.dumps(schema(), indent=2) + "\n"
