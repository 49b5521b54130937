"""The rules on finite instances, for a solver: a few requests and blocks, small numbers.

Where the unbounded prover leaves an obligation open, an instance may hold a counterexample: a
state that satisfies every invariant, and a step from it after which one does not hold. What is
found is performed by the concrete rule before anybody is told of it, so nothing rests on this
encoding but that something is found.
"""
