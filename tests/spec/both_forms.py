"""What a search finds in its two forms, readable and compiled, and what the ledger has of it."""

from dataclasses import fields
from functools import cache
from typing import Any

import pytest

from nullblock.conformance.ledger import evidence
from nullblock.spec.compiled import build
from nullblock.spec.explorer.result import Result


def has_compiler() -> str:
    """Why there is nothing to compile with, if so."""
    try:
        build.compiler()
    except build.NoCompiler as e:
        return str(e)
    return ""


needs_compiler = pytest.mark.skipif(bool(has_compiler()), reason=has_compiler())


def differences(a: Result, b: Result) -> list[str]:
    """In what two results differ, but for the time they took."""
    names = [f.name for f in fields(Result) if f.name != "seconds"]
    return [name for name in names if getattr(a, name) != getattr(b, name)]


@cache
def recorded(source: str) -> dict[str, Any]:
    """By name: what the ledger records of each scope (``scopes``), or departure."""
    record = evidence.record(source, evidence.load().sources[source])
    return {one.name: one for one in getattr(record, source)}
