"""Streaming sessions for the specification: which of them it has rules for."""

from typing import Any

from nullblock.conformance.engine import NewRequest
from nullblock.conformance.errors import OutOfScope
from nullblock.conformance.queues import who_waits
from nullblock.conformance.unruled import asserted, moves_past_others, stops_again
from nullblock.spec.fields import CONTINUE
from nullblock.spec.machine.output import SchedulerOutput
from nullblock.spec.sessions import may_stand_twice
from nullblock.spec.turns import goes_on
from nullblock.spec.waiting import is_skipped


def check_session(request: NewRequest) -> None:
    """Raise OutOfScope for a session, or a chunk of one, that there are no rules for. Of what ends
    one nothing else counts.
    """
    if request.pooling and request.resumable:
        what = "a session beside a vector instead of tokens is out of scope"
        raise OutOfScope(what, "vLLM's front end refuses it")


def check_turns(s: Any) -> None:
    """Raise AssertionError, as vLLM does, where a session takes a chunk whose prompt is embeddings
    and has no tokens.
    """
    if any(s.past.get(r, 0) for r in s.k.without_tokens):
        raise AssertionError("a session takes a chunk whose prompt has no tokens")


def check_place(s: Any, r: str, arrival: float) -> None:
    """Raise OutOfScope where a session takes a chunk where it stands, under PRIORITY, and its
    arrival moves it past others in ways that no rule has.
    """
    before = s.k.order(r)
    if moves_past_others(s, r, (before[0], arrival, before[2])):
        raise OutOfScope(
            f"a chunk of {r!r} that moves it past others in its queue is out of scope under "
            "PRIORITY",
            "give it an arrival that does not, or see the reference",
        )


def check_stop_of_session(s: Any, r: str, why: Any) -> None:
    """Raise OutOfScope where vLLM is about to queue a session in ways that no rule has."""
    if why == CONTINUE or not s.k.resumable(r):
        return
    if stops_again(s, r):
        raise _refused(r, "stops again while it waits for its turn")
    is_left = is_skipped(s, r) and not (may_stand_twice(s) or s.k.sem.stops_leave_every_queue)
    if is_left and goes_on(s, r, why):
        raise _refused(r, "stops while it stands in the skipped queue")


def _refused(r: str, what: str) -> OutOfScope:
    return OutOfScope(f"the session {r!r} {what}: that is out of scope", "the reference has it")


def check_decided(s: Any, out: SchedulerOutput, held: set[str]) -> None:
    """Raise AssertionError where vLLM asserts what is not so of a step. `held`: the `holders` from
    before it.
    """
    why = asserted(s, out, held)
    if why is not None:
        raise AssertionError(why)


def queues(s: Any) -> dict[str, list[str]]:
    """Who waits in either queue, in its order."""
    skipped, waiting = who_waits(s)
    return {"waiting": waiting, "skipped_waiting": skipped}
