"""One recording, from header to end. Nothing that goes wrong in here reaches the engine."""

import atexit
import logging
import secrets
from collections.abc import Callable
from multiprocessing import util
from typing import Any

from msgspec import json

from nullblock.conformance.adapters.vllm import configuration
from nullblock.conformance.adapters.vllm.alike import MOST, Alike
from nullblock.conformance.adapters.vllm.events import EventTap, in_numbers
from nullblock.conformance.adapters.vllm.files import Files
from nullblock.conformance.adapters.vllm.observe import Observer
from nullblock.conformance.adapters.vllm.outcomes import Outcomes
from nullblock.conformance.adapters.vllm.settings import Settings
from nullblock.conformance.adapters.vllm.sink import Sink
from nullblock.conformance.adapters.vllm.snapshot import adopt, snapshot
from nullblock.conformance.adapters.vllm.steps import Steps

logger = logging.getLogger("vllm.nullblock")

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
        self._alike: Alike | None = None
        """Takes the steps that are like the one before, where there may be any."""
        self.drafts = False
        """Whether there are drafts: then an output is looked at before the engine has it, too."""
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
        self.steps = Steps(self.observer)
        self.outcomes = Outcomes(self.observer)
        self.drafts = self.observer.drafts
        if self.outcomes.placed and not self.observer.events:
            self._alike = Alike(self.observer, self.steps, self.outcomes)
        self._tap = EventTap(scheduler.kv_cache_manager) if self.observer.events else None
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
        self.waiting_for_start = self.unreturned > 0
        if not self.waiting_for_start:
            self._begin()

    def _begin(self) -> None:
        self.waiting_for_start = False
        self._part_full = self.settings.part_bytes
        self._put(_lines([self._header]))
        if self._header["start"] == "unknown":
            adopt(self.observer, self.steps)
            self._put(snapshot(self.observer, self.steps))

    def scheduled(self, decided: Any) -> None:
        """A step was decided."""
        if self.waiting_for_start:
            self.steps.note(decided)
            return
        alike = self._alike
        if alike is not None and not self._dropped and alike.schedule(decided):
            if len(alike) >= MOST:
                self._flush()
        else:
            self.catch_up()
            if self.observer.backlog.put((self.steps.schedule(decided),)) or self._dropped:
                self._flush()
        every = self.settings.state_every
        if every:
            self.catch_up()
        if every and self.steps.count % every == 0:
            self._flush()
            self._write_lines(snapshot(self.observer, self.steps), 1)

    def updated(self, result: Any, decided: Any, sampled: Any) -> None:
        """An output was taken in."""
        alike, step = self._alike, None
        if alike is not None:
            if not self._dropped and alike.update(decided, result, sampled):
                if len(alike) >= MOST:
                    self._flush()
                return
            self._tell()
            step = alike.take(decided)
        if step is None:
            step = self.steps.before_update(decided)
        if self.waiting_for_start:
            # Outputs come in order: the first one that is known was preceded by all others.
            if step is not None:
                self._begin()
            return
        assert step is not None, "the output of a step that was not scheduled"
        observer = self.observer
        output = self.outcomes.output(step, sampled, self.steps.rejected)
        update = self.outcomes.update(step, result)
        if self._tap is not None:
            with observer.backlog.lock:
                observer.backlog.settle()
                events = in_numbers(self._tap.take(), observer.chains)
            if events is not None:
                update["events"] = events
        observer.with_counts(update, short=update["ev"] == "update+")
        if observer.backlog.put((output, update)) or self._dropped:
            self._flush()

    def catch_up(self) -> None:
        """Make records of what was only looked at, and look no further."""
        if self._alike is not None:
            self._tell()
            self._alike.end()

    def _tell(self) -> None:
        if self._alike:
            with self.observer.backlog.lock:
                self._alike.tell()

    def was_reset(self, running: bool, ok: Any) -> None:
        """The prefix cache was to be emptied."""
        if running and self.steps.in_flight:
            self.observer.unplaced = True
        self.write(self.observer.reset(running, ok))

    def write(self, record: dict[str, Any]) -> None:
        """Add a record."""
        if not self.waiting_for_start and self.observer.backlog.put((record,)):
            self._flush()

    @property
    def waiting(self) -> int:
        """How much the writer has still to do: records to be encoded, and bytes."""
        sink = self._sink
        if sink is None:
            return 0
        held = len(self.observer.backlog) + len(self._alike or ())
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
        self.catch_up()
        self.steps.forget()
        self.observer.told = self.outcomes.last = None

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
        assert self._sink is not None
        if self._sink.waiting > self.settings.queue_bytes // 8:
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
        self._sink.next_part()
        part = self._header.get("part", 1) + 1
        self._header |= {"start": "unknown", "part": part}
        self._forget()
        self._part_size = 0
        state = snapshot(self.observer, self.steps)
        self._part_full = max(self.settings.part_bytes, SNAPSHOTS * len(state))
        if not (self._put(_lines([self._header])) and self._put(state)):
            self._dropped = 1

    def raised(self, during: str, error: BaseException) -> None:
        """The engine raised; nothing after it can be explained."""
        self.write({"ev": "error", "during": during, "type": type(error).__name__})
        self.stop()

    def safely(self, method: Callable[..., Any], *args: Any) -> Any:
        """Call a method of this side; if it raises, recording is over and None is returned."""
        try:
            return method(*args)
        except Exception as error:
            self.failed(error)
            return None

    def failed(self, error: Exception) -> None:
        """Something on this side raised: recording is over."""
        logger.warning(
            "recording decisions has failed and stops; serving goes on (%s: %s)",
            type(error).__name__,
            error,
            exc_info=None if isinstance(error, OSError) else error,
        )
        try:
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
        if self.running and not self.waiting_for_start:
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
