"""Where the tests of this folder run kernels."""

import os

COMPILED = os.environ.get("TRITON_INTERPRET") == "0"
"""Whether the tests were asked to compile kernels, which takes a GPU."""
KERNELS_ON = "cuda" if COMPILED else "interpreter"
