"""A pytest plugin: every test runs under check, and what its barriers order is written down.

For `barriers.py`, which runs the tests of the kernels with it.
"""

import json
import os
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from unittest.mock import patch

import pytest

from nullblock.kernels.checks import watched
from nullblock.kernels.checks.findings import Finding, Site
from nullblock.kernels.checks.shipped import allowed

FILE = "NULLBLOCK_BARRIERS"
"""Names the file that a line is added to after every test."""
NARROW = "NULLBLOCK_NARROW"
"""Set: lanes of blocks narrower than their programs are what they are on a device."""


@pytest.fixture(autouse=True)
def barriers_are_noted() -> Iterator[None]:
    """Notes the barriers that a test's kernels pass; findings are for the tests themselves, which
    are not checked a second time."""
    with (
        patch("nullblock.kernels.checks.checked", lambda **options: nullcontext()),
        watched(allow=allowed(), narrow=NARROW in os.environ) as report,
    ):
        yield
    line = {
        "needed": [[*_place(s), told(f)] for s, f in report.barriers.items() if f is not None],
        "passed": [_place(site) for site in report.barriers],
        "shared": [_place(site) for site in report.shared],
    }
    with Path(os.environ[FILE]).open("a") as out:
        out.write(json.dumps(line) + "\n")


def _place(site: Site) -> tuple[str, int]:
    return site.file, site.line


def told(finding: Finding) -> str:
    """What a barrier orders, in one line."""
    first, second = finding.accesses
    tensor = finding.tensor.removeprefix("a.")
    return f"{tensor}: {first.action} in {_in(first.site)}, {second.action} in {_in(second.site)}"


def _in(site: Site) -> str:
    return f"`{site.function}`"
