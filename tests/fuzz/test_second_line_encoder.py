"""What vllm-0.32.0 does with items that an encoder connector loads."""

import random
from typing import Any

import pytest
from fuzz import lockstep, models
from fuzz.families import FAMILIES
from fuzz.lockstep import ENGINES, difference, lines_of
from oracle.client import Oracle

from nullblock.conformance.errors import OutOfScope
from nullblock.conformance.lines.extent import extent
from nullblock.spec.profiles import VLLM_0_32_0

Scenario = dict[str, Any]
ITEM = {"hash": "m", "offset": 1, "length": 2}
AGAIN = {"hash": "m", "offset": 4, "length": 2}
OTHER = {"hash": "n", "offset": 7, "length": 2}


def loading(*items: dict[str, Any], **config: Any) -> Scenario:
    """A request whose first item is loaded, in steps of a few tokens."""
    encoder = {"max_num_encoder_input_tokens": 8, "encoder_cache_size": 8, "external": ["m"]}
    add = {"op": "add", "id": "a", "prompt": {"range": [0, 12]}, "max_tokens": 3}
    return {
        "config": {"block_size": 4, "encoder": encoder, **config},
        "events": [{**add, "mm_features": list(items)}, {"op": "run", "max_steps": 12}],
    }


SCENARIOS = {
    "an item is held from its load on, and let go of where it is passed": loading(
        ITEM, OTHER, max_num_batched_tokens=4
    ),
    "at both places that one step reaches": loading(ITEM, AGAIN, OTHER),
    "at one place after the other": loading(ITEM, AGAIN, max_num_batched_tokens=4),
    "beside one that is computed": loading(OTHER | {"offset": 0}, AGAIN),
}


@pytest.mark.oracle
@pytest.mark.parametrize("name", SCENARIOS)
def test_what_is_loaded_is_held_by_place(name: str, oracle_0_32: Oracle) -> None:
    """ENC-19, ENC-40: as what is computed is."""
    theirs = oracle_0_32.lines(SCENARIOS[name])
    for engine in ENGINES:
        ours = lines_of(engine, SCENARIOS[name], VLLM_0_32_0)
        assert difference(theirs, ours, bytewise=False) == "", engine


@pytest.mark.oracle
@pytest.mark.parametrize("family", ["core", "items", "drafts", "hybrid"])
def test_random_ones_do_the_same(family: str, oracle_0_32: Oracle) -> None:
    """Scenarios of other families, with items of which a connector has some."""
    features, steps = extent(lockstep.features(ENGINES), VLLM_0_32_0), 0
    for number in range(40):
        document = FAMILIES[family].make(f"loaded {number}", 16, features)
        if not models.external(document, random.Random(f"loaded {family} {number}")):
            continue
        outcome = lockstep.run(document, ENGINES, oracle_0_32, VLLM_0_32_0)
        if not outcome.refused:
            assert not outcome.differences, (number, outcome.differences)
            steps += outcome.num_steps
    assert steps > 300


@pytest.mark.parametrize("engine", ENGINES)
def test_several_inputs_of_an_encoder_decoder_model_are_refused(engine: str) -> None:
    """Where prefixes are cached: all stand at the beginning, and some tell blocks apart."""
    document = loading(ITEM | {"offset": 0}, OTHER | {"offset": 0})
    document["config"]["encoder"]["is_encoder_decoder"] = True
    with pytest.raises(OutOfScope, match="several inputs of an encoder-decoder model"):
        lines_of(engine, document, VLLM_0_32_0)
    document["config"]["enable_prefix_caching"] = False
    assert lines_of(engine, document, VLLM_0_32_0)
    document["events"][0]["mm_features"][0]["offset"] = 1
    with pytest.raises(OutOfScope, match="not at the beginning"):
        lines_of(engine, document, VLLM_0_32_0)
