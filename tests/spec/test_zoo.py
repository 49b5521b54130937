"""Defects of the zoo of which a page of results tells too little: what becomes of them, played."""

import json
from dataclasses import replace
from typing import Any

import pytest

from nullblock.conformance.adapters.spec import create
from nullblock.conformance.driver import run
from nullblock.conformance.lines.example import VECTORS
from nullblock.conformance.scenario import from_dict
from nullblock.spec.explorer.model import Scope, Template
from nullblock.spec.explorer.remote_scopes import LOADS
from nullblock.spec.explorer.search import explore
from nullblock.spec.facts import Config, Encoder, Item
from nullblock.spec.liveness.check import check
from nullblock.spec.mutation.forks import Json, with_defect
from nullblock.spec.mutation.generate import by_id
from nullblock.spec.profiles import VLLM_0_32_0
from nullblock.spec.zoo import ZOO

SECONDS = 300.0
"""Of processor time, at most, for what is played with a defect."""


def slip(entry: str) -> str:
    """The mutant that an entry names."""
    (found,) = (e.mutant for e in ZOO if e.id == entry)
    return found


def both(entry: str, work: Any) -> tuple[Json, Json]:
    """What comes of something without a defect, and with it."""
    without = with_defect(None, work, SECONDS)
    found = with_defect(by_id()[slip(entry)], work, SECONDS)
    assert without.keys() == found.keys() and "failed" not in found, found
    return without, found


def played(document: dict[str, Any]) -> list[dict[str, Any]]:
    """The lines of a scenario in the later line that tell a state."""
    taken = from_dict(document)
    lines = map(json.loads, run(taken, create(taken.config, VLLM_0_32_0)))
    return [line for line in lines if line.get("state")]


def recorded(name: str) -> dict[str, Any]:
    """A golden scenario."""
    document: dict[str, Any] = json.loads((VECTORS / f"{name}.json").read_text())
    return document


def test_one_preemption_leads_to_the_next_until_nobody_runs() -> None:
    """B55: three fill the pool; a fourth block is wanted, and who is preempted gives none back.
    With PREEMPT-8 whoever asks waits for the steps in flight, and one is preempted.
    """
    document = recorded("nobody-is-preempted-in-flight")
    document["config"]["num_blocks"] = 7
    adds = (
        {"op": "add", "id": id, "prompt": {"range": [20 * i, 20 * i + 8]}, "max_tokens": 5}
        for i, id in enumerate("abc")
    )
    events = [{"op": op} for op in ("schedule", "schedule", "update", "update", "schedule")]
    document["events"] = [*adds, *events]

    def preempted() -> Json:
        steps = [x for x in played(document) if x["ev"] == "schedule"]
        return {"victims": [x["preempted"] for x in steps], "run": steps[1]["state"]["running"]}

    without, found = both("B55", preempted)
    assert without == {"victims": [[], [], ["c"]], "run": ["a", "b", "c"]}
    assert found == {"victims": [[], ["a", "b", "c"], []], "run": []}


def test_a_load_gets_a_block_that_a_step_in_flight_writes() -> None:
    """B73: two steps are in flight, the second of which writes to block 3. With REMOTE-42 the load
    begins when both have come back.
    """
    document = recorded("freed-while-a-step-computes")
    document["events"] = document["events"][:6]

    def free() -> Json:
        *_, gone, last = played(document)
        return {"free": gone["state"]["free_queue"], "loads": 4 - last["state"]["num_free"]}

    without, found = both("B73", free)
    assert without == {"free": [4], "loads": 3}  # of the four blocks it holds none: three are kept
    assert found == {"free": [3, 4, 2, 1], "loads": 2}


@pytest.mark.parametrize(("late", "queue"), [(False, [2, 1, 4, 3]), (True, [4, 3, 2, 1])])
def test_blocks_that_come_back_late_come_back_in_one(late: bool, queue: list[int]) -> None:
    """B20: of two tables the first one's blocks are evicted first where they are freed at once,
    and last where they were put off, in vllm-0.32.0: REMOTE-54. The real one prints the same.
    """
    document = recorded("freed-while-a-step-computes")
    groups = [{"type": "full"}, {"type": "sliding_window", "sliding_window": 8}]
    connector = {"matched": {}, "all_groups": True, "async": True}
    document["config"] |= {"num_blocks": 12, "groups": groups, "connector": connector}
    steps = [{"op": "schedule"}, {"op": "schedule" if late else "update"}]
    ends = [{"op": "update"}, {"op": "update"}] if late else []
    abort = {"op": "abort", "ids": ["a"]}
    document["events"] = [document["events"][0], *steps, abort, *ends]
    assert played(document)[-1]["state"]["free_queue"][-4:] == queue


def test_a_load_into_freed_blocks_is_seen_as_they_leave() -> None:
    """B78: between steps nothing tells any more that somebody loads; after every rule REMOTE-30
    does, when the first block leaves the table.
    """

    def breaks() -> Json:
        found = [
            explore(replace(LOADS, every_rule=every), limit=60).counterexample
            for every in (False, True)
        ]
        return {"by": [None if f is None else f.breaks for f in found]}

    without, found = both("B78", breaks)
    assert without == {"by": [None, None]} and found == {"by": [None, "REMOTE-30"]}


LONE_LOAD = Scope(
    "lone-load",
    "a load that is given up, and a request that needs nearly the whole pool",
    Config(5, 2, 4, 2, 8, connector=True),
    (
        Template("a", (1001,) * 5, 1, remote=4, loads_over_steps=True),
        Template("b", (1002,) * 6, 1),
    ),
    halves=True,
)


def test_blocks_of_a_load_that_never_ends_are_missed_for_ever() -> None:
    """B79: whoever is aborted while it is loaded keeps its blocks, and another waits on a cycle on
    which all is fair.
    """

    def starved() -> Json:
        result = check(LONE_LOAD)
        assert result.complete
        return {"by": [f.id for f in result.findings if f.lasso is not None]}

    without, found = both("B79", starved)
    assert without == {"by": []} and found == {"by": ["LIVE-4", "LIVE-1"]}


ONE_BY_ONE = Scope(
    "one-by-one",
    "inputs of which a step computes one token, in a cache that has room for one of them",
    Config(5, 2, 4, 2, 8, encoder=Encoder(3, 3), long_prefill_token_threshold=1),
    (
        Template("a", (1001, 1009, 1009, 1009), 1, items=(Item(1, 1, 3),)),
        Template("b", (1002, 1009, 1009), 1, items=(Item(2, 1, 2),)),
    ),
    aborts=False,
)


def test_an_input_that_is_given_up_too_soon_is_looked_for_again() -> None:
    """B91: the states are others, for whoever was to wait for room finds it, and every statement
    holds in them.
    """

    def went() -> Json:
        result = explore(ONE_BY_ONE)
        broken = result.counterexample and result.counterexample.breaks
        return {"by": broken, "states": result.states, "complete": result.complete}

    without, found = both("B91", went)
    assert without["complete"] and found["complete"]
    assert without["by"] is None and found["by"] is None
    assert without["states"] != found["states"]
