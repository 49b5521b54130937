"""One recording, from header to end. Nothing that goes wrong in here reaches the engine."""

import atexit
import secrets
from collections.abc import Callable
from multiprocessing import util
from typing import Any

from msgspec import json

from nullblock.conformance.adapters.vllm import configuration, sessions
from nullblock.conformance.adapters.vllm.events import EventTap
from nullblock.conformance.adapters.vllm.files import Files
from nullblock.conformance.adapters.vllm.look import Look
from nullblock.conformance.adapters.vllm.observe import Observer
from nullblock.conformance.adapters.vllm.seen import Entry
from nullblock.conformance.adapters.vllm.settings import Settings
from nullblock.conformance.adapters.vllm.sink import Sink
from nullblock.conformance.adapters.vllm.snapshot import adopt, snapshot
from nullblock.conformance.adapters.vllm.talk import owing
from nullblock.conformance.adapters.vllm.telling import Teller
from nullblock.conformance.adapters.vllm.words import logger

MOST = 48
"""Calls that wait to be told: 24 steps, mostly, as many as are encoded at once. The code and data
of telling are in no near cache when it begins; of many more the garbage collector would take
notice."""
NEVER = 1 << 63
"""Bytes of a part behind which none begins: what the engine's state is says nothing any more."""
SNAPSHOTS = 8
"""A part is at least so many times as long as the state that opens it."""
_lines = json.Encoder().encode_lines


class Tape:
    """Writes records, in whole or not at all; what does not fit becomes a gap that is told."""

    def __init__(self) -> None:
        self.running = False
        """Whether calls are observed."""
        self.waiting_for_start = False
        """Recording begins once every step in flight is known."""
        self.inside = False
        """Whether the engine is inside a call that is observed: what it calls then is its own."""
        self.unreturned = 0
        """Steps scheduled and not updated, recorded or not."""
        self._sink: Sink | None = None
        self._ending: Sink | None = None
        """One that is to finish by itself."""
        self._tap: EventTap | None = None
        self.drafts = False
        """Whether there are drafts: then an output is looked at before the engine has it, too."""
        self._named: set[str] = set()
        """Features that are named already, in this part and after its last gap."""
        self._dropped = 0
        self._part_size = self._part_full = 0

    def start(
        self, scheduler: Any, settings: Settings, engine: dict[str, str], *, late: bool
    ) -> None:
        """Begin, now if everything in flight is known, else as soon as it is.

        ``late``: the engine may have done something already.
        """
        self.settings = settings
        self.running = True
        self.safely(self._prepare, scheduler, engine, late)

    def _prepare(self, scheduler: Any, engine: dict[str, str], late: bool) -> None:
        self.observer = Observer(scheduler, self.settings)
        self.drafts = self.observer.drafts
        self._tap = EventTap(scheduler.kv_cache_manager) if self.observer.events else None
        self.teller = Teller(self.observer, self._tap)
        self.steps = self.teller.steps
        outcomes = self.teller.outcomes
        tallied = outcomes.tally is not None
        self._look = Look(self.observer, placed=outcomes.placed, tallied=tallied)
        self._waiting = self.teller.waiting
        self._header = configuration.header(scheduler, self.settings, engine, secrets.token_hex(8))
        if late:
            self._header["start"] = "unknown"
        where = self.settings.where
        self._files = Files(where, configuration.rank(scheduler), self.settings.keep)
        settings = self.settings
        self._sink = Sink(
            self._files,
            settings.queue_bytes,
            settings.flush_seconds,
            self._writer_failed,
            self._refill,
        )
        atexit.register(self.stop)
        # A process that multiprocessing started runs these in place of atexit's.
        util.Finalize(None, self.stop, exitpriority=10)
        logger.info("recording decisions to %s", self._files.path)
        self.waiting_for_start = self.unreturned > 0 or not self.observer.knows_who_waits()
        if not self.waiting_for_start:
            self._begin()

    def _begin(self) -> None:
        self.waiting_for_start = False
        self._part_full = self.settings.part_bytes
        self._put(_lines([self._header]))
        if self._header["start"] == "unknown":
            adopt(self.observer, self._look)
            self.steps.recognise()
            self._put(snapshot(self.observer, self.steps))

    def scheduled(self, decided: Any) -> None:
        """A step was decided."""
        seen = self._look.schedule(decided)
        if self.waiting_for_start:
            self.steps.note(seen)
            self.observer.talk.owing[seen.number] = owing(
                self.observer.scheduler.requests, seen.ids
            )
            return
        self._keep(seen)
        every = self.settings.state_every
        if every and seen.number % every == 0:
            self._flush()
            self.catch_up()
            self._write_lines(snapshot(self.observer, self.steps), 1)

    def before_update(self, sampled: Any) -> None:
        """An output with drafts is about to be taken in."""
        self._look.before_update(sampled)

    def updated(self, result: Any, decided: Any, sampled: Any) -> None:
        """An output was taken in."""
        taken = self._look.update(decided, result, sampled)
        if self.waiting_for_start:
            # Outputs come in order: the first one that is known was preceded by all others.
            if taken is not None and self.observer.knows_who_waits():
                self.steps.before_update(taken.step)
                self._begin()
            return
        assert taken is not None, "the output of a step that was not scheduled"
        self._keep(taken)

    def added(self, request: Any) -> None:
        """A request was taken."""
        observer, id = self.observer, request.request_id
        if self.waiting_for_start:
            observer.arrived[id] = self._look.steps
            if any(id in step.ids for step in self.steps.in_flight.values()):
                observer.ids_return = observer.irregular = True
            return
        with observer.backlog.lock:
            if request.resumable and not observer.sessions:
                self.teller.tell()  # what was seen before is told by other means than from now on
            if id in observer.numbers.of or id in self.teller.arriving:
                self.teller.tell()
                if id in observer.numbers.of:
                    observer.ids_return = observer.irregular = True
            self.teller.arriving.add(id)
            self._keep(self._look.add(request))

    def sent(self, chunk: Any, session: Any) -> None:
        """A session was sent a chunk, or its end."""
        self.observer.watch(chunk.sampling_params)
        if not self.waiting_for_start:
            with self.observer.backlog.lock:
                told = self.observer.with_abort()
                record = sessions.sent(self.observer, chunk, session)
            self.write(*told, record)

    def before_turn(self, session: Any) -> tuple[list[bytes], int, Any]:
        """A session is about to take a chunk: what is gone then."""
        hashes = list(session.block_hashes)
        return hashes, self.observer.keeps_hashes(session), session.sampling_params

    def took(self, session: Any, before: list[bytes], first: int, parameters: Any) -> None:
        """A session has taken a chunk."""
        if not self.waiting_for_start:
            self.observer.talk.took(session, before, first, parameters)

    def proposed(self, drafts: Any) -> None:
        """Drafts were proposed."""
        if not self.waiting_for_start:
            self._keep(self._look.propose(drafts))

    def _keep(self, entry: Entry) -> None:
        """What was seen waits until it is told with others."""
        waiting = self._waiting
        waiting.append(entry)
        if self._look.urgent or self._tap is not None:
            self._tell()
            if self.observer.backlog.due or self._dropped:
                self._flush()
        elif len(waiting) >= MOST or self._dropped:
            self._flush()

    def catch_up(self) -> None:
        """Tell what waits, so that steps are where they stand now."""
        with self.observer.backlog.lock:
            self.teller.catch_up()

    def _tell(self) -> None:
        with self.observer.backlog.lock:
            self.teller.tell()

    def was_reset(self, running: bool, ok: Any) -> None:
        """The prefix cache was to be emptied."""
        if running and self.steps.in_flight:
            self.observer.irregular = True
        self.write(self.observer.reset(running, ok))

    def encoder_was_reset(self) -> None:
        """The encoder cache was emptied."""
        if self.observer.items is not None and not self.waiting_for_start:
            self.observer.items.emptied()
            self.write({"ev": "reset_encoder_cache"})

    def write(self, *records: dict[str, Any]) -> None:
        """Add a record, and what stands right before it."""
        if not self.waiting_for_start:
            self.observer.backlog.put(records)
            if self.observer.backlog.due:
                self._flush()

    def feature(self, name: str) -> None:
        """What decides in the call that comes has no words. It is not written before that is told:
        they stand in one part, or are lost together.
        """
        if not self.waiting_for_start and name not in self._named:
            self._named.add(name)
            self.catch_up()
            self.observer.backlog.put([{"ev": "feature", "name": name}])

    @property
    def waiting(self) -> int:
        """How much the writer has still to do: records to be encoded, and bytes."""
        sink = self._sink
        if sink is None:
            return 0
        held = len(self.observer.backlog) + len(self._waiting)
        return sink.waiting + (0 if self._dropped else held)

    def _flush(self) -> None:
        """Encode what waits. In the engine's thread, where nothing is going on."""
        with self.observer.backlog.lock:
            self._tell()
            lines, many = self.observer.backlog.take()
            if many:
                self._write_lines(lines, many)

    def _refill(self) -> None:
        """The writer's thread has time: nothing waits longer than until it looks."""
        self.safely(self._hand_over)

    def _hand_over(self) -> None:
        with self.observer.backlog.lock:
            if self._dropped or self.waiting_for_start:
                return
            self._tell()
            lines, many = self.observer.backlog.take()
            if many and not self._put(lines):
                self._dropped = many  # the engine's thread goes on from there

    def _write_lines(self, lines: bytes, many: int) -> None:
        if self._dropped:
            self._resume(many)
        elif not self._put(lines):
            self._dropped = many
            self._forget()
        elif self._part_size >= self._part_full and self._files.in_parts:
            sink = self._sink
            if sink is not None and sink.waiting < self.settings.queue_bytes // 2:
                self._next_part()

    def _forget(self) -> None:
        """The next records may not refer to those before."""
        self._named.clear()
        with self.observer.backlog.lock:
            self.teller.forget()

    def _put(self, lines: bytes) -> bool:
        with self.observer.backlog.lock:
            sink = self._sink
            if sink is None or not sink.put(lines):
                return False
            self._part_size += len(lines)
            return True

    def _resume(self, many: int) -> None:
        """After a gap: when the queue is nearly empty, say so, and where things stand now."""
        self._dropped += many
        sink = self._sink
        if sink is None or sink.waiting > self.settings.queue_bytes // 8:
            return
        gap = {"ev": "gap", "records": self._dropped, "reason": "the writer was too slow"}
        self.catch_up()
        state = snapshot(self.observer, self.steps)
        if self._put(_lines([gap])):
            logger.warning("recording is too slow: %d records are missing", self._dropped)
            self._dropped = 0 if self._put(state) else 1
            self._forget()

    def _next_part(self) -> None:
        """A part is a trace of its own: it begins with a header and the state."""
        assert self._sink is not None
        part = self._header.get("part", 1) + 1
        self._header |= {"start": "unknown", "part": part}
        header = _lines([self._header])
        self._sink.next_part(header)
        self._forget()
        self._part_size = len(header)
        state = snapshot(self.observer, self.steps)
        self._part_full = max(self.settings.part_bytes, SNAPSHOTS * len(state))
        if not self._put(state):
            self._dropped = 1

    def raised(self, during: str, error: Exception, sampled: Any = None, **asked: bool) -> None:
        """The engine raised; nothing after it can be explained. ``sampled``: the output that was
        to be taken in; ``asked``: what else was asked, by the name of the record's field.
        """
        told: list[Any] = []
        if not self._ends_unbegun():
            self.catch_up()
            told = self.observer.with_call(sampled)
            if during == "schedule" and (found := self._look.compiled()):
                told = [self.teller.compiled(found), *told]
        self._part_full = NEVER
        self.write(*told, {"ev": "error", "during": during, "type": type(error).__name__} | asked)
        self.stop()

    def _ends_unbegun(self) -> bool:
        """Whether the recording ends while it waits for its start: then it is a header, and says
        so.
        """
        unbegun = self.waiting_for_start
        if unbegun:
            self.waiting_for_start, self._part_full = False, NEVER
            self._put(_lines([self._header]))
        return unbegun

    def safely(self, method: Callable[..., Any], *args: Any, **named: Any) -> Any:
        """Call a method of this side; if it raises, recording is over and None is returned."""
        try:
            return method(*args, **named)
        except Exception as error:
            self.failed(error)
            return None

    def failed(self, error: BaseException) -> None:
        """Something on this side raised, or the engine was interrupted: recording is over."""
        if not self.running:
            return  # in the other thread, too, or in consequence
        self.running = False
        logger.warning(
            "recording decisions has failed and stops; serving goes on (%s: %s)",
            type(error).__name__,
            error,
            exc_info=None if isinstance(error, OSError) else error,
        )
        self._part_full = NEVER
        try:
            self._ends_unbegun()
            self._flush()
            if not self._dropped:
                self._put(_lines([{"ev": "lost", "reason": type(error).__name__}]))
        except Exception:
            logger.debug("the recording ends without a word", exc_info=True)
        self._end(wait=0.0)

    def _writer_failed(self, error: BaseException) -> None:
        """Called in the writer's thread."""
        self.running = False
        logger.warning(
            "writing decisions to %s has failed and stops; serving goes on (%s: %s)",
            self._files.path,
            type(error).__name__,
            error,
        )

    def stop(self) -> None:
        """Seal and close the file. Does nothing the second time."""
        if self.running:
            self.safely(self._ends_unbegun)
            self.safely(self._flush)
        self._end(wait=10.0)

    def _end(self, wait: float) -> None:
        self.running = self.waiting_for_start = False
        sink, self._sink = self._sink or self._ending, None
        self._ending = None if wait else sink
        try:
            if self._tap is not None:
                self._tap.remove()
            if sink is None:
                return
            if wait:
                atexit.unregister(self.stop)
            if not sink.close(wait) and wait:
                logger.warning("the recording is not sealed: its disk is too slow")
        except Exception:
            logger.debug("the recording ends without its seal", exc_info=True)
