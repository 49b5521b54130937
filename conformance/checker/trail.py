"""How the rules came to a decision: what they looked at on the way, in numbers.

A verdict's first wrong decision is made a second time, with an observer that keeps what each rule
saw. That takes the trace once more, up to there; nothing is kept while a trace conforms.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec import UNSET

from nullblock.conformance.checker.replay import Replay, Unexplained
from nullblock.conformance.checker.unknown import NotRecorded
from nullblock.conformance.trace.errors import Malformed
from nullblock.conformance.trace.reader import TraceReader
from nullblock.conformance.trace.records import Add, Header
from nullblock.spec.hybrid import lacking
from nullblock.spec.kernel import Engines
from nullblock.spec.profiles import Semantics
from nullblock.spec.sessions import num_output
from nullblock.spec.slots import slots

FEW = 6


@dataclass(frozen=True, slots=True)
class Moment:
    """Something that decided, while a decision was made."""

    rule: str
    request: int | None
    text: str


class Trail:
    """Listens to the rules. Attach `after_rule` while one decision is made."""

    def __init__(self) -> None:
        self.moments: list[Moment] = []

    def after_rule(self, s: Any, rule: str) -> None:
        """Keep what a rule saw, if it is one that decides something."""
        tell = _TELL.get(rule)
        if tell is not None:
            self.moments.append(Moment(rule, *tell(s)))


def follow(
    path: Path,
    line: int,
    file: str,
    semantics: Semantics,
    names: dict[int, str] | None = None,
) -> list[Moment]:
    """The moments of the decision on a line of a trace. Raises ``OSError``.

    `names`: gets what the engine calls each request, where the trace tells it.
    """
    trail, outer = Trail(), Engines.after_rule
    replay: Replay | None = None
    try:
        for located in TraceReader(path):
            record = located.record
            if isinstance(record, Header):
                replay = Replay(record, semantics)
                Engines.after_rule = replay.after_rule
                continue
            assert replay is not None
            if names is not None and isinstance(record, Add) and record.name is not UNSET:
                names[record.id] = record.name
            last = located.line == line and located.file == file
            if last:
                replay.machine.as_written()  # erased text does not tell which rules fire
                Engines.after_rule = _both(replay, trail)
            replay.take(record)
            if last:
                break
    except (Unexplained, NotRecorded, Malformed):
        pass  # the decision at the end is the wrong one
    finally:
        Engines.after_rule = outer
    return trail.moments


def _both(replay: Replay, trail: Trail) -> Any:
    def after_rule(s: Any, rule: str) -> None:
        replay.after_rule(s, rule)
        trail.after_rule(s, rule)

    return after_rule


def blocks(ids: list[int]) -> str:
    """Some block ids in words."""
    shown = ", ".join(map(str, ids[:FEW]))
    return shown + (f", … {len(ids)} in all" if len(ids) > FEW else "")


def _asks_to_run(s: Any) -> tuple[int, str]:
    r = s.actor
    need = lacking(s, r, slots(s))
    return r, (
        f"request {r} (number {s.at} of the running list) asked for {s.asked} tokens, "
        f"{s.comp[r]} of its {s.ntok[r]} computed or in flight, "
        + (f"{s.spec[r]} drafts waiting, " if s.spec[r] else "")
        + f"{s.budget} of {s.limit} left in "
        f"the step: slots needed {max(need, 0)}, free {s.nfree}{_cut(s)}"
    )


def _looked_up(s: Any) -> tuple[int, str]:
    r, n = s.lr, s.nhit
    most = s.k.full(s.ntok[r] - 1)
    text = f"request {r} was the head of the queue; "
    if s.k.several:
        return r, text + f"hits that every group accepts cover {s.span} of its {s.ntok[r]} tokens"
    text += f"{n} of its {most} full blocks are a hit"
    if n:
        text += f" (blocks {blocks([s.hit[i] for i in range(n)])}; {s.nevict} of them free)"
    if n < most:
        if not s.k.caching:
            text += ": prefix caching is off"
        elif s.k.skip_read(r):
            text += ": it does not read the prefix cache"
        else:
            text += f": no block carries its next chain number, {s.k.want(r, n)}"
    return r, text


def _asks_to_enter(s: Any) -> tuple[int, str]:
    r = s.actor
    need = lacking(s, r, slots(s)) + s.nevict
    return r, (
        f"request {r} asked to enter with {s.asked} tokens, {s.budget} of {s.limit} left in the "
        f"step: slots needed {need}, free {s.nfree}{_cut(s)}"
    )


def _cut(s: Any) -> str:
    """What else decides for how many tokens it is that somebody asks."""
    if not s.k.split:
        return ""
    return "; beside Mamba layers a prefill ends its steps with whole blocks (GROUP-29, GROUP-69)"


def _preempted(s: Any) -> tuple[int, str]:
    v = s.leaver
    if s.k.priority:
        q = s.k.requests[v]
        why = f"priority {q.priority}, arrival {q.arrival}: the greatest of those that ran"
    else:
        why = "the last of the running list"
    return v, f"slots were short, so request {v} was preempted: {why}"


def _requeued(s: Any) -> tuple[int | None, str]:
    return None, f"after that {s.nfree} blocks were free and {s.nr} requests ran"


def _held_back(s: Any) -> tuple[int, str]:
    r = s.lr
    whole = min(s.ntok[r], s.k.max_len)
    return r, (
        f"request {r} was held back: its {s.ntok[r]} tokens need {whole} blocks as a whole, "
        f"{s.nfree} are free; {s.budget} tokens were left in the step"
    )


def _gave_up(s: Any) -> tuple[int, str]:
    return (
        s.lr,
        f"so request {s.lr} stayed at the head of the queue, and nobody behind it is tried",
    )


def _passed_over(s: Any) -> tuple[int, str]:
    r = s.run[s.at - 1]
    return r, (
        f"request {r} had nothing to do: {s.comp[r]} of its {s.ntok[r]} tokens are computed or "
        f"in flight (max_model_len {s.k.max_len})"
    )


def _verified(s: Any) -> tuple[int, str]:
    r = s.frame[s.cur]
    return r, f"the model agrees with {s.ndraft[s.cur]} of the drafts of request {r} in the step"


_KINDS = ("plain", "an end token", "a stop id", "rejected by its grammar", "one that repeats")
"""What the last token of a request is to it, in words."""


def _took(s: Any) -> tuple[int, str]:
    r = s.taker
    q = s.k.requests[r]
    return r, (
        f"request {r} took a token: {num_output(s, r)} of at most {q.max_tokens} out "
        f"(min_tokens {q.min_tokens}), {s.ntok[r]} of max_model_len {s.k.max_len} in all; the "
        f"token is {_KINDS[s.k.last_token(s, r)]}"
    )


_TELL: dict[str, Any] = {
    "RUN-3": _asks_to_run,
    "RUN-6": _passed_over,
    "HASH-16": _looked_up,
    "WAIT-7": _asks_to_enter,
    "WAIT-8": _held_back,
    "WAIT-10": _gave_up,
    "PREEMPT-2": _preempted,
    "PREEMPT-4": _requeued,
    "UPD-3": _took,
    "DRAFT-8": _verified,
    "DRAFT-9": _took,
}
"""What a rule that has just fired is told with. Read from the state right after it."""
