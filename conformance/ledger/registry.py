"""Every source of evidence, in the order of the ledger."""

from typing import Any

from nullblock.conformance.ledger.sources import (
    crosshair,
    departures,
    fuzz,
    liveness,
    mutants,
    proofs,
    ranking,
    scopes,
    streams,
    systematic,
    theorems,
    traces,
)
from nullblock.conformance.ledger.sources.base import Source

_ALWAYS: tuple[Source[Any], ...] = (
    proofs.SOURCE,
    liveness.SOURCE,
    ranking.SOURCE,
    *([theorems.SOURCE] if theorems.there() else []),
    scopes.SOURCE,
    departures.SOURCE,
    traces.SOURCE,
    streams.SOURCE,
    fuzz.SOURCE,
    mutants.SOURCE,
    systematic.SOURCE,
    crosshair.SOURCE,
)
SOURCES: dict[str, Source[Any]] = {source.name: source for source in _ALWAYS}
