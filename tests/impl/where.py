"""Where the tests of the engine run kernels."""

import os

COMPILED = os.environ.get("TRITON_INTERPRET") == "0"
"""Whether the tests were asked to compile kernels, which takes a GPU."""
KERNELS_ON = "cuda" if COMPILED else "interpreter"
"""The device of an engine, as it is called."""
TENSORS_ON = "cuda" if COMPILED else "cpu"
"""Where tensors lie that kernels work on."""
