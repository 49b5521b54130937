"""Whether a scenario shows the same fault: the rules, run on it, meet the recorded decision with
the same first mismatch.

Of the recorded decision counts what is about the requests that the scenario keeps, and what a
smaller scenario cannot leave as it was (block ids, totals, progress) counts only where the fault
is about that.
"""

from collections import Counter
from collections.abc import Container
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from nullblock.conformance import scenario
from nullblock.conformance.checker.decisions import Mismatch
from nullblock.conformance.checker.replay import Replay, Unexplained
from nullblock.conformance.checker.unknown import NotRecorded
from nullblock.conformance.errors import InputError
from nullblock.conformance.minimal import remote
from nullblock.conformance.minimal.document import Document, Selection
from nullblock.conformance.minimal.history import History
from nullblock.conformance.minimal.play import follow, play
from nullblock.conformance.trace.configured import has_grammars, header
from nullblock.conformance.trace.errors import Malformed
from nullblock.conformance.trace.records import (
    Abort,
    Error,
    Header,
    Matched,
    Output,
    PostState,
    Record,
    Reset,
    Schedule,
    State,
    Transfers,
    Update,
)
from nullblock.spec.profiles import Semantics

CHEAPER = 4
"""How much less work a block is that arrives than one that is scheduled."""
ABOUT = {
    "blocks": ("POOL-10", "HASH-10", "OUT-2"),
    "computed": ("UPD-1",),
    "num_output": ("UPD-3",),
    "all_tokens": ("OUT-3",),
    "prefill": ("OUT-17",),
}
"""Parts of a decision about requests that only these rules make count."""
KIND_OF = {
    **{op: op for op in ("add", "schedule", "update", "abort", "pause", "draft")},
    "reset_prefix_cache": "reset",
    "evict_blocks": "evict",
}
"""Event of a scenario to kind of record."""
KINDS = frozenset(KIND_OF.values())
REMOTE_EVENTS = ("kv_match", "kv_done")
"""Events that make no record of their own."""


class Same:
    """Runs scenarios and compares the end with a recorded decision."""

    def __init__(self, history: History, mismatch: Mismatch, semantics: Semantics) -> None:
        self.recorded, self.fault = history.header, history.fault
        self.said, self.output = history.said, history.output
        if isinstance(history.fault, Schedule) and history.header.config.connector is not UNSET:
            self.said = history.said or Matched(answers=[])  # nobody was asked for
        self.mismatch, self.semantics = mismatch, semantics
        self.everybody = {life.number for life in history.lives}
        self.work = 0
        """Requests and blocks scheduled so far, step by step, in all runs; blocks that arrive
        count as a fraction."""

    def shown(self, document: Document, selection: Selection, names: dict[int, str]) -> bool:
        """Whether a scenario shows the fault. What it cannot even run does not."""
        there = {life.number for life in selection.lives}
        kept = _Kept(self.everybody - there)
        try:
            taken = scenario.from_dict(document)
            arrived = sum(map(selection.length, selection.lives)) // taken.config.block_size
            self.work += arrived // CHEAPER
            told = taken.config, "spec", "0", "", self.semantics
            follower = _Follower(header(*told, grammars=has_grammars(taken)), self.semantics)
            numbers = {names[r]: r for r in there}
            play(taken, self.semantics, follower.take, numbers=numbers)
            self.work += follower.work
            # Every event made its record, the last one included: nothing was out of its turn.
            if follower.seen != _events(document):
                return False
            said = remote.before(self.said, follower.said, self.mismatch, kept)
            about_steps = self.mismatch.rule == "UPD-7"
            output = self.output and _sampled(self.output, kept)
            found = follower.meet(self.restricted(kept), said, output, about_steps=about_steps)
        except (InputError, Malformed, NotRecorded, Unexplained):
            return False
        return found is not None and self.agrees(found, kept)

    def steps(
        self, document: Document, selection: Selection, names: dict[int, str]
    ) -> list[Schedule]:
        """The steps that the rules schedule in a run of a scenario."""
        found: list[Schedule] = []

        def take(record: Record) -> None:
            if isinstance(record, Schedule):
                found.append(record)
                self.work += 1 + len(record.ids)

        try:
            taken = scenario.from_dict(document)
            numbers = {names[x.number]: x.number for x in selection.lives}
            play(taken, self.semantics, take, numbers=numbers)
        except InputError:
            pass
        return found

    def agrees(self, found: Mismatch, kept: Container[int]) -> bool:
        """Whether a mismatch is the recorded one, as far as the requests kept go."""
        told = self.mismatch
        if (found.rule, found.what, found.request) != (told.rule, told.what, told.request):
            return False
        return bool(found.expected in (told.expected, _of(told.expected, kept)))

    def restricted(self, kept: Container[int]) -> Record:
        """The recorded decision, about the requests kept."""
        match self.fault:
            case Schedule() as fault:
                return self._schedule(fault, kept)
            case Update() as fault:
                ids, tokens = _numbers(fault.ids, fault.tokens, kept)
                return replace(
                    fault,
                    ids=ids,
                    tokens=tokens,
                    finish=[f for f in fault.finish if f.id in kept],
                    state=self._post(fault.state, kept),
                )
            case Abort() as fault:
                asked = fault.asked if fault.asked is None else _of(fault.asked, kept)
                told = fault.aborted if fault.aborted is UNSET else _of(fault.aborted, kept)
                state = self._post(fault.state, kept)
                return replace(fault, asked=asked, aborted=told, state=state)
            case Reset() as fault:
                return replace(fault, state=self._post(fault.state, kept))
            case State() as fault:
                return replace(
                    remote.state(fault, self.mismatch, kept),
                    running=_of(fault.running, kept),
                    waiting=_of(fault.waiting, kept),
                    chains=UNSET,
                )
            case fault:
                return fault

    def _schedule(self, fault: Schedule, kept: Container[int]) -> Schedule:
        rule = self.mismatch.rule
        exact = self.recorded.block_ids == "exact" and rule in ABOUT["blocks"]
        ids, tokens = _numbers(fault.ids, fault.tokens, kept)
        new = [q for q in fault.new if q.id in kept]
        left_out = {} if exact else {"blocks": UNSET}
        left_out |= {} if rule in ABOUT["prefill"] else {"prefill": UNSET}
        cached = fault.cached
        if cached is not UNSET:
            places = [i for i, r in enumerate(cached.ids) if r in kept]
            parts: dict[str, Any] = {
                "ids": [cached.ids[i] for i in places],
                "resumed": _of(cached.resumed, kept),
            }
            for name in ("computed", "num_output"):
                told = getattr(cached, name)
                # A hit of a resumed request is among the computed tokens.
                wanted = rule in ABOUT[name] or (name == "computed" and rule == "HASH-11")
                keep = told is not UNSET and wanted
                parts[name] = [told[i] for i in places] if keep else UNSET
            for name, keep in (("blocks", exact), ("all_tokens", rule in ABOUT["all_tokens"])):
                told = getattr(cached, name)
                parts[name] = _of(told, kept) if keep and told is not UNSET else UNSET
            cached = replace(cached, **parts) if parts["ids"] else UNSET
        return replace(
            fault,
            ids=ids,
            tokens=tokens,
            drafts=_of(fault.drafts, kept),
            new=[replace(q, **left_out) for q in new],
            cached=cached,
            preempted=_of(fault.preempted, kept),
            finished=_of(fault.finished, kept),
            common_prefix=fault.common_prefix if rule == "OUT-4" else UNSET,
            state=self._post(fault.state, kept),
        )

    def _post(self, state: Any, kept: Container[int]) -> Any:
        """The state that comes with a decision, if the fault is in it."""
        if not isinstance(state, PostState):
            return UNSET
        what = self.mismatch.what
        if what in ("who runs", "who waits"):
            name = "running" if what == "who runs" else "waiting"
            return PostState(**{name: _of(getattr(state, name), kept)})
        totals = {
            "the number of free blocks": "num_free",
            "how many run": "num_running",
            "how many wait": "num_waiting",
        }
        name = totals.get(what, "")
        return PostState(**{name: getattr(state, name)}) if name else UNSET


class _Follower:
    """Replays what a tape records, one record behind, so that the last one can be exchanged."""

    def __init__(self, header: Header, semantics: Semantics) -> None:
        self.replay = Replay(header, semantics)
        self.pending: Record | None = None
        self.said: remote.Said = None
        """What stands right before it of a KV connector."""
        self.work = 0
        self.seen: Counter[str] = Counter()
        """Records of each kind; an exception of the engine counts as what it raised in."""
        self.block_size = header.config.block_size

    def take(self, record: Record) -> None:
        """The next record of the tape."""
        if isinstance(record, Schedule):
            self.work += 1 + len(record.ids) + sum(record.tokens) // self.block_size
        kind = record.during if isinstance(record, Error) else type(record).__name__.lower()
        if kind in KINDS:
            self.seen[kind] += 1
        self._replayed(self.pending)
        self.said = self.pending if isinstance(self.pending, Matched | Transfers) else None
        self.pending = record

    def meet(
        self, decision: Record, said: remote.Said, output: Output | None, *, about_steps: bool
    ) -> Mismatch | None:
        """How the rules differ from a decision that stands at the end, and from what is `said`
        right before; None: they do not. An engine that raised did not tell the `output`.

        Unless it is `about_steps`, their number may be another than was recorded.
        """
        if isinstance(decision, State):
            self._replayed(self.pending)
            if not about_steps:
                decision = replace(decision, step=self.replay.steps)
        try:
            self._replayed(said)
            if isinstance(self.pending, Error):
                self._replayed(output)
            self._replayed(decision)
        except Unexplained as error:
            return error.mismatch
        return None

    def _replayed(self, record: Record | None) -> None:
        if record is not None:
            follow(self.replay, record)


def _sampled(output: Output, kept: Container[int]) -> Output:
    """What is sampled for the requests kept."""
    ids, counts = _numbers(output.ids, output.counts, kept)
    told = ("eos", "stop", "rejected", "chain")
    lists = {name: _of(getattr(output, name), kept) for name in told}
    return replace(output, ids=ids, counts=counts, **lists)


def _numbers(
    ids: list[int], numbers: list[int], kept: Container[int]
) -> tuple[list[int], list[int]]:
    """Those of the ids that are kept, and the number of each."""
    pairs = [pair for pair in zip(ids, numbers, strict=True) if pair[0] in kept]
    return [r for r, _ in pairs], [n for _, n in pairs]


def _events(document: Document) -> Counter[str]:
    """How many records of each kind the events of a scenario make."""
    found: Counter[str] = Counter()
    for event in document["events"]:
        if event["op"] in REMOTE_EVENTS:
            continue
        if event["op"] == "step":
            found.update(dict.fromkeys(("schedule", "update"), event.get("n", 1)))
        else:
            found[KIND_OF[event["op"]]] += 1
    return found


class _Kept:
    """The requests that a decision is compared about: a stranger that it names counts, too."""

    def __init__(self, left_out: set[int]) -> None:
        self.left_out = left_out

    def __contains__(self, r: object) -> bool:
        return r not in self.left_out


def _of(values: Any, kept: Container[int]) -> Any:
    """The members of a list that are about the requests kept: numbers, or pairs that begin with
    one.
    """
    if not isinstance(values, (list, tuple)):
        return values
    return [v for v in values if (v[0] if isinstance(v, (list, tuple)) else v) in kept]
