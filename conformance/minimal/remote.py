"""A KV connector in a scenario: what the remote side holds, whose loads take steps, what workers
report; and what of it a decision is compared about.

A trace has what a connector answered, call by call. A scenario has what it knows: that is told
from the start, and an event stands where it changes, so that a request may be asked for at another
step than it was.
"""

from collections.abc import Container, Iterator, Set
from dataclasses import dataclass, field
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from nullblock.conformance.checker.decisions import Mismatch
from nullblock.conformance.trace.records import (
    Answer,
    Matched,
    RemoteState,
    State,
    TraceConfig,
    Transfers,
)

Said = Matched | Transfers | None
"""What stands right before a decision."""
Document = dict[str, Any]
Holds = tuple[tuple[int, int | None], ...]
"""Request, and the tokens that the remote side holds of it from now on; None: it does not know."""


@dataclass(slots=True)
class Remote:
    """The connector of a history, by request."""

    first: dict[int, int | None] = field(default_factory=dict)
    """What the remote side holds, when it is first asked for."""
    holds: dict[int, int | None] = field(default_factory=dict)
    """What it would say now."""
    over_steps: set[int] = field(default_factory=set)
    """Whose loads take more than a step."""
    delayed: set[int] = field(default_factory=set)
    """Whose blocks are kept after the end, until they are sent."""

    def answered(self, said: Said) -> Holds:
        """A connector answers; what it says that is not what was known."""
        if not isinstance(said, Matched):
            return ()
        news = []
        for answer in said.answers:
            r, held = answer.id, _held(answer)
            if self.holds.setdefault(r, self.first.setdefault(r, held)) != held:
                news.append((r, held))
            self.holds[r] = 0 if answer.begins else held
            if answer.over_steps:
                self.over_steps.add(r)
        return tuple(news)

    def reported(self, said: Said) -> None:
        """Workers report, or a connector speaks of those who end."""
        if isinstance(said, Transfers):
            self.delayed.update(said.delayed)

    def config(self, c: TraceConfig, names: dict[int, str], there: Set[int]) -> Document:
        """The connector of a scenario with some of the requests."""
        if c.connector is UNSET:
            return {}
        known = {names[r]: held for r, held in self.first.items() if r in there and held != 0}
        made: Document = {"matched": known}
        for name, whom in (("async", self.over_steps), ("delay_free", self.delayed)):
            if whom & there:
                made[name] = [names[r] for r in sorted(whom & there)]
        if c.connector.failure_policy != "recompute":
            made["failure_policy"] = c.connector.failure_policy
        if len(c.groups) > 1:
            made["all_groups"] = True  # one that takes the blocks of one group raises
        return {"connector": made}


def _held(answer: Answer) -> int | None:
    """All tokens that the remote side holds of a request of which it has any to load."""
    if answer.tokens is None or not answer.tokens:
        return answer.tokens
    return answer.local + answer.tokens


def events(
    said: Said, news: Holds, names: dict[int, str], there: Container[int]
) -> Iterator[Document]:
    """What a scenario has before a half of a step, of the requests that are there."""
    told = {names[r]: held for r, held in news if r in there}
    if told:
        yield {"op": "kv_match", "matched": told}
    if not isinstance(said, Transfers):
        return
    report: Document = {"op": "kv_done"}
    for name, ids in (("recv", said.received), ("send", said.sent)):
        if ended := [names[r] for r in ids if r in there]:
            report[name] = ended
    if said.invalid:
        report["invalid"] = said.invalid
    if len(report) > 1:
        yield report


def asked(said: Said) -> list[int]:
    """Whom a connector is asked for."""
    return [answer.id for answer in said.answers] if isinstance(said, Matched) else []


def before(recorded: Said, own: Said, mismatch: Mismatch, kept: Container[int]) -> Said:
    """What stands before a decision that is put where the rules have their own: who is asked for
    and what is reported as recorded, of the requests kept; what is answered as in the scenario,
    but for that which the fault is about.
    """
    if not isinstance(recorded, Matched):
        return recorded and _transfers(recorded, kept)
    ours = {a.id: a for a in own.answers} if isinstance(own, Matched) else {}
    answers = [
        _answer(answer, ours.get(answer.id), mismatch)
        for answer in recorded.answers
        if answer.id in kept
    ]
    return Matched(answers=answers)


def _answer(told: Answer, ours: Answer | None, mismatch: Mismatch) -> Answer:
    if ours is None:
        return told
    if told.id != mismatch.request:
        return ours
    match mismatch.rule:
        case "HASH-11":
            return replace(ours, local=told.local)
        case "POOL-10":
            return replace(ours, blocks=told.blocks)
        case _:
            return replace(ours, begins=told.begins)


def _transfers(told: Transfers, kept: Container[int]) -> Transfers:
    names = ("received", "sent", "failed", "delayed")
    return replace(told, **{name: [r for r in getattr(told, name) if r in kept] for name in names})


def state(seen: State, mismatch: Mismatch, kept: Container[int]) -> State:
    """A state, of the requests kept. Where the fault is in what is under way, their blocks do not
    count: a scenario that is smaller gives them others.
    """
    seen = replace(seen, requests=[q for q in seen.requests if q.id in kept])
    told = seen.remote
    if not isinstance(told, RemoteState):
        return seen
    of_blocks = "blocks" in mismatch.what and mismatch.rule == "POOL-10"
    remote = RemoteState(
        received=[r for r in told.received if r in kept],
        failed=[r for r in told.failed if r in kept],
        kept=[
            one if of_blocks else replace(one, blocks=UNSET) for one in told.kept if one.id in kept
        ],
    )
    if (mismatch.rule or "").startswith("REMOTE-"):
        requests = [replace(q, blocks=UNSET) for q in seen.requests]
        seen = replace(seen, requests=requests, free_queue=UNSET, ref_cnt=UNSET)
    return replace(seen, remote=remote)
