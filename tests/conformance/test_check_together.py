"""Traces of features that are on together, each of which is judged by itself too."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from traces import documents, trace_of, unsealed

from nullblock.conformance.checker.check import check
from nullblock.conformance.checker.verdict import Verdict
from nullblock.conformance.errors import OutOfScope

FULL, WINDOW = {"type": "full"}, {"type": "sliding_window", "sliding_window": 5}
NARROW = WINDOW | {"sliding_window": 3}
ITEM = {"hash": "m", "offset": 2, "length": 3}
ENCODER = {"max_num_encoder_input_tokens": 8, "encoder_cache_size": 8}
BESIDE: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "adapters and drafts": ({"max_loras": 1, "num_spec_tokens": 2}, {"lora": "x"}),
    "adapters and a window": ({"max_loras": 1, "groups": [WINDOW]}, {"lora": "x"}),
    "adapters and two groups": ({"max_loras": 1, "groups": [FULL, WINDOW]}, {"lora": "x"}),
    "an encoder and adapters": (
        {"max_loras": 1, "encoder": ENCODER},
        {"lora": "x", "mm_features": [ITEM]},
    ),
    "an encoder and a window": ({"encoder": ENCODER, "groups": [WINDOW]}, {"mm_features": [ITEM]}),
    "a grammar and an encoder": (
        {"encoder": ENCODER},
        {"mm_features": [ITEM], "grammar": {"ready": False}},
    ),
    "EAGLE and chunks beside two windows, without caching": (
        {
            "groups": [
                WINDOW,
                NARROW,
                {"type": "chunked_local", "chunk": 8},
            ],
            **{"num_spec_tokens": 2, "spec_method": "eagle", "enable_prefix_caching": False},
        },
        {},
    ),
    "a load within a step and a window": (
        {"groups": [WINDOW], "connector": {"matched": {"a": 7}}},
        {},
    ),
    "a load over steps and a window, without caching": (
        {
            "groups": [WINDOW],
            "connector": {"matched": {"a": 9}, "async": True},
            "enable_prefix_caching": False,
        },
        {},
    ),
    "loads and two groups": (
        {
            "groups": [FULL, WINDOW],
            "connector": {"matched": {"a": 9, "b": 12}, "async": ["a"], "all_groups": True},
        },
        {},
    ),
    "a grammar and a window": ({"groups": [WINDOW]}, {"grammar": {"ready": False}}),
    "a vector and a window": ({"groups": [WINDOW]}, {"pooling": True}),
    "a vector and two groups, scheduled ahead": (
        {"groups": [FULL, WINDOW], "async_scheduling": True},
        {"pooling": True},
    ),
    "a vector of encoder inputs": ({"encoder": ENCODER}, {"mm_features": [ITEM], "pooling": True}),
    "a vector of embeddings, and adapters": (
        {"max_loras": 1},
        {"lora": "x", "pooling": True, "prompt_embeds": {"seed": 1}},
    ),
    "a vector and drafts": ({"num_spec_tokens": 2, "async_scheduling": True}, {"pooling": True}),
    "a vector and a load": ({"connector": {"matched": {"a": 7}}}, {"pooling": True}),
    "embeddings and drafts": ({"num_spec_tokens": 2}, {"prompt_embeds": {"seed": 1}}),
    "embeddings, tokens beside them, a salt, and events": (
        {"kv_events": True},
        {"prompt_embeds": {"seed": 1, "with_tokens": True}, "salt": "s"},
    ),
    "EAGLE drafts and two groups": (
        {"groups": [FULL, WINDOW], "num_spec_tokens": 2, "spec_method": "eagle"},
        {},
    ),
}


def judged(lines: list[dict[str, Any]]) -> Verdict:
    """The verdict on lines, none of which promises a digest."""
    return check(Path("t"), stream=io.BytesIO(unsealed(lines)), deep=False)


@pytest.mark.parametrize("engine", ["spec", "reference"])
@pytest.mark.parametrize("name", BESIDE)
def test_features_together_are_judged(name: str, engine: str) -> None:
    """One machine has them all: what waits for one of them is explained beside the other."""
    config, asked = BESIDE[name]
    others = {"lora": "y"} if "lora" in asked else {}
    document = {
        "config": {"block_size": 4, "num_blocks": 12, "max_num_batched_tokens": 16} | config,
        "events": [
            {"op": "add", "id": "a", "prompt": {"range": [0, 9]}, "max_tokens": 6} | asked,
            {"op": "add", "id": "b", "prompt": {"range": [0, 13]}, "max_tokens": 4} | others,
            {"op": "step", "n": 2},
            *(
                [{"op": "kv_done", "recv": ["a"]}]
                if config.get("connector", {}).get("async")
                else []
            ),
            {"op": "grammar_ready", "ids": ["a"]},
            {"op": "run"},
        ],
    }
    data = trace_of(document, engine, "vllm-0.22.1")
    verdict = check(Path("t"), stream=io.BytesIO(data), deep=False)
    assert (verdict.verdict, verdict.missing) == ("CONFORMS", []), verdict.first


EAGLE: dict[str, Any] = {"eagle": True}


@pytest.mark.parametrize("engine", ["spec", "reference"])
def test_whose_layers_an_eagle_like_method_has_decides(engine: str) -> None:
    """Of two kinds of layers only those with some of it drop their last hit: where the window
    lacks the second block it needs that only if it drops one. A header that marks the others says
    otherwise.
    """
    document = {
        "config": {"block_size": 4, "num_blocks": 16, "groups": [FULL | EAGLE, WINDOW]},
        "events": [
            {"op": "add", "id": "a", "prompt": {"range": [0, 9]}, "max_tokens": 1},
            {"op": "run"},
            {"op": "evict_blocks", "ids": [5]},
            {"op": "add", "id": "b", "prompt": {"range": [0, 13]}, "max_tokens": 1},
            {"op": "run"},
        ],
    }
    data = trace_of(document, engine, "vllm-0.22.1")
    verdict = check(Path("t"), stream=io.BytesIO(data), deep=False)
    assert (verdict.verdict, verdict.missing) == ("CONFORMS", []), verdict.first
    lines = documents(data)
    groups = lines[0]["config"]["groups"]
    assert groups[0].pop("eagle") and "eagle_group" in lines[0]["features"]
    groups[1]["eagle"] = True
    assert judged(lines).verdict == "VIOLATION"


UNLOADED = {
    "two groups": ([FULL, WINDOW], 2, "what becomes of blocks of several groups"),
    "a null block": ([WINDOW], 0, "what it means that the null block was not loaded"),
}


@pytest.mark.parametrize("name", UNLOADED)
def test_a_report_that_no_rule_has_is_named(name: str) -> None:
    """Blocks of several groups that were not loaded, or the null block: vLLM 0.22.1 raises, or
    takes it for one of everybody's.
    """
    groups, block, why = UNLOADED[name]
    connector = {"matched": {"a": 7}, "all_groups": True}
    document = {
        "config": {"block_size": 4, "num_blocks": 12, "groups": groups, "connector": connector},
        "events": [
            {"op": "add", "id": "a", "prompt": {"range": [0, 9]}, "max_tokens": 2},
            {"op": "run"},
        ],
    }
    lines = documents(trace_of(document, "reference", "vllm-0.22.1"))
    at = next(n for n, line in enumerate(lines) if line["ev"] == "output")
    lines.insert(at, {"ev": "transfers", "invalid": [block]})
    verdict = judged(lines)
    assert verdict.verdict == "INCONCLUSIVE" and why in verdict.missing[0], verdict


def test_no_block_of_a_window_of_one_token_is_told() -> None:
    """GROUP-19, in vllm-0.32.0: an event has its tokens and no chain number."""
    narrow = {"type": "sliding_window", "sliding_window": 1}
    document = {
        "config": {"block_size": 4, "num_blocks": 12, "groups": [FULL, narrow], "kv_events": True},
        "events": [
            {"op": "add", "id": "a", "prompt": {"range": [0, 9]}, "max_tokens": 2},
            {"op": "run"},
        ],
    }
    data = trace_of(document, "reference", "vllm-0.32.0")
    told = [e for line in map(json.loads, data.splitlines()) for e in line.get("events", ())]
    assert [event["chain"] for event in told] == [[[0, 2]], []]
    verdict = check(Path("t"), stream=io.BytesIO(data), deep=False)
    assert (verdict.verdict, verdict.missing) == ("CONFORMS", []), verdict.first


def test_a_prompt_that_no_rule_has_is_named() -> None:
    """An empty one where no group is of full attention: vLLM finds less than nothing."""
    document = {
        "config": {"block_size": 4, "num_blocks": 12, "groups": [WINDOW, NARROW]},
        "events": [{"op": "add", "id": "a", "prompt": {"range": [0, 9]}, "max_tokens": 2}],
    }
    lines = documents(trace_of(document, "reference"))
    next(line for line in lines if line["ev"] == "add").update(prompt=0, chain=[])
    verdict = judged(lines)
    assert verdict.verdict == "INCONCLUSIVE"
    assert "what becomes of an empty prompt in several groups" in verdict.missing[0]


def test_where_a_draft_model_takes_places_a_header_tells() -> None:
    """Of a step's max_num_batched_tokens, in vllm-0.32.0; by the token budget alone the same steps
    are none of that line.
    """
    document = {
        "config": {
            **{"block_size": 4, "num_blocks": 40, "num_spec_tokens": 2},
            **{"spec_method": "draft_model", "max_num_batched_tokens": 16},
            **{"max_num_scheduled_tokens": 12, "max_num_seqs": 4},
        },
        "events": [
            {"op": "add", "id": "a", "prompt": {"range": [0, 30]}, "max_tokens": 6},
            {"op": "add", "id": "b", "prompt": {"range": [50, 80]}, "max_tokens": 6},
            {"op": "run"},
        ],
    }
    lines = documents(trace_of(document, "reference", "vllm-0.32.0"))
    told = judged(lines)
    assert (told.verdict, told.missing) == ("CONFORMS", [])
    del lines[0]["config"]["max_num_batched_tokens"]
    assert judged(lines).verdict == "VIOLATION"


def test_layers_that_drop_a_hit_hide_nothing() -> None:
    """A hit that lacks one block more is no sign of an EAGLE-like method where the header marks
    its layers, whatever proposes drafts.
    """
    document = {
        "config": {
            **{"block_size": 4, "num_blocks": 24, "num_spec_tokens": 2},
            "groups": [FULL | EAGLE, WINDOW],
        },
        "events": [
            {"op": "add", "id": "a", "prompt": {"range": [0, 13]}, "max_tokens": 1},
            {"op": "run"},
            {"op": "add", "id": "b", "prompt": {"range": [0, 13]}, "max_tokens": 1},
            {"op": "run"},
        ],
    }
    lines = documents(trace_of(document, "reference", "vllm-0.22.1"))
    hit = next(new for line in lines for new in line.get("new", ()) if new["computed"])
    hit["computed"] -= 4
    verdict = judged(lines)
    assert verdict.verdict == "VIOLATION" and verdict.first is not None
    assert verdict.first.rule == "HASH-11"


def test_no_trace_tells_of_steps_that_may_compute_nothing() -> None:
    """A budget of 0 is one in vllm-0.32.0, whose configuration refuses it; in vllm-0.22.1 there
    is none then.
    """
    document = {
        "config": {"max_num_scheduled_tokens": 0},
        "events": [
            {"op": "add", "id": "a", "prompt": [1], "max_tokens": 1},
            {"op": "run"},
        ],
    }
    assert judged(documents(trace_of(document, "reference", "vllm-0.22.1"))).verdict == "CONFORMS"
    with pytest.raises(OutOfScope, match="may compute nothing"):
        trace_of(document, "reference", "vllm-0.32.0")


@pytest.mark.parametrize("over_steps", [False, True])
def test_nothing_begins_for_whom_nothing_is_offered(over_steps: bool) -> None:
    """WAIT-9, REMOTE-12: in vllm-0.32.0 the connector of the specification is asked for whoever
    refuses hits, and loads nothing, as that of the reference.
    """
    document = {
        "config": {"block_size": 4, "connector": {"matched": {"a": 4}, "async": over_steps}},
        "events": [
            {"op": "add", "id": "a", "prompt": {"range": [0, 9]}, "max_tokens": 1}
            | {"skip_cache_read": True},
            {"op": "run"},
        ],
    }
    for engine in ("reference", "spec"):
        lines = documents(trace_of(document, engine, "vllm-0.32.0"))
        (answer,) = (a for line in lines for a in line.get("answers", ()))
        assert answer["tokens"] == 4 and "begins" not in answer
        verdict = judged(lines)
        assert (verdict.verdict, verdict.missing) == ("CONFORMS", []), verdict.first
