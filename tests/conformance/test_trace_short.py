"""Short forms mean whole records; parts and gaps; what in them is damage."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from traces import BUSY, documents, read, refused, trace_of, unsealed

from nullblock.conformance.trace.decode import Passed
from nullblock.conformance.trace.errors import Cut, Malformed
from nullblock.conformance.trace.reader import TraceReader
from nullblock.conformance.trace.records import End, Gap, Output, Part, Schedule, State, Update
from nullblock.conformance.trace.writer import reseal

HEAD = documents(trace_of(BUSY))[0] | {"start": "unknown"}
NOBODY = {"ev": "state", "step": 0, "running": [], "waiting": [], "requests": [], "in_flight": []}
NUMBERS = {"num_free": 9, "num_running": 3, "num_waiting": 0}


def first(**others: Any) -> dict[str, Any]:
    """A whole step of three: one new, two known."""
    cached = {"ids": [1, 2], "computed": [10, 20], "num_output": [5, 6]}
    cached |= {"blocks": [], "all_tokens": []}
    step = {"ev": "schedule", "step": 1, "ids": [1, 2, 3], "tokens": [1, 1, 8]}
    new = [{"id": 3, "computed": 0, "blocks": [[1, 2]]}]
    return step | {"new": new, "cached": cached, "common_prefix": [4], "state": NUMBERS} | others


def told(*lines: dict[str, Any]) -> list[Any]:
    """The records that lines stand for, after a header and one step."""
    return read(unsealed([HEAD, NOBODY, first(), *lines]))[3:]


def wrong(*lines: dict[str, Any]) -> str:
    """What is said about lines, likewise."""
    return refused(unsealed([HEAD, NOBODY, first(), *lines])).what


def test_an_empty_short_step_is_everybody_once_more() -> None:
    """One token each, computed what was scheduled, one output more, the rest as told last."""
    (step,) = told({"ev": "schedule+", "step": 2})
    assert isinstance(step, Schedule)
    assert (step.ids, step.tokens, step.common_prefix) == ([1, 2, 3], [1, 1, 1], [4])
    assert step.cached.ids == [1, 2, 3] and step.cached.computed == [11, 21, 8]
    assert step.cached.num_output == [6, 7, 1] and step.cached.blocks == []
    assert (step.state.num_free, step.state.num_running) == (9, 3)


def test_a_short_step_says_what_differs() -> None:
    """Who is gone, who is odd, who is new and known, and which counts changed."""
    step, again = told(
        {
            **{"ev": "schedule+", "step": 2, "gone": [1], "odd": [[3, 4, 8, 0]]},
            **{"ids": [7, 8], "tokens": [5, 6], "known": [[8, 3, 2]], "resumed": [8]},
            "new": [{"id": 7, "computed": 4, "blocks": [[5]]}],
            "blocks": [[2, [[6]]]],
            "all_tokens": [[8, 9]],
            "state": {"num_free": 5},
        },
        {"ev": "schedule+", "step": 3},
    )
    assert (step.ids, step.tokens) == ([2, 3, 7, 8], [1, 4, 5, 6])
    assert step.cached.ids == [2, 3, 8] and step.cached.computed == [21, 8, 3]
    assert step.cached.num_output == [7, 0, 2] and step.cached.resumed == [8]
    assert (step.state.num_free, step.state.num_running) == (5, 3)
    assert again.cached.computed == [22, 12, 9, 9] and again.cached.num_output == [8, 1, 1, 3]


def test_short_outputs_and_updates() -> None:
    """Each got one token and is told so, but for those named."""
    output, update = told(
        {"ev": "output+", "step": 1, "odd": [[3, 0]], "chain": []},
        {"ev": "update+", "step": 1, "gone": [2], "state": {"num_running": 2}},
    )
    assert output == Output(step=1, ids=[1, 2, 3], counts=[1, 1, 0], chain=[])
    assert isinstance(update, Update) and (update.ids, update.tokens) == ([1], [1])
    assert (update.state.num_free, update.state.num_running) == (9, 2)


def test_what_a_short_form_refers_to_must_be_there() -> None:
    """A step before it, an output before it, the requests that it names."""
    short = {"ev": "schedule+", "step": 2}
    assert "refers to a step" in refused(unsealed([HEAD, NOBODY, {**short, "step": 1}])).what
    assert "request 9" in wrong({**short, "gone": [9]})
    assert "request 9" in wrong({**short, "odd": [[9, 1, 1, 1]]})
    assert "request 9" in wrong({"ev": "output+", "step": 1, "odd": [[9, 1]]})
    assert "before its output" in wrong({"ev": "update+", "step": 1})
    output = {"ev": "output+", "step": 1, "chain": []}
    assert "request 9" in wrong(output, {"ev": "update+", "step": 1, "gone": [9]})
    assert "not scheduled" in refused(unsealed([HEAD, NOBODY, output])).what
    assert "does not tell" in wrong({**short, "ids": [9], "tokens": [1]}, {**short, "step": 3})
    assert "differ in length" in wrong({**short, "ids": [9]})


STATE: dict[str, Any] = {
    **{"ev": "state", "step": 8, "running": [1], "waiting": [], "requests": []},
    "in_flight": [{"step": 8, "ids": [1], "tokens": [1], "owed": [1]}],
}


def test_after_a_gap_a_state_says_where_it_goes_on() -> None:
    """Steps in flight and their numbers come from it; nothing else may come first."""
    gap = {"ev": "gap", "records": 12, "reason": "slow"}
    output = {"ev": "output+", "step": 8, "chain": []}
    update = {"ev": "update+", "step": 8}
    found = told(gap, STATE, output, update, first(step=9))
    kinds = [Gap, State, Output, Update, Schedule]
    assert [type(record) for record in found] == kinds and found[2].ids == [1]
    assert "after a gap" in wrong(gap, first(step=2))
    assert "step 12 where step 9" in wrong(gap, STATE, first(step=12))
    assert "refers to a step" in wrong(gap, STATE, {"ev": "schedule+", "step": 9})


def test_before_a_state_nothing_is_read_into_a_line() -> None:
    """A recording cut out of the middle: short forms and steps in flight refer to what is gone."""
    lines = [{"ev": "update+", "step": 7}, {"ev": "schedule+", "step": 8}]
    found = read(unsealed([HEAD, *lines, STATE, {"ev": "output+", "step": 8, "chain": []}]))
    assert [type(record) for record in found[1:]] == [Passed, Passed, State, Output]


def parts(folder: Path, many: int, **last: Any) -> list[Path]:
    """A recording in parts, unsealed but for their ends."""
    paths = []
    for number in range(1, many + 1):
        start = HEAD | {"recording": "r", "start": "empty" if number == 1 else "unknown"}
        start = {k: v for k, v in start.items() if k not in ("config_sha256", "sealed")}
        header = start | ({"part": number} if number > 1 else {})
        state = [STATE | {"step": number - 1, "in_flight": []}] if number > 1 else []
        lines = [header, *state, {"ev": "schedule", "step": number, "ids": [], "tokens": []}]
        lines += [{"ev": "output", "step": number, "ids": [], "counts": []}]
        lines += [{"ev": "update", "step": number, "ids": [], "tokens": []}]
        end = {"ev": "end", "steps": 1, "records": len(lines)}
        lines.append(end | ({"continued": True} if number < many else {}))
        if number == many:
            lines[0] |= last
        path = folder / f"{number:04d}.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        paths.append(path)
    return paths


def test_parts_are_one_trace_and_each_is_one(tmp_path: Path) -> None:
    """One header and one end are shown; the first parts may be gone, others may not."""
    paths = parts(tmp_path, 4)
    found = [located.record for located in TraceReader(tmp_path)]
    assert [r.number for r in found if isinstance(r, Part)] == [2, 3, 4]
    assert sum(isinstance(r, End) for r in found) == 1
    assert sum(isinstance(r, Schedule) for r in found) == 4
    for path in paths:
        assert sum(isinstance(r.record, Schedule) for r in TraceReader(path)) == 1
    paths[0].unlink()
    assert next(iter(TraceReader(tmp_path))).record.part == 2  # type: ignore[union-attr]
    reseal(tmp_path, tmp_path / "resealed")
    assert len(list(TraceReader(tmp_path / "resealed"))) == len(found) - 6
    paths[2].unlink()
    with pytest.raises(Malformed, match=r"part 0003 of 0004 is missing"):
        TraceReader(tmp_path)


@pytest.mark.parametrize("gone", [1, 2])
def test_a_folder_whose_last_part_says_that_it_goes_on_lacks_one(
    gone: int, tmp_path: Path
) -> None:
    """However many are left. What there is can be sealed anew; a part given by itself is whole."""
    folder = tmp_path / "all" / "rank0-run1"
    folder.mkdir(parents=True)
    left = parts(folder, 3)[: 3 - gone]
    for path in (folder / f"{4 - n:04d}.jsonl" for n in range(1, gone + 1)):
        path.unlink()
    for given in (folder, folder.parent):
        with pytest.raises(Malformed, match=f"goes on in part {4 - gone}, which is missing"):
            list(TraceReader(given))
    for path in left:
        list(TraceReader(path))
    reseal(folder, tmp_path / "resealed")
    assert (
        sum(isinstance(r.record, Schedule) for r in TraceReader(tmp_path / "resealed")) == 3 - gone
    )


def test_the_last_of_many_parts_may_be_the_only_one(tmp_path: Path) -> None:
    """A recorder was told to keep one."""
    for path in parts(tmp_path, 3)[:-1]:
        path.unlink()
    assert sum(isinstance(found.record, Schedule) for found in TraceReader(tmp_path)) == 1


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"recording": "other"}, "part 3 of recording other where part 3 of r is due"),
        ({"part": 7}, "part 7 of recording r"),
        ({"config": HEAD["config"] | {"num_blocks": 99}}, "another configuration"),
    ],
)
def test_parts_have_to_belong_together(tmp_path: Path, change: Any, what: str) -> None:
    """Of one recording, in a row, under one configuration."""
    parts(tmp_path, 3, **change)
    with pytest.raises(Malformed, match=what):
        list(TraceReader(tmp_path))


def test_a_recording_that_goes_on_elsewhere_is_cut(tmp_path: Path) -> None:
    """The last part says that there is another one."""
    paths = parts(tmp_path, 3)
    paths[2].unlink()
    with pytest.raises(Cut, match="goes on in part 3"):
        list(TraceReader(tmp_path))


def test_damage_to_short_forms_is_told(tmp_path: Path) -> None:
    """Whatever one byte becomes, a reader shows records or says what is wrong."""
    short = {"ev": "schedule+", "step": 2, "gone": [1], "odd": [[3, 4, 8, 0]], "ids": [7]}
    short |= {"tokens": [5], "known": [[7, 3, 2]], "blocks": [[2, [[6]]]]}
    outcome = [{"ev": "output+", "step": 1, "chain": []}, {"ev": "update+", "step": 1}]
    whole = unsealed([HEAD, first(), short, *outcome, STATE, {"ev": "schedule+", "step": 3}])
    body = whole.index(b"\n") + 1
    chance = random.Random(5)
    refusals = 0
    for _ in range(3000):
        damaged = bytearray(whole)
        damaged[chance.randrange(body, len(whole))] = chance.randrange(32, 127)
        try:
            read(bytes(damaged))
        except Malformed:
            refusals += 1
    assert refusals > 1000


DRAFTED = {"ev": "schedule+", "step": 2, "drafts": 3, "drafted": [[2, 1]]}


def test_short_steps_with_drafts() -> None:
    """As many drafts as are said, a token more than drafts; and after a rejection as much less."""
    step, _, _, rejecting, _, again = told(
        DRAFTED,
        {"ev": "output+", "step": 1},
        {"ev": "update+", "step": 1},
        {"ev": "output+", "step": 2, "counts": [4, 1, 0]},
        {"ev": "update+", "step": 2},
        {"ev": "schedule+", "step": 3, "gone": [3], "drafted": [[1, 2]]},
    )
    assert (step.ids, step.tokens) == ([1, 2, 3], [4, 2, 4])
    assert step.drafts == [(1, 3), (2, 1), (3, 3)]
    assert rejecting.counts == [4, 1, 0]
    # All of request 1's drafts were right, request 2's was not.
    assert (again.ids, again.tokens, again.drafts) == ([1, 2], [3, 1], [(1, 2)])
    assert again.cached.computed == [11 + 4, 21 + 1]
    assert again.cached.num_output == [6 + 4, 7 + 1]


def test_rejections_of_steps_that_a_state_tells_of() -> None:
    """What is in flight at the start has drafts, too."""
    flying = {"step": 8, "ids": [1], "tokens": [3], "drafts": [[1, 2]], "owed": [1]}
    state = {**NOBODY, "step": 8, "running": [1], "in_flight": [flying]}
    step = first(step=9, ids=[1], tokens=[1], new=[])
    step["cached"] = {"ids": [1], "computed": [10], "num_output": [5], "blocks": []}
    lines = [step, {"ev": "output+", "step": 8, "counts": [2]}, {"ev": "update+", "step": 8}]
    *_, last = read(unsealed([HEAD, state, *lines, {"ev": "schedule+", "step": 10}]))
    assert (last.cached.computed, last.cached.num_output) == ([11 - 1], [6 - 1])


def test_short_drafts_and_cuts() -> None:
    """Everybody gets as many, or each its own; who ends early gets fewer tokens."""
    output = {"ev": "output+", "step": 1, "counts": [3, 1, 2]}
    update = {"ev": "update+", "step": 1, "cut": [[3, 1]]}
    _, cut, each, own = told(
        output,
        update,
        {"ev": "draft+", "step": 1, "each": 2},
        {"ev": "draft+", "step": 1, "counts": [1, 0, 2]},
    )
    assert (cut.ids, cut.tokens) == ([1, 2, 3], [3, 1, 1])
    assert (each.ids, each.counts, own.counts) == ([1, 2, 3], [2, 2, 2], [1, 0, 2])


def test_what_short_forms_of_drafts_refer_to_must_be_there() -> None:
    """The step, its requests, as many numbers as these; and one way to say it."""
    output = {"ev": "output+", "step": 1, "chain": []}
    update = {"ev": "update+", "step": 1}
    assert "request 9" in wrong({**DRAFTED, "drafted": [[9, 1]]})
    assert "2 counts for 3" in wrong({**output, "counts": [1, 1]})
    assert "`counts` stands in" in wrong({**output, "counts": [1, 1, 1], "odd": [[1, 2]]})
    assert "request 9" in wrong(output, {**update, "cut": [[9, 1]]})
    assert "not the last one" in wrong({"ev": "draft+", "step": 1})
    assert "2 numbers of drafts" in wrong(
        output, update, {"ev": "draft+", "step": 1, "counts": [1, 2]}
    )
    assert "`counts` stands in" in wrong(
        output, update, {"ev": "draft+", "step": 1, "counts": [1, 2, 3], "each": 1}
    )
    assert "between the output and the update" in wrong(output, {"ev": "draft+", "step": 1})
    head = HEAD | {"start": "empty"}
    lines = unsealed([head, {"ev": "draft", "ids": [0], "counts": [1]}])
    assert "drafts for request 0, which nobody added" in refused(lines).what
