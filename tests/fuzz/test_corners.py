"""Settings that hardly anybody uses: spec and reference beside both releases."""

from collections import Counter
from typing import Any

import pytest
from fuzz.corners import reached
from fuzz.families import FAMILIES
from fuzz.lockstep import ENGINES, Outcome, features, run
from oracle.client import Oracle

from nullblock.conformance.lines.extent import extent
from nullblock.spec.profiles import PROFILES

MUST_REACH = {
    "block_size 1",
    "max_num_seqs 1",
    "budget 1",
    "three steps in flight",
    "a preemption",
    "a prompt beyond the limit admitted",
    "an abort with steps in flight",
    "a reset with steps in flight",
}
SCENARIOS = 24


def drawn(release: str, number: int) -> dict[str, Any]:
    """A scenario of what our engines follow a release in."""
    followed = extent(features(ENGINES), PROFILES[f"vllm-{release}"])
    return FAMILIES["corners"].make(f"corners:{number}", 14, followed)


@pytest.mark.oracle
@pytest.mark.parametrize("release", ["0.22.1", "0.32.0"])
def test_no_corner_shows_a_difference(release: str, oracle: Oracle, oracle_0_32: Oracle) -> None:
    """Decision for decision; most run to their end, and they reach what they are for."""
    real = {"0.22.1": oracle, "0.32.0": oracle_0_32}[release]
    counts: Counter[str] = Counter()
    for number in range(SCENARIOS):
        document = drawn(release, number)
        outcome: Outcome = run(document, ENGINES, real, PROFILES[f"vllm-{release}"])
        assert not outcome.differences, (document, outcome.differences)
        counts.update(reached(document, outcome.lines) if not outcome.refused else {"refused"})
    assert MUST_REACH - counts.keys() == set()
    assert counts["an exception"] + counts["refused"] < SCENARIOS / 2
