"""What features do beside each other: spec, reference and the real vLLM 0.22.1 on random scenarios
that are drawn for it, and spec beside reference on what ought to be.
"""

import subprocess
import sys

import pytest
from fuzz import bulk
from fuzz.lockstep import difference, lines_of
from fuzz.repetition import MUST_REACH
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
    "repetition": MUST_REACH,
    "models-waits": (
        "mamba: WAITING to WAITING_FOR_REMOTE_KVS",
        "mamba: RUNNING to WAITING_FOR_STREAMING_REQ",
        "sliding_window: blocks kept after the end",
        "chunked_local: WAITING_FOR_REMOTE_KVS to RUNNING",
        "cross_attention: stopped and not ended",
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


TAKEN_BACK = {
    "config": {
        "max_model_len": 1,
        "async_scheduling": True,
        "queue_depth": 4,
        "connector": {"matched": {"a": 0}, "async": True},
    },
    "events": [
        {"op": "schedule"},
        {"op": "add", "id": "a", "prompt": [2], "max_tokens": 2, "resumable": True},
        {"op": "step"},
        {"op": "step"},
        {"op": "kv_match", "matched": {"a": 99}},
        {"op": "step"},
        {"op": "step"},
        {"op": "add", "id": "a", "prompt": [3], "max_tokens": 1, "resumable": True},
        {"op": "step"},
    ],
}
"""At max_model_len vLLM 0.22.1 schedules a token less than none, and takes the only one back; the
session waits with its block, and asks the remote side.
"""


@pytest.mark.oracle
def test_nothing_is_loaded_into_a_block_of_which_nothing_is_computed(oracle: Oracle) -> None:
    """vLLM raises at such a load, and both engines where it does."""
    real = oracle.lines(TAKEN_BACK)
    assert any('"ev":"EXCEPTION"' in line for line in real)
    for engine in ("spec", "reference"):
        assert difference(real, lines_of(engine, TAKEN_BACK), bytewise=False) == ""
