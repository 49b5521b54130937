"""Gives random scenarios context parallelism: blocks that are divided among ranks."""

import random
from typing import Any

from nullblock.conformance.engine import Feature

Scenario = dict[str, Any]

RANKS = {
    "decode_context_parallel_size": Feature.decode_ranks,
    "prefill_context_parallel_size": Feature.prefill_ranks,
}
"""The keys of a configuration, each with what an engine has to do."""
OFTEN = 0.3
"""How many of the scenarios get some."""


def with_ranks(
    key: str, scenario: Scenario, features: frozenset[Feature], often: float = OFTEN
) -> Scenario:
    """A scenario of one group of full attention, perhaps with ranks, as far as engines do those.

    A block of all ranks mostly holds as much as one did before, so that the pool is as crowded.
    """
    r = random.Random(f"ranks {key}")
    names = [name for name, feature in RANKS.items() if feature in features]
    if r.random() >= often or not names:
        return scenario
    config = scenario["config"]
    for size in r.sample(names, r.randint(1, len(names))):
        divisors = [n for n in (2, 3, 4) if config["block_size"] % n == 0]
        config[size] = r.choice(divisors or (2, 3))
        config["block_size"] //= config[size] if divisors else 1
    return scenario


def reached(scenario: Scenario) -> set[str]:
    """Which of them a scenario has."""
    return {name for name in RANKS if scenario["config"].get(name, 1) > 1}
