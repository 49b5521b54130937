"""What some descriptions say and the engine does not do."""

from seeds.scenarios import RUN, Play, add, batch, schedules, step

SMALL = {"block_size": 4, "num_blocks": 9, "max_model_len": 64}


def test_a_spent_budget_preempts_nobody(play: Play) -> None:
    """One description preempts running requests for which no token is left.

    They would lose all they have computed for want of one token. The engine lets them be: they
    keep their blocks and their place, and get nothing in this step.
    """
    config = {**SMALL, "max_num_batched_tokens": 3, "max_num_scheduled_tokens": 3}
    events = [add("a", 0, 1), add("b", 20, 1), add("c", 40, 1), step(), add("a2", 60, 8), step()]
    lines = schedules(play({"config": config, "events": events}))
    assert batch(lines[1]) == [("a", 1), ("b", 1), ("c", 1)]
    assert lines[1]["preempted"] == [] and lines[1]["state"]["waiting"] == ["a2"]


def test_a_running_request_without_budget_keeps_its_blocks(play: Play) -> None:
    """A prompt in chunks in front of a decode takes the budget, and the decode waits its turn.

    The prompt's second chunk leaves one token for the request behind it, the next one leaves none.
    """
    config = {**SMALL, "max_num_batched_tokens": 6, "num_blocks": 12}
    config["long_prefill_token_threshold"] = 5
    events = [add("long", 0, 20), add("short", 40, 1), step(), add("late", 50, 1), step(3)]
    lines = schedules(play({"config": config, "events": events}))
    assert batch(lines[0]) == [("long", 5), ("short", 1)]
    for line in lines[1:]:
        assert batch(line) == [("long", 5), ("short", 1)]
        assert line["state"]["waiting"] == ["late"]
        assert line["preempted"] == []


def test_preempted_requests_resume_after_the_running_ones(play: Play) -> None:
    """One description resumes requests that have something cached before it runs the others.

    In the engine they come back through the waiting queue: the running phase is over by then.
    """
    config = {**SMALL, "num_blocks": 7}
    events = [add("a", 0, 7, 9), add("b", 20, 7, 9), add("c", 40, 3, 14), RUN]
    lines = schedules(play({"config": config, "events": events}))
    resumptions = [
        (line["order"], [one["id"] for one in line["cached"] if one["resumed"]]) for line in lines
    ]
    together = [(order, ids) for order, ids in resumptions if ids and len(order) > len(ids)]
    assert together, "somebody resumes beside a running request"
    assert all(order[-len(ids) :] == ids for order, ids in together)


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
