"""What is recorded twice, or of whom, where somebody or something is there once more."""

import json
from collections import deque
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from bases import whole
from record_again import record_all
from recorded_engine import engine, request

from nullblock.conformance.adapters.vllm import drafts, items, remote
from nullblock.conformance.adapters.vllm.expected import packed
from nullblock.conformance.adapters.vllm.numbering import RequestNumbers
from nullblock.conformance.adapters.vllm.observe import Queued
from nullblock.conformance.adapters.vllm.step import Step
from nullblock.conformance.checker import check
from nullblock.spec.profiles import profile

Events = list[dict[str, Any]]
Recorded = Callable[[dict[str, Any]], Path]
SCHEDULE, UPDATE = {"op": "schedule"}, {"op": "update"}
ABORT = {"op": "abort", "ids": ["a"]}
LINES = ["vllm-0.22.1", "vllm-0.32.0"]


def add(id: str, **fields: Any) -> dict[str, Any]:
    """The arrival of a request with a prompt of five tokens."""
    return {"op": "add", "id": id, "prompt": {"range": [0, 5]}, "max_tokens": 200} | fields


@pytest.fixture(params=LINES)
def recorded(request: pytest.FixtureRequest, pythons: dict[str, Path], tmp_path: Path) -> Recorded:
    """Records a scenario on the real engine of either line."""

    def record(scenario: dict[str, Any]) -> Path:
        record_all(pythons[request.param], {"again": scenario}, tmp_path, "0")
        return tmp_path / "again.jsonl"

    return record


def again_in_flight(second: int) -> Events:
    """An owner of an id ends before step 6, and the next one before step ``second``, with one of
    its own in flight. A third one comes before that has returned.
    """
    events = [add("b"), add("a")]
    for step in range(1, second + 14):
        events += [ABORT] * (step in (6, second)) + [add("a")] * (step == 20) + [SCHEDULE]
        events += [add("a")] * (step == 70) + [UPDATE] * (step > 2)
    return [*events, UPDATE, UPDATE]


@pytest.mark.oracle
@pytest.mark.parametrize("second", [69, 70])
def test_a_number_is_kept_while_steps_of_its_next_owner_are_in_flight(
    recorded: Recorded, second: int
) -> None:
    """However long ago the first one ended: the engine knows them by the id."""
    config = {"pipeline_parallel_size": 3}
    verdict = check(recorded({"config": config, "events": again_in_flight(second)}))
    assert (verdict.verdict, verdict.steps) == ("CONFORMS", second + 13)


@pytest.mark.parametrize("second", [69, 70])
def test_who_has_ended_gets_nothing_by_the_number_it_had(
    where: Path, monkeypatch: pytest.MonkeyPatch, second: int
) -> None:
    """What is in flight of a second owner of an id returns when the first is long forgotten."""
    made, flying = engine(pipeline_parallel_size=3), deque[list[str]]()
    for id in ("b", "a"):
        made.add(request(id, max_tokens=200))
    for step in range(1, second + 14):
        if step in (6, second):
            made.abort(["a"], "FINISHED_ABORTED")
        if step == 20:
            made.add(request("a", max_tokens=200))
        flying.append(list(made.schedule()["num_scheduled_tokens"]))
        if step > 2:
            made.update({id: [9] for id in flying.popleft()})
    made.scheduler.shutdown()
    verdict = check(where, profile(LINES[0]))
    assert (verdict.verdict, verdict.steps) == ("CONFORMS", second + 13)


def test_the_last_end_of_an_id_counts() -> None:
    """It is forgotten as many steps after that as any other, and nothing is left of it."""
    numbers, many = RequestNumbers(), RequestNumbers.REMEMBERED
    numbers.number("a")
    numbers.finished(1, ["a"])
    numbers.finished(many, ["a"])
    for step in (many + 1, 2 * many - 1):
        numbers.finished(step, ())
        assert numbers.of == {"a": 0}
    numbers.finished(2 * many, ())
    assert not (numbers.of or numbers._finished or numbers._last)


@pytest.mark.parametrize("where", [0, 1])
def test_who_lives_where_it_is_told_or_in_the_engine_keeps_its_number(where: int) -> None:
    """Its end is told later, and then it is forgotten in time."""
    numbers, many = RequestNumbers(), RequestNumbers.REMEMBERED
    numbers.number("a")
    numbers.finished(1, ["a"])
    live: list[set[str]] = [set(), set()]
    live[where] = {"a"}
    numbers.finished(many + 1, (), *live)
    assert numbers.of == {"a": 0} and not numbers._last
    numbers.finished(many + 2, ["a"], *live)
    numbers.finished(2 * many + 2, ())
    assert not (numbers.of or numbers._finished or numbers._last)


@pytest.mark.oracle
@pytest.mark.parametrize("how", ["abort", "length"])
def test_a_connector_that_calls_itself_is_asked_once(recorded: Recorded, how: str) -> None:
    """One of all groups passes an end on to its own ``request_finished``, as vLLM's
    ``MultiConnector`` does: who ends is told once.
    """
    connector = {"all_groups": True, "delay_free": ["a"]}
    events = [add("a", max_tokens=2), SCHEDULE, UPDATE, SCHEDULE]
    events += [ABORT] * (how == "abort") + [UPDATE, {"op": "kv_done", "send": ["a"]}]
    events += [add("b", max_tokens=3), {"op": "run"}]
    path = recorded({"config": {"connector": connector}, "events": events})
    told = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["delayed"] for line in told if "delayed" in line] == [[0]]
    assert check(path).verdict == "CONFORMS"


class CallsItself:
    """A connector, each of whose methods asks all others before it answers, and may raise."""

    def __init__(self, *names: str) -> None:
        self.names, self.asked, self.raises = names, list[str](), False

    def __getattr__(self, name: str) -> Any:
        if name not in self.names:
            raise AttributeError(name)
        return lambda *args: self.answer(name, args)

    def answer(self, name: str, args: Any) -> tuple[int, bool]:
        """The answer of the method with that name."""
        self.asked.append(name)
        for other in self.names if len(self.asked) == 1 else ():
            getattr(self, other)(*args)
        if self.raises:
            raise ValueError(name)
        return 1, False


def safely(note: Callable[..., Any], *args: Any) -> None:
    """Nothing goes wrong."""
    note(*args)


KV = ("get_num_new_matched_tokens", "update_state_after_alloc", "request_finished")
KV += ("request_finished_all_groups",)
EC = ("has_cache_item", "update_state_after_alloc")


@pytest.mark.parametrize("name", KV)
def test_what_a_connector_asks_itself_is_not_noted(name: str) -> None:
    """Each of its methods may call any other, or itself; the next call is noted again."""
    connector = CallsItself(*KV)
    answers = remote.watch(SimpleNamespace(connector=connector), safely)
    assert answers is not None
    one = SimpleNamespace(request_id="a"), 0, 1
    getattr(connector, name)(*one)
    assert connector.asked == [name, *KV]
    noted = {KV[0]: (1, 0), KV[1]: (0, 0)}.get(name, (0, 1))
    assert (len(answers._asked), len(answers._ended)) == noted
    connector.raises = True
    with pytest.raises(ValueError, match=name):
        getattr(connector, name)(*one)
    connector.raises = False
    answers.clear()
    connector.request_finished(*one)
    assert answers.lost() == ["a"]


@pytest.mark.parametrize("name", EC)
def test_what_an_encoder_connector_asks_itself_is_not_noted(name: str) -> None:
    """Likewise."""
    connector = CallsItself(*EC)
    asked = items.watch(SimpleNamespace(ec_connector=connector), safely)
    assert asked is not None
    getattr(connector, name)(SimpleNamespace(request_id="a"), 0)
    assert connector.asked == [name, *EC]
    answers, room = asked.take()
    assert (len(answers), len(room)) == ((1, 0) if name == EC[0] else (0, 1))


def preempted_in_flight(blocks: int, *lives: tuple[int, int]) -> dict[str, Any]:
    """Steps overlap in step with the outputs; somebody is preempted with an output in flight, and
    resumed before that has come, since somebody else ends. ``lives``: of each request how long its
    prompt is, and how many tokens it may have.
    """
    stages = len(lives)
    events: Events = []
    for n, (prompt, most) in enumerate(lives):
        range = [100 * n, 100 * n + prompt]
        events += [add("abcd"[n], prompt={"range": range}, max_tokens=most), SCHEDULE]
    config = {"pipeline_parallel_size": stages, "block_size": 2, "num_blocks": blocks}
    return {"config": config, "events": events + [UPDATE, SCHEDULE] * 80}


@pytest.mark.oracle
@pytest.mark.parametrize(
    ("blocks", "lives"),
    [(11, ((5, 5), (7, 2), (5, 12))), (17, ((6, 20), (5, 5), (7, 20), (5, 8)))],
    ids=["a number too late", "a block too early"],
)
def test_tokens_of_who_counts_an_output_twice_have_their_blocks(
    recorded: Recorded, blocks: int, lives: tuple[tuple[int, int], ...]
) -> None:
    """In 0.22.1 both outputs count: tokens are ahead of positions, by which blocks are told."""
    path = recorded(preempted_in_flight(blocks, *lives))
    assert any(line.get("preempted") for line in whole(path))
    verdict = check(path)
    assert (verdict.verdict, verdict.missing) == ("CONFORMS", [])


def left_in_a_queue(begins: int) -> dict[str, Any]:
    """Blocks of a request are not loaded, which ends it where it waits; recorded from then on."""
    connector = {"matched": {"a": 1, "b": 0}, "async": True, "failure_policy": "fail"}
    config = {
        "block_size": 2,
        "num_blocks": 9,
        "queue_depth": 6,
        "connector": connector,
        "vocab": 3,
    }
    steps: Events = [{"op": "step"}] * 3
    events: Events = [{"op": "step"}, add("c", prompt=[1, 1, 3], max_tokens=1)]
    events += [add("d", prompt=[0], max_tokens=2, priority=-1), {"op": "kv_done"}]
    events += [add("a", prompt=[1000], max_tokens=1, priority=-2, stop=[0, 1, 4])]
    events += [add("b", prompt=[0, 1, 2, 3], max_tokens=2, priority=-3), {"op": "step"}]
    events += [{"op": "kv_done", "recv": ["a"], "invalid": [4]}, *steps]
    return {
        "config": config | {"policy": "priority", "async_scheduling": True},
        "events": [*events, {"op": "kv_match", "matched": {"c": None}}, *steps, *steps],
        "recorded_from": begins,
    }


@pytest.mark.oracle
def test_a_recording_waits_for_who_has_ended_to_leave_the_queue(
    oracle_python: Path, tmp_path: Path
) -> None:
    """0.22.1 leaves it there: no state can tell of it, and what is not known is named."""
    documents = {f"from {n}": left_in_a_queue(n) for n in (1, 10)}
    record_all(oracle_python, documents, tmp_path, "0")
    assert check(tmp_path / "from 1.jsonl").verdict == "CONFORMS"
    lines = (tmp_path / "from 10.jsonl").read_text()
    assert "lost" not in {json.loads(line)["ev"] for line in lines.splitlines()}
    (missing,) = check(tmp_path / "from 10.jsonl").missing
    assert missing.startswith("the state in which the recording began")


@pytest.mark.oracle
def test_who_is_left_in_a_queue_is_told_as_long_as_it_stands_there(
    oracle_python: Path, tmp_path: Path
) -> None:
    """In every state, long after it has ended."""
    scenario = left_in_a_queue(0)
    scenario["events"].append({"op": "step", "n": 100})
    record_all(oracle_python, {"left": scenario}, tmp_path, "3")
    states = [x for x in whole(tmp_path / "left.jsonl") if x["ev"] == "state"]
    last = states[-1]
    assert last["step"] > 100 and len(last["waiting"]) > len(last["requests"])
    assert check(tmp_path / "left.jsonl").verdict == "CONFORMS"


def test_a_number_is_kept_while_its_owner_stands_in_a_queue() -> None:
    """However long ago it ended."""
    numbers, queue = RequestNumbers(), [SimpleNamespace(request_id="a")]
    for id in "ab":
        numbers.number(id)
    numbers.finished(1, ["a", "b"])
    for step in range(2, 200):
        numbers.finished(step, [], left=Queued([queue]))
    assert numbers.of == {"a": 0}
    queue.clear()
    for step in range(200, 300):
        numbers.finished(step, [], left=Queued([queue]))
    assert numbers.of == {}


def reset_with_drafts(accept: str, *, ends: bool) -> dict[str, Any]:
    """All that run are reset and resumed at once, in another order or without one that ended,
    while a step with drafts of theirs is in flight.
    """
    config = {"async_scheduling": True, "queue_depth": 2, "num_spec_tokens": 3}
    events = [add("a"), SCHEDULE, add("b", priority=-1), SCHEDULE]
    events += [UPDATE, SCHEDULE, UPDATE, SCHEDULE, UPDATE]
    events += [ABORT] * ends + [{"op": "reset_prefix_cache", "reset_running": True}]
    events += [SCHEDULE, UPDATE] * 8 + [UPDATE]
    return {
        "config": config | {"policy": "priority", "accept": accept, "spec_method": "eagle"},
        "events": events,
    }


@pytest.mark.oracle
@pytest.mark.parametrize("accept", ["none", "hash", "all"])
@pytest.mark.parametrize("ends", [False, True])
def test_what_was_rejected_before_a_reset_is_told_as_a_reader_counts_it(
    recorded: Recorded, accept: str, ends: bool
) -> None:
    """The output is dropped. 0.32.0 does not take off what was rejected in it, 0.22.1 does: what
    is told means what the engine has.
    """
    verdict = check(recorded(reset_with_drafts(accept, ends=ends)))
    assert (verdict.verdict, verdict.first) == ("CONFORMS", None)


@pytest.mark.parametrize(
    ("ids", "gone", "rejected"),
    [
        (["a", "b"], [], [1, 2]),
        (["b"], [0], [2]),
        (["b", "c"], [0], [2, 0]),
        (["b", "a"], [0, 1], [2, 1]),
        (["b", "a"], [0], [2, 1]),
        (["a", "c"], [0, 1], [1, 0]),
    ],
)
def test_whoever_has_left_and_come_back_has_what_was_rejected(
    ids: list[str], gone: list[int], rejected: list[int]
) -> None:
    """A reader takes it off those who have the number, wherever they stand."""
    before = Step(1, None, ["a", "b"], [0, 1], [], [4, 4], single=False, drafts=b"\3\3")
    step = Step(2, None, ids, [], [], [4] * len(ids), single=False, drafts=bytes([3] * len(ids)))
    step.after, step.gone, step.due = before.ids, gone, step.tokens
    step.packed = packed([20] * len(ids), [10] * len(ids))
    since = drafts.Rejected()
    since.output(before, b"\3\2")
    counts = packed([24 - n for n in rejected], [14 - n for n in rejected])
    assert since.next_counts(step) == counts
