"""Defects planted in the kernels of batch, cache and sampling are noticed by their tests."""

from pathlib import Path

import pytest
import triton
from defect_page import LISTS, PAGE, page, rows_of
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


def test_the_page_lists_every_defect() -> None:
    """kernels/DEFECTS.md is what the lists say, of every package of kernels."""
    assert PAGE.read_text() == page(), "python tests/kernels/checks/defect_page.py --write"
    assert all(any(rows_of(file)) for files in LISTS.values() for file in files)
