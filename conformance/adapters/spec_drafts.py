"""Speculative decoding for the specification: it counts drafts, the tokens are kept here."""

from collections import deque
from dataclasses import dataclass, field
from typing import Any

from nullblock.conformance.adapters.spec_waits import Grammars
from nullblock.conformance.drafting import Drafted
from nullblock.conformance.engine import Fields
from nullblock.conformance.scenario_format import Config
from nullblock.spec.concrete import State
from nullblock.spec.drafts import may_propose
from nullblock.spec.machine import drafts as machine
from nullblock.spec.machine.output import SchedulerOutput
from nullblock.spec.profiles import Semantics
from nullblock.spec.state import live

PADDING = -1
"""Stands for a draft that workers know, or for one that there is not."""


@dataclass(slots=True)
class StepDrafts:
    """The drafts of a step in flight."""

    tokens: Drafted
    invalid: dict[str, int] | None = None
    """How many of a request's are padding, once they were filled in."""


@dataclass(slots=True)
class Drafts:
    """What the drafts are, and what is counted of them."""

    num_spec_tokens: int
    counts: bool
    """Whether statistics are asked for."""
    by_place: bool
    """Whether these have a place for each draft that there may be."""
    proposed: Drafted = field(default_factory=dict)
    """The drafts told of a request last."""
    in_flight: deque[StepDrafts] = field(default_factory=deque)
    returning: StepDrafts = field(default_factory=lambda: StepDrafts({}))
    """Those of the step whose output is applied."""
    stats: Fields | None = None
    """What the last update counted, by vLLM's names."""

    @classmethod
    def of(cls, config: Config, semantics: Semantics) -> "Drafts":
        """Nothing proposed yet."""
        by_place = semantics.drafts_counted_by_place
        return cls(config.num_spec_tokens, config.log_stats, by_place)

    def propose(self, s: Any, drafts: Drafted, grammars: Grammars) -> None:
        """Take drafts for the steps to come, of each request those that its grammar allows."""
        for r, tokens in drafts.items():
            if not (r in s.k.requests and live(s, r)):
                continue
            if may_propose(s, r) and s.chunk[r] == 0:
                tokens = grammars.allowed(s, r, tokens)
            if machine.offer(s, r, len(tokens)):
                self.proposed[r] = tokens

    def scheduled(self, out: SchedulerOutput, ahead: list[str]) -> Drafted:
        """A step was scheduled: its drafts. `ahead` have new ones, which workers will make."""
        padding = [PADDING] * self.num_spec_tokens
        admitted = {q.id for q in out.new} | {q.id for q in out.cached if q.resumed}
        known = {r: drafts for r, drafts in self.proposed.items() if r not in admitted}
        tokens = {r: known.get(r, padding)[:n] for r, n in out.num_draft_tokens}
        for r in ahead:
            self.proposed[r] = padding
        self.in_flight.append(StepDrafts(tokens))
        return tokens

    def fill_in(self, s: State, drafts: Drafted, grammars: Grammars) -> Fields:
        """Write drafts into the newest step in flight, keeping their number: what a grammar does
        not allow is padding.
        """
        step, invalid = self.in_flight[-1], {}
        for r, tokens in drafts.items():
            if r not in s.k.requests or not live(s, r) or not step.tokens.get(r):
                continue
            count = len(step.tokens[r])
            tokens = grammars.allowed(s, r, tokens[:count])
            missing = count - len(tokens)
            if missing:
                invalid[r] = missing
            step.tokens[r] = tokens + [PADDING] * missing
        step.invalid = invalid
        return {"spec": dict(step.tokens), "invalid": invalid}

    def returns(self, s: Any) -> None:
        """The output of the oldest step is about to be applied. Raises AssertionError, as vLLM
        does, for a request that was scheduled fewer tokens than one.
        """
        assert all(s.grant[i] > 0 for i in range(s.cur, s.fend[s.oldest])), "nothing was computed"
        self.returning = self.in_flight.popleft()
        self.stats = None

    def verified(self, r: Any, scheduled: int, accepted: int) -> None:
        """Count the drafts of one request. Raises AssertionError if more are accepted than there
        may be, and IndexError if more are scheduled, where they are counted by place.
        """
        if not self.counts:
            return
        if self.stats is None:
            most = self.num_spec_tokens
            names = ("num_drafts", "num_draft_tokens", "num_accepted_tokens")
            self.stats = {"num_spec_tokens": most, **dict.fromkeys(names, 0)}
            self.stats["num_accepted_tokens_per_pos"] = [0] * most
            if self.by_place:
                self.stats["num_draft_tokens_per_pos"] = [0] * most
        if accepted > self.num_spec_tokens:
            raise AssertionError(f"{accepted} drafts of {self.num_spec_tokens} are accepted")
        self.stats["num_drafts"] += 1
        invalid = (self.returning.invalid or {}).get(r, 0)
        self.stats["num_draft_tokens"] += scheduled - invalid
        self.stats["num_accepted_tokens"] += accepted
        for position in range(accepted):
            self.stats["num_accepted_tokens_per_pos"][position] += 1
        if self.by_place:
            for position in range(scheduled - invalid):
                self.stats["num_draft_tokens_per_pos"][position] += 1
