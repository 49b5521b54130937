"""Defects planted in the kernels of batch, cache and sampling are noticed by their tests."""

from pathlib import Path

import pytest
import triton
from defects import DEFECTS, Defect, planted, run

from nullblock.kernels.checks import checked
from nullblock.kernels.checks.shipped import allowed

pytestmark = pytest.mark.skipif(
    not triton.knobs.runtime.interpret, reason="defects are planted in the interpreter"
)
BARRIERS = {defect.name for defect in DEFECTS if "debug_barrier" in defect.old}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.name)
def test_a_defect_is_noticed(defect: Defect, tmp_path: Path) -> None:
    """With the defect its test fails; a barrier that is missing is noticed by the check alone."""
    with planted(defect, tmp_path):
        if defect.name in BARRIERS:
            run(defect)
        with pytest.raises(AssertionError), checked(allow=allowed()):
            run(defect)
