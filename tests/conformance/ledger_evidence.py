"""The recorded evidence, and the same with lies in it."""

from collections.abc import Callable
from typing import Any

import msgspec

from nullblock.conformance.ledger.digest import digest
from nullblock.conformance.ledger.evidence import Evidence, Kept, load
from nullblock.conformance.ledger.judge import judge
from nullblock.conformance.ledger.registry import SOURCES

Lie = Callable[[dict[str, Any]], None]
"""Alters the records of the sources."""
RECORDED = load()


def altered(lie: Lie) -> Evidence:
    """The evidence with a lie in it, as if it were of the present text."""
    records = {name: msgspec.json.decode(k.record) for name, k in RECORDED.sources.items()}
    lie(records)
    kept = {
        name: Kept(digest(SOURCES[name].files), msgspec.Raw(msgspec.json.encode(found)))
        for name, found in records.items()
    }
    return Evidence("nullblock-ledger", 1, kept)


LEDGER = judge(altered(lambda records: None))
"""What is recorded, were it current: whether it is, one test says."""
