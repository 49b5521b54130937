"""Puts the rules into the state that a ``state`` record tells: where a recording begins in the
middle of a run, or goes on after a gap.

The engine says what its state is, and the rules go on from there. So a state that cannot be one is
a finding of its own: every block is free or held, counts count, statuses and lists agree.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any, TypeVar

from msgspec import UNSET, UnsetType

from nullblock.conformance.checker import drafts, items, remote, repetition, sessions, tables
from nullblock.conformance.checker.chains import Chain
from nullblock.conformance.checker.decisions import Mismatch
from nullblock.conformance.checker.facts import GRAMMARS, POOLING, Recorded
from nullblock.conformance.checker.names import Names
from nullblock.conformance.checker.unknown import NotRecorded
from nullblock.conformance.repetition import FEATURE
from nullblock.conformance.trace.records import RequestState, State, StepInFlight
from nullblock.conformance.trace.sessions import RESUMABLE
from nullblock.spec import facts
from nullblock.spec.fields import (
    CHUNK,
    GRAMMAR,
    INPUT,
    PREEMPTED,
    REMOTE,
    RUNNING,
    TOKEN,
    WAITING,
)
from nullblock.spec.names import BLOCKED, PAUSE, STAGE
from nullblock.spec.rules.waiting import forget_passed, stand_apart
from nullblock.spec.sessions import prompt
from nullblock.spec.state import is_waiting

T = TypeVar("T")
NOBODY = -1
"""The arrival of whoever an entry of a step in flight was of, and has ended since."""
WHOLE = ("free_queue", "ref_cnt", "in_flight", "finished", "previous", "pause_state")
"""What a record has to tell, besides requests, so that the rules can go on from it."""


def told(value: T | UnsetType) -> T:
    """A value that `_complete` has found in the record."""
    assert not isinstance(value, UnsetType)
    return value


def restore(k: Recorded, seen: State, names: Names) -> Any:
    """The state of the rules that `seen` describes, and the facts about its requests.

    Raises NotRecorded for what the record leaves out and decisions depend on.
    """
    _complete(k, seen)
    k.requests.clear()
    k.chains.clear()
    k.refused, k.refused_next = [], []
    k.talk.clear()
    if k.prompt_ends is not None:
        k.prompt_ends.clear()
    s: Any = k.start()
    k.put_in_by_number = k.priority
    arrivals = sorted(seen.requests, key=lambda q: q.id) if k.priority else seen.requests
    for q in arrivals:
        _request(s, q)
    sessions.restore(s, seen.requests)
    if isinstance(s.run, list):
        s.run += [None] * len(seen.running)  # a state that lists too many is judged all the same
    for r in seen.running:
        s.run[s.nr] = r
        s.nr += 1
    for r in seen.waiting:
        s.rank[r] = s.hi
        s.hi += 1
        s.nwait += 1
        s.waitset = k.add(s.waitset, r)
    for r in seen.skipped:
        stand_apart(s, r)
    sessions.restore_heap(s, seen.skipped, seen.heap)
    forget_passed(s)
    _pool(s, seen, names)
    k.owed_unknown.clear()
    for n, step in enumerate(told(seen.in_flight)):
        _in_flight(s, n, step)
        k.owed_unknown.update(step.gone)
    _pace(s, seen)
    if k.encodes:
        items.restore(s, told(seen.encoder))
    if k.connector:
        remote.restore(s, told(seen.remote))
    drafts.restore(s, seen.requests, told(seen.in_flight))
    s.finished = set(told(seen.finished))
    s.prev = set() if seen.previous is UNSET else set(seen.previous)
    s.pause = PAUSE[told(seen.pause_state)]
    return s


def contradictions(s: Any, seen: State) -> Iterator[Mismatch]:
    """What a recorded state says that no state can be. Raises NotRecorded where it cannot be said
    whether it can.
    """
    every = [t for r in s.k.requests for t in s.k.tables(r)]
    held = Counter(b for t in every for i in range(s.tlen[t]) if (b := s.tab[t, i]))
    counted = {b: n for b, n in s.ref.items() if n}
    remote.may_be_put_off(s, held, counted)
    if held != counted:
        expected = sorted(held.items())
        yield Mismatch("POOL-2", "the reference counts", expected, sorted(counted.items()))
    free = [b for b in s.k.pool if b not in held]
    queue = sorted(told(seen.free_queue))
    if queue != free:
        yield Mismatch("POOL-3", "the free queue", free, queue)
    for stages, listed, rule, what in (
        ({RUNNING}, seen.running, "RUN-19", "who runs"),
        ({WAITING, PREEMPTED}, seen.waiting, "WAIT-12", "who waits"),
    ):
        alive = (r for r in s.k.requests if not sessions.in_no_queue(s, r))
        ours = sorted(r for r in alive if s.stage[r] in stages)
        if ours != sorted(listed):
            yield Mismatch(rule, what, ours, sorted(listed))
    if s.k.encodes:
        yield from items.contradictions(s, told(seen.encoder))
    for r in s.k.requests:
        most = drafts.most_computed(s, r) + sessions.cut_drafts(s, r)
        if not 0 <= s.comp[r] <= most:
            drafts.may_be_ahead(s, r, s.comp[r] - most)
            what = f"the computed tokens of request {r}"
            yield Mismatch("RUN-29", what, f"0 to {most}", s.comp[r], r)
        yield from tables.impossible(s, r)


def _complete(k: Recorded, seen: State) -> None:
    """Raise NotRecorded unless everything is told that decisions depend on."""
    asked = WHOLE + (("chains",) if k.caching else ()) + (("encoder",) if k.encodes else ())
    asked += ("remote",) if k.connector else ()
    missing = [name for name in asked if getattr(seen, name) is UNSET]
    if k.second_runner and k.sem.second_runner_keeps_tokens:  # nobody asks who was there before
        missing = [name for name in missing if name != "previous"]
    if missing:
        raise NotRecorded(*(f"`{name}` of the state at step {seen.step}" for name in missing))
    sizes = items.told_sizes(seen)
    for q in seen.requests:
        if unknown_chunks := tuple(sessions.missing(k, q, sizes)):
            raise NotRecorded(*unknown_chunks)
        blocked = q.status == BLOCKED[GRAMMAR] and GRAMMARS in q.features
        blocked |= q.status == BLOCKED[INPUT] and RESUMABLE in q.features
        blocked |= q.status == BLOCKED[REMOTE] and k.connector
        if q.status not in STAGE and not blocked:
            raise NotRecorded(f"what the status {q.status} of request {q.id} means")
        if q.prompt is UNSET or q.max_tokens is UNSET or q.blocks is UNSET:
            raise NotRecorded(f"the facts about request {q.id} in the state at step {seen.step}")
        if k.sem.resumes_await_output and q.discard:
            raise NotRecorded(f"whether the stale output of request {q.id} will be dropped")
        if unknown_tables := tables.missing(k, q):
            raise NotRecorded(unknown_tables)
        if k.caching and q.chain is UNSET and q.tokens >= k.block_size:
            raise NotRecorded(f"the chain numbers of request {q.id}")
        if k.priority and q.arrival is UNSET:
            raise NotRecorded(f"the arrival time of request {q.id}, under the PRIORITY policy")
    for r, times in Counter(seen.running + seen.waiting).items():
        if times > 1:
            raise NotRecorded(f"how request {r} goes on, which is queued {times} times")
    known = {q.id for q in seen.requests}
    for step in told(seen.in_flight):
        for r in known.intersection(step.gone):
            raise earlier_owner(r)
    if unknown := set(seen.running + seen.waiting) - known:
        raise NotRecorded(
            f"the facts about request {min(unknown)} in the state at step {seen.step}"
        )


def earlier_owner(r: int) -> NotRecorded:
    """A number is used again while a step in flight may owe a token to who had it before."""
    return NotRecorded(f"what a step in flight owes to an earlier owner of request number {r}")


def check_earlier_owner(s: Any, r: int) -> None:
    """Raise NotRecorded where number r is used again, and no rule says what is left of who had it
    before: an entry in flight of an owner who is not known or, in vllm-0.22.1, a place in the
    queue, where it has ended and still waits.
    """
    places = range(s.cur, s.nframe) if r in s.k.owed_unknown else range(0)
    if any(s.frame[i] == r and s.born[i] == NOBODY for i in places):
        raise earlier_owner(r)
    if is_waiting(s, r):
        raise NotRecorded(f"what a queue makes of request number {r}, whose owner has ended there")


def _pace(s: Any, seen: State) -> None:
    """Which step may run a request again follows from the last that sampled a token of it. Where
    so few are in flight that this one may have come back, nothing tells.
    """
    if s.k.stages == 1 or not s.k.sem.pipeline_paces_tokens:
        return
    for n, step in enumerate(told(seen.in_flight)):
        for r in step.owed:
            s.paced[r] = n + s.k.stages
    for q in seen.requests if s.steps < s.k.stages - 1 else ():
        is_new = RESUMABLE not in q.features and not q.preemptions
        if s.paced[q.id] == 0 and not (is_new and q.computed < q.tokens == q.prompt):
            raise NotRecorded(f"which step may run request {q.id} again")


def _request(s: Any, q: RequestState) -> None:
    k, r = s.k, q.id
    k.requests[r] = facts.Request(
        id=(0.0 if q.tie is UNSET else q.tie, r),
        prompt_len=told(q.prompt),
        max_tokens=told(q.max_tokens),
        min_tokens=q.min_tokens,
        priority=q.priority,
        arrival=0.0 if q.arrival is UNSET else float(q.arrival),
        skip_reading_prefix_cache=q.skip_reading_prefix_cache,
        adapter=q.adapter,
        grammar=GRAMMARS in q.features,
        items=k.counted(items.items(q.items)),
        pooling=POOLING in q.features,
    )
    k.features[r] = q.features
    # Of a session: of some turn, this one or an earlier one.
    repetition.wanted(k, r, FEATURE in q.features)
    k.chains[r] = Chain(() if q.chain is UNSET else q.chain)
    if q.status in BLOCKED.values():
        s.stage[r] = PREEMPTED if q.preemptions else WAITING
        s.awaits[r] = next(what for what, name in BLOCKED.items() if name == q.status)
    else:
        s.stage[r] = STAGE[q.status]
    s.arr[r] = s.aclk
    s.aclk += 1
    s.ntok[r], s.comp[r] = q.tokens, q.computed
    s.ph[r], s.drop[r], s.npre[r] = q.placeholders, q.discard, q.preemptions
    tables_of = k.tables(r)
    none: list[list[int]] = [[]] * len(tables_of)
    cached = q.num_cached or [0] * len(tables_of)
    for t, table, many in zip(tables_of, q.blocks or none, cached, strict=True):
        for i, b in enumerate(table):
            s.tab[t, i] = b
        s.tlen[t] = len(table)
        s.ncached[t] = many
        s.told[t] = len(table) if s.stage[r] == RUNNING else 0
    for t, before in zip(tables_of, q.states_before or (), strict=False):
        s.before[t] = before


def _pool(s: Any, seen: State, names: Names) -> None:
    """Every block in its place. Names that the engine gave blocks are kept as ours."""
    blocks = {b for q in seen.requests for table in q.blocks or () for b in table if b}
    queue, counted = told(seen.free_queue), told(seen.ref_cnt)
    blocks |= {*queue, *(b for b, _ in counted)}
    if beyond := [b for b in blocks if b not in s.k.pool]:
        pool = f"a pool of {s.k.usable}" + " beside sinks" * (s.k.sink_blocks > 0)
        raise NotRecorded(f"block {min(beyond)}, in {pool}")
    names.same(sorted(blocks), sorted(blocks))
    s.stamp = s.k.blank("stamp")
    for place, b in enumerate(queue, start=1):
        s.stamp[b] = place
    s.back, s.nfree = len(queue) + 1, len(queue)
    for b, n in counted:
        s.ref[b] = n
    group = dict(seen.chain_groups)
    for b, chain in () if seen.chains is UNSET else seen.chains:
        hash = s.k.hash(chain, group.get(b, 0))
        if s.hsh[b] != s.k.NOHASH:
            _further_key(s, b, hash)
            continue
        s.hsh[b] = hash
        s.hclock += 1
    _ends_alone(s, seen)


def _further_key(s: Any, b: int, key: Any) -> None:
    """Block b, which has a hash, is known by another key besides."""
    if s.k.prompt_ends is None:
        raise NotRecorded(f"by what block {b} is known, which has two chain numbers")
    s.k.prompt_ends.keep(b, key)


def _ends_alone(s: Any, seen: State) -> None:
    """Blocks that are not full, and known by the end of a prompt in them alone (GROUP-67)."""
    ends = s.k.prompt_ends
    if ends is None:
        return
    for t in (t for q in seen.requests for t in s.k.tables(q.id)):
        key = s.k.end_hash(t, end := s.k.end_of(t, prompt(s, s.k.owner(t))))
        i = end // s.k.size_of(t)
        if key is not None and s.ncached[t] <= i < s.tlen[t] and s.hsh[s.tab[t, i]] == key:
            ends.keep_own(s.tab[t, i], key)


def _in_flight(s: Any, number: int, step: StepInFlight) -> None:
    owed, gone = set(step.owed), set(step.gone)
    for r, n in zip(step.ids, step.tokens, strict=True):
        i = s.nframe
        s.frame[i], s.grant[i] = r, n
        s.born[i] = NOBODY if r in gone else s.arr[r]
        s.due[i] = TOKEN if r in owed else CHUNK
        if s.k.sem.resumes_await_output and r not in gone:
            s.aloft[r] += n
            s.lastin[r] = number + 1
        s.lastfull = number + 1
        s.nframe = i + 1
    s.fend[number] = s.nframe
    s.steps = number + 1
