"""Every source of evidence, in the order of the ledger."""

from typing import Any

from nullblock.conformance.ledger.sources import (
    departures,
    fuzz,
    liveness,
    mutants,
    proofs,
    scopes,
    streams,
    traces,
)
from nullblock.conformance.ledger.sources.base import Source

SOURCES: dict[str, Source[Any]] = {
    source.name: source
    for source in (
        proofs.SOURCE,
        liveness.SOURCE,
        scopes.SOURCE,
        departures.SOURCE,
        traces.SOURCE,
        streams.SOURCE,
        fuzz.SOURCE,
        mutants.SOURCE,
    )
}
