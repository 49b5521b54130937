"""Every source of evidence, in the order of the ledger."""

from typing import Any

from nullblock.conformance.ledger.sources import (
    departures,
    fuzz,
    liveness,
    mutants,
    proofs,
    ranking,
    scopes,
    streams,
    systematic,
    traces,
)
from nullblock.conformance.ledger.sources.base import Source

SOURCES: dict[str, Source[Any]] = {
    source.name: source
    for source in (
        proofs.SOURCE,
        liveness.SOURCE,
        ranking.SOURCE,
        scopes.SOURCE,
        departures.SOURCE,
        traces.SOURCE,
        streams.SOURCE,
        fuzz.SOURCE,
        mutants.SOURCE,
        systematic.SOURCE,
    )
}
