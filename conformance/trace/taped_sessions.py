"""Streaming sessions of an engine of ours, as a trace tells them."""

from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING

from msgspec import UNSET

from nullblock.conformance.consecutive import runs
from nullblock.conformance.engine import Fields, NewRequest
from nullblock.conformance.repetition import FEATURE
from nullblock.conformance.trace.sessions import Chunk, SessionEnd, Taken, Turn
from nullblock.spec.profiles import Semantics

if TYPE_CHECKING:
    from nullblock.conformance.trace.tape import Tape


class TapedSessions:
    """Knows what each session was sent and has not taken, and who waits for a chunk."""

    def __init__(self, tape: "Tape", semantics: Semantics) -> None:
        self.tape, self.semantics = tape, semantics
        self.queues: dict[str, deque[NewRequest | None]] = {}
        """By session, its chunks that wait; None: its end."""
        self.waiting: set[str] = set()
        self.prompts: dict[str, int] = {}
        """How long the prompts of sessions have become."""

    def begins(self, request: NewRequest) -> None:
        """A request arrives that is no chunk; who had its id is gone."""
        self.ends(request.id)
        if request.resumable:
            self.queues[request.id] = deque()

    def ends(self, id: str) -> None:
        """A request is gone."""
        self.queues.pop(id, None)
        self.prompts.pop(id, None)
        self.waiting.discard(id)

    def is_alive(self, id: str) -> bool:
        """Whether there is a session of that id, and not only its blocks."""
        return id in self.queues and self.tape.has(id)

    def prompt(self, request: NewRequest) -> int:
        """The prompt tokens of a request."""
        return self.prompts.get(request.id, len(request.prompt))

    def send(self, number: int, sent: NewRequest) -> Chunk | SessionEnd:
        """The record of what a session was just sent; ``number``: the session's."""
        id = sent.id
        waited = id in self.waiting
        self.waiting.discard(id)
        if not waited and None not in self.queues[id]:
            self.queues[id].append(sent if sent.resumable else None)
        if not sent.resumable:
            return SessionEnd(id=number, ended=waited)
        brings = {
            "pooling": sent.pooling,
            "multimodal": bool(sent.mm_features),
            "prompt_embeds": sent.prompt_embeds is not None,
            FEATURE: sent.repetition is not None,
        }
        return Chunk(
            id=number,
            prompt=len(sent.prompt),
            max_tokens=sent.max_tokens,
            min_tokens=sent.min_tokens,
            **self.tape.place(sent),
            features=[name for name, yes in brings.items() if yes],
            items=self.tape.items.told(sent),
            taken=self.take(sent) if waited and self.is_alive(id) else None,
        )

    def take(self, sent: NewRequest) -> Taken:
        """What a session has with the chunk that the engine has just let it take."""
        tape, id = self.tape, sent.id
        tokens, before = tape.num_tokens(id), tape.requests[id]
        assert tokens is not None, "it goes on"
        kept = tokens - len(sent.prompt)
        if self.semantics.chunks_rehash:
            del tape.chain[id][kept // tape.size :]
        tape.content[id][kept:] = sent.prompt
        self.prompts[id] = max(self.prompt(before), kept) + len(sent.prompt)
        limits = self.semantics.chunks_bring_limits
        tape.requests[id] = replace(
            before,
            stop=sent.stop,
            eos=sent.eos,
            repetition=sent.repetition,
            min_tokens=sent.min_tokens,
            arrival=sent.arrival,
            max_tokens=sent.max_tokens if limits else before.max_tokens,
            mm_features=(
                *before.mm_features,
                *(replace(item, offset=item.offset + kept) for item in sent.mm_features),
            ),
        )
        tape.items.found.extend(id, len(tape.chain[id]), len(tape.content[id]) // tape.size)
        filled = tape.fill(id)
        return Taken(tokens=tokens, chain=runs(filled) if tape.caching else UNSET)

    def turns(self, outputs: list[Fields]) -> list[Turn]:
        """Which sessions of those that stopped go on, and what they take."""
        found: list[Turn] = []
        for output in outputs:
            id = output["id"]
            if output["finish"] in (None, "rejected") or id not in self.queues:
                continue  # the id of a rejected one may be used again
            if not self.is_alive(id):
                self.ends(id)
                continue
            sent = self.queues[id].popleft() if self.queues[id] else None
            if sent is None:
                self.waiting.add(id)
            taken = None if sent is None else self.take(sent)
            found.append(Turn(id=self.tape.number(id), taken=taken))
        return found
