"""The JSON Schema of a trace's lines, generated from the types that decode them."""

import json
from inspect import cleandoc
from pathlib import Path
from typing import Any

import msgspec

from nullblock.conformance.trace.deltas import Delta
from nullblock.conformance.trace.records import FORMAT, VERSION, Record

PATH = Path(__file__).with_name("trace.schema.json")
"""The committed copy; ``nullblock schema -o`` writes it anew."""


def schema() -> dict[str, Any]:
    """One line of a trace, draft 2020-12. What relates records to one another is in FORMAT.md."""
    generated = _flush_left(msgspec.json.schema(Record | Delta))
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"A line of a {FORMAT} {VERSION}",
        **generated,
    }


def _flush_left(node: Any) -> Any:
    """The same with descriptions that begin each line at its start, as later releases of msgspec
    give them; earlier ones leave the indentation of docstrings.
    """
    if isinstance(node, list):
        return [_flush_left(member) for member in node]
    if not isinstance(node, dict):
        return node
    found = {name: _flush_left(member) for name, member in node.items()}
    if isinstance(found.get("description"), str):
        found["description"] = cleandoc(found["description"])
    return found


def text() -> str:
    """The schema as the committed file has it."""
    return json.dumps(schema(), indent=2) + "\n"
