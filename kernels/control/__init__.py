"""The scheduler's control plane on a device: its state, and the kernels that change it.

`state.py` is the layout; `ring.py`, `cache.py`, `keys.py`, `runs.py`, `queues.py` hold the device
functions that kernels share; nearly every other file is a kernel with its wrapper and its twin.
README.md beside this file says which rule is where, and why the kernels keep the order of rules
that speak of one request after another.
"""
