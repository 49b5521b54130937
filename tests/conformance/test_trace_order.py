"""Records in an order that cannot be, and decisions that may be anything."""

from collections.abc import Callable
from typing import Any

import pytest
from traces import BUSY, documents, read, refused, trace_of, unsealed

Lines = list[dict[str, Any]]
PLAIN = trace_of(BUSY)


def place(lines: Lines, kind: str, nth: int = 0) -> int:
    """Index of the nth line of a kind."""
    return [index for index, line in enumerate(lines) if line["ev"] == kind][nth]


def second_header(lines: Lines) -> None:
    """A trace inside a trace."""
    lines.insert(5, dict(lines[0]))


def no_header(lines: Lines) -> None:
    """It starts with something else."""
    del lines[0]


def step_left_out(lines: Lines) -> None:
    """Step 3 is not there."""
    at = place(lines, "schedule", 2)
    del lines[at : at + 3]


def step_twice(lines: Lines) -> None:
    """Step 2 comes a second time."""
    at = place(lines, "schedule", 1)
    lines[at + 3 : at + 3] = lines[at : at + 3]


def output_before_schedule(lines: Lines) -> None:
    """The model is faster than the scheduler."""
    at = place(lines, "schedule")
    lines[at], lines[at + 1] = lines[at + 1], lines[at]


def update_before_output(lines: Lines) -> None:
    """The engine is faster than the model."""
    at = place(lines, "output")
    lines[at], lines[at + 1] = lines[at + 1], lines[at]


def output_left_out(lines: Lines) -> None:
    """Nobody knows what was sampled."""
    del lines[place(lines, "output", 1)]


def update_left_out(lines: Lines) -> None:
    """The step never ends."""
    del lines[place(lines, "update", 1)]


def output_of_another_step(lines: Lines) -> None:
    """The number is that of a step long past."""
    lines[place(lines, "output", 3)]["step"] = 1


def update_of_another_step(lines: Lines) -> None:
    """The number is that of a step to come."""
    lines[place(lines, "update", 3)]["step"] = 9


def output_for_nobody(lines: Lines) -> None:
    """A request that was not scheduled gets a token."""
    output = lines[place(lines, "output", 1)]
    output["ids"], output["counts"] = [*output["ids"], 77], [*output["counts"], 1]


def output_twice_for_one(lines: Lines) -> None:
    """A request stands in a frame twice."""
    output = lines[place(lines, "output", 1)]
    output["ids"], output["counts"] = output["ids"] * 2, output["counts"] * 2


def end_token_of_nothing(lines: Lines) -> None:
    """A token that was not sampled is an eos."""
    lines[place(lines, "output", 1)]["eos"] = [[0, 5]]


def block_of_nothing(lines: Lines) -> None:
    """A chunk fills a block of output."""
    output = lines[place(lines, "output")]
    output["chain"] = [[output["ids"][output["counts"].index(0)], 3]]


def request_left_out(lines: Lines) -> None:
    """A request was never added, the next one was."""
    del lines[place(lines, "add")]


def request_number_skipped(lines: Lines) -> None:
    """Numbers count up from 0."""
    lines[place(lines, "add", 1)]["id"] = 5


def chain_number_skipped(lines: Lines) -> None:
    """Chain numbers count up from 0 too."""
    lines[place(lines, "add")]["chain"] = [[0, 1], [2, 2]]


def chain_too_short(lines: Lines) -> None:
    """Every full block has a number."""
    lines[place(lines, "add")]["chain"] = [[0, 2]]


def abort_of_nobody(lines: Lines) -> None:
    """An abort names a request that never arrived."""
    lines[place(lines, "abort")]["asked"] = [40]


def something_after_an_error(lines: Lines) -> None:
    """The engine raised and went on."""
    lines.insert(4, {"ev": "error", "during": "schedule", "type": "AssertionError"})


def something_after_the_loss(lines: Lines) -> None:
    """The recorder gave up and went on."""
    lines.insert(4, {"ev": "lost", "reason": "OSError"})


def part_in_a_file(lines: Lines) -> None:
    """One file has no parts."""
    lines.insert(4, {"ev": "part", "number": 2, "recording": "x"})


def blocks_kept_twice(lines: Lines) -> None:
    """A request ends, and a connector keeps its blocks, once."""
    at = place(lines, "abort")
    lines.insert(at, {"ev": "transfers", "delayed": [lines[at]["asked"][0]] * 2})


def drafts_twice(lines: Lines) -> None:
    """Drafts are proposed once for each request."""
    lines.insert(place(lines, "abort"), {"ev": "draft", "ids": [0, 0], "counts": [1, 1]})


def arrival_inside_an_update(lines: Lines) -> None:
    """Nothing happens while a step is updated."""
    lines.insert(place(lines, "update"), {"ev": "pause", "pause_state": "UNPAUSED"})


@pytest.mark.parametrize(
    "damage",
    [
        second_header,
        no_header,
        step_left_out,
        step_twice,
        output_before_schedule,
        update_before_output,
        output_left_out,
        output_of_another_step,
        update_of_another_step,
        output_for_nobody,
        output_twice_for_one,
        end_token_of_nothing,
        block_of_nothing,
        request_left_out,
        request_number_skipped,
        chain_number_skipped,
        chain_too_short,
        abort_of_nobody,
        blocks_kept_twice,
        drafts_twice,
        something_after_an_error,
        something_after_the_loss,
        part_in_a_file,
        arrival_inside_an_update,
        update_left_out,
    ],
)
def test_an_impossible_order_is_damage(damage: Callable[[Lines], None]) -> None:
    """Records that no recorder writes in this order are refused, on the first that cannot be."""
    lines = documents(PLAIN)
    whole = len(lines)
    damage(lines)
    said = refused(unsealed(lines))
    assert said.line >= 1 and said.remedy and said.line <= whole + 3


def wrong_request(lines: Lines) -> None:
    """A step schedules a request that nobody knows."""
    lines[place(lines, "schedule", 1)]["ids"][0] = 99


def wrong_tokens(lines: Lines) -> None:
    """A step grants a negative number of tokens."""
    lines[place(lines, "schedule", 1)]["tokens"][0] = -7


def wrong_finish(lines: Lines) -> None:
    """A request that never was ends."""
    lines[place(lines, "update", 1)]["finish"] = [{"id": 50, "reason": "fatigue"}]


def wrong_abort(lines: Lines) -> None:
    """An abort ends somebody else."""
    lines[place(lines, "abort")]["aborted"] = [60]


@pytest.mark.parametrize("change", [wrong_request, wrong_tokens, wrong_finish, wrong_abort])
def test_a_decision_is_never_damage(change: Callable[[Lines], None]) -> None:
    """However absurd, it reaches whoever judges it."""
    lines = documents(PLAIN)
    change(lines)
    kind = {wrong_finish: "update", wrong_abort: "abort"}.get(change, "schedule")
    at = place(lines, kind, 0 if kind == "abort" else 1)
    records = read(unsealed(lines[: at + 1]))
    assert len(records) == at + 1


def test_a_number_may_come_back_when_its_request_is_gone() -> None:
    """An id that is used again after its request ended is no damage."""
    scenario = {
        "config": {"block_size": 4},
        "events": [
            {"op": "add", "id": "a", "prompt": [1, 2], "max_tokens": 1},
            {"op": "step"},
            {"op": "add", "id": "a", "prompt": [1, 2], "max_tokens": 1},
            {"op": "abort", "ids": ["a"]},
            {"op": "add", "id": "a", "prompt": [1, 2], "max_tokens": 1},
        ],
    }
    adds = [line for line in documents(trace_of(scenario)) if line["ev"] == "add"]
    assert [add["id"] for add in adds] == [0, 0, 0]
    assert len(read(trace_of(scenario))) == len(documents(trace_of(scenario)))
