"""Shared by the tests of kernels: where they run.

pytest tests/kernels                            everywhere, in Triton's interpreter
TRITON_INTERPRET=0 pytest tests/kernels         compiled, on the GPU that is there
"""

import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'nullblock[gpu]'")
triton = pytest.importorskip("triton", reason="triton is not installed")

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session")
def device() -> "torch.device":
    """Where the tensors lie: on a GPU if kernels are compiled, else in main memory."""
    if triton.knobs.runtime.interpret:
        return torch.device("cpu")
    if not torch.cuda.is_available():
        pytest.skip("TRITON_INTERPRET=0 compiles kernels, and there is no GPU to run them")
    return torch.device("cuda")
