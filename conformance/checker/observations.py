"""Compares what a trace tells of outputs, of the state after a decision, and of whole states."""

from collections.abc import Collection, Iterator, Sequence
from itertools import islice, zip_longest
from typing import Any

from msgspec import UNSET, UnsetType

from nullblock.conformance.checker import drafts, items, remote, sessions
from nullblock.conformance.checker.decisions import Mismatch, alike, nulls, shown
from nullblock.conformance.checker.facts import ERROR_BY_ID
from nullblock.conformance.checker.heard import Heard
from nullblock.conformance.checker.names import Names
from nullblock.conformance.groups import latent
from nullblock.conformance.queues import who_waits
from nullblock.conformance.trace.records import (
    CacheGroup,
    Cleared,
    Event,
    Finish,
    PostState,
    Removed,
    RequestState,
    State,
    StepInFlight,
    Stored,
    Update,
)
from nullblock.spec.drafts import placeholders
from nullblock.spec.fields import (
    ERROR,
    KEPT,
    LENGTH,
    REPETITION,
    STOPPED,
    STOPPED_BY_ID,
    TOKEN,
)
from nullblock.spec.later import discarded
from nullblock.spec.names import BLOCKED, PAUSE, STATUS
from nullblock.spec.state import live

END = {
    STOPPED: ("stop", False),
    STOPPED_BY_ID: ("stop", True),
    LENGTH: ("length", False),
    ERROR: ("error", False),
    ERROR_BY_ID: ("error", True),
    REPETITION: ("repetition", False),
}
GONE_BY = {"schedule": "RUN-19", "update": "UPD-5", "abort": "LIFE-4", "reset": "LIFE-3"}
"""Why a request is, or is not, in the running list after an operation."""


End = tuple[int, str, bool]
"""Who ends, how, and whether on a stop id."""
Refused = list[tuple[int, str]]
"""Who is reported rejected, and why."""


def update(k: Any, refused: Refused, seen: Update) -> Iterator[Mismatch]:
    """Whose output is passed on, and who ends."""
    rejected = [r for r, _ in refused]
    # Whose load failed comes last; in which order is the engine's own.
    lost = remote.in_order(k, seen.ids)
    expected = rejected + k.taken + lost
    if expected != seen.ids:
        yield _recipients(expected, seen.ids, rejected)
    tokens = [0] * len(rejected) + k.passed_on() + [0] * len(lost)
    if len(tokens) == len(seen.tokens) and tokens != seen.tokens:
        rows = zip(expected, tokens, seen.tokens, strict=True)
        r, ours, theirs = next(row for row in rows if row[1] != row[2])
        rule = drafts.rule_of_tokens(k, r, ours, theirs)
        yield Mismatch(rule, "the tokens that are passed on", tokens, seen.tokens, r)
    yield from _ends(k, refused, lost, seen.finish)


def _recipients(expected: list[int], actual: list[int], rejected: list[int]) -> Mismatch:
    """Why an update passes its outputs on to others than it does."""
    wrong = sorted(set(expected) ^ set(actual))
    what = "whose output is passed on"
    if not wrong:
        return Mismatch("UPD-9", "the order of the outputs", expected, actual)
    if wrong[0] in rejected:
        return Mismatch("LIFE-2", what, expected, actual, wrong[0])
    return Mismatch("UPD-2" if wrong[0] in actual else "UPD-3", what, expected, actual, wrong[0])


def _ends(k: Any, refused: Refused, lost: list[int], seen: list[Finish]) -> Iterator[Mismatch]:
    expected = [(r, "rejected", False) for r, _ in refused]
    for r, why in k.ends:
        reason, by_stop_id = END[why]
        expected.append((r, reason, by_stop_id or r in k.talk.by_stop_id))
    expected += [(r, *END[ERROR]) for r in lost]
    actual = [(f.id, f.reason, f.by_stop_id) for f in seen]
    if expected != actual:
        ought = next((end for end in expected if end not in actual), None)
        told = next((end for end in actual if end not in expected), None)
        if ought is None and told is None:
            yield Mismatch("UPD-9", "the order of the ends", expected, actual)
            return
        r = (ought or told or (None,))[0]
        words = (*(ought or ()), *(told or ()))
        yield Mismatch(
            _rule_of_end(k, r, words), f"the end of request {r}", _said(ought), _said(told), r
        )
    for (r, why), f in zip(refused, seen, strict=False):
        if f.why is not UNSET and f.why != why:
            yield Mismatch("LIFE-2", f"why request {r} is rejected", why, f.why, r)


def _rule_of_end(k: Any, r: Any, words: Collection[Any]) -> str:
    """The rule by which a request ends as it does, or goes on."""
    known = k.requests.get(r)
    if "repetition" in words:
        return "UPD-70"
    if "rejected" in words or known is None:
        return "LIFE-2" if "rejected" in words else "UPD-4"
    if known.pooling:
        return "UPD-50"
    return "UPD-54" if "error" in words and known.grammar else "UPD-4"


def _said(end: End | None) -> str:
    """An end in words."""
    if end is None:
        return "it goes on"
    return end[1] + (" by a stop id" if end[2] else "")


TOLD_BY = {"stored": "OUT-8", "removed": "OUT-9", "cleared": "OUT-10"}
"""The statement about each kind of event."""


def events(
    heard: list[Heard], seen: list[Event], groups: Sequence[CacheGroup] = ()
) -> Iterator[Mismatch]:
    """What the prefix cache told since the update before. `groups`: what layers they are of."""
    if any(group.mla for group in groups):
        heard = [_of_latent(told, groups) for told in heard]
    most = 1 + max((len(told[1]) for told in heard if told[0] == "stored"), default=0)
    for ours, theirs in zip_longest(heard, (_told(event, most) for event in seen)):
        if not _alike(ours, theirs):
            rule = TOLD_BY[(ours or theirs)[0]]
            yield Mismatch(rule, "the next KV event", _seen(ours, theirs), _seen(theirs, theirs))
            return


def _of_latent(told: Heard, groups: Sequence[CacheGroup]) -> Heard:
    """An event with the name of its layers, of groups some of which are latent attention."""
    if told[0] != "stored" or not groups[told[4]].mla:
        return told
    return (*told[:5], latent(told[5]), *told[6:])


def _alike(ours: Heard | None, theirs: Heard | None) -> bool:
    """Whether an event is the rules' own; what it does not tell of the kind of layers is not."""
    if ours is None or theirs is None or ours[:5] != theirs[:5]:
        return ours == theirs
    pairs = zip(ours[5:], theirs[5:], strict=True)
    return all(theirs is UNSET or ours == theirs for ours, theirs in pairs)


def _seen(event: Heard | None, theirs: Heard | None) -> Heard | None:
    """An event without what the trace leaves out of the one at that place."""
    if event is None or theirs is None or len(event) != len(theirs):
        return event
    return tuple(part for part, told in zip(event, theirs, strict=True) if told is not UNSET)


def _told(event: Event, most: int) -> Heard:
    """An event as the rules tell it; of a run that is longer than any of theirs, the front."""
    match event:
        case Stored(chain=runs, parent=parent, tokens=n):
            chain = (first + i for first, many in runs for i in range(many))
            about = (event.group, event.kind, event.window)
            return ("stored", tuple(islice(chain, most)), parent, n, *about)
        case Removed(chain=chain):
            return ("removed", tuple(chain), event.group)
        case Cleared():
            return ("cleared",)


def running(s: Any) -> list[int]:
    """The running list."""
    return [s.run[i] for i in range(s.nr)]


def waiting(s: Any) -> list[int]:
    """Who waits, those in the skipped queue first; of each queue the next one first."""
    return [r for queue in who_waits(s) for r in queue]


def post_state(s: Any, seen: PostState, after: str) -> Iterator[Mismatch]:
    """The part of a state that a decision carries."""
    if seen.num_free is not UNSET and seen.num_free != s.nfree:
        yield Mismatch("QUEUE-4", "the number of free blocks", s.nfree, seen.num_free)
    if seen.num_running is not UNSET and seen.num_running != s.nr:
        yield Mismatch(GONE_BY[after], "how many run", s.nr, seen.num_running)
    if seen.num_waiting is not UNSET and seen.num_waiting != s.nwait:
        yield Mismatch("WAIT-14", "how many wait", s.nwait, seen.num_waiting)
    if seen.running is not UNSET:
        yield from _list(running(s), seen.running, GONE_BY[after], "RUN-22", "who runs")
    if seen.waiting is not UNSET:
        yield from _list(waiting(s), seen.waiting, "WAIT-12", "WAIT-1", "who waits")


def _list(
    expected: list[int], actual: list[int], members: str, order: str, what: str
) -> Iterator[Mismatch]:
    if expected != actual:
        rule = order if sorted(expected) == sorted(actual) else members
        yield Mismatch(rule, what, expected, actual)


def state(s: Any, seen: State, steps: int, names: Names) -> Iterator[Mismatch]:
    """A whole state."""
    if seen.step != steps:
        yield Mismatch("UPD-7", "the number of steps", steps, seen.step)
    yield from _list(running(s), seen.running, "RUN-19", "RUN-22", "who runs")
    skipped, behind = who_waits(s)
    yield from _list([*skipped, *behind], seen.waiting, "WAIT-12", "WAIT-1", "who waits")
    if sorted(skipped) != sorted(seen.skipped):
        yield Mismatch("WAIT-45", "who was passed over", skipped, seen.skipped)
    yield from sessions.heap(s, seen.heap)
    alive = sorted((r for r in s.k.requests if live(s, r)), key=lambda r: s.arr[r])
    told = [q.id for q in seen.requests]
    if sorted(alive) != sorted(told):
        yield Mismatch("LIFE-12", "who is alive", sorted(alive), sorted(told))
    elif alive != told and not s.k.put_in_by_number:
        yield Mismatch("LIFE-1", "who is alive, in order of arrival", alive, told)
    for q in seen.requests:
        if live(s, q.id):
            yield from _request(s, q, names)
    yield from _pool(s, seen, names)
    yield from items.state(s, seen)
    yield from remote.state(s, seen, names)
    yield from _between(s, seen, steps)


def _between(s: Any, seen: State, steps: int) -> Iterator[Mismatch]:
    """What is remembered from one step to the next."""
    for rule, what, expected, actual in (
        ("OUT-6", "who ended and is not reported yet", sorted(s.finished), seen.finished),
        ("OUT-3", "who was scheduled in the step before", sorted(s.prev), seen.previous),
        ("LIFE-7", "the pause state", s.pause, _pause(seen.pause_state)),
        ("UPD-8", "the steps in flight", _flights(s, steps), _told_flights(seen.in_flight)),
    ):
        if actual is not UNSET and expected != actual:
            yield Mismatch(rule, what, expected, actual)


def _pause(name: str | UnsetType) -> int | UnsetType:
    return UNSET if isinstance(name, UnsetType) else PAUSE[name]


Entry = tuple[int, int, bool | None, int]
"""Of a step in flight: who, how many tokens, whether one is owed (None: to somebody who is gone,
whoever has the number now), how many drafts.
"""
Flight = tuple[int, list[Entry]]
"""A step in flight: its number, and its entries."""


def _flights(s: Any, steps: int) -> list[Flight]:
    """The steps in flight, of so many in all."""
    found: list[Flight] = []
    i = s.cur
    for n in range(s.oldest, s.steps):
        entries: list[Entry] = [
            (s.frame[j], s.grant[j], s.due[j] == TOKEN, s.ndraft[j])
            if s.arr[s.frame[j]] == s.born[j] and s.stage[s.frame[j]] != KEPT
            else (s.frame[j], s.grant[j], None, 0)
            for j in range(i, s.fend[n])
        ]
        found.append((steps - s.steps + n + 1, entries))
        i = s.fend[n]
    return found


def _told_flights(told: list[StepInFlight] | UnsetType) -> list[Flight] | UnsetType:
    if isinstance(told, UnsetType):
        return UNSET
    found: list[Flight] = []
    for step in told:
        drafts = dict(step.drafts)
        entries: list[Entry] = [
            (r, n, None, 0) if r in step.gone else (r, n, r in step.owed, drafts.get(r, 0))
            for r, n in zip(step.ids, step.tokens, strict=True)
        ]
        found.append((step.step, entries))
    return found


def _request(s: Any, seen: RequestState, names: Names) -> Iterator[Mismatch]:
    r = seen.id
    for rule, what, expected, actual in (
        ("LIFE-12", "status", BLOCKED.get(s.awaits[r]) or STATUS[s.stage[r]], seen.status),
        ("UPD-1", "computed tokens", s.comp[r], seen.computed),
        ("UPD-3", "tokens", s.ntok[r], seen.tokens),
        *(_in_flight(s, r, seen) if seen.prompt is not UNSET else ()),
    ):
        if expected != actual:
            yield Mismatch(rule, f"the {what} of request {r}", expected, actual, r)
    if seen.blocks is not UNSET:
        tables = [[s.tab[t, i] for i in range(s.tlen[t])] for t in s.k.tables(r)]
        if not alike(tables, seen.blocks or [[]] * len(tables), names.same):
            rule = "POOL-10" if nulls(tables) == nulls(seen.blocks) else "GROUP-6"
            yield Mismatch(rule, f"the blocks of request {r}", shown(tables), seen.blocks, r)


def _in_flight(s: Any, r: int, seen: RequestState) -> tuple[tuple[str, str, Any, Any], ...]:
    return (
        ("UPD-19", "tokens in flight", placeholders(s, r), seen.placeholders),
        ("UPD-18", "tokens to be dropped", discarded(s, r), seen.discard),
        ("PREEMPT-4", "number of preemptions", s.npre[r], seen.preemptions),
        *drafts.of_request(s, seen),
        *sessions.of_request(s, seen),
        *_cached(s, r, seen),
        *_states(s, r, seen),
    )


def _cached(s: Any, r: int, seen: RequestState) -> tuple[tuple[str, str, Any, Any], ...]:
    """Where nothing is cached, there may be no entry or one of 0."""
    if not s.k.caching:
        return ()
    ours = [s.ncached[t] for t in s.k.tables(r)]
    told = [0] * len(ours) if seen.num_cached is UNSET else seen.num_cached
    return (("HASH-12", "number of cached blocks", ours, told),)


def _states(s: Any, r: int, seen: RequestState) -> tuple[tuple[str, str, Any, Any], ...]:
    if seen.states_before is UNSET or s.k.sem.gaps_swept:  # which goes by no such place
        return ()
    ours = [s.before[t] for t in s.k.tables(r)]
    return (("GROUP-30", "states before the last growth", ours, seen.states_before),)


def _pool(s: Any, seen: State, names: Names) -> Iterator[Mismatch]:
    if seen.free_queue is not UNSET and not names.same(list(s.stamp), seen.free_queue):
        yield Mismatch("QUEUE-10", "the free queue", list(s.stamp), seen.free_queue)
    if seen.ref_cnt is not UNSET:
        held = [(b, n) for b, n in s.ref.items() if n]
        yield from _by_block(held, seen.ref_cnt, names, "POOL-2", "the reference counts")
    if seen.chains is not UNSET:
        hashed = [(b, s.k.content(h)) for b, h in s.hsh.items()] + s.k.further_keys()
        ours = [(b, chain) for b, (chain, _) in hashed]
        yield from _by_block(ours, seen.chains, names, "HASH-12", "the cached blocks")
        in_group = [(b, group) for b, (_, group) in hashed if group]
        what = "the groups of cached blocks"
        yield from _by_block(in_group, seen.chain_groups, names, "HASH-12", what)


def _by_block(
    ours: list[tuple[int, int]],
    seen: list[tuple[int, int]],
    names: Names,
    rule: str,
    what: str,
) -> Iterator[Mismatch]:
    """Pairs of a block and a value. Blocks whose name was never told count by value alone."""
    theirs = [(names.theirs(b), n) for b, n in ours]
    if any(b is None for b, _ in theirs):
        same = sorted(n for _, n in ours) == sorted(n for _, n in seen)
    else:
        same = sorted(theirs, key=str) == sorted(seen, key=str)
    if not same:
        yield Mismatch(rule, what, sorted(ours), sorted(seen))
