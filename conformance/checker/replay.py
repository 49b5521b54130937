"""Makes the decisions of a trace again, by the rules, from its inputs."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import UNSET, UnsetType

from nullblock.conformance.checker import (
    decisions,
    drafts,
    fast,
    items,
    observations,
    remote,
    retold,
    sessions,
)
from nullblock.conformance.checker.decisions import RAISED, Mismatch
from nullblock.conformance.checker.environment import made
from nullblock.conformance.checker.facts import GRAMMARS, POOLING
from nullblock.conformance.checker.names import names
from nullblock.conformance.checker.raised import (
    NOT_UNDER_WAY,
    contradiction,
    objection,
    redone,
    refusal,
    unasked,
)
from nullblock.conformance.checker.reach import at_odds, out_of_reach, why_not
from nullblock.conformance.checker.restore import (
    check_earlier_owner,
    contradictions,
    restore,
)
from nullblock.conformance.checker.unknown import NotRecorded
from nullblock.conformance.trace.base import ENDS
from nullblock.conformance.trace.decode import Passed, Shown, Unknown
from nullblock.conformance.trace.errors import Malformed
from nullblock.conformance.trace.records import (
    Abort,
    Add,
    Chunk,
    Compiled,
    Draft,
    Error,
    Evict,
    Feature,
    Gap,
    Header,
    Lost,
    Matched,
    Output,
    Pause,
    PostState,
    RequestState,
    Reset,
    ResetEncoderCache,
    Schedule,
    SessionEnd,
    State,
    Transfers,
    Update,
)
from nullblock.conformance.trace.sessions import RESUMABLE
from nullblock.spec.fields import RUNNING
from nullblock.spec.hybrid import holds_nothing
from nullblock.spec.kernel import CONFUSED, Broken, Disabled
from nullblock.spec.machine import events
from nullblock.spec.machine.waiting import order_queues
from nullblock.spec.names import PAUSE
from nullblock.spec.profiles import Semantics
from nullblock.spec.rejection import why_unservable
from nullblock.spec.state import live


class Unexplained(Exception):
    """A recorded decision that the rules do not make."""

    def __init__(self, mismatch: Mismatch) -> None:
        super().__init__(mismatch.what)
        self.mismatch = mismatch


class Replay:
    """The state of the rules beside a trace. Memory: the pool, and the requests alive.
    Raises Malformed, without a line number, where the rules say that a record is impossible.
    """

    def __init__(self, header: Header, semantics: Semantics, *, plain: bool = False) -> None:
        """`plain`: the text of the rules is never erased. Raises NotRecorded where a trace with
        this header cannot be judged at all.
        """
        if missing := tuple(out_of_reach(header, semantics)):
            raise NotRecorded(*missing)
        self.header = header
        self.k = made(header, semantics)
        self.s: Any = self.k.start()
        self.names = names(header.block_ids)
        self.fired: Counter[str] = Counter()
        self.plain = plain
        self.machine = fast.Machine(self.k, plain=plain)
        self.steps = 0
        """The number of the last step; more than were decided again, if it began in the middle."""
        self.decided = 0
        """Steps that were decided again."""
        self.began_after: int | None = 0 if header.start == "empty" else None
        """Steps that the engine had scheduled where judging began; None: it has not begun."""
        self.decisions = 0
        self.known = header.start == "empty"
        """Whether the rules know what the engine's state is."""
        self.hears = self.k.listening = header.observed.events == "complete"
        """Whether all is known that the next update tells of the prefix cache."""
        self.skipped = 0
        """Records that were passed over because it was not."""
        self.lost: list[str] = []
        """What the recorder says it could not write."""
        self.untold: dict[str, int] = {}
        """Fields with block ids that a step lacks though there are some, and the first of them."""
        self.raises: str | None = None
        """Why the rules raise where the engine did, at the end; None: they did not."""

    def after_rule(self, s: Any, rule: str) -> None:
        """Count a rule that fired."""
        self.fired[rule] += 1
        if rule == "RUN-5":
            self.k.held_back = False
        elif rule == "WAIT-8":
            self.k.held_back = True

    def take(self, record: Shown) -> None:
        """The next record. Raises Unexplained or NotRecorded, after which nothing can be said."""
        try:
            self._take(record)
        except (Disabled, Broken, *CONFUSED) as error:
            raise Unexplained(refusal(error, record)) from error

    def _take(self, record: Shown) -> None:
        match record:  # the most frequent ones first
            case Schedule():
                self._schedule(record)
            case Output():
                self.k.sampled(record)
            case Update():
                self._update(record)
            case Add():
                self._add(record)
            case Draft():
                drafts.propose(self.machine, self.s, record, self.fired)
            case Abort():
                self._abort(record)
            case Pause():
                events.pause(self.s, PAUSE[record.pause_state])
            case Reset():
                self._reset(record)
            case Evict():
                self._evict(record)
            case Matched():
                remote.answered(self.k, record)
            case Transfers():
                remote.reported(self.k, record, self.header.block_ids)
            case ResetEncoderCache():
                events.reset_encoder_cache(self.s)
            case Compiled(ids=ids):
                for r in filter(self.k.requests.__contains__, ids):
                    events.compiled(self.s, r)
            case Chunk() | SessionEnd():
                self._sent(record)
            case State():
                self._state(record)
            case Passed():
                self.skipped += 1
            case Gap(records=n, reason=why):
                self.known = False
                told = f" ({why})" if why else ""
                self.lost.append(f"{n:,} records that the recorder lost{told}")
            case Error():
                self._error(record)
            case Lost():
                raise NotRecorded(f"anything after the recorder gave up ({record.reason})")
            case Feature(name=name):
                raise NotRecorded(f"the feature {name}")
            case Unknown():
                raise NotRecorded(f"what records of kind {record.kind!r} mean")
            case _:
                pass

    def compare(self, mismatches: Iterable[Mismatch]) -> None:
        """Count a decision, and raise Unexplained for the first mismatch."""
        self.decisions += 1
        for mismatch in mismatches:
            raise Unexplained(mismatch)

    def post_state(self, seen: PostState | UnsetType, after: str) -> Iterator[Mismatch]:
        """What the state that comes with a decision does not share with ours."""
        if seen is not UNSET:
            yield from observations.post_state(self.s, seen, after)

    def unjudged(self) -> list[str]:
        """What was not judged, though all that was is explained."""
        found = list(self.lost)
        if not self.known and not self.lost:
            found.append("the state in which the recording began: no `state` record tells it")
        elif self.skipped:
            found.append(f"{self.skipped:,} records before a `state` record told where they begin")
        told = f"though `block_ids` is `{self.header.block_ids}`"
        found += [f"`{field}` of step {step}, {told}" for field, step in self.untold.items()]
        return found

    def _state(self, record: State) -> None:
        if self.raises is not None:  # a part that was begun in the middle of the call that raised
            return
        if self.known:
            self.compare(observations.state(self.s, record, self.steps, self.names))
            retold.compare(self.k, record)
            return
        sizes: dict[int, int] = {}
        for request in record.requests:
            self._know(request, sizes)
        if record.heap is not UNSET and self.k.let_continue():
            self.machine = fast.Machine(self.k, plain=self.plain)
        self.s = restore(self.k, record, self.names)
        self.steps = record.step
        if self.began_after is None:
            self.began_after = record.step
        self.known, self.hears = True, False
        self.compare(contradictions(self.s, record))

    def _add(self, record: Add) -> None:
        self._know(record, items.known_sizes(self.s) if record.items else {})
        if live(self.s, record.id):
            raise Malformed(
                f"request {record.id} is added a second time while it is alive",
                "record it again: a recorder writes what happens, in its order",
            )
        check_earlier_owner(self.s, record.id)
        self.k.introduce(record)
        if not self.machine.do(events.add, self.s, self.fired, record.id):
            facts = self.k.requests[record.id]
            why = why_unservable(self.k.config, record.prompt, record.max_tokens, facts.items)
            assert why is not None, "a rejection has a reason"
            self.k.refused.append((record.id, why))

    def _know(self, request: Add | RequestState, sizes: dict[int, int]) -> None:
        """Raise NotRecorded for what of a request is not judged; get ready for what is.

        `sizes`: of encoder inputs that are known.
        """
        missing = [*items.unknown(self.s, request, sizes), *remote.unknown(self.k, request)]
        reasons = (why_not(self.header, self.k.sem, feature) for feature in request.features)
        missing += [
            *(why for why in reasons if why is not None),
            *at_odds(self.header.config, request.features),
        ]
        if missing:
            raise NotRecorded(*(f"{why} of request {request.id}" for why in missing))
        changed = GRAMMARS in request.features and self.k.let_wait()
        changed |= RESUMABLE in request.features and self.k.let_continue()
        changed |= POOLING in request.features and self.k.let_pool()
        if changed:
            self.machine = fast.Machine(self.k, plain=self.plain)

    def _sent(self, record: Chunk | SessionEnd) -> None:
        """What arrives for a session."""
        self.compare(sessions.take(self.k, self.s, record))
        remote.end_abort(self.k)

    def _schedule(self, record: Schedule) -> None:
        self.steps, self.decided = self.steps + 1, self.decided + 1
        if self.header.block_ids != "absent" and (field := decisions.untold(record)):
            self.untold.setdefault(field, record.step)
        remote.begin_step(self.k)
        items.learn(self.k, record)
        try:
            out = self.machine.schedule(self.s, self.fired)
        except (Disabled, Broken, *CONFUSED) as error:
            raise Unexplained(contradiction(error, "schedule", record.ids)) from None
        asked = remote.departure(self.k, self.names.same)
        alike = not asked and items.alike(out, record)
        alike = alike and fast.alike(out, record, self.names.same, self.k)
        self.compare(() if alike else self._departures(out, record, asked))
        self._left(record.state, "schedule")
        self.k.forget(self.s, out.finished)
        if record.evicted_items:
            items.forget(self.s, record.evicted_items)

    def _departures(self, out: Any, record: Schedule, asked: list[Mismatch]) -> Iterator[Mismatch]:
        drafts.configured(self.k, record.drafts)
        yield from asked
        yield from decisions.schedule(out, record, self.s, self.names.same)
        yield from items.schedule(out, record)

    def _left(self, seen: PostState | UnsetType, after: str) -> None:
        """The state that comes with a decision, which counts with it."""
        if not fast.left_alike(self.s, seen):
            for mismatch in self.post_state(seen, after):
                raise Unexplained(mismatch)

    def _update(self, record: Update) -> None:
        refused = dict(self.k.refused)
        self.k.ended(record)
        self._apply(record.ids)
        alike = fast.passed_on_alike(self.k, record)
        self.compare(() if alike else self._outcomes(record))
        sessions.remember(self.k, self.s)
        heard = self.k.take_events()
        for mismatch in remote.end_update(self.machine, self.s, self.fired):
            raise Unexplained(mismatch)
        if self.hears and record.events is not UNSET:
            self.compare(observations.events(heard, record.events, self.header.config.groups))
        self.hears = self.k.listening
        self._left(record.state, "update")
        self.k.refused, self.k.refused_next = self.k.refused_next, []
        self.k.forget(self.s, refused)
        self.k.counts = {}  # what the next step samples is not known before it is told

    def _outcomes(self, record: Update) -> Iterator[Mismatch]:
        yield from observations.update(self.k, self.k.refused, record)
        yield from sessions.turns(self.k, self.s, record.turns)

    def _apply(self, told: Any) -> None:
        """Apply the frame."""
        self.k.taken, self.k.ends = [], []
        try:
            remote.begin_update(self.k, self.s, self.names)
            self.machine.update(self.s, self.fired)
        except (Disabled, Broken, *CONFUSED) as error:
            raise Unexplained(contradiction(error, "update", told)) from None

    def _abort(self, record: Abort) -> None:
        if record.status not in ENDS:
            raise NotRecorded(f"what the status {record.status[:40]!r} of an abort means")
        s = self.s
        if (asked := record.asked) is None:
            asked = sorted((r for r in self.k.requests if live(s, r)), key=lambda r: s.arr[r])
        alive = [r for r in dict.fromkeys(asked) if live(s, r)]
        aborted = alive if record.aborted is UNSET else record.aborted
        wrong = next(iter(set(alive) ^ set(aborted)), None)
        if wrong is not None or len(alive) != len(aborted):
            rule = "LIFE-4" if wrong is not None and s.stage[wrong] == RUNNING else "LIFE-5"
            self.compare([Mismatch(rule, "who is aborted", alive, aborted, wrong)])
        # In which order they go is left to the engine: it walks over a set.
        if record.aborted is UNSET and sum(not holds_nothing(s, r) for r in alive) > 1:
            raise NotRecorded("in which order aborted requests gave up their blocks")
        for r in aborted:
            events.abort(s, r)
        order_queues(s)
        remote.end_abort(self.k)
        if record.aborted is not UNSET or record.state is not UNSET:
            self.compare(self.post_state(record.state, "abort"))

    def _reset(self, record: Reset) -> None:
        ok = bool(events.reset_prefix_cache(self.s, record.reset_running))
        if record.ok is not UNSET and ok != record.ok:
            self.compare([Mismatch("LIFE-10", "whether the cache is emptied", ok, record.ok)])
        if record.ok is not UNSET or record.state is not UNSET:
            self.compare(self.post_state(record.state, "reset"))

    def _evict(self, record: Evict) -> None:
        cached = self.s.hsh
        if self.header.block_ids == "absent" and cached:
            # Whatever the list says: recorders that tell no blocks write an empty one.
            raise NotRecorded("which blocks were evicted")
        for b in record.blocks:
            if self.header.block_ids == "exact" and b >= self.k.pool.stop:
                what, known = f"block {b} is evicted", f"blocks 0 to {self.k.pool.stop - 1}"
                raise Unexplained(Mismatch("HASH-13", what, known, b))
            if ours := self.names.ours(b):
                events.evict_blocks(self.s, [ours])
            elif ours is None and any(self.names.theirs(c) is None for c in cached):
                raise NotRecorded(f"which block {b} is, which was evicted")

    def _error(self, record: Error) -> None:
        """An exception of the engine is explained if the rules contradict themselves there."""
        if record.during == "update" and remote.explains(self.k, self.s):
            self.decisions += 1
            self.raises = NOT_UNDER_WAY
            return
        if (unknown := unasked(self.k, record)) is not None:
            raise NotRecorded(unknown)
        remote.begin_step(self.k)
        self.decisions += 1
        try:
            does = redone(self.machine, self.s, self.fired, record)
        except (Disabled, Broken) as error:
            self.raises = objection(error)
            return
        except CONFUSED as error:
            raise NotRecorded(f"what the rules say where {record.type} was raised") from error
        except NotRecorded as unknown:
            if record.during == "schedule":
                raise
            raise NotRecorded(f"what was sampled when update raised {record.type}") from unknown
        s, most = self.s, self.k.max_len
        if not self.k.listening and any(s.ntok[s.run[i]] > most for i in range(s.nr)):
            raise NotRecorded(f"whether KV events are told, where {record.type} was raised")
        raised = f"{RAISED}{record.type}"
        raise Unexplained(Mismatch(None, f"{record.during} raises", does, raised))
