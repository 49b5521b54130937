"""Triton kernels, each with a torch twin that says what it computes. `README.md` is the guide."""
