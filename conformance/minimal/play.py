"""A scenario played by the rules while it is recorded, and the rules on what a trace says."""

from collections import deque
from collections.abc import Callable, Mapping

from nullblock.conformance import driver
from nullblock.conformance.checker.replay import Replay
from nullblock.conformance.engines import make_engine
from nullblock.conformance.scenario_format import Scenario
from nullblock.conformance.trace.records import Record
from nullblock.conformance.trace.tape import Tape
from nullblock.spec.kernel import Engines
from nullblock.spec.profiles import Semantics

NOBODY: Mapping[str, int] = {}


def play(
    taken: Scenario,
    semantics: Semantics,
    take: Callable[[Record], None],
    *,
    numbers: Mapping[str, int] = NOBODY,
    kind: type[Tape] = Tape,
) -> None:
    """Play a scenario to its end, and hand over its records one by one.

    Args:
        numbers: how requests are called in the trace, by their ids; others are numbered as they
            come.

    Raises InputError where the rules do not take the scenario, and what `take` raises.
    """
    engine = make_engine("spec", taken.config, semantics)
    tape = kind(engine, taken, take, tagged_keys=semantics.extra_keys_tagged)
    tape.numbers.update(numbers)
    deque(driver.run(taken, tape, dump="none"), maxlen=0)


def follow(replay: Replay, record: Record) -> None:
    """The next record, whose rules are counted. Raises what the replay raises."""
    outer, Engines.after_rule = Engines.after_rule, replay.after_rule
    try:
        replay.take(record)
    finally:
        Engines.after_rule = outer
