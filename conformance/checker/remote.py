"""A KV connector in a replay: what a trace tells of it, compared with what the rules say.

What the connector answers and what workers report are inputs. Whom the engine asks, with which
local hit, and whose load begins, are decisions.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any

from msgspec import UNSET, UnsetType

from nullblock.conformance.checker import filling
from nullblock.conformance.checker.chains import Chain
from nullblock.conformance.checker.decisions import Mismatch, alike, shown
from nullblock.conformance.checker.facts import Recorded
from nullblock.conformance.checker.names import Names
from nullblock.conformance.checker.unknown import NotRecorded
from nullblock.conformance.trace.records import (
    Add,
    Answer,
    Error,
    Matched,
    RemoteState,
    RequestState,
    Schedule,
    Transfers,
)
from nullblock.conformance.unruled import counts_on_lost
from nullblock.spec import facts
from nullblock.spec.concrete import State
from nullblock.spec.deferred import defers
from nullblock.spec.fields import KEPT, LOAD, PARTLY, REMOTE, RUNNING, SEND, UNBORN, WAIT_PHASE
from nullblock.spec.machine.remote import received, report_failed, sent
from nullblock.spec.remote import ends_all, is_offered_nothing
from nullblock.spec.sizes import hit_tokens
from nullblock.spec.state import live
from nullblock.spec.waiting import has_no_place, lacks

NOTHING = Transfers()


class Asked(dict[Any, int]):
    """What the remote side says of a request, as it is asked. Rules that forget it change nothing:
    it is asked again.
    """

    def __init__(self, ask: Callable[[Any], int]) -> None:
        super().__init__()
        self.ask = ask

    def __missing__(self, r: Any) -> int:
        return self.ask(r)

    def __setitem__(self, r: Any, n: Any) -> None:
        pass


class WithRemote(Recorded):
    """An environment in which a KV connector answers as the trace says."""

    def __init__(self, config: facts.Config) -> None:
        self.answers: dict[int, Answer] = {}
        """Of the step that is decided, by request."""
        self.whom: list[int] = []
        """Whom they are about, in order."""
        self.asked: dict[int, int | None] = {}
        """Whom the rules ask, in order, with the tokens of its local hit; None: it is passed over,
        whatever that is."""
        self.report = NOTHING
        """What workers report with the update that is applied, or the connector with the abort."""
        self.lost: list[int] = []
        """Who ended because blocks were not loaded, in order."""
        self.filling = filling.Unknown()
        super().__init__(config)

    def blank(self, field: str) -> Any:
        if field == "remote":
            return Asked(self.asked_for)
        return Asked(self.in_doubt_about) if field == "unsure" else super().blank(field)

    def asked_for(self, r: Any) -> int:
        """The tokens of r that the remote side holds, now that its local hit is known."""
        s: Any = self.state
        # Of windows, chunks and several groups it is asked before blocks are looked up.
        if s.looking < (1 if self.spans else 2) or r != s.lr or s.comp[r] != 0:
            return 0
        if not live(s, r):
            raise NotRecorded(f"what becomes of request {r}, which has ended and is tried again")
        local = self.asked[r] = int(hit_tokens(s))
        answer = self.answers.get(r)
        if answer is None or not answer.tokens:
            return 0
        if answer.over_steps:
            self.filling.asked(s)
        told, most = local + answer.tokens, s.ntok[r]
        if told > most or (told == most and not answer.over_steps):
            what = f"{answer.tokens} tokens beyond {local} of request {r}, which has {most}"
            raise NotRecorded(f"what it means that a connector would load {what}")
        return told

    def in_doubt_about(self, r: Any) -> int:
        """1: the remote side does not know yet; r, whom the waiting phase tries, is asked for."""
        s: Any = self.state
        answer = self.answers.get(r)
        if s.phase != WAIT_PHASE or answer is None or answer.tokens is not None:
            return 0
        if s.comp[r] == 0 and not lacks(s, r) and not has_no_place(s, r):
            self.asked.setdefault(r, None)
        return 1

    def loads_over_steps(self, r: Any) -> bool:
        # The erased form tells the state where it stands before it calls what looks at that: here,
        # so that whoever reads next what the remote side holds of r finds it there.
        self.asked_for(r)
        answer = self.answers.get(r)
        return answer is not None and answer.over_steps

    def exists(self, sort: str, test: Any, by: Any = None) -> bool:
        if by == "evict":
            return any(map(test, list(self.state.evict)))  # type: ignore[attr-defined]
        return super().exists(sort, test, by)

    def first(self, sort: str, test: Any, key: Any, by: Any = None, known: Any = None) -> Any:
        if by == "evict":
            marked = list(self.state.evict)  # type: ignore[attr-defined]
            return min(filter(test, marked), key=key, default=None)
        return super().first(sort, test, key, by, known)

    def delays_free(self, r: Any) -> bool:
        return r in self.report.delayed

    def failing(self, s: State, r: Any) -> int:
        told = self.report.failed
        # Whom the trace does not name, though it ought to, comes last: that is found afterwards.
        return told.index(r) if r in told else len(told) + self.state.arr[r]  # type: ignore[attr-defined]

    def note_failed(self, s: State, r: Any) -> None:
        self.lost.append(r)

    def evicting(self, s: State, b: Any) -> int:
        # As the set of numbers is iterated in which vLLM collects them, one by one.
        found: set[int] = set()
        for block in s.evict:  # type: ignore[attr-defined]
            found.add(block)
        return list(found).index(b)


def answered(k: Recorded, record: Matched) -> None:
    """What the connector answers in the step that comes. Raises NotRecorded where no
    connector is configured.
    """
    connected = _connected(k)
    connected.answers, connected.whom = {}, []
    for answer in record.answers:
        before = connected.answers.get(answer.id)
        if before is None or not (k.queues_twice and _said(before) == _said(answer)):
            connected.whom.append(answer.id)
        connected.answers[answer.id] = answer


def _said(answer: Answer) -> tuple[int, int | None, bool]:
    """What the connector said, whatever came of it: who is tried twice is asked twice."""
    return answer.local, answer.tokens, answer.over_steps


def reported(k: Recorded, record: Transfers, block_ids: str) -> None:
    """What workers report with the update that comes, and the connector with that or an abort.
    Raises NotRecorded where there is no connector, where blocks have no ids, and for reports of
    which no rule says what becomes.
    """
    if record.invalid and block_ids == "absent":
        raise NotRecorded("which blocks were not loaded")
    if record.invalid and k.several:
        raise NotRecorded("what becomes of blocks of several groups that were not loaded")
    if k.windowed and k.NULL in record.invalid:
        raise NotRecorded("what it means that the null block was not loaded")
    _connected(k).report = record


def _connected(k: Recorded) -> "WithRemote":
    if not isinstance(k, WithRemote):
        raise NotRecorded("a KV connector that nobody configured: `connector` is absent")
    return k


def unknown(k: Recorded, request: Add | RequestState) -> Iterator[str]:
    """Why a request cannot be judged where there is a connector."""
    prompt = request.prompt
    if k.connector and not isinstance(prompt, UnsetType) and not 0 < prompt <= k.max_len:
        yield f"a prompt of {prompt} tokens beside a KV connector,"


def in_doubt(k: Recorded) -> bool:
    """Whether the remote side does not know yet of somebody in the step that comes: then the text
    runs as it is, since the erased form does not say in which phase it is when it comes to that.
    """
    return isinstance(k, WithRemote) and any(a.tokens is None for a in k.answers.values())


def begin_step(k: Recorded) -> None:
    """A step is about to be decided."""
    if isinstance(k, WithRemote):
        k.asked, k.filling.counted = {}, None


def departure(k: Recorded, same: Any) -> list[Mismatch]:
    """Where the rules first ask the connector otherwise, or begin other loads. What it answered
    is over.
    """
    if not isinstance(k, WithRemote) or not (k.asked or k.whom):
        return []
    return list(islice(_departures(k, same), 1))


def _departures(k: "WithRemote", same: Any) -> Iterator[Mismatch]:
    answers, k.answers = k.answers, {}
    actual, k.whom = k.whom, []
    expected = list(k.asked)
    if expected != actual:
        wrong = min(set(expected) ^ set(actual), default=None)
        what = "who is asked for at the remote side"
        yield Mismatch("REMOTE-1", what, expected, actual, wrong)
    for r, answer in answers.items():
        local = k.asked.get(r)
        if local is not None and local != answer.local:
            yield Mismatch("HASH-11", f"the local hit of request {r}", local, answer.local, r)
        yield from _load(k, r, answer, same)


def _load(k: "WithRemote", r: int, answer: Answer, same: Any) -> Iterator[Mismatch]:
    """Whether a load begins, and where to."""
    s: Any = k.state
    waits = s.awaits[r] == REMOTE
    asked = bool(answer.tokens) and not is_offered_nothing(s, r)
    begins = asked and (waits or s.stage[r] == RUNNING)
    if begins != answer.begins:
        rule = "REMOTE-12" if answer.over_steps else "WAIT-9"
        yield Mismatch(rule, f"the load of request {r} begins", begins, answer.begins, r)
    elif answer.blocks is not UNSET:
        tables = [[s.tab[t, i] for i in range(s.tlen[t])] for t in k.tables(r)] if waits else []
        if not alike(tables, answer.blocks, same):
            what = f"the blocks of request {r}, whose load begins"
            yield Mismatch("POOL-10", what, shown(tables or [[]]), answer.blocks, r)


def begin_update(k: Recorded, s: Any, names: Names) -> None:
    """An output is about to be applied: blocks that were not loaded are looked for."""
    if not isinstance(k, WithRemote):
        return
    k.lost = []
    if k.report.invalid:
        # As a set of numbers is iterated, in which they come.
        blocks = [ours for b in set(k.report.invalid) if (ours := names.ours(b))]
        blocks = [b for b in blocks if b in k.pool]
        if k.sessions and (r := counts_on_lost(s, blocks)) is not None:
            what = f"the waiting session {r}, which counts on blocks that were not loaded"
            raise NotRecorded(f"what becomes of {what}")
        report_failed(s, blocks)


def end_update(machine: Any, s: Any, fired: Counter[str]) -> Iterator[Mismatch]:
    """The output is applied: transfers that have ended. Those of a report that no rule has are the
    engine's own. `machine`: the `nullblock.conformance.checker.fast.Machine` of the state.
    """
    k = machine.k
    if not isinstance(k, WithRemote):
        return
    report, k.report = k.report, NOTHING
    for r in report.received:
        if r not in k.requests or not machine.do(received, s, fired, r):
            yield Mismatch("REMOTE-13", f"the load of request {r} ends", "no load", "it ends", r)
    for r in report.sent:
        if r not in k.requests or not machine.do(sent, s, fired, r):
            what = f"the blocks of request {r} are sent"
            yield Mismatch("REMOTE-21", what, "they are not kept", "they are", r)
    k.forget(s, [r for r in (*report.received, *report.sent) if r in k.requests])
    if sorted(k.lost) != sorted(report.failed):
        what = "who ends because blocks were not loaded"
        yield Mismatch("REMOTE-29", what, sorted(k.lost), sorted(report.failed))


def explains(k: Recorded, s: Any) -> bool:
    """Whether an update has to raise for what workers report: a transfer that is not under way,
    whatever came with the output. Who is in the step may end with it, and be kept.
    """
    if not isinstance(k, WithRemote):
        return False
    ends, gone = set(k.next_frame()), set[int]()
    for way, ids in ((LOAD, k.report.received), (SEND, k.report.sent)):
        for r in ids:
            known = r in k.requests and r not in gone and s.stage[r] != UNBORN
            kept = known and s.stage[r] == KEPT
            if not known or not (kept or r in ends or (way == LOAD and s.awaits[r] == REMOTE)):
                return True
            if kept and ends_all(s, r, way):
                gone.add(r)
    return False


def unsaid(k: Recorded, record: Any) -> str | None:
    """What a step may have come out otherwise for, which no state tells; None: nothing."""
    if not isinstance(k, WithRemote) or not isinstance(record, Schedule | Error):
        return None
    if (r := k.filling.counted) is None:
        return None
    return f"whether a load leaves room for the rest of request {r}, where judging began"


def end_abort(k: Recorded) -> None:
    """An abort is over, and what the connector said with it."""
    if isinstance(k, WithRemote):
        k.report = NOTHING


def lost(k: Recorded) -> list[int]:
    """Who ended with the update because blocks were not loaded."""
    return k.lost if isinstance(k, WithRemote) else []


def in_order(k: Recorded, ids: list[int]) -> list[int]:
    """The same, in the order in which an update names them, if it does: vLLM walks over a set."""
    place = {r: i for i, r in enumerate(ids)}
    return sorted(lost(k), key=lambda r: place.get(r, len(ids)))


def may_be_put_off(s: Any, held: Mapping[int, int], counted: Mapping[int, int]) -> None:
    """Raise NotRecorded where blocks that nobody holds have references, and may have been given
    up while a step in flight computes with them (REMOTE-54): what they wait for no state tells.
    """
    more = all(counted.get(b, 0) >= n for b, n in held.items()) and counted != held
    if more and defers(s) and s.oldest < s.steps:
        raise NotRecorded("which step in flight the blocks wait for that were given up")


def restore(s: Any, told: RemoteState) -> None:
    """Put what is under way with the connector into a state that has everything else.

    Raises NotRecorded for what decides under these rules and no state tells.
    """
    k = s.k
    if (told.failed or told.kept) and k.sem.failed_loads_start_over:
        raise NotRecorded("how much of a load has failed, and what blocks are kept for")
    k.filling.restore(s)
    for r in told.received:
        s.came[r] = 1
    for r in told.failed:
        s.failed[r] = PARTLY
    for kept in told.kept:
        r = kept.id
        if r in k.requests or kept.blocks is UNSET:
            raise NotRecorded(f"the blocks of request {r}, which has ended")
        k.requests[r] = facts.Request(id=(0.0, r), prompt_len=0, max_tokens=1)
        k.chains[r] = Chain(())
        s.stage[r] = KEPT
        computed = [n for n in range(s.steps) if r in _members(s, n)]
        s.lastin[r] = computed[-1] + 1 if computed else 0
        s.arr[r] = s.aclk
        s.aclk += 1
        for t, table in zip(k.tables(r), kept.blocks, strict=True):
            for i, b in enumerate(table):
                s.tab[t, i] = b
            s.tlen[t] = len(table)


def _members(s: Any, n: int) -> list[int]:
    """Who is in a step in flight, by its number."""
    return [s.frame[i] for i in range(s.fend[n - 1] if n else 0, s.fend[n])]


def state(s: Any, seen: Any, names: Names) -> Iterator[Mismatch]:
    """What is under way with the connector, in a whole state."""
    told = seen.remote
    if not isinstance(told, RemoteState) or not s.k.connector:
        return
    waits = sorted(r for r in s.k.requests if s.awaits[r] == REMOTE)
    kept = sorted(r for r in s.k.requests if s.stage[r] == KEPT)
    for rule, what, ours, theirs in (
        ("REMOTE-13", "whose load has ended", [r for r in waits if s.came[r]], told.received),
        ("REMOTE-26", "whose load has failed", [r for r in waits if s.failed[r]], told.failed),
        ("REMOTE-4", "whose blocks are kept", kept, [one.id for one in told.kept]),
    ):
        if ours != theirs:
            yield Mismatch(rule, what, ours, theirs)
    for one in told.kept:
        r = one.id
        if one.blocks is UNSET or r not in kept:
            continue
        tables = [[s.tab[t, i] for i in range(s.tlen[t])] for t in s.k.tables(r)]
        if not alike(tables, one.blocks or [[]] * len(tables), names.same):
            what = f"the kept blocks of request {r}"
            yield Mismatch("POOL-10", what, shown(tables), one.blocks, r)
