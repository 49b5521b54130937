"""The fast engine: vLLM's decisions over structures of arrays.

    from nullblock.impl import Scheduler, update_from_output

One full-attention group, synchronous, one step in flight. Needs NumPy (`pip install nullblock[impl]`).
"""
