"""The model's part in speculative decoding: who proposes which drafts, and how many are right.

All of it follows from the scenario, as in the driver of the real engine
(``tests/oracle/drafting.py``). An engine that takes drafts is a :class:`Drafting`.
"""

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol, cast

from msgspec import UNSET

from nullblock.conformance.engine import Engine, Feature, Fields
from nullblock.conformance.errors import ScenarioError
from nullblock.conformance.scenario_format import Config, Draft, Drafts, Scenario

Drafted = dict[str, list[int]]
"""Draft tokens by request id."""


class Drafting(Engine, Protocol):
    """What an engine with :attr:`Feature.drafts` does besides.

    The ``spec`` of its ``schedule`` lines tells the drafts of a step, by request id.
    """

    def propose(self, drafts: Drafted) -> None:
        """Take drafts for the steps to come; the lists are the engine's to keep."""
        ...

    def fill_in(self, drafts: Drafted) -> Fields:
        """Write drafts into the newest step in flight, in place of those it was scheduled with.

        Returns ``spec``, the drafts of that step now, and ``invalid``: how many of a request's
        are only padding, by id, where any are.
        """
        ...

    def spec_stats(self) -> Fields | None:
        """What the last update counted, by vLLM's names; None if it counted no draft."""
        ...


def check(scenario: Scenario) -> None:
    """Refuse a model that is asked how many drafts are right and has no number to say."""
    config = scenario.config
    drafts = config.num_spec_tokens or any(isinstance(event, Draft) for event in scenario.events)
    if drafts and config.accept == []:
        raise ScenarioError("an empty list", "write a number of drafts into it", "config.accept")


@dataclass(slots=True)
class Verified:
    """The drafts that a step in flight verifies."""

    num_drafts: dict[str, int]
    """By request, how many were scheduled."""
    num_valid: dict[str, int] = field(default_factory=dict)
    """Where they were filled in later: how many of them are no padding."""


@dataclass(slots=True)
class Proposer:
    """The draft model, and the model that accepts what it proposes.

    ``lines`` ask it in the order of the scenario: each answer may depend on how many came before.
    """

    config: Config
    engine: Engine
    num_draws: int = 0
    """Answers of :meth:`num_accepted` so far."""
    num_proposals: int = 0
    """Proposals so far."""
    steps: dict[int, Verified] = field(default_factory=dict)
    """The steps in flight, by number."""

    @property
    def rules(self) -> Drafts:
        """How drafts are proposed, as the scenario says or by default."""
        return Drafts() if self.config.drafts is UNSET else self.config.drafts

    @property
    def proposes(self) -> bool:
        """Whether updates are followed by proposals.

        Scheduling asynchronously, workers make and verify drafts on their own. Only grammars and
        penalties make the engine fetch them, and write them into the step that waits for them.
        """
        config, rules = self.config, self.rules
        if rules.length == "none" or (config.async_scheduling and not rules.fill_in):
            return False
        return config.num_spec_tokens > 0 or config.drafts is not UNSET

    def scheduled(self, step: int, decided: Fields) -> None:
        """A step was scheduled."""
        self.steps[step] = Verified(
            {id: len(drafts) for id, drafts in decided.get("spec", {}).items()}
        )

    def num_accepted(self, step: int, id: str) -> int | None:
        """How many drafts of a request the model finds right in that step; None: it says nothing,
        as where what it sampled is discarded.
        """
        verified = self.steps[step]
        if not verified.num_drafts.get(id):
            return 0
        num_valid = verified.num_valid.get(id, verified.num_drafts[id])
        self.num_draws += 1
        match self.config.accept:
            case "all":
                return num_valid
            case "none":
                return 0
            case "hash":
                text = f"acc{self.config.seed}:{id}:{self.num_draws}"
                return zlib.crc32(text.encode()) % (num_valid + 1)
            case numbers:
                number = numbers[(self.num_draws - 1) % len(numbers)]
                return None if number is None else min(num_valid, number)

    def updated(self, step: int, sampled: Drafted) -> Fields:
        """The step returned: propose. Returns what the line tells if the scenario asks for it."""
        del self.steps[step]
        drafts = dict(self._proposals(sampled)) if self.proposes else {}
        filled: Fields = {"spec": None, "invalid": None}
        if drafts and not self.rules.fill_in:
            self._drafting.propose(_copied(drafts))
        elif drafts and self.steps:
            filled = self.fill_in(drafts)
        if self.config.drafts is UNSET:
            return {}
        return {"drafted": {**filled, "proposed": drafts, "stats": self._drafting.spec_stats()}}

    def told(self, drafts: Drafted, fill_in: bool) -> Fields:
        """Drafts that the scenario writes out. Raises IndexError if no step can take them."""
        if fill_in:
            if not self.steps:
                raise IndexError("drafts to fill in with no step in flight")
            return self.fill_in(drafts)
        self._drafting.propose(_copied(drafts))
        return {"spec": None, "invalid": None}

    def fill_in(self, drafts: Drafted) -> Fields:
        """Write drafts into the newest step in flight."""
        newest = self.steps[max(self.steps)]
        told = self._drafting.fill_in(_copied(drafts))
        for id in drafts:
            if newest.num_drafts.get(id) and self.engine.num_tokens(id) is not None:
                newest.num_valid[id] = newest.num_drafts[id] - told["invalid"].get(id, 0)
        return told

    def _proposals(self, sampled: Drafted) -> Iterator[tuple[str, list[int]]]:
        """The drafts that follow a step, request by request."""
        for id, tokens in sampled.items():
            position = self.engine.num_tokens(id)
            if self.rules.to == "sampled" and (position is None or not tokens):
                continue
            length = self._length(id)
            yield id, [self._token(id, (position or 0) + i) for i in range(length)]

    def _length(self, id: str) -> int:
        """How many drafts are proposed now."""
        self.num_proposals += 1
        most = self.config.num_spec_tokens
        match self.rules.length:
            case "all" | "none":
                return most
            case "hash":
                text = f"len{self.config.seed}:{id}:{self.num_proposals}"
                return zlib.crc32(text.encode()) % (most + 1)
            case numbers:
                return numbers[(self.num_proposals - 1) % len(numbers)]

    def _token(self, id: str, position: int) -> int:
        text = f"{self.config.seed}:{id}:{position}"
        return zlib.crc32(text.encode()) % self.config.vocab

    @property
    def _drafting(self) -> Drafting:
        return cast(Drafting, self.engine)


def proposer(config: Config, engine: Engine) -> Proposer | None:
    """Who plays the draft model; None beside an engine that takes no drafts."""
    return Proposer(config, engine) if Feature.drafts in engine.features else None


def _copied(drafts: Drafted) -> Drafted:
    return {id: list(tokens) for id, tokens in drafts.items()}
