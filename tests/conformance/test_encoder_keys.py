"""Keys of encoder inputs and of other kinds of requests: what is read, refused, and shown."""

import json
from typing import Any

import pytest

from nullblock.conformance import driver, scenario
from nullblock.conformance.engine import CONTRACT, CORE_FEATURES
from nullblock.conformance.engines import features_of, make_engine
from nullblock.conformance.errors import InputError, OutOfScope, ScenarioError
from nullblock.spec.profiles import NORMATIVE, VLLM_0_22_1, VLLM_0_32_0

ADD: dict[str, Any] = {"op": "add", "id": "a", "prompt": [1, 2, 3, 4]}
ITEM: dict[str, Any] = {"hash": "x", "offset": 1, "length": 2}
ENCODER: dict[str, Any] = {"encoder": {}}


def with_items(*items: dict[str, Any]) -> dict[str, Any]:
    """A scenario with one request that has those items."""
    return {"config": ENCODER, "events": [ADD | {"mm_features": list(items)}, {"op": "run"}]}


@pytest.mark.parametrize(
    ("document", "place", "told"),
    [
        ({"config": {"encoder": {"cache": 3}}, "events": []}, "config.encoder", "encoder_cache"),
        (
            {"config": {"encoder": {"encoder_cache_size": -1}}, "events": []},
            "config.encoder.encoder_cache_size",
            "-1",
        ),
        (with_items(ITEM | {"lenght": 2}), "events[0].mm_features[0]", "length"),
        (with_items({"hash": "x", "offset": 1}), "events[0].mm_features[0]", "length"),
        (
            with_items(ITEM, ITEM | {"is_embed": [True]}),
            "events[0].mm_features[1].is_embed",
            "2 tokens",
        ),
        ({"events": [ADD | {"mm_features": [ITEM]}]}, "events[0].mm_features", "encoder"),
        ({"events": [ADD | {"prompt_embeds": {}}]}, "events[0].prompt_embeds", "seed"),
        ({"events": [ADD | {"client_index": -1}]}, "events[0].client_index", "-1"),
        (
            {
                "config": {
                    "max_num_batched_tokens": 4,
                    "encoder": {"disable_chunked_mm_input": True, "max_tokens_per_item": 5},
                },
                "events": [],
            },
            "config.encoder.max_tokens_per_item",
            "cut",
        ),
    ],
)
def test_a_mistake_is_told_with_its_place(document: dict[str, Any], place: str, told: str) -> None:
    """One line: where, what, and what to write."""
    with pytest.raises(ScenarioError) as caught:
        scenario.from_dict(document)
    assert caught.value.place == place
    assert told in str(caught.value) and "\n" not in str(caught.value)


DOCUMENTS: dict[str, dict[str, Any]] = {
    "encoder inputs": {"config": ENCODER, "events": [ADD | {"mm_features": [ITEM]}]},
    "prompts that are embeddings": {"events": [ADD | {"prompt_embeds": {"seed": 0}}]},
    "pooling requests": {"events": [ADD | {"pooling": True}]},
    "several clients": {"config": {"include_finished_set": True}, "events": [ADD]},
    "the v2 model runner": {"config": {"use_v2_model_runner": True}, "events": [ADD]},
    "counting requests": {"events": [{"op": "counts"}]},
}


@pytest.mark.parametrize("feature", DOCUMENTS)
def test_an_engine_without_a_feature_refuses_it_by_name(feature: str) -> None:
    """The fast engine does; the specification and the reference run the scenario alike."""
    taken = scenario.from_dict(DOCUMENTS[feature])
    with pytest.raises(OutOfScope, match=feature):
        list(driver.run(taken, make_engine("impl", taken.config, VLLM_0_22_1)))
    engines = (make_engine(name, taken.config, VLLM_0_22_1) for name in ("spec", "reference"))
    ours, theirs = (list(driver.run(taken, engine)) for engine in engines)
    assert ours[1:-1] == theirs[1:-1]
    assert all(json.loads(line)["ev"] != "EXCEPTION" for line in ours)


BEFORE_PROMPT: dict[str, Any] = {
    "enable_prefix_caching": False,
    "encoder": {"is_encoder_decoder": True},
}
AT_FIRST = ITEM | {"offset": 0}


def decoding(*items: dict[str, Any]) -> dict[str, Any]:
    """A scenario of an encoder-decoder model with one request that has those items."""
    return with_items(*items) | {"config": BEFORE_PROMPT}


BEYOND: dict[str, dict[str, Any]] = {
    "an encoder-decoder model with a KV connector": {
        "config": BEFORE_PROMPT | {"connector": {"async": True}},
        "events": [],
    },
    "cross-attention beside prefix caching": {
        "config": {"groups": [{"type": "full"}, {"type": "cross_attention"}]},
        "events": [],
    },
}
OTHERWISE: dict[str, dict[str, Any]] = {
    "an encoder-decoder model's input with": decoding(AT_FIRST | {"is_embed": [True, False]}),
    "an encoder-decoder model's input that is not at the beginning": decoding(ITEM),
    "more than 8 encoder inputs": {
        "config": ENCODER,
        "events": [
            {"op": "add", "id": "a", "prompt": {"range": [0, 9]}}
            | {"mm_features": [{"hash": f"x{i}", "offset": i, "length": 1} for i in range(9)]}
        ],
    },
    "not in order": with_items(ITEM, ITEM | {"hash": "y", "offset": 2, "length": 1}),
    "an encoder input of two sizes, 'x'": with_items(ITEM, ITEM | {"offset": 3, "length": 1}),
}
"""What vLLM 0.22.1 takes, and nobody has said what ought to become of it."""


@pytest.mark.parametrize("what", BEYOND)
def test_what_the_rules_do_not_say_of_encoder_inputs_is_refused_by_name(what: str) -> None:
    """In one line, where it is met; with an item that fits in its place the scenario runs."""
    with pytest.raises(OutOfScope, match=what) as caught:
        taken = scenario.from_dict(BEYOND[what])
        list(driver.run(taken, make_engine("spec", taken.config, VLLM_0_22_1)))
    assert "\n" not in str(caught.value)
    for document in (with_items(ITEM), decoding(AT_FIRST)):
        taken = scenario.from_dict(document)
        lines = list(driver.run(taken, make_engine("spec", taken.config, VLLM_0_22_1)))
        assert all(json.loads(line)["ev"] != "EXCEPTION" for line in lines)


def ends(
    encoder: dict[str, Any], item: dict[str, Any], engine: str = "reference", **config: Any
) -> list[Any]:
    """How a request with one item ends in the normative profile, and why if it says so."""
    document = with_items(item) | {"config": {"block_size": 4, "encoder": encoder, **config}}
    taken = scenario.from_dict(document)
    lines = driver.run(taken, make_engine(engine, taken.config, NORMATIVE))
    outputs = [out for line in lines for out in json.loads(line).get("outputs", [])]
    return [(out["finish"], out["stop_reason"]) for out in outputs if out["finish"]]


@pytest.mark.parametrize("engine", ["spec", "reference"])
def test_an_item_that_can_never_be_computed_is_refused_on_arrival(engine: str) -> None:
    """Beyond the budget, or the cache; at either limit it is served."""
    sizes = {"max_num_encoder_input_tokens": 3, "encoder_cache_size": 2}
    told = "an item of 3 embeddings: a step computes 3, and 2 are kept"
    assert ends(sizes, ITEM | {"length": 3}, engine) == [("rejected", told)]
    assert ends(sizes, ITEM | {"length": 2}, engine) == [("length", None)]
    sizes = {"max_num_encoder_input_tokens": 2, "encoder_cache_size": 3}
    assert ends(sizes, ITEM | {"length": 3}, engine)[0][0] == "rejected"


@pytest.mark.parametrize("engine", ["spec", "reference"])
def test_blocks_for_cross_attention_count_when_a_request_is_refused(engine: str) -> None:
    """The decoder's tokens take five blocks, the encoder's two more."""
    config: dict[str, Any] = {
        "enable_prefix_caching": False,
        "groups": [{"type": "full"}, {"type": "cross_attention"}],
    }
    item, model = {"hash": "x", "offset": 0, "length": 8}, {"is_encoder_decoder": True}
    told = "19 tokens may need 7 blocks, the pool has 6"
    assert ends(model, item, engine, num_blocks=7, **config) == [("rejected", told)]
    assert ends(model, item, engine, num_blocks=8, **config) == [("length", None)]


@pytest.mark.parametrize("engine", ["spec", "reference"])
def test_items_that_one_step_has_no_room_for_are_refused_together(engine: str) -> None:
    """ENC-51: each alone would fit; vLLM 0.22.1 lets the request wait for ever."""
    config: dict[str, Any] = {
        "enable_prefix_caching": False,
        "encoder": {"is_encoder_decoder": True, "max_num_encoder_input_tokens": 3},
    }
    items = [AT_FIRST, AT_FIRST | {"hash": "y"}]
    events = [ADD | {"mm_features": items}, {"op": "run", "max_steps": 5}]
    taken = scenario.from_dict({"config": config, "events": events})
    finished = {}
    for semantics in (NORMATIVE, VLLM_0_22_1):
        lines = map(json.loads, driver.run(taken, make_engine(engine, taken.config, semantics)))
        outputs = [out for line in lines for out in line.get("outputs", ())]
        finished[semantics] = [(out["finish"], out["stop_reason"]) for out in outputs]
    told = "items of 4 embeddings, all for one step: it computes 3, and 64 are kept"
    assert finished == {NORMATIVE: [("rejected", told)], VLLM_0_22_1: []}


def test_every_feature_has_a_document() -> None:
    """What is beyond the core and the fast engine is named above; the others have it."""
    assert {str(feature) for feature in CONTRACT - features_of("impl")} == set(DOCUMENTS)
    assert CONTRACT <= features_of("spec")
    assert features_of("reference") >= CONTRACT and not CORE_FEATURES & CONTRACT


def test_without_the_keys_lines_are_as_they_were() -> None:
    """No new field stands in a line of a scenario that uses none of them."""
    document = {"events": [ADD, {"op": "run"}]}
    taken = scenario.from_dict(document)
    text = "\n".join(driver.run(taken, make_engine("reference", taken.config, VLLM_0_22_1)))
    for field in ("encoder", "client", "finished_by", "pooling", "mm_features"):
        assert field not in text


def test_what_is_out_of_scope_is_an_input_error() -> None:
    """A refusal is a line for the user."""
    assert issubclass(OutOfScope, InputError)


@pytest.mark.parametrize("what", OTHERWISE)
def test_what_one_line_takes_is_refused_by_name_in_the_others(what: str) -> None:
    """In normative and in the later line; in vllm-0.22.1 it runs."""
    taken = scenario.from_dict(OTHERWISE[what])
    list(driver.run(taken, make_engine("spec", taken.config, VLLM_0_22_1)))
    for semantics in (NORMATIVE, VLLM_0_32_0):
        with pytest.raises(OutOfScope) as caught:
            list(driver.run(taken, make_engine("spec", taken.config, semantics)))
        assert "\n" not in str(caught.value)
        assert semantics is VLLM_0_32_0 or what in str(caught.value)
