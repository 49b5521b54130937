"""Scenarios of Mamba layers that keep a state within a step, as only the later line has them."""

import random
from copy import deepcopy
from typing import Any

from fuzz.groups import MAMBA, first_built, with_mamba
from fuzz.waits import beside_models, with_kinds

from nullblock.conformance.engine import Feature

NEEDS = MAMBA - {Feature.sinks}


def with_inner(key: str, size: int, features: frozenset[Feature]) -> dict[str, Any]:
    """The scenario of that key: prompts of several blocks, beside Mamba layers in the mode align
    that keep such states; now and then one group of them keeps none. Some have a connector, or
    sessions.
    """

    def draw(attempt: str) -> dict[str, Any]:
        r = random.Random(f"inner {attempt}")
        made = r.choice((with_mamba, with_mamba, with_mamba, with_kinds, beside_models))
        scenario = deepcopy(made(attempt, size, features))
        config = scenario["config"]
        if not any(group["type"] == "mamba" for group in config.get("groups", ())):
            scenario = deepcopy(with_mamba(attempt, size, features))
            config = scenario["config"]
        config["enable_prefix_caching"] = True
        if config.get("spec_method") == "eagle":
            config["spec_method"] = "draft_model"
        alignment = r.choice((1, 1, 1, 2, config["block_size"], 2 * config["block_size"]))
        for group in config["groups"]:
            if group["type"] == "mamba":
                group["mamba_cache_mode"] = "align"
                group["prefill_checkpoint_alignment"] = alignment if r.random() < 0.95 else 0
        config["max_num_batched_tokens"] = max(
            config["max_num_batched_tokens"], r.choice((2, 3, 4, 6)) * config["block_size"]
        )
        return scenario

    return first_built(key, draw, features)
