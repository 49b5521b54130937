"""What an engine of ours does in a golden scenario is explained, as a trace tells it."""

import io
import json
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from traces import trace_of

from nullblock.conformance.checker import check
from nullblock.conformance.errors import InputError
from nullblock.conformance.lines.example import VECTORS

NAMES = list(json.loads((VECTORS / "index.json").read_text()))
MANY = 150
"""Scenarios that a trace can tell all of; there are more."""


def judged(document: dict[str, Any], line: str) -> Any:
    """What is said of the trace of a scenario. Raises InputError for what no trace has."""
    data = trace_of(document, "reference", line)
    return check(Path("trace"), stream=io.BytesIO(data), deep=False)


def verdict(name: str, line: str) -> Any:
    """The same of a golden one."""
    return judged(json.loads((VECTORS / f"{name}.json").read_text()), line)


@pytest.mark.parametrize("line", ["normative", "vllm-0.22.1", "vllm-0.32.0"])
def test_no_golden_scenario_is_blamed(line: str) -> None:
    """Whatever a trace cannot tell is named; the rest conforms."""
    said = Counter[str]()
    for name in NAMES:
        with suppress(InputError):
            found = verdict(name, line)
            assert found.first is None, (name, found.first)
            said[found.verdict] += 1
    assert said.keys() <= {"CONFORMS", "INCONCLUSIVE"} and said["CONFORMS"] > MANY


def test_items_that_a_hash_misses_are_missed_in_the_trace_too() -> None:
    """HASH-24: a block that an output completes is known by its last item, in vllm-0.22.1."""
    found = verdict("encoder-last-item-names-a-block", "vllm-0.22.1")
    assert found.verdict == "CONFORMS"


def items(**at: int) -> list[dict[str, Any]]:
    """Encoder inputs of a token each, and where they are."""
    return [{"hash": name, "offset": offset, "length": 1} for name, offset in at.items()]


FIRST = {"op": "add", "id": "a", "max_tokens": 1}
OTHER = {"op": "add", "id": "b", "max_tokens": 1}
STEP = {"op": "step", "n": 4}
AT_ONCE = {
    "a prompt": [
        {**FIRST, "prompt": [1] * 9, "mm_features": items(x=4, y=6)},
        STEP,
        {**OTHER, "prompt": [1] * 9, "mm_features": items(z=4, y=6)},
    ],
    "a chunk": [
        {**FIRST, "prompt": [1] * 2, "mm_features": items(x=8, y=10), "resumable": True},
        STEP,
        {**FIRST, "prompt": [1] * 14, "resumable": True},
        STEP,
        {**OTHER, "prompt": [1] * 17, "mm_features": items(y=10)},
    ],
}


@pytest.mark.parametrize("what", AT_ONCE)
def test_items_are_found_in_blocks_that_are_hashed_at_once(what: str) -> None:
    """HASH-24: every one; who has another item there, or one less, hits less."""
    encoder = {"encoder_cache_size": 8, "max_num_encoder_input_tokens": 8}
    config = {"block_size": 4, "num_blocks": 24, "encoder": encoder}
    found = judged({"config": config, "events": [*AT_ONCE[what], STEP]}, "vllm-0.22.1")
    assert (found.verdict, found.first) == ("CONFORMS", None)
