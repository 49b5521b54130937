"""Short forms that do not say who opens or fills a block: what they mean, and what is damage."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from recorded_engine import Recorded, engine, request
from test_trace_short import HEAD, NOBODY, NUMBERS, told, wrong
from traces import read, refused, unsealed

from nullblock.conformance.adapters import reference as adapter
from nullblock.conformance.adapters.vllm.filling import Edges
from nullblock.conformance.checker.check import check
from nullblock.conformance.trace.records import Output, Schedule
from nullblock.spec.profiles import VLLM_0_22_1

# Blocks of 4 tokens: step 1 of `first` has requests 1, 2 and 3 end at 11, 21 and 8 tokens.
SIZE = HEAD["config"]["block_size"]


def test_given_blocks_go_to_those_who_begin_one() -> None:
    """One each, in schedule order; whoever is odd is not among them, and told of as before."""
    assert SIZE == 4
    (step,) = told({"ev": "schedule+", "step": 2, "given": [7], "blocks": [[2, [[9]]]]})
    assert isinstance(step, Schedule) and step.cached.computed == [11, 21, 8]
    assert step.cached.blocks == [(2, [[9]]), (3, [[7]])]
    odd = {"ev": "schedule+", "step": 2, "odd": [[3, 1, 8, 9]], "blocks": [[3, [[7]]]]}
    (step,) = told(odd)
    assert step.cached.blocks == [(3, [[7]])]
    assert "1 blocks `given` in step 2, where 0 are due" in wrong({**odd, "given": [7]})


def test_as_many_blocks_are_given_as_are_due() -> None:
    """None too many, none too few."""
    for given in ([7, 8], [7, 8, 9]):
        assert "where 1 are due" in wrong({"ev": "schedule+", "step": 2, "given": given})


def test_fresh_content_is_numbered_in_schedule_order() -> None:
    """Whoever's block is full with the token sampled: 11 computed and one more fill the third."""
    step = {"ev": "schedule", "step": 1, "ids": [1, 2, 3], "tokens": [1, 1, 1]}
    cached = {"ids": [1, 2, 3], "computed": [10, 20, 6], "num_output": [5, 6, 1]}
    lines = [HEAD, NOBODY, {**step, "cached": cached, "state": NUMBERS}]
    (output,) = read(unsealed([*lines, {"ev": "output+", "step": 1, "fresh": 40}]))[3:]
    assert isinstance(output, Output) and output.chain == [(1, 40), (3, 41)]
    both = {"ev": "output+", "step": 1, "fresh": 40, "chain": []}
    assert "in place of" in refused(unsealed([*lines, both])).what


def test_fresh_content_refers_to_a_step_that_is_told() -> None:
    """Of a step from before the recording, only its requests are known."""
    state = NOBODY | {"step": 1, "in_flight": [{"step": 1, "ids": [1], "tokens": [1]}]}
    output = {"ev": "output+", "step": 1, "fresh": 4}
    assert "`fresh` refers to step 1" in refused(unsealed([HEAD, state, output])).what


def test_given_blocks_go_to_those_who_are_named() -> None:
    """In place of those who begin one: odd ones as well, and those behind the ones who stay."""
    step = {"ev": "schedule+", "step": 2, "gets": [1, 2], "given": [7, 8]}
    (told_,) = told({**step, "blocks": [[3, [[5, 6]]]]})
    assert told_.cached.blocks == [(1, [[7]]), (2, [[8]]), (3, [[5, 6]])]
    odd = {"odd": [[3, 1, 8, 9]], "gets": [2, 3], "ids": [4], "tokens": [1], "known": [[4, 4, 0]]}
    (told_,) = told({**step, **odd, "blocks": [[4, [[9, 10]]], [1, [[5, 6]]]]})
    assert told_.cached.ids == [1, 2, 3, 4]
    assert told_.cached.blocks == [(1, [[5, 6]]), (2, [[7]]), (3, [[8]]), (4, [[9, 10]])]
    assert "`gets` and `given` differ" in wrong({**step, "given": [7]})


def test_new_content_is_of_those_who_are_named() -> None:
    """Who fills blocks, one after another, and somebody two of them."""
    step = {"ev": "schedule", "step": 1, "ids": [1, 2, 3], "tokens": [1, 1, 1]}
    cached = {"ids": [1, 2, 3], "computed": [10, 20, 6], "num_output": [5, 6, 1]}
    lines = [HEAD, NOBODY, {**step, "cached": cached, "state": NUMBERS}]
    filled = {"ev": "output+", "step": 1, "fills": [2, 2, 3], "fresh": 40}
    (output,) = read(unsealed([*lines, filled]))[3:]
    assert isinstance(output, Output) and output.chain == [(2, 40), (2, 41), (3, 42)]
    lone = {"ev": "output+", "step": 1, "fills": [2]}
    assert "`fills` without `fresh`" in refused(unsealed([*lines, lone])).what


def unlike(n: int, tokens: int, most: int) -> Any:
    """A request that shares nothing with others."""
    made = request(f"r{n}", max_tokens=most)
    return replace(made, prompt=[1000 * n + i for i in range(tokens)])


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Records a run, decodes with ends and arrivals, and gives its lines."""

    def record(name: str) -> list[dict[str, Any]]:
        path = tmp_path / f"{name}.jsonl"
        monkeypatch.setenv("NULLBLOCK_TRACE", str(path))
        monkeypatch.setattr(adapter, "Scheduler", Recorded)
        made = engine(num_blocks=200, max_num_batched_tokens=100)
        for n in range(9):
            made.add(unlike(n, 3 + n, 9 + 2 * n))
        for n in range(30):
            if n % 7 == 3:
                made.add(unlike(100 + n, 6, 9))
            decided = made.schedule()
            made.update({id: [9] for id in decided["order"]})
        made.scheduler.shutdown()
        return [json.loads(line) for line in path.read_text().splitlines()]

    return record


def test_what_is_left_out_is_what_would_be_told(
    recorded: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With and without the short forms a recording stands for the same records."""
    short = recorded("short")
    assert sum("given" in line for line in short) > 5
    assert sum("fresh" in line for line in short) > 5
    monkeypatch.setattr(Edges, "__init__", _told_nothing)
    whole = recorded("whole")
    assert not any("given" in line or "fresh" in line for line in whole)
    one, other = (read(unsealed([*lines[:-1]]))[1:] for lines in (short, whole))
    assert one == other


def _told_nothing(edges: Edges, block_size: int) -> None:
    """In place of what makes an ``Edges``: block sizes do not divide 256."""
    edges.told = False
    edges._first = edges._last_but_one = bytes(256)


def test_a_changed_block_is_found_at_its_step(recorded: Any, tmp_path: Path) -> None:
    """Another block given, or two that change places: a violation, in that very step."""
    lines = recorded("run")
    assert verdict(lines, tmp_path)[0] == "CONFORMS"
    tried = 0
    for place, line in enumerate(lines):
        if line["ev"] != "schedule+" or len(line.get("given", ())) < 2:
            continue
        first, second, *rest = line["given"]
        for given in ([second, first, *rest], [first, second + 1, *rest]):
            changed = [*lines[:place], {**line, "given": given}, *lines[place + 1 :]]
            assert verdict(changed, tmp_path) == ("VIOLATION", line["step"])
            tried += 1
    assert tried > 5


def test_a_changed_number_is_not_passed_over(recorded: Any, tmp_path: Path) -> None:
    """A content that was seen before, or numbers that are skipped: never CONFORMS."""
    lines = recorded("run")
    for place, line in enumerate(lines):
        if line.get("fresh"):
            changed = [*lines[:place], {**line, "fresh": line["fresh"] + 1}, *lines[place + 1 :]]
            assert verdict(changed, tmp_path)[0] == "MALFORMED"


def verdict(lines: list[dict[str, Any]], folder: Path) -> tuple[str, int]:
    """What is said of a trace, and of which step."""
    path = folder / "t.jsonl"
    path.write_bytes(unsealed(lines[:-1]))
    found = check(path, VLLM_0_22_1, deep=False)
    return found.verdict, found.first.step if found.first is not None else 0
