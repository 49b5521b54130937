"""Preemptions, small: a pool that is short for two requests instead of for all that were there.

Who is preempted follows from who asks and who runs, and any pool that is too small shows it. So a
preemption is looked for anew, at whatever step it comes: with the one who asked and its victim,
short prompts, and a ladder of pools.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from nullblock.conformance.checker import trail
from nullblock.conformance.checker.decisions import Mismatch
from nullblock.conformance.minimal.document import Selection
from nullblock.conformance.minimal.history import Arrival, Event, Half, History, Life
from nullblock.conformance.trace.records import Record, Schedule
from nullblock.spec.profiles import Semantics

RUNGS = 24
"""Sizes of a pool that are tried for prompts of one length."""
RULES = ("PREEMPT-1", "PREEMPT-2")

Steps = Callable[[Selection], list[Schedule]]
"""What the rules schedule in a run of a selection, step by step."""


def applies(fault: Record, mismatch: Mismatch) -> bool:
    """Whether the rules preempt somebody where the trace preempts others, or nobody."""
    preempts = isinstance(mismatch.expected, list) and len(mismatch.expected) > 0
    return isinstance(fault, Schedule) and mismatch.rule in RULES and preempts


def askers(path: Path, line: int, file: str, semantics: Semantics) -> set[int]:
    """Who asked for slots when somebody was preempted. Raises ``OSError``."""
    moments = trail.follow(path, line, file, semantics)
    return {
        before.request
        for before, after in zip(moments, moments[1:], strict=False)
        if after.rule == "PREEMPT-2" and before.rule == "RUN-3" and before.request is not None
    }


def candidates(history: History, about: set[int], steps: Steps) -> Iterator[Selection]:
    """Selections of a few requests at whose end somebody is preempted as in the fault, the
    shortest prompts first.
    """
    assert isinstance(history.fault, Schedule)
    lives = [life for life in history.lives if life.number in about and life.ended is None]
    size, budget = history.header.config.block_size, _budget(history)
    longest = max((life.add.prompt for life in lives), default=0)
    for most in dict.fromkeys((1, size + 1, 4 * size + 1, longest)):
        cut = {life: most for life in lives if life.add.prompt > most}
        tokens = sum(min(life.add.prompt, most) for life in lives)
        whole = sum(-(-min(life.add.prompt, most) // size) for life in lives)
        length = -(-tokens // budget) + 2 * size + 2
        rung = max(1, whole // RUNGS)
        for usable in range(1, whole + len(lives) + rung + 1, rung):
            start = Selection(_plain(lives, length), cut, num_blocks=usable + 1)
            for made in steps(start):
                if made.preempted:
                    events = _plain(lives, made.step - 1)
                    yield replace(start, events=events)


def _plain(lives: list[Life], steps: int) -> tuple[Event, ...]:
    """Everybody arrives, then whole steps."""
    events: list[Event] = [Arrival(life) for life in lives]
    for step in range(1, steps + 1):
        events += [Half(step, update=False), Half(step, update=True)]
    return tuple(events)


def _budget(history: History) -> int:
    return history.header.config.max_num_scheduled_tokens
