"""Triton kernels, each with a torch twin. Not built yet."""
