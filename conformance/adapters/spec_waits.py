"""Grammars and adapters' numbers for the specification: what it asks of them, played here."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from nullblock.conformance.engine import Feature, Fields, NewRequest
from nullblock.conformance.errors import OutOfScope
from nullblock.conformance.played.grammar import PlayedGrammar
from nullblock.spec.concrete import State
from nullblock.spec.sessions import awaits_grammar, num_output
from nullblock.spec.state import check_stop, is_waiting
from nullblock.spec.waiting import has_come_whole, is_masked, masked_later


def adapter_number(request: NewRequest, max_loras: int) -> int:
    """The number of a request's adapter as the rules want it: 0 for none, so that those that are
    not above 0, which vLLM's front end refuses, are one lower. Raises OutOfScope for an adapter
    without a number where ``max_loras`` caps them: vLLM raises TypeError when it next counts.
    """
    if request.lora is None:
        return 0
    if request.lora_id is None:
        if max_loras:
            what = "an adapter without a number is out of scope beside max_loras"
            raise OutOfScope(what, "give it a lora_id, or none of its own")
        return 0
    return request.lora_id if request.lora_id > 0 else request.lora_id - 1


@dataclass(slots=True)
class Grammars:
    """The grammars of requests, and which tokens they rejected."""

    played: dict[str, PlayedGrammar] = field(default_factory=dict)
    unseen: dict[str, list[int]] = field(default_factory=dict)
    """What a request has taken of an output that its grammar has not seen."""
    rejected: set[str] = field(default_factory=set)
    """Whose last output its grammar rejects."""
    told: Fields = field(default_factory=dict)
    """What the step scheduled last says."""

    def introduce(self, request: NewRequest) -> None:
        """A request arrives, with a grammar or without."""
        self.rejected.discard(request.id)
        self.unseen.pop(request.id, None)
        self.played.pop(request.id, None)
        if request.grammar is not None:
            self.played[request.id] = request.grammar

    def took(self, s: State, r: str, token: int) -> None:
        """A request took a token. Raises AttributeError, as vLLM does, where the grammar that is
        to see it is not compiled yet: the token was sampled for an earlier owner of the id.
        """
        if self.sees(s, r) is not None:
            self.unseen.setdefault(r, []).append(token)

    def sees(self, s: State, r: str) -> PlayedGrammar | None:
        """The grammar of r, if it has one. Raises AttributeError where that is not compiled."""
        if awaits_grammar(s, r):
            raise AttributeError(f"{r} has no grammar yet that could see a token")
        return self.played.get(r)

    def rejects(self, s: State, r: str) -> bool:
        """Whether its grammar rejects what r took of its last output: it sees that as a whole."""
        if r in self.unseen and has_come_whole(s, r):
            tokens, grammar = self.unseen.pop(r), self.played[r]
            if num_output(s, r) > grammar.after and not grammar.accept_tokens(r, tokens):
                self.rejected.add(r)
        return r in self.rejected

    def allowed(self, s: State, r: str, drafts: list[int]) -> list[int]:
        """The drafts of r up to the first that its grammar, if it has one, rejects. Raises
        AttributeError where that is not compiled.
        """
        grammar = self.sees(s, r)
        if grammar is None or num_output(s, r) <= grammar.after:
            return drafts
        return grammar.validate_tokens(drafts)

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
    """The refusal of one feature beside another, which no front end lets through."""
    return OutOfScope(f"{this} beside {feature} is out of scope", "leave one of them out")


def check_id(s: State, r: str) -> None:
    """Raise OutOfScope for the id of a request that has ended and is still queued."""
    if is_waiting(s, r):
        raise OutOfScope(
            f"the id {r!r} of a request that has ended and still waits is out of scope",
            "give the new request an id of its own",
        )
