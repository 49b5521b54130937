"""Proofs of where kernels read and write: in bounds, never two at one place, in how many bits.

What is proved about is the very text that the kernels are compiled from (`kernels/index.py`), run
on symbols. What the proofs rest on are invariants of the specification, by their IDs. They hold
for all sizes: any number of blocks, any block size, any strides.
"""
