"""Scenarios from anywhere in the format: an engine's configuration, each key by its own dice.

A scenario first draws how much is mixed; then each kind of thing is in it or not, whatever else
is. So features stand beside one another that nobody thought of together.
"""

import zlib
from math import gcd
from typing import Any

from nullblock.conformance.engine import Feature
from nullblock.conformance.lockstep.choices import Choices

Fields = dict[str, Any]
IDS = ("a", "b", "c", "d", "e", "f", "g", "h", "i", "j")
SIZES = (1, 2, 2, 3, 4, 4, 4, 5, 6, 8, 16)


def config(dice: Choices, features: frozenset[Feature]) -> Fields:
    """A configuration that asks for nothing but those features."""
    mixed = dice.pick((15, 40, 60, 80))
    made: Fields = {"block_size": dice.pick(SIZES)}
    _sizes(dice, made)
    _switches(dice, made, mixed, features)
    if _some(dice, features, max(mixed, 45), Feature.windows, Feature.hybrid, Feature.mamba):
        made["groups"] = groups(dice, made, features)
        _hashes(dice, made, features)
    if _some(dice, features, mixed, Feature.drafts):
        _drafts(dice, made, features)
    if _some(dice, features, mixed, Feature.kv_connector):
        made["connector"] = connector(dice)
    if _some(dice, features, mixed, Feature.encoder_inputs):
        made["encoder"] = encoder(dice, made, features)
    if _some(dice, features, mixed, Feature.lora_cap):
        made["max_loras"] = dice.pick((0, 1, 1, 2, 3))
    if Feature.pooling in features and "num_spec_tokens" not in made and _one_in(20, made):
        made["runner_type"] = "pooling"
    return made


def _one_in(many: int, made: Fields) -> bool:
    """By what is drawn already, so that no other draw depends on it."""
    return zlib.crc32(repr(made).encode()) % many == 0


def _some(dice: Choices, features: frozenset[Feature], percent: float, *of: Feature) -> bool:
    return dice.chance(percent) and any(one in features for one in of)


def _sizes(dice: Choices, made: Fields) -> None:
    """How large everything is: mostly too small for comfort, and seldom divisible."""
    block = made["block_size"]
    made["num_blocks"] = dice.pick(
        (dice.integer(2, 6), dice.integer(4, 12), dice.integer(8, 24), dice.integer(20, 60))
    )
    if dice.chance(1):
        made["num_blocks"] = 1
    made["max_num_batched_tokens"] = dice.pick(
        (dice.integer(1, 6), dice.integer(4, 20), block * dice.integer(1, 6), 64)
    )
    made["max_num_seqs"] = dice.pick((1, 2, 2, 3, 4, 8))
    made["max_model_len"] = dice.pick(
        (dice.integer(1, 12), dice.integer(8, 40), dice.integer(20, 80), block * 5, 256)
    )
    if dice.chance(20):
        made["max_num_scheduled_tokens"] = dice.pick((None, 0, 1, 2, 3, 5, 9, 100))
    if dice.chance(25):
        made["long_prefill_token_threshold"] = dice.pick((-1, 1, 2, 3, 5, 8))


def _switches(dice: Choices, made: Fields, mixed: int, features: frozenset[Feature]) -> None:
    """Everything that is on or off, or a word."""
    if _some(dice, features, mixed, Feature.async_scheduling):
        made["async_scheduling"] = True
        if dice.chance(50):
            # A later line reckons with so many steps: of less than one it has none.
            odd = (0, -1) if Feature.sinks in features else ()
            made["queue_depth"] = dice.pick((1, 2, 3, 3, 4, *odd))
    if _some(dice, features, mixed / 2, Feature.pipeline):
        made["pipeline_parallel_size"] = dice.pick((2, 2, 3))
    if _some(dice, features, mixed, Feature.priority):
        made["policy"] = "priority"
    if _some(dice, features, 15, Feature.unchunked):
        made["enable_chunked_prefill"] = False
    if dice.chance(15) or Feature.prefix_caching not in features:
        made["enable_prefix_caching"] = False
    if dice.chance(30):
        made["scheduler_reserve_full_isl"] = False
    if _some(dice, features, 30, Feature.kv_events):
        made["kv_events"] = True
    if dice.chance(15):
        made["log_stats"] = True
    if _some(dice, features, 12, Feature.v2_model_runner):
        made["use_v2_model_runner"] = True
    if _some(dice, features, 15, Feature.clients):
        made["include_finished_set"] = True
    if dice.chance(15):
        made["hash_algo"] = dice.pick(("sha256", "sha256_cbor"))
    if dice.chance(10):
        made["hash_seed"] = dice.pick(("", "0", 7, "seed"))
    if dice.chance(30):
        made["vocab"] = dice.pick((1, 2, 3, 10))
    if dice.chance(40):
        made["seed"] = dice.integer(0, 9)
    if dice.chance(10):
        made["watermark"] = dice.pick((0, 0.05, 0.2, 0.5, 1.0))
    for feature, key in (
        (Feature.decode_ranks, "decode_context_parallel_size"),
        (Feature.prefill_ranks, "prefill_context_parallel_size"),
    ):
        if _some(dice, features, 4, feature) and feature in features:
            made[key] = dice.pick((1, 2, 3))


def groups(dice: Choices, made: Fields, features: frozenset[Feature]) -> list[Fields]:
    """Kinds of layers: one or several, of any kind, with blocks of any size that goes."""
    kinds = ["full", "full"]
    if Feature.windows in features:
        kinds += ["sliding_window", "sliding_window", "chunked_local", "chunked_local"]
    if Feature.mamba in features:
        kinds += ["mamba", "mamba"]
    if Feature.sinks in features:
        kinds.append("sink")
    if Feature.cross_attention in features and dice.chance(8):
        kinds.append("cross_attention")
        if dice.chance(80):
            made["enable_prefix_caching"] = False
    most = 4 if Feature.hybrid in features else 1
    number = min(most, dice.pick((1, 1, 2, 2, 2, 3, 4)))
    made["num_blocks"] += dice.integer(0, 4 * (number - 1))
    ones = [group(dice, made, dice.pick(kinds), features) for _ in range(number)]
    if number > 1 and Feature.block_sizes in features and dice.chance(40):
        for one in ones:
            if dice.chance(60):
                one["block_size"] = made["block_size"] * dice.pick((1, 2, 3, 4))
    for one in ones:
        if one["type"] == "sink":
            size = int(one.get("block_size") or made["block_size"])
            one["sink_len"] = size * dice.pick((1, 1, 2))
            made["num_blocks"] += 2
    return ones


def group(dice: Choices, made: Fields, kind: str, features: frozenset[Feature]) -> Fields:
    """One kind of layers."""
    one: Fields = {"type": kind}
    block = made["block_size"]
    some = dice.pick((1, 1, 2, 3, block, block + 1, 2 * block, 2 * block + 1, 3 * block - 1))
    if kind == "sliding_window":
        one["sliding_window"] = some
    elif kind == "chunked_local":
        one["chunk"] = dice.pick((some, block, 2 * block, 3 * block))
    elif kind == "mamba":
        modes = ["none", "all", "all", "align"]
        if Feature.aligned_mamba not in features:
            modes.remove("align")
        one["mamba_cache_mode"] = dice.pick(modes)
        if dice.chance(30):
            one["num_speculative_blocks"] = dice.pick((1, 2, 3))
    if dice.chance(12) and Feature.drafts in features:
        one["eagle"] = True
    return one


def _hashes(dice: Choices, made: Fields, features: frozenset[Feature]) -> None:
    """What one hash covers."""
    if not dice.chance(25) or Feature.block_sizes not in features:
        return
    sizes = [one.get("block_size", made["block_size"]) for one in made["groups"]]
    common = gcd(*sizes)
    made["hash_block_size"] = dice.pick([n for n in range(1, common + 1) if common % n == 0])


def _drafts(dice: Choices, made: Fields, features: frozenset[Feature]) -> None:
    """Speculative decoding."""
    made["num_spec_tokens"] = dice.pick((1, 1, 2, 3, 5))
    made["spec_method"] = dice.pick(("ngram", "eagle", "draft_model"))
    if dice.chance(70):
        numbers = [dice.integer(0, 4) for _ in range(dice.integer(1, 4))]
        silent = [*numbers, None] if Feature.silence in features else numbers
        made["accept"] = dice.pick(("all", "none", "hash", numbers, silent))
    if dice.chance(40):
        made["drafts"] = {
            "length": dice.pick(
                ("all", "none", "hash", [dice.integer(0, 6) for _ in range(dice.integer(1, 3))])
            ),
            "to": dice.pick(("sampled", "scheduled")),
            "fill_in": dice.chance(50),
        }


def matched(dice: Choices) -> dict[str, int | None]:
    """What a remote side holds of whom."""
    return {
        id: dice.pick((None, 0, 1, 3, 4, 8, 16, 32, dice.integer(1, 40), dice.integer(1, 40)))
        for id in IDS
        if dice.chance(65)
    }


def some_ids(dice: Choices) -> bool | list[str]:
    """Everybody, nobody, or some."""
    some: tuple[bool | list[str], ...] = (True, False, [id for id in IDS if dice.chance(50)])
    return dice.pick(some)


def connector(dice: Choices) -> Fields:
    """A KV connector."""
    made: Fields = {"matched": matched(dice), "async": some_ids(dice)}
    if dice.chance(50):
        made["delay_free"] = some_ids(dice)
    if dice.chance(90):
        made["all_groups"] = True
    if dice.chance(50):
        made["failure_policy"] = dice.pick(("recompute", "fail"))
    if dice.chance(20):
        made["kv_role"] = dice.pick(("kv_both", "kv_producer", "kv_consumer"))
        made["requires_kv_delivery"] = made["kv_role"] != "kv_consumer"  # as vLLM supposes
    return made


def encoder(dice: Choices, made: Fields, features: frozenset[Feature]) -> Fields:
    """An encoder."""
    one: Fields = {}
    if dice.chance(60):
        one["max_num_encoder_input_tokens"] = dice.pick((0, 1, 2, 4, 9, 30))
    if dice.chance(60):
        one["encoder_cache_size"] = dice.pick((0, 1, 2, 4, 9, 30))
    if dice.chance(50):
        one["max_tokens_per_item"] = dice.pick((0, 1, 3, 6, 12))
    if dice.chance(25) and one.get("max_tokens_per_item", 1) <= made["max_num_batched_tokens"]:
        one["disable_chunked_mm_input"] = True
    cross = any(g["type"] == "cross_attention" for g in made.get("groups", ()))
    if dice.chance(70 if cross else 6) and Feature.encoder_decoder in features:
        one["is_encoder_decoder"] = True
        made.pop("connector", None)
    if dice.chance(12) and Feature.sinks in features:
        one["external"] = [h for h in "pqrs" if dice.chance(50)]
    return one
