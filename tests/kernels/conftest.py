"""Shared by the tests of kernels.

A test, a class or a file whose kernels shall be looked at for what the interpreter hides says

    pytestmark = pytest.mark.usefixtures("checked_kernels")

or takes the fixture, which is the report.
"""

from collections.abc import Iterator

import pytest

from nullblock.kernels.checks import Report, checked


@pytest.fixture
def checked_kernels() -> Iterator[Report]:
    """Every kernel that the test launches is under check; the test fails on any finding."""
    with checked() as report:
        yield report
