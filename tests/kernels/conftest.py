"""Shared by the tests of kernels: where they run, and what is looked for while they do.

pytest tests/kernels                            everywhere, in Triton's interpreter
TRITON_INTERPRET=0 pytest tests/kernels         compiled, on the GPU that is there

A test, a class or a file whose kernels shall be looked at for what the interpreter hides says
``pytest.mark.usefixtures("checked_kernels")``, or takes the fixture, which is the report.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'nullblock[gpu]'")
triton = pytest.importorskip("triton", reason="triton is not installed")

sys.path.insert(0, str(Path(__file__).parent))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Compiled, only those tests run that take `device`, and so put their tensors on the GPU."""
    if triton.knobs.runtime.interpret:
        return
    here = Path(__file__).parent
    reason = "runs in the interpreter only: it does not say where its tensors are"
    for item in items:
        if here in item.path.parents and "device" not in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def device() -> "torch.device":
    """Where the tensors lie: on a GPU if kernels are compiled, else in main memory."""
    if triton.knobs.runtime.interpret:
        return torch.device("cpu")
    if not torch.cuda.is_available():
        pytest.skip("TRITON_INTERPRET=0 compiles kernels, and there is no GPU to run them")
    return torch.device("cuda")


@pytest.fixture
def checked_kernels() -> Iterator[Any]:
    """Every kernel that the test launches is under check; the test fails on any finding."""
    from nullblock.kernels.checks import checked
    from nullblock.kernels.checks.shipped import allowed

    with checked(allow=allowed()) as report:
        yield report
