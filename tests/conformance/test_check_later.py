"""Recordings of vLLM 0.32.0 with what its line has beside the core: judged, and none is blamed."""

import itertools
import json
import math
import random
from pathlib import Path
from typing import Any

import pytest
from fuzz import models
from fuzz.families import FAMILIES
from fuzz.lockstep import features
from fuzz.traced import from_a_front_end
from record_again import record_all
from traces import said

from nullblock.conformance import groups
from nullblock.conformance.checker import fast
from nullblock.conformance.checker.check import check
from nullblock.conformance.engine import Feature
from nullblock.conformance.errors import InputError
from nullblock.conformance.lines.extent import check_followed, extent
from nullblock.conformance.scenario import from_dict
from nullblock.conformance.scope import used
from nullblock.spec.profiles import VLLM_0_22_1, VLLM_0_32_0

pytestmark = pytest.mark.oracle

DRAWN = (
    *("core", "drafts", "windows", "hybrid", "mamba", "waits", "items", "drafts-groups"),
    *("sessions", "sessions-priority", "sessions-remote", "remote", "contract", "sizes", "cross"),
    *("loaded items", "loaded items of sessions", "later-states", "vectors"),
)
LOADED = {"loaded items": "items", "loaded items of sessions": "sessions"}
"""The families whose items an encoder connector may have."""
UNTOLD = {
    Feature.sinks,
    Feature.unchecked_input,
}
"""What traces of that line are refused with, by name."""
ELSEWHERE = {Feature.v2_model_runner}
"""What test_check_runner.py draws."""
TOLD = extent(features(("spec",)), VLLM_0_32_0) - UNTOLD - ELSEWHERE
MANY, SIZE = 12, 14
UNKNOWN = (
    *("of a later chunk", "a prompt longer than max_model_len", "an empty prompt"),
    *("which was evicted", "that is not whole", "cross-attention beside encoder inputs"),
)
"""What a recording has that is named, and not judged."""


def drawn(family: str) -> dict[str, dict[str, Any]]:
    """Random scenarios of a family that the real engine takes, by name."""
    made = (_made(family, n) for n in itertools.count())
    taken = filter(is_taken, map(from_a_front_end, made))
    return {f"{family} {n}": one for n, one in enumerate(itertools.islice(taken, MANY))}


def _made(family: str, n: int) -> dict[str, Any]:
    """The n-th scenario of a family, or of one whose items a connector has some of."""
    document = FAMILIES[LOADED.get(family, family)].make(f"later {n}", SIZE, TOLD)
    if family in LOADED:
        models.external(document, random.Random(f"later {n}"))
    return document


def is_taken(document: dict[str, Any]) -> bool:
    """Whether it can be played, traces have words for it, and the line is shown in it; a step may
    compute anything, and drafts that are told are configured.
    """
    try:
        scenario = from_dict(document)
        check_followed(scenario.config, VLLM_0_32_0)
    except InputError:
        return False
    if not {feature for feature, _ in used(scenario)} <= TOLD:
        return False
    if groups.has(scenario.config, "mamba") and scenario.config.connector is not None:
        return False
    beyond = (
        scenario.config.max_num_scheduled_tokens or 0
    ) > scenario.config.max_num_batched_tokens
    if beyond and groups.aligns(scenario.config):
        return False
    config = document["config"]
    told = "drafts" in config or any(e["op"] == "draft" for e in document["events"])
    return not told or bool(config.get("num_spec_tokens"))


@pytest.fixture(scope="module")
def recorded(oracle_0_32_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with every drawn scenario, run plain and recorded on the real engine."""
    folder = tmp_path_factory.mktemp("later")
    every = {name: made for family in DRAWN for name, made in drawn(family).items()}
    record_all(oracle_0_32_python, every, folder)
    return folder


@pytest.mark.parametrize("family", DRAWN)
def test_what_the_later_release_does_conforms(family: str, recorded: Path) -> None:
    """Each recording does, but for those of an engine that raised, and those with something that
    is named; and not all of them do by the rules of the line before.
    """
    verdicts = {}
    for name in drawn(family):
        verdict = check(recorded / f"{name}.jsonl", deep=False)
        raised = '"EXCEPTION"' in (recorded / f"{name}.plain").read_text()
        assert verdict.profile == "vllm-0.32.0"
        known = raised or any(what in "".join(verdict.missing) for what in UNKNOWN)
        assert verdict.verdict == "CONFORMS" or (known and verdict.verdict == "INCONCLUSIVE"), (
            name,
            verdict,
        )
        verdicts[name] = verdict.verdict
    assert list(verdicts.values()).count("CONFORMS") > MANY // 2
    others = (check(recorded / f"{name}.jsonl", VLLM_0_22_1, deep=False) for name in verdicts)
    assert any(other.verdict == "VIOLATION" for other in others)


@pytest.mark.parametrize("family", ["mamba", "sizes", "hybrid", "loaded items", "later-states"])
def test_the_erased_form_says_the_same(
    family: str, recorded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the letter, of each recording, from its first step on."""
    erased: list[bool] = []
    erase = fast.Machine.erase

    def noted(machine: fast.Machine) -> None:
        erase(machine)
        erased.append(machine.erased)

    monkeypatch.setattr(fast.Machine, "erase", noted)
    for name in drawn(family):
        verdicts = []
        for after in (math.inf, 0):
            monkeypatch.setattr(fast, "AFTER", after)
            verdicts.append(said(check(recorded / f"{name}.jsonl", deep=False)))
        assert verdicts[0] == verdicts[1], name
    assert len(erased) > MANY // 2 and all(erased)


BEGINS_SHORT = {
    "config": {"block_size": 4},
    "events": [
        {"op": "add", "id": "a", "prompt": [1], "max_tokens": 1, "resumable": True},
        {"op": "add", "id": "a", "prompt": {"range": [9, 18]}, "max_tokens": 1, "resumable": True},
        {"op": "step", "n": 3},
    ],
}


@pytest.mark.parametrize("line", ["vllm-0.22.1", "vllm-0.32.0"])
def test_blocks_that_a_chunk_fills_are_told_with_it(
    line: str, pythons: dict[str, Path], tmp_path: Path
) -> None:
    """And not with the output before, where the session had no full block until then."""
    record_all(pythons[line], {"short": BEGINS_SHORT}, tmp_path, "0")
    lines = [json.loads(one) for one in (tmp_path / "short.jsonl").read_text().splitlines()]
    filled = [x["chain"] for x in lines if x["ev"].startswith("output")]
    taken = [turn.get("taken") for x in lines for turn in x.get("turns", ())]
    assert filled == [[], [], []]
    assert taken[0]["chain"] == [[0, 2]]
    verdict = check(tmp_path / "short.jsonl")
    assert (verdict.verdict, verdict.profile) == ("CONFORMS", line)


STOPS_AGAIN = {
    "config": {"max_num_seqs": 1},
    "events": [
        {"op": "add", "id": "a", "prompt": [1], "max_tokens": 1},
        {"op": "schedule"},
        {"op": "reset_prefix_cache", "reset_running": True},
        {"op": "schedule"},
        {"op": "abort", "ids": ["a"]},
        {"op": "add", "id": "a", "prompt": [1], "max_tokens": 1, "resumable": True},
        {"op": "drain"},
        {"op": "step", "n": 2},
    ],
}


def test_a_session_that_stops_again_is_not_judged(
    oracle_0_32_python: Path, tmp_path: Path
) -> None:
    """It has the id of another one, whose outputs in flight are its own."""
    record_all(oracle_0_32_python, {"again": STOPS_AGAIN}, tmp_path)
    verdict = check(tmp_path / "again.jsonl")
    assert verdict.verdict == "INCONCLUSIVE"
    assert verdict.missing == [
        "how session 0 goes on, which stops again while it waits for its turn"
    ]


def test_a_budget_of_nothing_is_one(oracle_0_32_python: Path, tmp_path: Path) -> None:
    """Nobody is scheduled; the line before took what a batch may have instead."""
    config = {"block_size": 4, "max_num_scheduled_tokens": 0}
    arrival = {"op": "add", "id": "a", "prompt": {"range": [0, 5]}, "max_tokens": 2}
    nobody = {"config": config, "events": [arrival, {"op": "step", "n": 3}]}
    record_all(oracle_0_32_python, {"nobody": nobody}, tmp_path)
    verdict = check(tmp_path / "nobody.jsonl", deep=False)
    assert verdict.verdict == "CONFORMS" and verdict.steps == 3
