"""The scheduler's control plane on a device: its state, and the kernels that change it.

Every kernel here is one program, wide: there is nothing for programs to race about, and whatever
happens in a step happens in the order that the specification gives. `state.py` is the layout;
`ring.py`, `index.py`, `keys.py` and `runs.py` hold the device functions that kernels share; every
other file is a kernel with its wrapper and its twin.
"""
