"""Shared by all tests: the real engine, and how loudly its absence is announced.

A test that compares with the real engine takes the fixture ``oracle`` and the marker ``oracle``.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

# Kernels are interpreted; where there is a GPU, TRITON_INTERPRET=0 compiles them. Triton reads
# this when it is imported, so it is said before anything is.
os.environ.setdefault("TRITON_INTERPRET", "1")

# What Hypothesis tries follows from the test alone, and a busy machine is no failure: a run that
# fails fails again. New ground is for `make fuzz` to break.
with suppress(ImportError):  # kernels are tested where there is no Hypothesis, too
    from hypothesis import settings

    settings.register_profile("repeatable", derandomize=True, deadline=None, database=None)
    settings.load_profile("repeatable")

# Support modules are imported by the folder they live in: `from oracle.client import Oracle`.
sys.path.insert(0, str(Path(__file__).parent))

from collecting import collect  # noqa: E402  (only found from here on)
from oracle.client import Oracle  # noqa: E402
from oracle.install import (  # noqa: E402
    FIRST,
    SECOND,
    UNREACHABLE,
    InstallError,
    Release,
    ensure,
)

MISSING = "the real vLLM is not installed"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Iterator[None]:
    """A test leaves its garbage to this thread."""
    try:
        return (yield)
    finally:
        collect()


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--rewrite``: record the expectations that come from the real engine anew."""
    text = "record golden files anew from the real engine; commit only what you can explain"
    parser.addoption("--rewrite", action="store_true", help=text)


@pytest.fixture(scope="session")
def oracle_python() -> Path:
    """The interpreter that has the real vLLM 0.22.1; installs it where it is missing."""
    return _python(FIRST)


def _python(release: Release) -> Path:
    """The interpreter that has a release.

    Only a registry that cannot be reached is a reason to skip, and not in CI.
    """
    try:
        return ensure(release=release)
    except InstallError as error:
        reason, may_skip = f"{MISSING}: {error}", error.status == UNREACHABLE
    if not may_skip or os.environ.get("CI") == "true":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def oracle(oracle_python: Path) -> Iterator[Oracle]:
    """The real engine, ready to run scenarios."""
    with Oracle(oracle_python) as server:
        yield server


@pytest.fixture(scope="session")
def oracle_0_32_python() -> Path:
    """The interpreter that has vLLM 0.32.0, the later line; installs it where it is missing."""
    return _python(SECOND)


@pytest.fixture(scope="session")
def pythons(oracle_python: Path, oracle_0_32_python: Path) -> dict[str, Path]:
    """Both, by the line that each is the real engine of."""
    return {"vllm-0.22.1": oracle_python, "vllm-0.32.0": oracle_0_32_python}


@pytest.fixture(scope="session")
def oracle_0_32(oracle_0_32_python: Path) -> Iterator[Oracle]:
    """The real engine of the later line, ready to run scenarios."""
    with Oracle(oracle_0_32_python) as server:
        yield server


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say at the end of a run that nothing was compared with the real engine."""
    skipped = terminalreporter.stats.get("skipped", [])
    if any(MISSING in str(report.longrepr) for report in skipped):
        terminalreporter.section("NOT COMPARED WITH THE REAL ENGINE", red=True, bold=True)
        terminalreporter.line("Its package registry cannot be reached; CI=true makes this fail.")
