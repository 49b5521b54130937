"""Traces of features that are on together, each of which is judged by itself too."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from traces import trace_of

from nullblock.conformance.checker.check import check

FULL, WINDOW = {"type": "full"}, {"type": "sliding_window", "sliding_window": 5}
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
                WINDOW | {"sliding_window": 3},
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
    "EAGLE drafts and two groups": (
        {"groups": [FULL, WINDOW], "num_spec_tokens": 2, "spec_method": "eagle"},
        {},
    ),
}


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
            *([{"op": "kv_done", "recv": ["a"]}] if "over" in name or "loads" in name else []),
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
    header, *lines = data.splitlines(keepends=True)
    told = json.loads(header)
    assert told["config"]["groups"][0].pop("eagle") and "eagle_group" in told["features"]
    told["config"]["groups"][1]["eagle"] = True
    told["config"].pop("config_sha256", None)
    told.pop("config_sha256", None)
    other = b"".join([json.dumps(told).encode() + b"\n", *lines])
    assert check(Path("t"), stream=io.BytesIO(other), deep=False).verdict == "VIOLATION"


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
    data = trace_of(document, "reference", "vllm-0.22.1")
    lines = [json.loads(line) for line in data.splitlines()]
    at = next(n for n, line in enumerate(lines) if line["ev"] == "output")
    lines.insert(at, {"ev": "transfers", "invalid": [block]})
    lines[0]["sealed"] = False
    data = b"".join(json.dumps(line).encode() + b"\n" for line in lines if line["ev"] != "end")
    verdict = check(Path("t"), stream=io.BytesIO(data), deep=False)
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
