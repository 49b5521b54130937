"""Theorems: what follows from the invariants, for any number of blocks, requests and tokens.

    from nullblock.spec.theorems import THEOREMS
    THEOREMS["THEOREM-1"].check()

Those about the code of an engine are in `nullblock.conformance.adapters.proofs`: the specification
imports no engine.
"""

from nullblock.spec.prover.report import Checked
from nullblock.spec.theorems import chain as chain
from nullblock.spec.theorems import conjecture as conjecture
from nullblock.spec.theorems import content as content
from nullblock.spec.theorems import linked_list as linked_list
from nullblock.spec.theorems import outputs as outputs
from nullblock.spec.theorems import pool as pool
from nullblock.spec.theorems import progress as progress
from nullblock.spec.theorems import schedule as schedule
from nullblock.spec.theorems import sliding_window as sliding_window
from nullblock.spec.theorems.theorem import THEOREMS, Theorem

__all__ = ["THEOREMS", "Checked", "Theorem"]
