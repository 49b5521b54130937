"""A KV connector for the specification: what the remote side holds, and what workers report."""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from nullblock.conformance import groups
from nullblock.conformance.adapters.spec_encoder import refused
from nullblock.conformance.engine import Fields
from nullblock.conformance.errors import OutOfScope
from nullblock.conformance.scenario_format import Config
from nullblock.conformance.unruled import counts_on_lost
from nullblock.spec.drafts import placeholders
from nullblock.spec.fields import (
    CONTINUE,
    ERROR,
    KEPT,
    LENGTH,
    REPETITION,
    STOPPED,
    STOPPED_BY_ID,
    UPDATE,
)
from nullblock.spec.later import counts_flight, discarded
from nullblock.spec.machine import events
from nullblock.spec.machine.remote import (
    received,
    remote_holds,
    remote_looks,
    report_failed,
    sent,
)
from nullblock.spec.profiles import Semantics
from nullblock.spec.remote import awaits_load, starts_over
from nullblock.spec.state import is_waiting, live
from nullblock.spec.turns import goes_on
from nullblock.spec.waiting import is_heap

ENDED = {
    STOPPED: "FINISHED_STOPPED",
    STOPPED_BY_ID: "FINISHED_STOPPED",
    LENGTH: "FINISHED_LENGTH_CAPPED",
    ERROR: "FINISHED_ERROR",
    REPETITION: "FINISHED_REPETITION",
}
"""``RequestStatus`` of a request that has ended, by verdict of the stop check."""
Report = tuple[list[str], list[str], list[int]]


def fails_loads(config: Config) -> bool:
    """Whether requests whose blocks were not loaded end."""
    return config.connector is not None and config.connector.failure_policy == "fail"


def is_known(s: Any, r: str) -> bool:
    """Whether the engine knows r: it lives, or its blocks are kept."""
    return bool(live(s, r)) or s.stage[r] == KEPT


@dataclass(slots=True)
class RemoteKV:
    """Plays the connector of a scenario."""

    scenario: Config
    matched: dict[str, int | None] = field(default_factory=dict)
    """Tokens that the remote side holds, by id; None: it does not know yet."""
    report: Report | None = None
    """What workers report with the next update: loads and sends that ended, and blocks that were
    not loaded.
    """
    ended: dict[str, str] = field(default_factory=dict)
    """The status of those that have ended, by id."""
    order: list[str] = field(default_factory=list)
    """Those that end because a load failed, in the order in which their blocks go."""
    kept: dict[str, Fields] = field(default_factory=dict)
    """Outputs in flight of those whose blocks are kept, as they were when they ended."""
    vectors: dict[str, Fields] = field(default_factory=dict)
    """The same of those that want a vector, before the update."""
    offers: set[str] = field(default_factory=set)
    """Of whom the remote side held something before the step."""
    awaited: set[str] = field(default_factory=set)
    """Whose load was under way."""
    bare: set[str] = field(default_factory=set)
    """Of these, who holds blocks and has never had one cached or loaded."""
    empty: set[str] = field(default_factory=set)
    """Whose load brought nothing."""
    loaded: set[str] = field(default_factory=set)
    """For whom it was loaded, or taken back: vLLM knows how many of their blocks are cached."""
    nothing: dict[str, int] = field(default_factory=dict)
    """For whom that was less than a block, and how often it had been preempted by then."""
    failed: list[Fields] = field(default_factory=list)
    """What clients are told of them."""

    def match(self, s: Any, matched: dict[str, int | None]) -> None:
        """What the remote side holds becomes known, or that it does not know yet."""
        self.matched |= matched
        for r in matched:
            if r in s.k.requests and (live(s, r) or is_waiting(s, r)):
                self.tell(s, r)

    def tell(self, s: Any, r: str) -> None:
        """What the remote side holds of a request that lives, or has ended and still waits."""
        n = self.matched.get(r, 0)
        if n is None:
            remote_looks(s, r)
        else:
            remote_holds(s, r, max(n, 0))

    def arrives(self, s: Any, r: str) -> None:
        """A request has arrived, perhaps with the id of one that is gone."""
        self.nothing.pop(r, None)
        if self.scenario.connector is not None:
            self.tell(s, r)

    def loads_over_steps(self, r: str) -> bool:
        """Whether a load for r takes longer than a step."""
        connector = self.scenario.connector
        return connector is not None and _applies(connector.is_async, r)

    def delays_free(self, r: str) -> bool:
        """Whether r's blocks are kept until they are sent."""
        connector = self.scenario.connector
        return connector is not None and _applies(connector.delay_free, r)

    def before_step(self, s: Any) -> None:
        """A step is about to be scheduled."""
        self.loaded = {r for r in self.loaded if self.has_loaded(s, r)}
        self.offers = {r for r, n in s.remote.items() if n}
        self.bare = {
            r for r in self.offers if s.tlen[r] and not s.ncached[r] and r not in self.loaded
        }
        self.awaited = _awaited(s)
        self.empty = {r for r in self.loaded & self.awaited if starts_over(s, r)}

    def after_step(self, s: Any) -> None:
        """It was: an offer that is gone was taken. Raises AssertionError, as vLLM does, where that
        was for a session in whose blocks nothing is computed any more: a step took it back.
        """
        awaited = _awaited(s)
        self.loaded -= self.empty - awaited
        taken = {r for r in self.offers if not s.remote[r]}
        if taken & self.bare:
            raise AssertionError(f"{min(taken & self.bare)!r} has blocks that are not loaded into")
        self.matched.update(dict.fromkeys(taken, 0))
        begun = taken | awaited - self.awaited
        self.loaded |= begun
        self.nothing.update({r: s.npre[r] for r in begun if not _holds(s, r)})

    def has_loaded(self, s: Any, r: str) -> bool:
        """Whether tokens were loaded into the blocks that r holds: then vLLM has noted how many of
        them are cached, even if none is.
        """
        return r in self.loaded and (_holds(s, r) or self.nothing.get(r) == s.npre[r])

    def before(self, s: Any) -> None:
        """An output is about to be applied: blocks that were not loaded are looked for."""
        self.order, self.failed = [], []
        self.vectors = {r: _owed(s, r) for r in s.k.requests if s.k.pools(r)}
        if self.report is None or not self.report[2]:
            return
        _check_reported(s, set(self.report[2]))
        if _looks_at_nobody(s):
            return
        _check_lost(s, set(self.report[2]))
        _check_items(s, set(self.report[2]))
        queued = [r for r in s.skip if s.skip[r]]
        if is_heap(s):
            queued = s.k.given_out(s.heap, s)
        elif s.k.priority:
            queued.sort(key=s.k.order)
        running = s.run[: s.nr]
        cached = {s.k.owner(t) for t, n in s.ncached.items() if n}
        # As a set of numbers is iterated, in which vLLM keeps them.
        report_failed(s, list(set(self.report[2])))
        self.loaded |= {r for r in cached if not any(s.ncached[t] for t in s.k.tables(r))}
        # The order of sets of strings, built as vLLM builds them.
        waits = {r for r in queued if r in s.missing}
        if s.k.sem.failed_loads_start_over:
            running.reverse()
        runs = {r for r in running if r in s.missing}
        if s.k.fails_loads:
            lost = waits | runs
            self.failed = [
                {"id": r, "tokens": [], "finish": "error", "stop_reason": None} for r in lost
            ]
            self.order = list(set(lost))

    def after(self, s: Any) -> None:
        """The output is applied: transfers that have ended. Raises AssertionError, as vLLM does,
        for one that was not under way.
        """
        if self.report is None:
            return
        loads, sends, _ = self.report
        self.report = None
        for r in dict.fromkeys(loads):
            if r not in s.k.requests or not received(s, r):
                raise AssertionError(f"no load for {r!r} is under way")
        for r in dict.fromkeys(sends):
            if r not in s.k.requests or not sent(s, r):
                raise AssertionError(f"no blocks of {r!r} are kept")

    def ends(self, s: Any, r: str, status: str) -> bool:
        """Abort r. Returns whether it lived."""
        if not events.abort(s, r):
            return False
        self.end(r, status)
        return True

    def end(self, r: str, status: str) -> None:
        """r ends. Raises AssertionError, as vLLM does, where the connector takes the blocks of one
        group, and there are several.
        """
        if groups.of_one_group(self.scenario):
            raise AssertionError(f"{r!r} has blocks of several groups")
        self.ended[r] = status

    def stops(self, s: Any, r: str, why: Any) -> None:
        """r took its tokens, and stops or goes on."""
        if why != CONTINUE and not goes_on(s, r, why):
            self.end(r, ENDED[why])

    def note_kept(self, s: Any, r: str) -> None:
        """r has ended, and its blocks are kept: outputs that are owed it then go on being told. A
        vector that has come is one of them: vLLM does not count it as come.
        """
        has_come = s.phase == UPDATE and s.k.pools(r)
        self.kept[r] = self.vectors[r] if has_come else _owed(s, r)

    def owed(self, s: Any, r: str) -> Fields:
        """Outputs in flight of a request whose blocks are kept; nothing of others."""
        if s.stage[r] != KEPT:
            return {}
        # Lines that tell tokens that are stale go on counting them.
        return self.kept[r] | ({"discard": discarded(s, r)} if counts_flight(s) else {})

    def status(self, s: Any, r: str) -> str | None:
        """The status of a request whose blocks are kept; None of others."""
        return self.ended[r] if s.stage[r] == KEPT else None


def _applies(whom: bool | Collection[str], r: str) -> bool:
    return whom if isinstance(whom, bool) else r in whom


def _owed(s: Any, r: str) -> Fields:
    return {"placeholders": placeholders(s, r), "discard": discarded(s, r)}


def _awaited(s: Any) -> set[str]:
    """Whose load is under way."""
    return {r for r in s.awaits if awaits_load(s, r)}


def _holds(s: Any, r: str) -> bool:
    return any(s.tlen[t] for t in s.k.tables(r))


def _check_reported(s: Any, blocks: set[int]) -> None:
    """Raise OutOfScope for a report of which no rule says what becomes. Of blocks of several
    groups vLLM 0.32.0 takes none, and raises RuntimeError; 0.22.1 raises ValueError where it looks
    at somebody who has such blocks.
    """
    if s.k.several and s.k.sem.resumes_await_output:
        raise RuntimeError("blocks of several groups were not loaded")
    if _looks_at_nobody(s) and (s.nr or any(awaits_load(s, r) for r in s.k.requests)):
        raise ValueError("blocks of several groups were not loaded")
    if s.k.windowed and s.k.NULL in blocks and s.k.sem.failed_loads_start_over:
        raise refused("the null block among those that were not loaded")


def _looks_at_nobody(s: Any) -> bool:
    """Whether no rule looks for blocks that were not loaded: there are several groups, and it
    would raise.
    """
    return bool(s.k.several) and not s.k.sem.failed_loads_start_over


def _check_lost(s: Any, blocks: set[int]) -> None:
    """Raise OutOfScope where a session that waits for its turn or a chunk counts on blocks that
    were not loaded, and has to be looked at for that.
    """
    r = counts_on_lost(s, blocks)
    if r is not None:
        raise refused(f"a block that was not loaded, on which the waiting session {r!r} counts,")


def _check_items(s: Any, blocks: set[int]) -> None:
    """Raise OutOfScope where a request goes back behind encoder inputs some of which it has let
    go: vLLM 0.32.0 lets them go the next time in the order of a set that it has taken some of
    them out of.
    """
    if not (s.k.encodes and s.k.sem.items_held_by_place):
        return
    for r in s.run[: s.nr]:
        held = {bool(s.holds[r, i]) for i in range(s.k.num_items(r))}
        if len(held) == 2 and any(s.tab[r, i] in blocks for i in range(s.tlen[r])):
            raise refused(f"a block of {r!r} that was not loaded, behind some of its inputs,")


def check_connector(config: Config, semantics: Semantics) -> None:
    """Raise OutOfScope for what nobody has shown beside a connector, or a profile has no rules
    for.
    """
    if config.connector is None:
        return
    if groups.has(config, groups.CROSS):
        what = "a KV connector beside cross-attention is out of scope"
        raise OutOfScope(what, "vLLM refuses such a model beside one", "config.groups")
    if groups.of_one_group(config) and semantics.failed_loads_start_over:
        what = "a KV connector that takes the blocks of one group, beside several, is out of scope"
        raise OutOfScope(what, "vLLM raises at the first end", "config.connector.all_groups")
