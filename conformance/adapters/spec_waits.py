"""Grammars and adapters' numbers for the specification: what it asks of them, played here."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from nullblock.conformance.engine import Feature, Fields, NewRequest
from nullblock.conformance.errors import OutOfScope
from nullblock.conformance.played.grammar import PlayedGrammar
from nullblock.spec.concrete import State
from nullblock.spec.fields import REMOTE
from nullblock.spec.kernel import Disabled
from nullblock.spec.remote import loads_later
from nullblock.spec.rules.lookup import TOKENS_ARE_LOOKED_UP
from nullblock.spec.sessions import awaits_grammar, num_output
from nullblock.spec.state import check_stop, head, is_waiting, live
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


@contextmanager
def minding_tried(s: Any) -> Iterator[None]:
    """Raises OutOfScope where a request that has ended, and still stands in the skipped queue as
    in vllm-0.22.1 it may, begins a load, or is tried though its tokens are forgotten here, or how
    many were computed, of a session or where drafts have slots: then it may lack blocks, or stay
    where it is. One that is about to run makes vLLM raise, and so does one that has nothing to
    compute.

    Where no rule is enabled for it that is raised instead; whose tokens are forgotten has no
    prefix, it seems.
    """
    try:
        yield
    except Disabled as refusal:
        if refusal.guard == TOKENS_ARE_LOOKED_UP and not live(s, head(s)):
            raise _ended(head(s)) from refusal
        _check_tried(s)
        raise
    _check_tried(s)


def _check_tried(s: Any) -> None:
    for r in s.awaits if s.k.connector else ():
        if s.awaits[r] == REMOTE and not live(s, r):
            raise _ended(r)
    r, stays = s.lr, s.looking == 0 and s.blocked == 1
    if not (stays or s.looking != 0) or live(s, r):
        return
    # Whoever has computed something has slots for drafts, too (DRAFT-5).
    ahead = s.k.config.num_lookahead_tokens
    lacks = stays or s.nfree < len(s.k.tables(r)) * s.k.blocks(s.ntok[r] + ahead)
    if (lacks and (s.k.resumable(r) or ahead)) or loads_later(s, r) or s.ntok[r] == 0:
        raise _ended(r)


def _ended(r: str) -> OutOfScope:
    return OutOfScope(
        f"the request {r!r} has ended and would be scheduled again: that is out of scope",
        "the reference has it",
    )


def check_id(s: State, r: str) -> None:
    """Raise OutOfScope for the id of a request that has ended and is still queued."""
    if is_waiting(s, r):
        raise OutOfScope(
            f"the id {r!r} of a request that has ended and still waits is out of scope",
            "give the new request an id of its own",
        )
