"""Playing a scenario with a model in it: the driver, but tokens are computed, not made up."""

import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from nullblock.conformance import scope
from nullblock.conformance.driver import Player
from nullblock.conformance.engine import Engine, Fields
from nullblock.conformance.errors import OutOfScope, ScenarioError
from nullblock.conformance.scenario_format import Add, Scenario

T = TypeVar("T")


class Model(Protocol):
    """What computes the steps of an engine."""

    def compute(self) -> dict[str, int]:
        """Compute the step that the engine has just decided; a token for each request scheduled,
        of which a chunk's means nothing.
        """
        ...

    def judge(self, prompt: list[int], served: list[int]) -> Fields:
        """``outcome`` (right, wrong, undecided), ``margin``, ``at`` and ``expected``."""
        ...


@dataclass(slots=True)
class Served:
    """One request, and what became of it."""

    id: str
    prompt: list[int]
    tokens: list[int] = field(default_factory=list)
    finish: str | None = None
    """None: it is not done."""
    why: str | None = None
    """Of a rejection."""
    hits: int = 0
    """Tokens that it found in the prefix cache, all times together."""
    preemptions: int = 0
    verdict: Fields | None = None


@dataclass(slots=True)
class Figures:
    """What a run came to."""

    requests: list[Served] = field(default_factory=list)
    steps: int = 0
    computed: int = 0
    """Tokens, those computed again after a preemption included."""
    chunks: int = 0
    """Times that a request was scheduled without reaching its last token."""
    most_together: int = 0
    raised: str | None = None
    """What the engine or the model raised."""
    seconds: float = 0.0
    model_seconds: float = 0.0

    def total(self, what: str) -> int:
        """Of all requests: hits, preemptions."""
        return sum(getattr(one, what) for one in self.requests)

    @property
    def sampled(self) -> int:
        """Tokens that came out."""
        return sum(len(one.tokens) for one in self.requests)

    def count(self, finish: str | None) -> int:
        """Requests that ended so."""
        return sum(one.finish == finish for one in self.requests)


@dataclass(frozen=True, slots=True)
class Delivery:
    """One token, as a client gets it."""

    step: int
    request: Served
    token: int


class Serving(Player):
    """Plays a scenario on an engine whose steps a model computes."""

    def __init__(self, scenario: Scenario, engine: Engine, model: Model) -> None:
        check(scenario)
        scope.check_run(scenario, "at hand", engine.features)
        super().__init__(scenario, engine, "none")
        self.model, self.figures = model, Figures()
        self.alive: dict[str, Served] = {}
        self.computed: deque[dict[str, int]] = deque()
        """What the steps in flight sampled."""
        self.sampled: dict[str, int] = {}

    def play(self) -> Iterator[Delivery]:
        """Tokens, as they come; `figures` grow with them."""
        began = time.perf_counter()
        for fields in self.lines(""):
            match fields["ev"]:
                case "schedule":
                    self.note_schedule(fields)
                case "update":
                    yield from self.note_update(fields)
                case "abort":
                    for id in fields["aborted"]:
                        self.alive.pop(id).finish = "abort"
                case "EXCEPTION":
                    self.figures.raised = f"{fields['type']}: {fields['msg']}"
            self.figures.seconds = time.perf_counter() - began

    def add(self, event: Add) -> None:
        """A request arrives."""
        super().add(event)
        one = self.alive[event.id] = Served(event.id, event.prompt.tokens())
        self.figures.requests.append(one)

    def run(self, max_steps: int) -> Iterator[Fields]:
        """Steps until nothing is unfinished, or one does nothing: the next would do the same."""
        idle = False
        for fields in super().run(max_steps):
            if fields["ev"] == "schedule":
                idle = not (fields["order"] or fields["preempted"] or fields["finished"])
            yield fields
            if idle and fields["ev"] == "update" and not self.in_flight:
                return

    def schedule(self) -> Fields:
        """The first half of a step: the model computes it, before anything else is decided."""
        fields = super().schedule()
        self.computed.append(self.timed(self.model.compute))
        return fields

    def update(self) -> Fields:
        """The second half of the oldest step: the engine hears what it sampled."""
        if self.in_flight:
            self.sampled = self.computed.popleft()
        return super().update()

    def sample(self, id: str, step: int) -> list[int]:
        """What the model sampled for a request; nothing once it is gone."""
        return [] if self.ask(self.engine.num_tokens, id) is None else [self.sampled[id]]

    def note_schedule(self, fields: Fields) -> None:
        """Count what a step does."""
        figures, resumed = self.figures, [one for one in fields["cached"] if one["resumed"]]
        figures.steps += 1
        figures.computed += fields["total"]
        figures.chunks += sum(self.in_flight[-1].is_prefill_chunk.values())
        figures.most_together = max(figures.most_together, len(fields["order"]))
        for admitted in [*fields["new"], *resumed]:
            self.alive[admitted["id"]].hits += admitted["computed"]
        for id in fields["preempted"]:
            self.alive[id].preemptions += 1

    def note_update(self, fields: Fields) -> Iterator[Delivery]:
        """Hand out what a step sampled."""
        for output in fields["outputs"]:
            one = self.alive[output["id"]]
            one.tokens += output["tokens"]
            if output["finish"] is not None:
                one.finish, one.why = output["finish"], output["stop_reason"]
                del self.alive[one.id]
            for token in output["tokens"]:
                yield Delivery(fields["step"], one, token)

    def timed(self, method: Callable[[], T]) -> T:
        """Ask the model; what it raises is an observation, as what the engine raises is."""
        began = time.perf_counter()
        try:
            return self.ask(method)
        finally:
            self.figures.model_seconds += time.perf_counter() - began


def check(scenario: Scenario) -> None:
    """Refuse what a model cannot do: raises OutOfScope, ScenarioError."""
    for index, event in enumerate(scenario.events):
        if not isinstance(event, Add):
            continue
        place = f"events[{index}]"
        if event.lora:
            raise OutOfScope("the small model has no adapters", "leave lora out", f"{place}.lora")
        if isinstance(event.eos_at, int):
            remedy = "leave eos_at out: the model decides when eos comes"
            raise OutOfScope("a model that is told its tokens", remedy, f"{place}.eos_at")
        if any(token < 0 for token in event.prompt.tokens()):
            raise ScenarioError(
                "a token below 0", "the model's tokens count from 0", f"{place}.prompt"
            )


def vocabulary(scenario: Scenario, least: int) -> int:
    """Tokens that the model has to know: all that the prompts have, and at least so many."""
    adds = [event for event in scenario.events if isinstance(event, Add)]
    return max([least, *(max(e.prompt.tokens(), default=0) + 1 for e in adds)])
