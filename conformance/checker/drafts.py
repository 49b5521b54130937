"""Drafts in a replay: what a trace tells of them, compared with what the rules say."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import repeat
from typing import Any

from nullblock.conformance.checker.facts import Recorded
from nullblock.conformance.checker.unknown import NotRecorded
from nullblock.conformance.trace.records import (
    Draft,
    Output,
    RequestState,
    StepInFlight,
)
from nullblock.spec.concrete import State
from nullblock.spec.drafts import placeholders, remembers_chunks
from nullblock.spec.fields import CONTINUE, EOS, PLAIN, REJECTED, REPEATS, STOP_ID
from nullblock.spec.kernel import both
from nullblock.spec.waiting import has_come_whole

NONE = "`num_spec_tokens` is 0"


class WithDrafts(Recorded):
    """An environment in which an output may have several tokens of a request."""

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.places: dict[tuple[int, int], int] = {}
        """Of the tokens in the frame, by request and place: those that are not PLAIN."""
        self.rejected_at: dict[int, int] = {}
        """Whose tokens in the frame its grammar rejects, and the place of the last of them."""
        self.took: dict[int, int] = {}
        """Tokens of the frame that each request has taken."""
        self.verified: set[int] = set()
        """Whose drafts were verified in the frame."""

    def sampled(self, output: Output) -> None:
        super().sampled(output)
        self.places = {(r, place): STOP_ID for r, place in output.stop}
        self.places |= {(r, place): EOS for r, place in output.eos}
        self.rejected_at = dict(output.rejected)
        self.took.clear()
        self.verified.clear()

    def repeats(self, r: int, place: int) -> None:
        self.places.setdefault((r, place), REPEATS)

    def accepted(self, s: Any, r: Any) -> int:
        count, most = self.came(r), s.ndraft[s.cur]
        if count < 1 or count > most + 1:
            raise NotRecorded(f"what {count} tokens of request {r} mean, which had {most} drafts")
        self.verified.add(r)
        return count - 1

    def on_token(self, s: State, r: Any) -> None:
        took, came = self.took.get(r, 0) + 1, self.came(r)
        if took > came:
            raise NotRecorded(f"token {took} of request {r}, which has {came} in its output")
        self.took[r] = took

    def last_token(self, s: State, r: Any) -> int:
        if self.rejects(s, r):
            return REJECTED
        if self.places:
            return self.places.get((r, self.took.get(r, 0) - 1), PLAIN)
        return PLAIN

    def rejects(self, s: State, r: Any) -> bool:
        """Whether the grammar of r rejects the token that it has taken last."""
        if r in self.rejected:
            last = self.rejected_at.get(r) == self.took.get(r, 0) - 1
            return bool(both(last, has_come_whole(s, r)))
        return False

    def note(self, s: State, r: Any, why: Any) -> None:
        super().note(s, r, why)
        if why != CONTINUE:
            return
        took, came = self.took.get(r, 0), self.came(r)
        if took != came:
            raise NotRecorded(f"{took} tokens of request {r}, which has {came} in its output")

    def passed_on(self) -> list[int]:
        return list(map(self.took.get, self.taken, repeat(0)))  # who has a vector takes no token


def configured(k: Recorded, seen: object) -> None:
    """Raise NotRecorded where a record tells of drafts, and none are configured: the header is at
    fault, or whoever proposed them.
    """
    if seen and not k.drafts:
        raise NotRecorded(f"drafts that nobody configured: {NONE}")


def propose(machine: Any, s: Any, record: Draft, fired: Counter[str]) -> None:
    """Take the drafts that are proposed. Raises NotRecorded where none are configured.

    Args:
        machine: the `nullblock.conformance.checker.fast.Machine` of the state.
    """
    configured(machine.k, record.ids)
    machine.offer(s, record.ids, record.counts, fired)


def rule_of_tokens(k: Recorded, r: int, ours: int, theirs: int) -> str:
    """The rule by which a request gets as many tokens as it does."""
    if not isinstance(k, WithDrafts) or r not in k.verified:
        return "UPD-3"
    ends = any(q == r for q, _ in k.ends)
    return "DRAFT-10" if ends and ours < theirs else "DRAFT-9"


def of_request(s: Any, seen: RequestState) -> Iterator[tuple[str, str, Any, Any]]:
    """What a state tells of a request's drafts: rule, what, ours, theirs."""
    r = seen.id
    yield "DRAFT-7", "drafts", s.spec[r], seen.drafts
    if remembers_chunks(s):
        yield "UPD-1", "mark of a chunk", bool(s.chunk[r]), seen.chunk


def restore(s: Any, requests: Sequence[RequestState], steps: Sequence[StepInFlight]) -> None:
    """Put the drafts that a state tells of into one that has everything else.

    Raises NotRecorded for what decides under these rules and no state tells, and for drafts that
    are not configured.
    """
    configured(s.k, any(q.drafts for q in requests) or any(step.drafts for step in steps))
    if not s.k.drafts:
        return
    drafts = {(step.step, r): n for step in steps for r, n in step.drafts}
    entries = ((step.step, r) for step in steps for r in step.ids)
    for i, entry in enumerate(entries):
        s.ndraft[i] = drafts.get(entry, 0)
    for q in requests:
        r = q.id
        s.spec[r] = q.drafts
        if remembers_chunks(s):
            s.chunk[r] = int(q.chunk)
        awaited = [step.step for step in steps if r in step.owed][max(q.discard, 0) :]
        if s.k.sem.rejections_keep_to_their_run and awaited and q.preemptions:
            raise NotRecorded(
                f"which outputs in flight of request {r} are from before its last admission"
            )
        if q.placeholders:
            s.pd[r] = sum(drafts.get((step, r), 0) for step in awaited)
            s.ph[r] -= s.pd[r]


def may_be_ahead(s: Any, r: int, excess: int) -> None:
    """Raise NotRecorded where so many more tokens of a request are computed than are known, and as
    many of those in flight may be drafts: an engine takes some though none are configured, and its
    recorder does not count them in a step. Or they are those of a step that has returned without a
    token, which vllm-0.22.1 leaves computed (UPD-60): fewer than a step can grant, in its blocks.
    """
    has_room = s.comp[r] <= max(s.tlen[t] * s.k.size_of(t) for t in s.k.tables(r))
    are_few = 0 < excess < _most_granted(s) and has_room
    if s.k.drafts and are_few and not s.k.sem.silence_starts_over:
        what = f"{excess} tokens more are computed than it has"
        raise NotRecorded(f"whether a step has returned without a token of request {r}: {what}")
    granted = sum(s.grant[i] for i in range(s.cur, s.nframe) if s.frame[i] == r)
    if not s.k.drafts and 0 < excess < granted:
        raise NotRecorded(f"how many of the tokens in flight of request {r} are drafts: {NONE}")


def _most_granted(s: Any) -> int:
    """The most tokens that a step can grant a request."""
    capped = s.k.threshold > 0 and not s.k.sem.lone_prefill_uncut
    return int(min(s.k.budget, s.k.threshold) if capped else s.k.budget)


def most_computed(s: Any, r: int) -> int:
    """The most tokens of a request that can be computed: those known and those in flight."""
    in_flight = sum(s.ndraft[i] for i in range(s.cur, s.nframe) if s.frame[i] == r)
    return int(s.ntok[r] + max(placeholders(s, r), in_flight))
