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


def served(policy: str) -> Any:
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
    scheduler = Scheduler(config, KERNELS_ON, num_rows=4, row_tokens=20)
    for id in "abc":
        scheduler.add_request(Request(id, prompt=[1, 2, 3], max_tokens=9))
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


@pytest.mark.parametrize("value", [3, FAR, -1])
def test_a_step_of_more_than_may_run_is_refused(value: int) -> None:
    """Between the halves of a step too."""
    scheduler = served("fcfs")
    step = scheduler.schedule()
    word("NUM_SCHEDULED", value)(scheduler)
    with pytest.raises(RuntimeError, match="COUNT"):
        scheduler.update_from_output([4] * len(step.ids))
