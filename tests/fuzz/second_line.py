"""Scenarios for the later line: those of a seed, with what only that line looks at.

A watermark; a threshold beside a prompt that is long and alone; budgets of both kinds; tokens that
a pipeline paces; and preemptions and resets with several steps in flight, which the generator has
already.
"""

import random
from typing import Any

from nullblock.conformance.engine import CORE_FEATURES
from nullblock.conformance.lockstep.generator import seeded

Scenario = dict[str, Any]


def made(seed: str, size: int = 30) -> Scenario:
    """The scenario of a seed."""
    document = seeded(seed, size, CORE_FEATURES)
    dice = random.Random(f"second line {seed}")
    config = document["config"]
    if dice.random() < 0.4:
        config["watermark"] = dice.choice((0.05, 0.1, 0.2, 0.34, 0.5, 1.0))
    if dice.random() < 0.2:
        config["max_num_scheduled_tokens"] = dice.choice((0, 1, 3, 9, 30, 100))
    if dice.random() < 0.3:
        config["long_prefill_token_threshold"] = dice.choice((1, 2, 5, 11))
    return paced(document, dice) if dice.random() < 0.25 else document


def paced(document: Scenario, dice: random.Random) -> Scenario:
    """The scenario with the second model runner, scheduled ahead beside a pipeline."""
    stages = dice.choice((2, 2, 3, 3, 4))
    config = {
        **document["config"],
        **{"use_v2_model_runner": True, "async_scheduling": True},
        "pipeline_parallel_size": stages,
    }
    if dice.random() < 0.7:
        config["queue_depth"] = stages + 1
    return {**document, "config": config}
