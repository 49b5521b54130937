"""One scenario on the rules and on an engine beside them: where the two part."""

import json
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

from nullblock.conformance import driver, scenario, scope
from nullblock.conformance.compare import ABSENT, Difference, first_difference
from nullblock.conformance.engine import Dump, Engine, Feature
from nullblock.conformance.engines import make_engine
from nullblock.conformance.errors import InputError
from nullblock.conformance.scenario_format import Config
from nullblock.spec.profiles import Semantics

Document = dict[str, Any]
Make = Callable[[Config, Semantics], Engine]


class Refused(InputError):
    """The engine does not take the configuration."""

    exit_code = 3
    kind = "refused"


class Hangs(Exception):
    """The engine does not come back."""


ASLEEP = 5.0
"""Seconds by the clock after which an engine that does nothing counts as hanging, at least."""


@dataclass(frozen=True, slots=True)
class Subject:
    """An engine under test."""

    name: str
    """As people call it: ``my.engine:Scheduler``."""
    make: Make
    features: frozenset[Feature]
    """What it is asked for."""
    shows: Dump = "full"
    """How much of its state it shows."""
    is_synchronous: bool = True
    """Whether it can be asked for anything but asynchronous scheduling."""

    @property
    def short(self) -> str:
        """Its name without where it is found."""
        return self.name.rpartition(":")[2] or self.name


@dataclass(frozen=True, slots=True)
class Ran:
    """What came of a scenario."""

    rules: list[str]
    """What the rules say."""
    difference: Difference | None
    """Where the engine says otherwise: the rules are the left."""
    raised: str = ""
    """What the engine raised, and where, if that is the difference."""

    @property
    def num_steps(self) -> int:
        """Steps that the rules took."""
        return sum('"ev":"schedule"' in line for line in self.rules)


def run(document: Document, subject: Subject, semantics: Semantics, seconds: float = 10.0) -> Ran:
    """Run a scenario on the rules and on the subject.

    Args:
        seconds: after so long the subject counts as hanging, where the system has timers.

    Raises :class:`nullblock.conformance.errors.InputError` for a scenario that the subject cannot
    be asked, and for a subject that has not the shape it should have.
    """
    taken = scenario.from_dict(document)
    scope.check_run(taken, subject.short, subject.features)
    rules = list(
        driver.run(taken, make_engine("spec", taken.config, semantics), dump=subject.shows)
    )
    engine = _made(subject, taken.config, semantics)
    with limited(seconds):
        theirs = list(driver.run(taken, engine, dump=subject.shows))
    told = _told(rules)
    difference = first_difference(rules[:told], theirs[:told])
    return Ran(rules, difference, _raised(theirs) if difference is not None else "")


def _made(subject: Subject, config: Config, semantics: Semantics) -> Engine:
    """A fresh engine. Raises InputError where the subject refuses the configuration."""
    if not subject.is_synchronous and not config.async_scheduling:
        what = f"{subject.short} does not schedule synchronously"
        raise Refused(what, "set it to true", "config.async_scheduling")
    try:
        return subject.make(config, semantics)
    except InputError:
        raise
    except Exception as error:
        what = f"{subject.short} refuses to be built: {type(error).__name__}: {error}"
        raise Refused(what, place="config") from error


def _told(rules: list[str]) -> int:
    """How many lines are compared: where the rules contradict themselves, nobody is right."""
    kinds = [json.loads(line)["ev"] for line in rules[-2:]]
    return len(rules) - 2 if kinds[0] == "EXCEPTION" else len(rules)


def _raised(theirs: list[str]) -> str:
    last = json.loads(theirs[-2])
    if last["ev"] != "EXCEPTION":
        return ""
    return f"{last['type']}: {last['msg']} ({', '.join(reversed(last['where']))})"


def in_words(difference: Difference, subject: Subject) -> str:
    """A difference in one line."""
    d = difference
    place = f"line {d.line} ({d.event})" + (f", {d.path}" if d.path else "")
    theirs = "nothing" if d.right is ABSENT else json.dumps(d.right)
    ours = "nothing" if d.left is ABSENT else json.dumps(d.left)
    return f"{place}: the rules say {_cut(ours)}, {subject.short} says {_cut(theirs)}"


def _cut(text: str) -> str:
    return text if len(text) <= 160 else f"{text[:160]}…"


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raise :class:`Hangs` in the middle of whatever takes longer: as long at work, or as long and
    at least :data:`ASLEEP` by the clock. A machine that is busy with others proves no hang.
    """
    if threading.current_thread() is not threading.main_thread() or not hasattr(
        signal, "setitimer"
    ):
        yield
        return

    has_rung = False

    def ring(number: int, frame: FrameType | None) -> None:
        nonlocal has_rung
        if not has_rung:  # The other timer may go off while what was raised is being told.
            has_rung = True
            raise Hangs(f"no answer within {seconds:g} s")

    timers = (
        (signal.SIGVTALRM, signal.ITIMER_VIRTUAL, seconds),
        (signal.SIGALRM, signal.ITIMER_REAL, max(seconds, ASLEEP)),
    )
    before = [signal.signal(number, ring) for number, _, _ in timers]
    for _, timer, limit in timers:
        signal.setitimer(timer, limit)
    try:
        yield
    finally:
        for (number, timer, _), handler in zip(timers, before, strict=True):
            signal.setitimer(timer, 0)
            signal.signal(number, handler)
