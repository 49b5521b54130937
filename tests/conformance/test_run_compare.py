"""Comparing lines: what counts as a difference, and what does not."""

import json
from typing import Any

import pytest

from nullblock.conformance.compare import first_difference


def text(*lines: dict[str, Any]) -> list[str]:
    """Lines as engines print them."""
    return [json.dumps(line, sort_keys=True) for line in lines]


def pool(blocks: dict[str, str], cached: dict[str, list[int]]) -> dict[str, Any]:
    """A line with a pool in its state."""
    state = {"block_hash": blocks, "cached_map": cached}
    return {"ev": "schedule", "step": 1, "state": state}


HEADER = {"ev": "header", "vllm": "0.22.1", "config": {}, "ignored": [], "hash_block_size": 4}
EXCEPTION = {"ev": "EXCEPTION", "type": "ValueError", "msg": "x", "where": ["a"], "state": None}


def test_equal_lines_have_no_difference() -> None:
    """A run equals itself, whatever the order of keys."""
    lines = text(HEADER, pool({"1": "aa:0"}, {"aa:0": [1]}))
    assert first_difference(lines, [json.dumps(json.loads(line)) for line in lines]) is None


def test_what_belongs_to_the_driver_is_not_compared() -> None:
    """The header's version, configuration and ignored keys and the trailer's digest are free."""
    left = text(HEADER, {"ev": "trailer", "lines": 1, "sha256": "a"})
    own = {"vllm": "x", "config": {"a": 1}, "ignored": ["b"]}
    right = text(HEADER | own, {"ev": "trailer", "lines": 1, "sha256": "b"})
    assert first_difference(left, right) is None
    assert first_difference(text(HEADER), text(HEADER | {"hash_block_size": 8})) is not None


def test_spelling_of_hashes_does_not_matter() -> None:
    """Hashes that differ in spelling only, even if they sort otherwise, are equal."""
    left = pool({"1": "aa:0", "2": "bb:0", "10": "aa:0"}, {"aa:0": [1, 10], "bb:0": [2]})
    right = pool({"1": "zz:0", "2": "cc:0", "10": "zz:0"}, {"cc:0": [2], "zz:0": [1, 10]})
    assert first_difference(text(left), text(right)) is None


def test_hashes_that_only_the_map_has_are_told_apart_by_their_blocks() -> None:
    """A hash that no block carries is known by the list of blocks that it stands for."""
    left = pool({}, {"aa:0": [1], "bb:0": [2]})
    right = pool({}, {"zz:0": [1], "cc:0": [2]})
    assert first_difference(text(left), text(right)) is None


@pytest.mark.parametrize(
    "right",
    [
        pool({"1": "aa:0", "2": "aa:0"}, {"aa:0": [1, 2]}),
        pool({"1": "aa:0", "2": "bb:1"}, {"aa:0": [1], "bb:1": [2]}),
        pool({"1": "aa:0", "3": "bb:0"}, {"aa:0": [1], "bb:0": [3]}),
        pool({"1": "aa:0", "2": "bb:0"}, {"aa:0": [1]}),
    ],
)
def test_identity_of_hashes_matters(right: dict[str, Any]) -> None:
    """Which blocks share a hash, its group and which blocks are cached is compared."""
    left = pool({"1": "aa:0", "2": "bb:0"}, {"aa:0": [1], "bb:0": [2]})
    assert first_difference(text(left), text(right)) is not None


def test_a_hash_keeps_its_identity_from_line_to_line() -> None:
    """A hash that comes back is not taken for another one that comes back."""
    one, two = pool({"1": "aa:0"}, {"aa:0": [1]}), pool({"1": "bb:0"}, {"bb:0": [1]})
    assert first_difference(text(one, two, one), text(two, one, two)) is None
    assert first_difference(text(one, two, one), text(one, two, two)) is not None


def test_of_an_exception_only_that_it_was_raised_counts() -> None:
    """Text and type of an exception are free, and so is everything after it."""
    other = EXCEPTION | {"type": "KeyError", "msg": "y", "where": []}
    after = {"ev": "trailer", "lines": 1, "sha256": "a"}
    assert first_difference(text(EXCEPTION), text(other, after)) is None
    found = first_difference(text(EXCEPTION), text({"ev": "add", "n": 0, "id": "a"}))
    assert found is not None
    assert (found.left, found.right) == ("EXCEPTION", "add")


def test_a_difference_is_named_by_line_event_and_path() -> None:
    """The first difference is told with its line, its event, its path and both values."""
    left = {"ev": "update", "step": 3, "outputs": [{"id": "a", "tokens": [1, 2]}]}
    right = {"ev": "update", "step": 3, "outputs": [{"id": "a", "tokens": [1, 3]}]}
    found = first_difference(text(HEADER, left), text(HEADER, right))
    assert str(found) == (
        "line 2 (update step 3), outputs[0].tokens[1]: 2 on the left, 3 on the right"
    )


@pytest.mark.parametrize(
    ("left", "right", "path"),
    [
        ({"a": 1}, {"a": True}, "a"),
        ({"a": 0}, {"a": None}, "a"),
        ({"a": 1}, {}, "a"),
        ({}, {"a": 1}, "a"),
        ({"a": [1]}, {"a": [1, 2]}, "a"),
        ({"a": {"b": []}}, {"a": {"b": {}}}, "a.b"),
    ],
)
def test_values_are_compared_as_json(
    left: dict[str, Any], right: dict[str, Any], path: str
) -> None:
    """Types, missing keys and lengths count."""
    found = first_difference(text({"ev": "x"} | left), text({"ev": "x"} | right))
    assert found is not None
    assert found.path == path


def test_a_missing_line_is_a_difference() -> None:
    """A run that ends early differs where its next line would be."""
    found = first_difference(text(HEADER), text(HEADER, {"ev": "add", "n": 0, "id": "a"}))
    assert found is not None
    assert str(found) == 'line 2 (add n 0): nothing on the left, "add" on the right'
