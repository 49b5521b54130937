"""A verdict on a file of KV events, in memory that grows with the cache and not with the file."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import BinaryIO

from nullblock.conformance.kv_events import story
from nullblock.conformance.kv_events.errors import Damaged
from nullblock.conformance.kv_events.frames import Frame, Started, frames
from nullblock.conformance.kv_events.publisher import Number, Publisher
from nullblock.conformance.kv_events.verdict import Evidence, First, Verdict
from nullblock.conformance.kv_events.wire import Batch, Passed, batch
from nullblock.spec.kv_events import FULL, Premises, Stored
from nullblock.spec.kv_events.cache import REMEMBERED, is_full

MOST_PUBLISHERS = 4096
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Options:
    """What a person knows about a file.

    Attributes:
        premises: about the engine.
        from_start: the recording began with the engine; None: if its first number is 0.
        allow_gaps: a missing batch is no violation: what is cached is unknown after it.
        format: one of ``frames.FORMATS``.
    """

    premises: Premises = field(default_factory=Premises)
    from_start: bool | None = None
    allow_gaps: bool = False
    format: str = "auto"


def check(
    name: str,
    stream: BinaryIO,
    options: Options | None = None,
    progress: Progress | None = None,
) -> Verdict:
    """Judge a file; ``progress`` is called with the batches and events so far.

    Raises ``OSError`` where it cannot be read.
    """
    run = _Run(Verdict(name), options or Options())
    try:
        for frame in frames(stream, run.options.format):
            first = run.take(frame)
            if first is not None:
                run.verdict.verdict, run.verdict.first = "VIOLATION", first
                break
            if progress is not None:
                progress(run.evidence.batches, run.evidence.events)
        run.end()
    except Damaged as damage:
        run.verdict.verdict = "MALFORMED"
        run.verdict.first = run.damaged(damage)
        run.summarize()
    return run.verdict


class _Run:
    """One file."""

    def __init__(self, verdict: Verdict, options: Options) -> None:
        self.verdict, self.options = verdict, options
        self.premises = options.premises
        self.from_start = options.from_start
        self.publishers: dict[tuple[str, int | None], Publisher] = {}
        self.passed = Passed()
        self.started = self.repeated = self.cut_hashes = False

    @property
    def evidence(self) -> Evidence:
        """What was counted."""
        return self.verdict.evidence

    def take(self, item: Frame | Started) -> First | None:
        """One batch; the first event that breaks the law, or None."""
        if isinstance(item, Started):
            self.start(item)
            return None
        try:
            found = batch(item.body, self.passed, item.driver)
            if item.driver and self.cut_hashes:
                _check_hashes(found)
            publisher = self.publisher(item, found)
        except Damaged as damage:
            inside = f"{item.place}, {damage.place}" if damage.place else item.place
            raise damage.at(place=inside) from None
        self.evidence.batches += 1
        broken = self.place(publisher, item, found.ts)
        if broken is not None or self.repeated:
            return broken
        if found.ts is not None:
            if self.evidence.first_ts is None:
                self.evidence.first_ts = found.ts
            self.evidence.last_ts = found.ts
        return self.judge(publisher, item, found)

    def start(self, item: Started) -> None:
        """A new engine: a line of nullblock run says so."""
        self.evidence.restarts += self.started
        self.started, self.from_start = True, self.options.from_start is not False
        self.publishers.clear()
        self.cut_hashes = item.cut_hashes
        if self.options.premises.num_blocks is None:
            self.premises = replace(self.options.premises, num_blocks=item.num_blocks)

    def publisher(self, frame: Frame, found: Batch) -> Publisher:
        """Who published a batch."""
        key = (frame.topic, found.rank)
        publisher = self.publishers.get(key)
        if publisher is None:
            if len(self.publishers) == MOST_PUBLISHERS:
                raise Damaged(f"more than {MOST_PUBLISHERS} publishers", "split the file")
            rank = [] if found.rank is None else [f"rank {found.rank}"]
            topic = [f"topic {frame.topic!r}"] if frame.topic else []
            name = ", ".join(topic + rank)
            publisher = Publisher(name, self.premises, self.from_start)
            self.publishers[key] = publisher
            self.evidence.publishers += 1
        if publisher.numbered not in (None, frame.seq is not None):
            raise Damaged("some batches have a number and some have none", "keep one kind")
        return publisher

    def place(self, publisher: Publisher, frame: Frame, ts: float | None) -> First | None:
        """What the number of a batch says."""
        self.repeated = False
        last, evidence = publisher.last, self.evidence
        match publisher.number(frame, ts):
            case Number.NEXT:
                if frame.seq is not None:
                    evidence.judged["EVENT-1"] += 1
            case Number.REPEATED:
                self.repeated = True
                evidence.repeated_batches += 1
            case Number.RESTARTED:
                publisher.restart()
                publisher.accept(frame, ts)
                evidence.restarts += 1
            case changed:
                assert frame.seq is not None
                evidence.judged["EVENT-1"] += 1
                if not self.options.allow_gaps:
                    return self.out_of_order(publisher, frame, last, changed is Number.CHANGED)
                evidence.gaps += 1
                if changed is Number.GAP:
                    evidence.lost_batches += frame.seq - (0 if last is None else last + 1)
                publisher.go_on(frame)
                publisher.accept(frame, ts)
        return None

    def out_of_order(
        self, publisher: Publisher, frame: Frame, last: int | None, changed: bool
    ) -> First:
        """A gap, or a number that was used before."""
        assert frame.seq is not None
        expected = f"number {0 if last is None else last + 1}"
        if changed:
            expected += f", or the batch that was number {frame.seq} before"
        where = (frame.place, self.evidence.events, self.evidence.batches)
        return story.out_of_order(publisher, expected, where, frame.seq, changed)

    def judge(self, publisher: Publisher, frame: Frame, found: Batch) -> First | None:
        """The first event of a batch that breaks the law."""
        for events in found.events:
            if events is None:  # it may have changed anything
                publisher.lose()
                continue
            for event in events:
                number = self.evidence.events + 1
                broken = publisher.event(event, number, self.evidence)
                if broken is not None:
                    where = (frame.place, number, self.evidence.batches, frame.seq)
                    return story.violation(publisher, *broken, event, where)
        return None

    def damaged(self, damage: Damaged) -> First:
        """Damage as the first thing that is wrong."""
        events, batches = self.evidence.events, self.evidence.batches
        lines = [str(Damaged(damage.what, place=damage.place))]
        if batches:
            lines.append(f"before it: {batches} batches, {events} events, none against the law")
        return First(
            place=damage.place,
            event=0,
            batch=batches,
            seq=None,
            rule=None,
            what=damage.what,
            expected="",
            actual="",
            story=tuple(lines),
            next=(damage.remedy,),
        )

    def end(self) -> None:
        """The stream is over, or a law is broken."""
        self.summarize()
        if self.verdict.first is None:
            self.verdict.missing = missing(self)

    def summarize(self) -> None:
        """The counts that are known at the end."""
        self.evidence.cached = sum(p.cache.num_copies for p in self.publishers.values())
        self.evidence.media.update(self.passed.media)
        self.evidence.fields.update(self.passed.fields)
        self.evidence.unknown.update(self.passed.unknown)


def _check_hashes(found: Batch) -> None:
    """Refuse hashes that are cut, where what is left may be that of another block."""
    for events in found.events:
        for e in events or ():
            if isinstance(e, Stored) and any(isinstance(hash, str) for hash in e.hashes):
                raise Damaged(
                    "hashes of twelve digits in an engine with blocks of several sizes",
                    "record it with VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES=1",
                )


def missing(run: _Run) -> list[str]:
    """What would let more be judged."""
    evidence, premises, found = run.evidence, run.premises, list[str]()
    judged = evidence.judged
    for name, many in sorted(evidence.unknown.items()):
        found.append(
            f"what events called {name!r} mean ({many:,} of them), which no release up to 0.32 "
            "has: what was cached is unknown after each"
        )
    if not evidence.stored:
        return [*found, "nothing was stored: KV events are off, or prefix caching is"]
    if "EVENT-1" not in judged:
        found.append("EVENT-1: whether batches are missing: they have no numbers here")
    if any(not p.cache.known for p in run.publishers.values()):
        found.append(
            "EVENT-2, EVENT-4: what was cached before: the stream begins in the middle "
            "(--from-start if it does not), or has a gap"
        )
    if premises.num_blocks is None:
        found.append("EVENT-3: how many blocks the pool has (--num-blocks)")
    elif "EVENT-3" not in judged:
        found.append("EVENT-3: whether a block may have several hashes (--full-attention: none)")
    found += _about_attention(run)
    if any(p.cache.forgotten for p in run.publishers.values()):
        found.append(f"EVENT-4: parents that were removed {REMEMBERED:,} removals ago or earlier")
    return found


def _about_attention(run: _Run) -> list[str]:
    """Why the laws of full attention were not judged, or not all of them."""
    shapes = [shape for p in run.publishers.values() for shape in p.cache.shapes.values()]
    if any(is_full(run.premises, shape) for shape in shapes):
        if run.premises.no_connector:
            return []
        return ["EVENT-5, EVENT-6: whether there is a KV connector (--no-connector)"]
    if all(shape.kind is not None and shape.kind not in FULL for shape in shapes):
        return ["EVENT-4, EVENT-8: they hold for full attention, and there is none here"]
    return [
        "EVENT-4, EVENT-8: whether the model has one kind of attention, full attention, and so "
        "every block is announced (--full-attention)"
    ]
