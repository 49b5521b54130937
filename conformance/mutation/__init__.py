"""Mutants of the specification before the engines that run it: lockstep beside the reference, and
recorded traces. The explorer and the prover are asked in `nullblock.spec.mutation`.
"""
