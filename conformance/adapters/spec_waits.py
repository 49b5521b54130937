"""Grammars and adapters' numbers for the specification: what it asks of them, played here."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from nullblock.conformance.engine import Feature, Fields, NewRequest
from nullblock.conformance.errors import OutOfScope
from nullblock.conformance.played.grammar import PlayedGrammar
from nullblock.conformance.scenario_format import Config
from nullblock.spec.concrete import State
from nullblock.spec.remote import loads_later
from nullblock.spec.sessions import awaits_grammar
from nullblock.spec.state import check_stop, is_waiting, live
from nullblock.spec.waiting import is_masked, masked_later


def adapter_number(request: NewRequest) -> int:
    """The number of a request's adapter as the rules want it: 0 for none, so that those that are
    not above 0, which vLLM's front end refuses, are one lower.
    """
    if request.lora is None or request.lora_id is None:
        return 0
    return request.lora_id if request.lora_id > 0 else request.lora_id - 1


@dataclass(slots=True)
class Grammars:
    """The grammars of requests, and which tokens they rejected."""

    config: Config
    played: dict[str, PlayedGrammar] = field(default_factory=dict)
    rejected: set[str] = field(default_factory=set)
    """Whose last token its grammar rejects."""
    told: Fields = field(default_factory=dict)
    """What the step scheduled last says."""

    def introduce(self, request: NewRequest) -> None:
        """A request arrives, with a grammar or without. Raises OutOfScope for one that drafts are
        proposed for.
        """
        self.rejected.discard(request.id)
        self.played.pop(request.id, None)
        if request.grammar is not None:
            if self.config.num_spec_tokens:
                raise beside(Feature.drafts, Feature.structured_output)
            self.played[request.id] = request.grammar

    def took(self, s: State, r: str, token: int, num_output: int) -> None:
        """A request took a token. Raises AttributeError, as vLLM does, where the grammar that is
        to see it is not compiled yet: the token was sampled for an earlier owner of the id.
        """
        if awaits_grammar(s, r):
            raise AttributeError(f"{r} takes a token, and has no grammar yet that sees it")
        grammar = self.played.get(r)
        if grammar is not None and num_output > grammar.after:
            if not grammar.accept_tokens(r, [token]):
                self.rejected.add(r)

    def verdict(self, s: State, r: str) -> Any:
        """Why r would stop without its grammar."""
        self.rejected.discard(r)
        why = check_stop(s, r)
        self.rejected.add(r)
        return why

    def scheduled(self, s: Any, entries: Iterable[int]) -> None:
        """A step was scheduled."""
        masked = [i for i in entries if is_masked(s, i)]
        pending = any(masked_later(s, i) for i in masked)
        mask = [s.frame[i] for i in masked]
        self.told = {
            "scheduled": bool(masked),
            "pending": pending,
            "mask": mask if mask and not pending else None,
        }


def beside(feature: Feature, this: Feature) -> OutOfScope:
    """The refusal of one feature beside another."""
    return OutOfScope(f"{this} beside {feature} is out of scope", "leave one of them out")


def check_tried(s: Any) -> None:
    """Raise OutOfScope where a request that has ended, and still stands in the skipped queue as in
    vllm-0.22.1 it may, begins a load, or is tried though its tokens are forgotten here. One that
    is about to run makes vLLM raise.
    """
    ended = s.looking != 0 and not live(s, s.lr)
    if ended and (loads_later(s, s.lr) or s.ntok[s.lr] == 0):
        raise OutOfScope(
            f"the request {s.lr!r} has ended and would be scheduled again: that is out of scope",
            "the reference has it",
        )


def check_id(s: State, r: str) -> None:
    """Raise OutOfScope for the id of a request that has ended and is still queued."""
    if is_waiting(s, r):
        raise OutOfScope(
            f"the id {r!r} of a request that has ended and still waits is out of scope",
            "give the new request an id of its own",
        )
