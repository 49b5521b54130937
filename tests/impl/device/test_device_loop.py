"""The decode loop without the host: steps enqueued ahead, read later, the same as one by one."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from device_beside import same
from where import KERNELS_ON

import nullblock.impl
from nullblock.impl import Request
from nullblock.impl import Scheduler as OnNumPy
from nullblock.impl.device import Loop, Scheduler, resident
from nullblock.impl.device.reading import Reader
from nullblock.impl.device.resident import Full
from nullblock.kernels.control.exchange import Rings
from nullblock.kernels.control.state import State
from nullblock.spec.facts import Config

CONFIG = Config(
    num_blocks=14,
    block_size=4,
    max_num_scheduled_tokens=16,
    max_num_seqs=5,
    max_model_len=40,
)
VOCAB = 23


def model(state: State, sampled: torch.Tensor) -> None:
    """What a model samples: of each row a token made of its first one and its length. Always the
    same operations on the same shapes, and no number of it is ever looked at by the host.
    """
    requests, row = state.arrays.requests, state.arrays.decision.row.long()
    sampled.copy_((requests.tokens[row, 0] * 5 + requests.num_tokens[row] * 7) % VOCAB)


def sampled(numpy: Any, step: Any) -> list[int]:
    """The same for a step that was read."""
    found = []
    for id in step.ids:
        request = numpy.requests[id]
        found.append((int(request.tokens[0]) * 5 + numpy.num_tokens(request) * 7) % VOCAB)
    return found


def request(number: int) -> Request:
    """Prompts of several lengths, answers that end by length, by eos and by stop ids."""
    prompt = [number % 4] * (3 + number * 5 % 9)
    return Request(f"r{number}", prompt, 4 + number * 7 % 15, eos=11, stop=frozenset({3}))


def made(device: str, steps: int, num_rows: int = 32) -> tuple[Scheduler, Loop]:
    """A scheduler with room for everything, and its loop."""
    rings = Rings(letters=8, steps=steps)
    scheduler = Scheduler(CONFIG, device, num_rows=num_rows, row_tokens=48, rings=rings)
    return scheduler, Loop(scheduler, model)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The records that the host has looked at."""
    found: list[int] = []
    record = Reader._record

    def counted(self: Reader, number: int) -> Any:
        found.append(number)
        return record(self, number)

    monkeypatch.setattr(Reader, "_record", counted)
    return found


@pytest.mark.parametrize(("device", "rounds"), [("twins", 8), (KERNELS_ON, 1)])
def test_steps_enqueued_ahead_decide_what_numpy_decides(
    device: str, rounds: int, reads: list[int]
) -> None:
    """Six steps at a time, with arrivals before each, and nothing read between them: chunks,
    preemptions and ends included.
    """
    scheduler, loop = made(device, 6)
    numpy, preempted, ended = OnNumPy(CONFIG), 0, 0
    for turn in range(rounds):
        for number in range(4 * turn, 4 * turn + 4):
            scheduler.add_request(request(number))
            numpy.add_request(request(number))
        looked = len(reads)
        loop.enqueue(6)
        assert len(reads) == looked and loop.num_ahead == 6
        for step, outputs in loop.collect():
            expected = numpy.schedule()
            same(expected, step)
            same(numpy.update_from_output(sampled(numpy, expected)), outputs)
            preempted += len(step.preempted)
            ended += len(step.finished)
        assert list(scheduler.requests) == list(numpy.requests)
    assert rounds == 1 or (preempted and ended)
    loop.close()
    assert scheduler.schedule().ids == numpy.schedule().ids


class Recorded:
    """A graph made of calls: what was captured is called, and nothing was when it was."""

    def __init__(self) -> None:
        self.replays = 0

    def capture(self, launches: Callable[[], None]) -> None:
        """Keep it."""
        assert not self.replays
        self.launches = launches

    def replay(self) -> None:
        """Call it."""
        self.replays += 1
        self.launches()


def test_one_step_is_captured_and_every_other_one_replayed() -> None:
    """The first step is launched, so that all is compiled; from the second one on there are
    replays alone, of what was captured once, and they decide the same.
    """
    ran = []
    for graph in (None, Recorded()):
        scheduler = Scheduler(CONFIG, "twins", num_rows=32, row_tokens=48)
        loop = Loop(scheduler, model, graph)
        for number in range(6):
            scheduler.add_request(request(number))
        loop.enqueue(5)
        found = loop.collect()
        loop.enqueue(7)
        found += loop.collect()
        ran.append([(step.ids, outputs.tokens.tolist()) for step, outputs in found])
        if graph is not None:
            assert graph.replays == 11
    assert ran[0] == ran[1] and len(ran[0]) == 12


def test_ends_are_posted_while_steps_are_under_way() -> None:
    """Who is ended from outside is in no step that was enqueued afterwards, and what it had got
    before is read in its place; an id that comes again is another request.
    """
    scheduler, loop = made("twins", 8)
    for number in range(3):
        scheduler.add_request(request(number))
    loop.enqueue(2)
    assert scheduler.finish_requests(["r1", "nobody"]) == ["r1"]
    scheduler.add_request(Request("r1", [9], 2))
    loop.enqueue(3)
    steps = [(step.ids, step.finished, outputs.ids) for step, outputs in loop.collect()]
    assert [ids for ids, _, _ in steps[:2]] == [["r0", "r1", "r2"]] * 2
    assert steps[2][1] == ["r1"] and steps[2][0] == ["r0", "r2", "r1"]
    assert "r1" not in steps[4][0] and "r1" in steps[4][1] and "r1" not in scheduler.requests


def test_an_end_that_comes_too_late_ends_nobody_else() -> None:
    """A request that had ended by itself before its end was posted, and one of the same id that
    arrived after: the first one's outputs do not end the second one.
    """
    scheduler, loop = made("twins", 8)
    scheduler.add_request(Request("a", [1], 1))
    loop.enqueue(2)
    assert scheduler.finish_requests(["a"]) == ["a"]
    scheduler.add_request(Request("a", [2], 30))
    loop.enqueue(2)
    steps = loop.collect()
    assert list(scheduler.requests) == ["a"]
    assert [step.ids for step, _ in steps] == [["a"], [], ["a"], ["a"]]


def test_what_has_no_room_is_refused_and_nothing_moves() -> None:
    """A full log, a full mailbox, a prompt that no row holds: `Full` says what to do, and after a
    collect() it goes on. Nobody gives the scheduler back while steps are to be read.
    """
    scheduler, loop = made("twins", 3, num_rows=9)
    for number in range(8):
        scheduler.add_request(request(number))
    with pytest.raises(Full, match="8 letters wait"):
        scheduler.add_request(request(8))
    with pytest.raises(Full, match="8 letters wait"):
        scheduler.finish_requests(["r0", "r1"])
    assert list(scheduler.requests) == [f"r{number}" for number in range(8)]
    with pytest.raises(Full, match="0 steps of 3 wait"):
        loop.enqueue(4)
    loop.enqueue(3)
    with pytest.raises(Full, match="3 steps of 3 wait"):
        loop.enqueue()
    with pytest.raises(RuntimeError, match="3 steps were not collected"):
        loop.close()
    assert len(loop.collect()) == 3
    with pytest.raises(Full, match="no room for"):
        scheduler.add_request(Request("choosy", [1], 1, stop=frozenset(range(5))))
    scheduler.add_request(request(8))
    with pytest.raises(Full, match="no room for 10 rows"):
        scheduler.add_request(request(9))
    loop.enqueue()
    assert loop.collect()[0][0].ids


def test_a_letter_that_the_device_has_not_taken_stays_what_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A device that is behind is waited for: no place of the mailbox is written again before the
    device says that it took what stands there.
    """
    letters = Rings(letters=3)
    scheduler = Scheduler(CONFIG, "twins", num_rows=32, row_tokens=48, rings=letters)
    monkeypatch.setattr(resident, "intake", lambda *launched: None)
    for number in range(3):
        scheduler.add_request(request(number))
    before = [column.clone() for column in scheduler.resident.exchange.mail]
    with pytest.raises(Full, match="3 letters wait"):
        scheduler.add_request(request(3))
    found = zip(before, scheduler.resident.exchange.mail, strict=True)
    assert all(bool((old == new).all()) for old, new in found)
    monkeypatch.undo()
    scheduler.add_request(request(4))
    assert scheduler.schedule().ids[:4] == ["r0", "r1", "r2", "r4"]


def test_rows_have_room_for_what_requests_may_become() -> None:
    """Made with short rows, a loop makes room before it begins; who outgrows it is refused."""
    scheduler = Scheduler(CONFIG, "twins", row_tokens=8)
    scheduler.add_request(Request("a", [1] * 3, 17))
    loop = Loop(scheduler, model)
    assert scheduler.resident.sizes.row_tokens == 21
    with pytest.raises(Full, match="22 tokens"):
        scheduler.add_request(Request("b", [1] * 3, 18))
    scheduler.add_request(Request("c", [2] * 3, 17))
    loop.enqueue(16)
    loop.collect()
    loop.enqueue(16)
    assert sum(len(outputs.ids) for _, outputs in loop.collect()) > 0
    assert not scheduler.requests


def test_the_example_in_the_readme_runs() -> None:
    """The second one, with the twins for a GPU: both requests are served, the later one later."""
    text = Path(nullblock.impl.__file__).with_name("README.md").read_text()
    _, example = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert '"cuda"' in example
    names: dict[str, Any] = {}
    exec(example.replace('"cuda"', '"twins"'), names)
    served = [step.ids for step, _ in names["steps"]]
    assert served == [["a"]] * 5 + [[]] * 3 + [["b"]] * 5 + [[]] * 3
    assert not names["scheduler"].requests
