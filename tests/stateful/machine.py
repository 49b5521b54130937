"""Two engines in lockstep, event by event: rules and reference, or whoever is named.

Hypothesis chooses what comes next and a seed; the details follow from the seed, since drawn one by
one they come out too simple for requests to get in each other's way. Where the engines part the
scenario so far is made small, and the failure prints it as a file.
"""

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any, ClassVar

from fuzz import lockstep
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from nullblock.conformance import driver, scenario
from nullblock.conformance.compare import Comparison
from nullblock.conformance.engines import make_engine
from nullblock.conformance.errors import OutOfScope
from nullblock.conformance.lockstep import reach
from nullblock.conformance.lockstep.choices import Seeded
from nullblock.conformance.lockstep.configurations import make_config
from nullblock.conformance.lockstep.generator import MOODS, Event, Generator
from nullblock.conformance.lockstep.shrink import shrink
from nullblock.conformance.minimal.document import written
from nullblock.spec.profiles import VLLM_0_22_1, Semantics

SEED = st.integers(0, 2**32 - 1)


class Lockstep(RuleBasedStateMachine):
    """Two engines that have to decide alike."""

    engines: ClassVar[tuple[str, ...]] = ("spec", "reference")
    """By name, `impl:twins` with its device; they are asked for what both do."""
    semantics: ClassVar[Semantics] = VLLM_0_22_1
    reached: ClassVar[Counter[str]] = Counter()
    """In how many runs each case was met."""
    runs: ClassVar[int] = 0
    events_played: ClassVar[int] = 0
    refused: ClassVar[int] = 0
    """Runs that ended early, at a number that an engine cannot hold."""

    def __init__(self) -> None:
        super().__init__()
        self.document: dict[str, Any] = {"config": {}, "events": []}
        self.lines: list[str] = []
        self.over = False
        """An exception of both, or a refusal, has ended the run: what follows is not played."""

    @initialize(seed=SEED, mood=st.sampled_from(MOODS))
    def configure(self, seed: int, mood: str) -> None:
        """A small engine of each kind."""
        self.made = Generator(Seeded(f"{seed}"), 0, lockstep.features(self.engines))
        self.made.mood = mood
        config = make_config(self.made.ask, mood, self.made.features)
        self.made.config = self.document["config"] = config
        self.taken = scenario.from_dict({"config": config, "events": []})
        of = self.taken.config, self.semantics
        self.players = [
            driver.Player(self.taken, make_engine(name, *of, device), "full")
            for name, device in map(lockstep.split, self.engines)
        ]
        self.comparison = Comparison()
        self.play(self.made.collision())

    def answers(self, seed: int) -> Seeded:
        """What the generator is told; the same seed says something else later on."""
        return Seeded(f"{seed}:{len(self.document['events'])}")

    def story(self, found: str) -> str:
        """A difference, and a small scenario file that shows one."""

        def differs(document: dict[str, Any]) -> bool:
            outcome = lockstep.run(document, self.engines, None, self.semantics)
            return bool(outcome.differences)

        whole = self.document
        return f"{found}\n{written(shrink(whole, differs) if differs(whole) else whole)}"

    def play(self, events: list[Event]) -> None:
        """Let both take the events, line by line, as far as both can."""
        try:
            self.take(events)
        except OutOfScope:
            self.over = True
            type(self).refused += 1

    def take(self, events: list[Event]) -> None:
        """Let both take the events. Raises OutOfScope for a number that one cannot hold."""
        for event in events:
            if self.over:
                return
            index = len(self.document["events"])
            event = json.loads(json.dumps(event))
            (taken,) = scenario.from_dict({**self.document, "events": [event]}).events
            self.document["events"].append(event)
            for ours, theirs in zip(
                *(_lines(p, taken, index) for p in self.players), strict=False
            ):
                self.lines.append(ours)
                a, b = json.loads(ours), json.loads(theirs)
                found = self.comparison.difference(a, b)
                assert found is None, self.story(str(found))
                self.over |= a.get("ev") == "EXCEPTION"

    @rule(seed=SEED)
    def arrive(self, seed: int) -> None:
        """A request, and a few steps."""
        self.made.ask = ask = self.answers(seed)
        self.play([self.made.add(self.made.new_id()), {"op": "step", "n": ask.integer(1, 6)}])

    @rule(seed=SEED)
    def collide(self, seed: int) -> None:
        """Several requests that fill the pool together, and steps until somebody has to go."""
        self.made.ask = ask = self.answers(seed)
        self.play([*self.made.collision(), {"op": "step", "n": ask.integer(1, 12)}])

    @rule(seed=SEED)
    def crowd(self, seed: int) -> None:
        """The same on top of those that are there."""
        self.made.ask = self.answers(seed)
        self.play([event for event in self.made.collision() if event["op"] != "abort"])

    @rule(seed=SEED)
    def disturb(self, seed: int) -> None:
        """An abort, a reset, a pause, an eviction, an id used again; nobody pauses for long."""
        self.made.ask = ask = self.answers(seed)
        self.play(self.made.disturbance() if ask.chance(60) else [])
        self.play([{"op": "step"}, {"op": "pause", "state": "UNPAUSED"}, {"op": "step", "n": 2}])

    @rule(n=st.integers(1, 12))
    def step(self, n: int) -> None:
        """Whole steps, or turns of the batch queue."""
        self.play([{"op": "step", "n": n}])

    @rule(seed=SEED)
    def halves(self, seed: int) -> None:
        """Steps that are scheduled ahead of the outputs of those before."""
        self.made.ask = self.answers(seed)
        self.play(self.made.halves())

    @rule()
    def drain(self) -> None:
        """Everything in flight returns."""
        self.play([{"op": "drain"}])

    def teardown(self) -> None:
        """Count what the run has reached."""
        cls = type(self)
        cls.runs += 1
        cls.events_played += len(self.document["events"])
        if self.lines:
            cls.reached.update(reach.reached(self.document, self.lines))


def _lines(player: driver.Player, event: Any, index: int) -> Iterator[str]:
    """What an engine prints for an event; an exception is a line too."""
    try:
        for fields in player.take(event, index):
            yield json.dumps(fields)
    except driver.EngineRaised:
        yield json.dumps({"ev": "EXCEPTION"})
