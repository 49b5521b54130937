"""Who gets how many tokens: the examples of batches, budgets and joining."""

from seeds.scenarios import RUN, Play, add, batch, schedules, step

LARGE = {"block_size": 16, "num_blocks": 2000, "max_model_len": 20_000, "max_num_seqs": 16}


def test_the_batch_of_1024_1_500_and_1(play: Play) -> None:
    """Prefill cut by the threshold, decode, rest of a prefill, decode: 1526 tokens in one step.

    The example's budget of 2048 never binds in that step, so one of 4096 gives the same batch. It
    has to be larger to get there: see the next test.
    """
    config = {**LARGE, "max_num_batched_tokens": 4096, "long_prefill_token_threshold": 1024}
    r1, r2 = add("r1", 0, 4024), add("r2", 5000, 9)
    r3, r4 = add("r3", 6000, 1524), add("r4", 8000, 7)
    first, second = schedules(play({"config": config, "events": [r1, r2, r3, r4, step(2)]}))
    assert batch(first) == [("r1", 1024), ("r2", 9), ("r3", 1024), ("r4", 7)]
    assert first["state"]["requests"]["r1"]["computed"] == 4024 - 3000
    assert first["state"]["requests"]["r3"]["computed"] == 1524 - 500
    assert batch(second) == [("r1", 1024), ("r2", 1), ("r3", 500), ("r4", 1)]
    assert second["total"] == 1526


def test_that_batch_cannot_arise_under_its_own_budget(play: Play) -> None:
    """With a budget of 2048, r3 leaves nothing for r4 until its own prompt is done.

    r1 takes 1024 of it in every step in which it has as much left, r2 one more, and a request that
    is cut by the budget takes all the rest. So while r1 and r3 are both in the middle of their
    prompts nobody behind r3 can have been admitted, and the example's queue cannot exist.
    """
    config = {**LARGE, "max_num_batched_tokens": 2048, "long_prefill_token_threshold": 1024}
    r1, r2 = add("r1", 0, 4024), add("r2", 5000, 9)
    r3, r4 = add("r3", 6000, 1524), add("r4", 8000, 7)
    first, second = schedules(play({"config": config, "events": [r1, r2, r3, r4, step(2)]}))
    assert batch(first) == [("r1", 1024), ("r2", 9), ("r3", 1015)]
    assert batch(second) == [("r1", 1024), ("r2", 1), ("r3", 509), ("r4", 7)]


TABLE = {"req_1": 2048, "req_2": 4096, "req_3": 8192, "req_4": 512, "req_5": 1024, "req_6": 16384}
"""Prompt lengths of the table of scheduling decisions."""


def table(id: str) -> dict[str, object]:
    """A request of the table; no two share a prefix."""
    return add(id, 20_000 * list(TABLE).index(id), TABLE[id])


def test_the_table_of_decisions_with_its_budget_alone(play: Play) -> None:
    """A budget of 6000 gives decodes one token, and cuts only the request at which it ends.

    The table ends with 110 tokens unspent and two prompts in the middle. Only the budget cuts a
    prompt here, and what it cuts takes all that is left: of the rest of req_3's prompt all 5120
    tokens fit, and req_2, which has not begun and therefore waits, gets the remaining 878. A
    request cannot be running with nothing computed, as the table has it.
    """
    config = {**LARGE, "max_num_batched_tokens": 6000, "num_blocks": 4000}
    filler = add("filler", 500_000, 6000 - 2048 - 512 - 3072, max_tokens=1)
    begun = [table("req_1"), table("req_4"), filler, table("req_3"), step()]
    arrived = [table("req_2"), table("req_5"), table("req_6"), step()]
    first, second = schedules(play({"config": config, "events": begun + arrived}))
    assert first["state"]["requests"]["req_3"]["computed"] == 3072
    assert batch(second) == [("req_1", 1), ("req_4", 1), ("req_3", 5120), ("req_2", 878)]
    assert second["total"] == 6000


def test_the_table_of_decisions_with_a_threshold(play: Play) -> None:
    """A threshold of 512 explains the table's chunk of req_3, and cuts every other prompt too.

    So req_2, req_5 and req_6 get 512 each, not 4096, 1024 and 256.
    """
    config = {
        **LARGE,
        "max_num_batched_tokens": 6000,
        "num_blocks": 4000,
        "long_prefill_token_threshold": 512,
    }
    events = [table("req_1"), table("req_4"), table("req_3"), step(6)]
    events += [table("req_2"), table("req_5"), table("req_6"), step()]
    lines = schedules(play({"config": config, "events": events}))
    assert lines[-2]["state"]["requests"]["req_3"]["computed"] == 3072
    assert batch(lines[-1]) == [
        ("req_1", 1),
        ("req_4", 1),
        ("req_3", 512),
        ("req_2", 512),
        ("req_5", 512),
        ("req_6", 512),
    ]


def test_what_holds_of_the_table(play: Play) -> None:
    """Full prefill, full prefill of a newcomer, and a chunk of the last one, within 6000."""
    config = {**LARGE, "max_num_batched_tokens": 6000, "num_blocks": 4000}
    events = [table("req_1"), table("req_4"), step()]
    events += [table("req_2"), table("req_5"), table("req_6"), step()]
    last = schedules(play({"config": config, "events": events}))[-1]
    decodes, rest = [("req_1", 1), ("req_4", 1)], 6000 - 2 - 4096 - 1024
    assert batch(last) == [*decodes, ("req_2", 4096), ("req_5", 1024), ("req_6", rest)]


def test_a_prompt_of_4096_under_a_budget_of_512(play: Play) -> None:
    """Chunks of 512 until nothing is left, then decodes; no queue or state changes in between."""
    config = {**LARGE, "max_num_batched_tokens": 512}
    lines = schedules(play({"config": config, "events": [add("r", 0, 4096), step(10)]}))
    assert [line["total"] for line in lines] == [512] * 8 + [1, 1]
    left = [4096 - line["state"]["requests"]["r"]["computed"] for line in lines[:8]]
    assert left[0] == 3584 and left[-1] == 0
    assert {line["state"]["requests"]["r"]["status"] for line in lines} == {"RUNNING"}


def test_requests_join_and_leave_at_any_step(play: Play) -> None:
    """A is gone after step 20 and D runs in step 21; B after step 35, and E runs in step 36."""
    config = {**LARGE, "max_num_seqs": 3}
    lengths = {"A": 20, "B": 35, "C": 50, "D": 50, "E": 50}
    events = [add(id, 100 * n, 5, length) for n, (id, length) in enumerate(lengths.items())]
    lines = schedules(play({"config": config, "events": [*events, RUN]}))
    assert {tuple(line["order"]) for line in lines[:20]} == {("A", "B", "C")}
    assert {tuple(line["order"]) for line in lines[20:35]} == {("B", "C", "D")}
    assert lines[20]["finished"] == ["A"]
    assert {tuple(line["order"]) for line in lines[35:50]} == {("C", "D", "E")}
    assert lines[35]["finished"] == ["B"]
