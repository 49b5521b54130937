"""The configuration of a random scenario: a small engine whose sizes meet one another."""

from typing import Any

from nullblock.conformance.engine import Feature
from nullblock.conformance.lockstep.choices import Choices

Config = dict[str, Any]
Features = frozenset[Feature]
NONE: Features = frozenset()


def make_config(ask: Choices, mood: str, features: Features, wanted: Features = NONE) -> Config:
    """A configuration in a mood.

    Args:
        features: what may be asked for.
        wanted: what has to be, as far as a configuration can say it.
    """
    block_size = ask.pick((4, 2, 1, 3, 2, 4, 8, 5, 16, 7, 11))
    num_blocks = ask.integer(3, 14) + 1
    if mood == "roomy":
        num_blocks = ask.integer(20, 160)
    elif mood == "wild":
        num_blocks = ask.pick((2, 1, 3, 5, 8, 20, 60))
    if Feature.unchecked_input not in features:
        num_blocks = max(3, num_blocks)
    slots = max(1, num_blocks - 1) * block_size
    config: Config = {
        "block_size": block_size,
        "num_blocks": num_blocks,
        "max_model_len": _max_model_len(ask, mood, slots),
        "max_num_batched_tokens": ask.pick((64, 8, 12, 16, 24, 32, 5, 128, 3, 1)),
        "max_num_seqs": 32 if mood == "roomy" else ask.pick((8, 4, 3, 2, 1, 16)),
        "policy": ask.pick(("fcfs", "priority", "priority")),
        "enable_prefix_caching": not ask.chance(12),
        "scheduler_reserve_full_isl": ask.chance(45),
        "vocab": ask.pick((1000, 2, 3, 5)),
        "seed": ask.integer(0, 3),
    }
    if ask.chance(15):
        config["max_num_scheduled_tokens"] = ask.pick((None, 0, 2, 6, 10, 40, 200))
    if ask.chance(35):
        config["long_prefill_token_threshold"] = ask.pick((4, 1, 2, 3, 6, 9, 300, -1))
    if ask.chance(60 if Feature.unchunked in wanted else 20) and Feature.unchunked in features:
        config["enable_chunked_prefill"] = False
        # A budget below the prompts would only hold everything back.
        config["max_num_batched_tokens"] = ask.pick((128, 128, 32, 16))
    if ask.chance(30):
        config["hash_algo"] = "sha256_cbor"
    if ask.chance(20):
        config["hash_seed"] = ask.pick(("1", 7, "", "random"))
    if ask.chance(10):
        config["log_stats"] = True
    return _restricted(config, features, wanted) | _mode(ask, features, wanted)


def _restricted(config: Config, features: Features, wanted: Features) -> Config:
    """Policy and prefix cache as they may be, and have to be."""
    may = {"priority": Feature.priority, "fcfs": None}
    if may[config["policy"]] not in {None, *features} or Feature.priority in wanted:
        config["policy"] = "priority" if Feature.priority in wanted else "fcfs"
    if Feature.prefix_caching not in features:
        config["enable_prefix_caching"] = False
    elif Feature.prefix_caching in wanted:
        config["enable_prefix_caching"] = True
    return config


def _mode(ask: Choices, features: Features, wanted: Features) -> Config:
    """How far the engine is ahead, and what it tells."""

    def may(feature: Feature, percent: float) -> bool:
        return (ask.chance(percent) or feature in wanted) and feature in features

    mode: Config = {}
    if may(Feature.async_scheduling, 60):
        mode["async_scheduling"] = True
        depth = ask.pick((2, 2, 3, 4, 3, 2, 1, 6))
        mode["queue_depth"] = depth if Feature.several_in_flight in features else 1
    if may(Feature.pipeline, 15):
        mode["pipeline_parallel_size"] = 2
    if may(Feature.kv_events, 40):
        mode["kv_events"] = True
    return mode


def _max_model_len(ask: Choices, mood: str, slots: int) -> int:
    """A length limit around what the pool holds."""
    match mood:
        case "growing":
            return slots + ask.integer(4, 40)
        case "roomy":
            return ask.pick((100, 40, 256))
        case "cornered":
            return max(3, slots // ask.pick((2, 3, 4)))
        case "wild":
            return ask.pick((32, 4, 8, 2, 1, 16, 64, 256))
        case _:
            return ask.pick((slots, slots + 9, max(6, slots // 2), 12, 48, 256))
