"""The golden scenarios under ``conformance/vectors``: every engine prints the recorded lines.

Their lines were printed by the real vLLM 0.22.1. ``--rewrite`` records them anew from the live
engine; commit only what you can explain.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from fuzz.lockstep import ENGINES, EXACT, difference, lines_of
from fuzz.reach import reached
from golden_lines import recorded
from oracle.client import Oracle

from nullblock.conformance.scenario import from_dict

VECTORS = Path(__file__).parents[2] / "conformance" / "vectors"
INDEX: dict[str, str] = json.loads((VECTORS / "index.json").read_text())
"""What each scenario shows, by name."""


def scenario(name: str) -> dict[str, Any]:
    """The scenario of that name."""
    loaded: dict[str, Any] = json.loads((VECTORS / f"{name}.json").read_text())
    return loaded


def expected(name: str) -> list[str]:
    """The real engine's lines."""
    return (VECTORS / f"{name}.jsonl").read_text().splitlines()


@pytest.mark.oracle
@pytest.mark.parametrize("name", INDEX)
def test_the_real_engine_prints_the_recorded_lines(
    name: str, oracle: Oracle, request: pytest.FixtureRequest
) -> None:
    """The recording is up to date; ``--rewrite`` makes it so."""
    lines = recorded(oracle.lines(scenario(name)))
    if request.config.getoption("--rewrite"):
        (VECTORS / f"{name}.jsonl").write_text("".join(f"{line}\n" for line in lines))
    assert expected(name) == lines


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", INDEX)
def test_our_engines_print_the_recorded_lines(name: str, engine: str) -> None:
    """Spec and reference agree with the recording; the reference in every byte of every hash."""
    lines = lines_of(engine, scenario(name))
    assert difference(expected(name), lines, bytewise=engine in EXACT) == ""


def test_the_index_names_every_vector() -> None:
    """No scenario without a sentence and a recording, and none of those without a scenario."""
    scenarios = {path.stem for path in VECTORS.glob("*.json")} - {"index"}
    recordings = {path.stem for path in VECTORS.glob("*.jsonl")}
    assert scenarios == set(INDEX) == recordings


@pytest.mark.parametrize("name", INDEX)
def test_a_vector_says_what_it_shows(name: str) -> None:
    """One sentence, and a departure is called one."""
    assert INDEX[name].endswith(".")
    assert INDEX[name].startswith("Departure:") == (name.startswith("defect-") or "empty" in name)


def test_no_two_vectors_are_one_scenario() -> None:
    """Each shows something of its own."""
    texts = {json.dumps(scenario(name), sort_keys=True) for name in INDEX}
    assert len(texts) == len(INDEX)


def test_the_vectors_cover_what_can_happen() -> None:
    """Together they show every case that the fuzzer watches for."""
    seen = set().union(*(reached(scenario(name)) for name in INDEX))
    assert seen >= {
        "preemption",
        "several victims in a step",
        "self-preemption",
        "withdrawal of a scheduled victim (priority)",
        "victim before the index, not scheduled (priority)",
        "resumption with a hit",
        "eviction of a hashed block",
        "duplicate hash",
        "shared block",
        "partial prefill",
        "common prefix",
        "negative tokens",
        "output for a preempted request",
        "abort in flight",
        "id used again in flight",
        "reset done",
        "reset refused",
        "reset of running requests in flight",
        "stop token",
        "exception",
        "two steps in flight (synchronous)",
        "three steps in flight (synchronous)",
        "two steps in flight (asynchronous)",
        "three steps in flight (asynchronous)",
        "four steps in flight (asynchronous)",
        "preemption in flight (asynchronous)",
        "resumption in flight (asynchronous)",
        "resumption in flight (synchronous)",
        "finish while preempted (asynchronous)",
        "finish with a step more in flight (asynchronous)",
        "abort in flight (asynchronous)",
        "id used again in flight (asynchronous)",
        "frame dropped (asynchronous)",
        "reset with frames left to drop (asynchronous)",
        "passed over: the outputs in flight are its last",
        "a step scheduled whose output nobody takes",
        "blocks cached by an update",
        "tokens for the next pipeline stage",
        "event: BlockStored",
        "event: BlockRemoved",
        "event: AllBlocksCleared",
        "event: several in one update",
        "event: stored behind a parent",
        "event: stored several blocks",
        "event: stored with an adapter",
        "event: stored with extra keys",
        "somebody is stuck at the end",
    }


def test_a_changed_recording_is_noticed() -> None:
    """One more token computed in one request of one line is a difference, with its place."""
    lines = expected("decode-and-finish")
    changed = [line.replace('"computed":10', '"computed":11') for line in lines]
    assert changed != lines
    found = difference(lines, changed, bytewise=False)
    assert "state.requests.a.computed" in found


def test_every_vector_is_in_scope() -> None:
    """``nullblock run`` takes each of them."""
    for name in INDEX:
        from_dict(scenario(name))
