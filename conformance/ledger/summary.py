"""What a ledger comes to, in a few sentences."""

from collections.abc import Iterator

from nullblock.conformance.ledger.judge import Ledger
from nullblock.conformance.ledger.words import Word, counted


def sentences(ledger: Ledger) -> Iterator[str]:
    """The most important first."""
    if ledger.shortfalls:
        yield not_shown(ledger) + "."
    found = ledger.records
    whole = len(ledger.group("invariant"))
    if "proofs" in found:
        obligations = found["proofs"].obligations
        if "theorems" in found:
            obligations += found["theorems"].obligations
        yield (
            f"{ledger.count(Word.PROVED, 'invariant')} of {whole} invariants are proved for any "
            f"number of blocks, requests and tokens: {counted(obligations, 'obligation')}."
        )
    if theorems := ledger.group("theorem"):
        yield (
            f"{ledger.count(Word.PROVED, 'theorem')} of {len(theorems)} theorems are proved for "
            "any size."
        )
    if "scopes" in found:
        yield (
            f"{ledger.count(Word.EXHAUSTIVE, 'invariant')} of {whole} hold in every one of "
            f"{counted(found['scopes'].states, 'state')} of "
            f"{counted(len(found['scopes'].scopes), 'scope')}."
        )
    if "liveness" in found:
        hold, proved = (ledger.count(w, "liveness") for w in (Word.EXHAUSTIVE, Word.PROVED))
        yield (
            f"{hold} of {len(ledger.group('liveness'))} statements about progress hold on every "
            f"fair path of {counted(len(found['liveness'].scopes), 'scope')}, {proved} are proved "
            "for any size."
        )
    if "departures" in found:
        borne_out = [d for d in found["departures"].departures if not d.wrong]
        yield f"{len(borne_out)} departures of vLLM 0.22.1 were found again from the rules."
    if "mutants" in found:
        noticed = [m for m in found["mutants"].mutants if m.noticed]
        yield f"{len(noticed)} of {len(found['mutants'].mutants)} planted defects were noticed."
    if "systematic" in found:
        s = found["systematic"]
        left = s.mutants - s.noticed
        of = ", in an earlier text" if "systematic" in ledger.stale else ""
        yield (
            f"{s.noticed:,} of {s.mutants:,} mutants that were generated from the text were "
            f"noticed{of}; {s.explained:,} of the other {left:,} are explained."
        )
    if "traces" in found:
        conform = [t for t in found["traces"].traces if t.verdict == "CONFORMS"]
        yield (
            f"{len(conform)} of {len(found['traces'].traces)} recorded runs of the real vLLM "
            f"0.22.1 conform: {counted(found['traces'].steps, 'step')}."
        )
    if "lockstep" in found:
        yield (
            f"{counted(found['lockstep'].steps, 'random step')} beside the real vLLM 0.22.1: "
            f"{counted(found['lockstep'].differences, 'difference')}."
        )


def not_shown(ledger: Ledger) -> str:
    """How much of what is claimed is not shown."""
    number = len(ledger.shortfalls)
    return counted(number, "claim") + (" is" if number == 1 else " are") + " not shown"
