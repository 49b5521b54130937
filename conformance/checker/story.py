"""Tells why a decision is none of the rules'."""

from collections.abc import Iterable, Iterator
from typing import Any

from nullblock.conformance.checker.decisions import Mismatch
from nullblock.conformance.checker.observations import STATUS
from nullblock.conformance.checker.replay import Replay
from nullblock.conformance.trace.reader import Located
from nullblock.conformance.trace.records import (
    Abort,
    Add,
    Evict,
    Output,
    Pause,
    Reset,
    Schedule,
    Update,
)
from nullblock.spec.catalogue import catalogue
from nullblock.spec.state import live

FEW = 8
"""Members of a list that a line of a story names."""


def tell(m: Mismatch, replay: Replay, profile: str, before: Iterable[Located]) -> tuple[str, ...]:
    """A story for people: the decision, the rule, the state, the request, what came before."""
    return tuple(_lines(m, replay, profile, before))


def _lines(m: Mismatch, replay: Replay, profile: str, before: Iterable[Located]) -> Iterator[str]:
    s = replay.s
    yield f"step {replay.steps}: {m.what}"
    yield f"the rules of {profile} say: {short(m.expected)}"
    yield f"the trace says: {short(m.actual)}"
    yield f"{m.rule}: {_sentence(m.rule)} (nullblock rules {m.rule})"
    yield (
        f"by the rules {s.nr} run, {s.nwait} wait, {s.nfree} of {replay.k.usable} blocks are "
        f"free, {s.budget} of {s.limit} tokens are left in the step"
    )
    if m.request is not None:
        yield _request(s, m.request)
    for located in before:
        yield f"before, line {located.line}: {summary(located.record)}"


def _sentence(rule: str) -> str:
    return next((st.sentence for st in catalogue() if st.id == rule), "")


def _request(s: Any, r: int) -> str:
    if r not in s.k.requests:
        return f"request {r} is not known, or has ended and was reported"
    q = s.k.requests[r]
    what = f"request {r}: prompt of {q.prompt_len} tokens, at most {q.max_tokens} more"
    if any(q == r for q, _ in s.k.refused):
        return what + ", rejected at arrival"
    if not live(s, r):
        return what + ", ended"
    return what + (
        f", {STATUS[s.stage[r]]}, {s.comp[r]} of {s.ntok[r]} tokens computed, "
        f"{s.tlen[r]} blocks, priority {q.priority}, preempted {s.npre[r]} times"
    )


def short(value: Any) -> str:
    """A value in one line, long lists cut."""
    if isinstance(value, (list, tuple)) and len(value) > FEW:
        head = ", ".join(map(str, value[:FEW]))
        return f"[{head}, … {len(value)} in all]"
    if value is None:
        return "nothing"
    return str(value)


def summary(record: Any) -> str:
    """A record in a few words."""
    match record:
        case Add():
            return f"add {record.id}, prompt {record.prompt}, max_tokens {record.max_tokens}"
        case Schedule():
            pairs = [f"{r}:{n}" for r, n in zip(record.ids, record.tokens, strict=True)]
            gone = f", preempted {short(record.preempted)}" if record.preempted else ""
            return f"schedule {record.step}: {short(pairs)}{gone}"
        case Output():
            return f"output of step {record.step}"
        case Update():
            ends = [f"{f.id} {f.reason}" for f in record.finish]
            return f"update of step {record.step}" + (f", ends {short(ends)}" if ends else "")
        case Abort():
            return f"abort {'everybody' if record.asked is None else short(record.asked)}"
        case Reset():
            return f"reset_prefix_cache, reset_running {record.reset_running}"
        case Pause():
            return f"pause {record.pause_state}"
        case Evict():
            return f"evict_blocks {short(record.blocks)}"
        case _:
            return type(record).__name__.lower()
