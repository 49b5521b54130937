"""What features do beside each other: spec, reference and the real vLLM 0.22.1 on random scenarios
that are drawn for it, and spec beside reference on what ought to be.
"""

import subprocess
import sys

import pytest
from fuzz import bulk
from oracle.client import Oracle

SEED, STEPS = "3", "1000"
CASES = {
    "drafts-grammars": (
        "a grammar waits for tokens in flight",
        "filled in, padded",
        "finish: error",
        "a stop among the accepted",
        "drafts for one that waits",
    ),
    "sessions-items": (
        "computed",
        "at hand: cached",
        "evicted",
        "new with computed tokens",
        "WAITING_FOR_STREAMING_REQ to WAITING",
    ),
    "sessions-remote": (
        "stopped and not ended",
        "WAITING_FOR_STREAMING_REQ to WAITING",
        "WAITING_FOR_REMOTE_KVS to RUNNING",
        "blocks kept after the end",
    ),
    "sessions-priority": (
        "stopped and not ended",
        "RUNNING to WAITING_FOR_STREAMING_REQ",
        "WAITING_FOR_STREAMING_REQ to WAITING",
        "computed tokens taken back while running",
    ),
}
"""By family, what its scenarios have to meet."""
WHOLE = frozenset({"drafts-grammars"})
"""Families in which nothing is refused."""


def run(family: str, *more: str) -> str:
    """What a run of a family prints. Fails where engines differ."""
    command = [sys.executable, bulk.__file__, "--family", family, "--seed", SEED, *more]
    engines = ("--engine", "spec", "--engine", "reference", "--size", "16")
    done = subprocess.run([*command, *engines], stdout=subprocess.PIPE, text=True)
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.mark.oracle
@pytest.mark.slow
@pytest.mark.parametrize("family", CASES)
def test_random_scenarios_agree_and_reach_what_they_are_for(oracle: Oracle, family: str) -> None:
    """No difference, nothing refused where that is said, and each of the cases is met."""
    told = run(family, "--steps", STEPS)
    assert family not in WHOLE or " 0 refused," in told
    assert [what for what in CASES[family] if f" %  {what}\n" not in told] == []


@pytest.mark.slow
@pytest.mark.parametrize("family", CASES)
def test_spec_and_reference_agree_on_what_ought_to_be(family: str) -> None:
    """No difference under normative."""
    told = run(family, "--steps", STEPS, "--profile", "normative")
    assert family not in WHOLE or " 0 refused," in told
