"""Streaming sessions for the specification: which of them it has rules for."""

from typing import Any

from nullblock.conformance.engine import NewRequest
from nullblock.conformance.errors import OutOfScope
from nullblock.conformance.unruled import moves_past_others
from nullblock.spec import facts
from nullblock.spec.fields import CONTINUE
from nullblock.spec.waiting import is_skipped


def has_sessions(config: facts.Config) -> bool:
    """Whether the rules have sessions under this configuration."""
    return not _beside(config)


def _beside(config: facts.Config) -> str:
    """What sessions are out of scope beside; empty: nothing."""
    if config.policy == "priority" and config.semantics.resumes_await_output:
        # Where a chunk moves its session in the one queue of that line is not written down.
        return "the PRIORITY policy in a later line"
    if config.connector and config.semantics.freed_blocks_await_steps:
        # What waits with blocks there, and may lose what was loaded, nobody has compared.
        return "a KV connector in a later line"
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
    """Raise OutOfScope where a session that stands in the skipped queue takes a chunk, under
    PRIORITY, whose arrival moves it past others there.
    """
    before = s.k.order(r)
    if moves_past_others(s, r, (before[0], arrival, before[2])):
        raise OutOfScope(
            f"a chunk of {r!r} that moves it past others in the skipped queue is out of scope "
            "under PRIORITY",
            "give it an arrival that does not, or see the reference",
        )


def check_stop_of_session(s: Any, r: str, why: Any) -> None:
    """Raise OutOfScope where vLLM is about to queue a session twice, or to leave one that has
    ended in a queue: it stops while it stands in the skipped queue.
    """
    if why == CONTINUE or s.k.sem.stops_leave_every_queue:
        return
    if s.k.resumable(r) and is_skipped(s, r):
        raise OutOfScope(
            f"the session {r!r} stops while it stands in the skipped queue, and is queued twice: "
            "that is out of scope",
            "the reference has it",
        )
