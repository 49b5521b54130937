"""What some descriptions say and the engine does not do."""

import json
from typing import Any

import pytest
from fuzz.lockstep import lines_of
from seeds.scenarios import RUN, Play, add, batch, schedules, step

from nullblock.conformance.lockstep.generator import seeded

SMALL = {"block_size": 4, "num_blocks": 9, "max_model_len": 64}


def test_a_step_without_budget_preempts_nobody(play: Play) -> None:
    """One description preempts running requests for which no token is left.

    They would lose all they have computed for want of one token. The engine lets them be: they
    keep their blocks and their place. A pause leaves no budget at all.
    """
    pause = {"op": "pause", "state": "PAUSED_ALL"}
    go_on = {"op": "pause", "state": "UNPAUSED"}
    events = [add("a", 0, 5), add("b", 20, 2), step(), pause, step(), go_on, step()]
    before, paused, after = schedules(play({"config": SMALL, "events": events}))
    assert batch(paused) == [] and paused["preempted"] == []
    assert paused["state"]["ref_cnt"] == before["state"]["ref_cnt"]
    assert batch(after) == [("a", 1), ("b", 1)]


def test_a_spent_budget_preempts_nobody(play: Play) -> None:
    """One description preempts running requests for which no token is left.

    They would lose all they have computed for want of one token. Here every step spends its
    whole budget: those who run go on, the newcomer waits, and nobody loses a block.
    """
    config = {**SMALL, "num_blocks": 12, "max_num_batched_tokens": 6}
    config["long_prefill_token_threshold"] = 5
    events = [add("long", 0, 20), add("short", 40, 1), step(), add("late", 50, 1), step(3)]
    lines = schedules(play({"config": config, "events": events}))
    assert [batch(line) for line in lines] == [[("long", 5), ("short", 1)]] * 4
    assert {tuple(line["state"]["waiting"]) for line in lines[1:]} == {("late",)}
    assert all(line["preempted"] == [] for line in lines)


@pytest.mark.parametrize("number", range(30))
def test_nobody_who_runs_is_left_without_budget(number: int) -> None:
    """With one step in flight at most, that description's case does not even arise.

    A request that runs takes no more than in the step before, unless the budget cut it there, and
    then it was the last one. So those in front leave enough for those behind: whoever runs, keeps
    its blocks and has something to compute is in the next step that preempts nobody.
    """
    document = seeded(f"budget:{number}")
    room = document["config"]["max_model_len"] - 1
    before: dict[str, Any] = {"running": []}
    for line in (json.loads(text) for text in lines_of("reference", document)):
        if line["ev"] == "schedule" and line["order"] and not line["preempted"]:
            for id in set(before["running"]) - set(line["order"]):
                request = before["requests"][id]
                assert min(request["tokens"], room) <= request["computed"], (line["step"], id)
        before = line.get("state") or before


def test_preempted_requests_resume_after_the_running_ones(play: Play) -> None:
    """One description resumes requests that have something cached before it runs the others.

    In the engine they come back through the waiting queue: the running phase is over by then.
    """
    config = {**SMALL, "num_blocks": 8}
    events = [add("a", 0, 3, 12), add("b", 20, 11, 3), add("c", 40, 11, 6), step(4)]
    lines = schedules(play({"config": config, "events": events}))
    assert lines[2]["preempted"] == ["c"]
    assert lines[3]["order"] == ["a", "c"]
    assert [(one["id"], one["resumed"]) for one in lines[3]["cached"]] == [
        ("a", False),
        ("c", True),
    ]


def test_the_last_admitted_pays_and_resumes_first(play: Play) -> None:
    """Preemption is last in, first out under FCFS, and the victim waits in front of newcomers."""
    config = {**SMALL, "scheduler_reserve_full_isl": False}
    events = [add("a", 0, 12, 12), add("b", 20, 12, 12), step(5), add("late", 40, 4, 2), RUN]
    lines = schedules(play({"config": config, "events": events}))
    preempting = next(line for line in lines if line["preempted"])
    assert preempting["preempted"] == ["b"]
    assert preempting["state"]["waiting"] == ["b", "late"]


def test_computed_tokens_are_counted_when_a_step_is_scheduled(play: Play) -> None:
    """One description adds them when the output arrives; the engine has added them before."""
    events = [add("a", 0, 10), {"op": "schedule"}]
    (line,) = schedules(play({"config": SMALL, "events": events}))
    assert line["state"]["requests"]["a"]["computed"] == 10
    assert line["state"]["requests"]["a"]["output"] == 0


def test_a_finished_request_is_freed_by_the_update_and_told_by_the_next_step(play: Play) -> None:
    """One description finds and frees finished requests while it schedules."""
    lines = play({"config": SMALL, "events": [add("a", 0, 10, 1), step(2)]})
    update = next(line for line in lines if line["ev"] == "update")
    assert update["state"]["requests"] == {}
    assert update["state"]["num_free"] == 8
    first, second = schedules(lines)
    assert first["finished"] == [] and second["finished"] == ["a"]


def test_nobody_is_preempted_for_a_waiting_request(play: Play) -> None:
    """One description frees memory for new prompts by preempting running requests."""
    events = [add("a", 0, 26, 2), step(), add("b", 40, 26, 2), RUN]
    lines = schedules(play({"config": SMALL, "events": events}))
    assert all(line["preempted"] == [] for line in lines)
    admitted = next(line for line in lines if any(new["id"] == "b" for new in line["new"]))
    assert admitted["finished"] == ["a"]
