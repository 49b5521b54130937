"""What shows a statement: which engine would have refuted it, and how strongly.

Words: *proved* is unbounded; *exhaustive to scope S* is every reachable state of a bounded scope;
*not refuted* is everything random. Nothing weaker is called proved.
"""

from nullblock.spec.catalogue import Statement
from nullblock.spec.explorer.scopes import STANDARD
from nullblock.spec.liveness.proof import SHOWN_BY as RANKING
from nullblock.spec.liveness.scopes import CONTENDED
from nullblock.spec.prover.claims import proved_invariants, proved_rules
from nullblock.spec.theorems import THEOREMS, linked_list

RELEASED = frozenset({"ENC-13", "ENC-40", "ENC-54", "REMOTE-25", "REMOTE-34", "REMOTE-36"})
RELEASED |= {"PREEMPT-8", "REMOTE-54", "REMOTE-44", "WAIT-54", "WAIT-55", "GROUP-67", "GROUP-71"}
"""Rules that only a released line has: no scope of the normative profile comes to them."""


def evidence(s: Statement) -> list[str]:
    """One line an engine."""
    scopes = ", ".join(STANDARD)
    lockstep = "lockstep fuzzing beside the real vLLM and the reference: not refuted (make fuzz)"
    name = s.definition.rpartition(".")[2]
    if s.id.startswith("EVENT-"):
        return ["streams of the real vLLM, and of a model cache (tests/conformance): not refuted"]
    match s.kind:
        case "invariant":
            lines = [f"explorer: exhaustive to scopes {scopes} (nullblock explore)"]
            if s.id in proved_invariants():
                lines.insert(
                    0,
                    "Z3: proved, for any number of blocks, requests and tokens (nullblock prove)",
                )
            elif s.id in THEOREMS:
                lines.insert(0, _theorem(s.id))
            return lines
        case "theorem":
            return [_theorem(s.id)]
        case "liveness" if s.id in RANKING:
            size = "for any number of blocks, requests, tokens and steps in flight"
            return [f"Z3: proved, {size} (nullblock explore --liveness --ranking)"]
        case "liveness":
            where = ", ".join((*CONTENDED, *STANDARD))
            return [f"cycles: exhaustive to scopes {where} (nullblock explore --liveness)"]
        case "rule":
            lines = [lockstep]
            if s.id not in RELEASED:
                searched = f"explorer: its guards and effects, exhaustive to scopes {scopes}"
                lines.insert(0, searched)
            if name in proved_rules():
                lines.insert(0, f"Z3: proved to keep every invariant (nullblock prove {name})")
            return lines
        case _:
            return [lockstep]


def _theorem(id: str) -> str:
    """What shows a theorem: `spec/THEOREMS.md` says what its proof rests on."""
    engine = linked_list.ENGINE if id == linked_list.ID else THEOREMS[id].engine
    how, _, more = engine.partition(", ")
    shown = f"Z3: proved, {more}" if how == "Z3" else f"{engine}: exhaustive to it"
    return f"{shown} (spec/theorems)"
