"""A state that no kernel makes: counts that lie end in a bit of the error word, not in a loop
without an end or a store out of bounds.
"""

from collections.abc import Callable
from typing import Any

import pytest
from where import COMPILED, KERNELS_ON

from nullblock.spec.facts import Config

FAR = 1 << 40
Lie = Callable[[Any], None]


def served(policy: str, device: str = KERNELS_ON, max_tokens: int = 9) -> Any:
    """Two requests run, in rows 0 and 1; row 2 waits for a place."""
    from nullblock.impl import Request
    from nullblock.impl.device import Scheduler

    config = Config(
        num_blocks=12,
        block_size=2,
        max_num_scheduled_tokens=9,
        max_num_seqs=2,
        max_model_len=20,
        policy=policy,
    )
    scheduler = Scheduler(config, device, num_rows=4, row_tokens=20)
    for id in "abc":
        scheduler.add_request(Request(id, prompt=[1, 2, 3], max_tokens=max_tokens))
    scheduler.schedule()
    scheduler.update_from_output([4, 5])
    return scheduler


def word(name: str, value: int, behind: str = "") -> Lie:
    """A control word says that, or that much more than another one."""

    def lie(scheduler: Any) -> None:
        from nullblock.kernels.control import words

        state = scheduler.resident.state
        start = state.word(getattr(words, behind)) if behind else 0
        state.set_word(getattr(words, name), start + value)

    return lie


def column(name: str, row: int, value: int) -> Lie:
    """A request says that of itself."""

    def lie(scheduler: Any) -> None:
        getattr(scheduler.resident.state.arrays.requests, name)[row] = value

    return lie


LIES: dict[str, tuple[Lie, str]] = {
    "the free queue is longer than its ring": (word("TAIL", 65, behind="HEAD"), "RING"),
    "the free queue ends far away": (word("TAIL", FAR, behind="HEAD"), "RING"),
    "the free queue ends before it begins": (word("TAIL", -1, behind="HEAD"), "RING"),
    "more blocks are free than stand in the queue": (word("NUM_FREE", 60), "RING"),
    "fewer than none are free": (word("NUM_FREE", -1), "RING"),
    "more wait than there are rows": (word("WAITING_TAIL", 5, behind="WAITING_HEAD"), "WAITING"),
    "who waits is far away": (word("WAITING_TAIL", FAR, behind="WAITING_HEAD"), "WAITING"),
    "more run than may": (word("NUM_RUNNING", 3), "COUNT"),
    "fewer than none run": (word("NUM_RUNNING", -1), "COUNT"),
    "more ended than there are rows": (word("NUM_ENDED", 5), "COUNT"),
    "a table is longer than a row": (column("num_blocks", 0, 11), "COUNT"),
    "a table is very long": (column("num_blocks", 0, 1 << 30), "COUNT"),
    "a table is shorter than none": (column("num_blocks", 0, -1), "COUNT"),
    "who runs has cached fewer blocks than none": (column("num_cached", 0, -1), "COUNT"),
    "who runs has keys of fewer than none": (column("num_keys", 0, -1), "COUNT"),
    "who waits is longer than a row": (column("num_tokens", 2, 21), "COUNT"),
    "who waits is very long": (column("num_tokens", 2, 1 << 30), "COUNT"),
    "who waits has keys of more than it has": (column("num_keys", 2, 11), "COUNT"),
}


@pytest.mark.skipif(COMPILED, reason="it looks at what the interpreter does")
@pytest.mark.parametrize("policy", ["fcfs", "priority"])
@pytest.mark.parametrize("what", LIES)
def test_a_count_that_lies_is_refused(what: str, policy: str) -> None:
    """In the next step, which ends, says which bit, and leaves the memory of others alone."""
    from nullblock.kernels.checks.checked import checked
    from nullblock.kernels.checks.shipped import allowed

    scheduler, (lie, bit) = served(policy), LIES[what]
    scheduler.finish_requests(["b"])  # so that there is room for who waits, and blocks to give
    scheduler.num_unfinished()
    scheduler.resident.take_letters()
    lie(scheduler)
    with checked(allow=allowed()) as report, pytest.raises(RuntimeError, match=bit):
        scheduler.schedule()
    assert report.interpreted and report.accesses


BETWEEN: dict[str, Lie] = {
    "more are in the step than may run": word("NUM_SCHEDULED", 3),
    "those in the step are far away": word("NUM_SCHEDULED", FAR),
    "fewer than none are in the step": word("NUM_SCHEDULED", -1),
    "all rows have ended, and another one ends": word("NUM_ENDED", 4),
    "who ended is far away": word("NUM_ENDED", FAR),
    "fewer than none ended": word("NUM_ENDED", -1),
    "who takes a token is longer than a row": column("num_tokens", 0, 21),
    "who takes a token is very long": column("num_tokens", 0, 1 << 30),
    "who takes a token has fewer than none": column("num_tokens", 0, -1),
}
"""Between the halves of a step whose tokens end both requests; each sets COUNT."""


@pytest.mark.parametrize("device", ["twins", KERNELS_ON])
@pytest.mark.parametrize("what", BETWEEN)
def test_a_count_that_lies_between_the_halves_is_refused(what: str, device: str) -> None:
    """In the step that it lies in, not in the next one; nobody else's memory is written."""
    from nullblock.kernels.checks.checked import checked
    from nullblock.kernels.checks.shipped import allowed

    scheduler = served("fcfs", device, max_tokens=2)
    scheduler.schedule()
    BETWEEN[what](scheduler)
    with checked(allow=allowed()), pytest.raises(RuntimeError, match="COUNT"):
        scheduler.update_from_output([4, 5])


LETTERS: dict[str, tuple[Lie, str]] = {
    "the step of whom the arrival takes over is too long": (word("NUM_SCHEDULED", FAR), "COUNT"),
    "fewer than none are in that step": (word("NUM_SCHEDULED", -1), "COUNT"),
    "all rows have ended, and another one ends": (word("NUM_ENDED", 4), "COUNT"),
    "fewer than none ended": (word("NUM_ENDED", -1), "COUNT"),
    "who waits is far away": (word("WAITING_TAIL", FAR, behind="WAITING_HEAD"), "WAITING"),
    "fewer than none wait": (word("WAITING_TAIL", -1, behind="WAITING_HEAD"), "WAITING"),
}


@pytest.mark.parametrize("device", ["twins", KERNELS_ON])
@pytest.mark.parametrize("what", LETTERS)
def test_a_count_that_lies_where_letters_are_taken_is_refused(what: str, device: str) -> None:
    """A request ends while its step is in flight, and one of the same name arrives."""
    from nullblock.impl import Request
    from nullblock.kernels.checks.checked import checked
    from nullblock.kernels.checks.shipped import allowed
    from nullblock.kernels.control.faults import raise_if

    scheduler, (lie, bit) = served("fcfs", device), LETTERS[what]
    scheduler.schedule()
    scheduler.finish_requests(["b"])
    scheduler.add_request(Request("b", prompt=[7], max_tokens=3))
    lie(scheduler)
    with checked(allow=allowed()):
        scheduler.resident.take_letters()
    with pytest.raises(RuntimeError, match=bit):
        raise_if(scheduler.resident.state.arrays.error)


@pytest.mark.parametrize("device", ["twins", KERNELS_ON])
def test_an_update_without_a_step_writes_nothing_outside_the_log(device: str) -> None:
    """Before the first step is told, the one that was told last stands nowhere."""
    import torch

    from nullblock.impl.device import Scheduler
    from nullblock.kernels.checks.checked import checked

    config = Config(12, 2, 9, 2, 20)
    resident = Scheduler(config, device, num_rows=4, row_tokens=20).resident
    nothing = torch.zeros(2, dtype=torch.int32, device=resident.place.device)
    with checked():
        resident.launch_update(nothing)
    assert not int(resident.state.arrays.error)
