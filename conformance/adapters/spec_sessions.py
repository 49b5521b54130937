"""Streaming sessions for the specification: which of them it has rules for."""

from typing import Any

from nullblock.conformance.engine import NewRequest
from nullblock.conformance.errors import OutOfScope
from nullblock.spec import facts
from nullblock.spec.fields import CONTINUE
from nullblock.spec.sessions import awaits_input
from nullblock.spec.waiting import is_skipped


def has_sessions(config: facts.Config) -> bool:
    """Whether the rules have sessions under this configuration."""
    return not _beside(config)


def _beside(config: facts.Config) -> str:
    """What sessions are out of scope beside; empty: nothing."""
    return ""


def check_session(config: facts.Config, request: NewRequest) -> None:
    """Raise OutOfScope for a session, or a chunk of one, that there are no rules for."""
    beside = _beside(config)
    if request.resumable and config.is_encoder_decoder:
        beside = "an encoder-decoder model"
    if request.prompt_embeds is not None:
        beside = "a prompt that is embeddings"
    if request.pooling:
        beside = "a vector instead of tokens"
    if beside:
        raise OutOfScope(f"a session beside {beside} is out of scope", "the reference has it")


def check_place(s: Any, r: str, arrival: float) -> None:
    """Raise OutOfScope where a session takes a chunk where it stands, under PRIORITY, whose
    arrival moves it past others in its queue: vLLM changes the arrival of a request inside a heap,
    and leaves the heap as it is. While the order of those that stand there is the same, so is
    whatever a heap does.
    """
    if not s.k.priority:
        return
    before = s.k.order(r)
    after = (before[0], arrival, before[2])
    apart = is_skipped(s, r)
    beside = (q for q in s.rank if is_skipped(s, q) == apart and q != r)
    if any((s.k.order(q) < before) != (s.k.order(q) < after) for q in beside):
        raise OutOfScope(
            f"a chunk of {r!r} that moves it past others in its queue is out of scope under "
            "PRIORITY",
            "give it an arrival that does not, or see the reference",
        )


def check_stop_of_session(s: Any, r: str, why: Any) -> None:
    """Raise OutOfScope where vLLM is about to queue a session twice, or to leave one that has
    ended in a queue, or counts one twice among those that wait for a chunk: it stops while it
    stands in the queue of those who wait apart, or waits for a chunk.
    """
    if why == CONTINUE or not s.k.resumable(r):
        return
    if is_skipped(s, r) and not s.k.sem.stops_leave_every_queue:
        raise OutOfScope(
            f"the session {r!r} stops while it stands in the skipped queue, and is queued twice: "
            "that is out of scope",
            "the reference has it",
        )
    again = awaits_input(s, r) or is_skipped(s, r)
    if s.k.sem.holders_wait_apart and not s.k.sem.sessions_stay_queued and again:
        raise OutOfScope(
            f"the session {r!r} stops again while it waits for its turn: that is out of scope",
            "the reference has it",
        )
