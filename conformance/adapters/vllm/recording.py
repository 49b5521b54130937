"""What a recording scheduler does around each call, and what it does when that fails."""

import atexit
import logging
import os
import secrets
from collections.abc import Callable, Collection
from typing import Any

from nullblock.conformance.adapters.vllm.configuration import header
from nullblock.conformance.adapters.vllm.observe import Observer
from nullblock.conformance.adapters.vllm.sink import Sink

logger = logging.getLogger("vllm.nullblock")


class Tape:
    """One recording. Nothing that goes wrong in here reaches the engine."""

    def __init__(self) -> None:
        self.running = False
        """Whether anything is still being recorded."""
        self.inside = False
        """Whether the engine is inside a call that is observed: what it calls then is its own."""
        self._sink: Sink | None = None
        self._state_every = 0

    def start(self, scheduler: Any, where: str) -> None:
        """Open the file and write the header."""
        self.running = True
        self.safely(self._start, scheduler, where)

    def _start(self, scheduler: Any, where: str) -> None:
        recording = secrets.token_hex(8)
        self.observer = Observer(scheduler)
        first = header(scheduler, _engine(type(scheduler)), recording)
        self._state_every = int(os.environ.get("NULLBLOCK_TRACE_STATE_EVERY") or 0)
        if self._state_every:
            first["observed"] = {**first["observed"], "state": "sampled"}  # type: ignore[dict-item]
        self._sink = Sink(where.replace("{pid}", str(os.getpid())), recording)
        self._sink.write(first)
        atexit.register(self.stop)
        logger.info("recording decisions to %s", self._sink.path)

    def write(self, *records: dict[str, Any]) -> None:
        """Add records."""
        assert self._sink is not None
        for record in records:
            self._sink.write(record)

    def write_state_if_due(self) -> None:
        """Add the whole state, every so many steps."""
        if self._state_every and self.observer.steps % self._state_every == 0:
            self.write(self.observer.state())

    def raised(self, during: str, error: BaseException) -> None:
        """The engine raised; nothing after it can be explained."""
        self.write({"ev": "error", "during": during, "type": type(error).__name__})
        self.stop()

    def safely(self, method: Callable[..., Any], *args: Any) -> Any:
        """Call a method of this side; if it raises, recording is over and None is returned."""
        try:
            return method(*args)
        except Exception as error:
            logger.warning(
                "recording decisions has failed and stops; serving goes on", exc_info=error
            )
            try:
                if self._sink is not None:
                    self._sink.write({"ev": "lost", "reason": type(error).__name__})
            except Exception:
                logger.debug("the recording ends without a word", exc_info=True)
            self.stop()
            return None

    def stop(self) -> None:
        """Seal and close the file. Does nothing the second time."""
        self.running = False
        sink, self._sink = self._sink, None
        atexit.unregister(self.stop)
        try:
            if sink is not None:
                sink.close()
        except Exception:
            logger.debug("the recording ends without its seal", exc_info=True)


def _engine(kind: type["Recording"]) -> dict[str, str]:
    """The ``engine`` of a header: behind the classes that record, the one that decides."""
    order = kind.__mro__
    decides = order[order.index(Recording) + 1]
    version, commit = kind.engine_version
    engine = {"name": decides.__module__.partition(".")[0], "version": version}
    if commit:
        engine["commit"] = commit
    engine["scheduler"] = f"{decides.__module__}.{decides.__qualname__}"
    return engine


class Recording:
    """What is put over a scheduler's methods. Each call is passed on as it came."""

    engine_version: tuple[str, str | None] = ("unknown", None)
    """Of the engine: release and commit."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._tape = Tape()
        where = os.environ.get("NULLBLOCK_TRACE")
        if where:
            self._tape.start(self, where)
            self._watch_evictions()

    def _observed(self, kind: str, call: Callable[[], Any], after: Callable[..., Any]) -> Any:
        """``call()``, and then ``after`` with its result; only for calls from outside."""
        tape = self._tape
        if tape.inside or not tape.running:
            return call()
        tape.inside = True
        try:
            result = call()
        except BaseException as error:
            tape.safely(tape.raised, kind, error)
            raise
        finally:
            tape.inside = False
        tape.safely(after, result)
        return result

    def add_request(self, request: Any) -> None:
        """See ``SchedulerInterface``; so are the others."""
        engine: Any = super()
        known = request.request_id in getattr(self, "requests", ())

        def after(_: None) -> None:
            # More input for a session is no new request; its first one was marked resumable.
            if not known:
                self._tape.write(self._tape.observer.add(request))

        self._observed("add", lambda: engine.add_request(request), after)

    def schedule(self) -> Any:
        """Decide a step."""
        engine: Any = super()
        tape = self._tape

        def after(decided: Any) -> None:
            tape.write(tape.observer.schedule(decided))
            tape.write_state_if_due()

        return self._observed("schedule", engine.schedule, after)

    def update_from_output(self, scheduler_output: Any, model_runner_output: Any) -> Any:
        """Take in what the model sampled."""
        engine: Any = super()
        tape = self._tape
        requests: Any = None
        if tape.running:
            requests = tape.safely(lambda: tape.observer.before_update(scheduler_output))

        def after(result: Any) -> None:
            observer = tape.observer
            tape.write(*observer.update(requests, scheduler_output, model_runner_output, result))

        return self._observed(
            "update",
            lambda: engine.update_from_output(scheduler_output, model_runner_output),
            after,
        )

    def finish_requests(self, request_ids: Any, finished_status: Any) -> Any:
        """End requests from outside."""
        engine: Any = super()
        tape = self._tape
        if request_ids is not None and not isinstance(request_ids, Collection):
            request_ids = list(request_ids)
        alive: dict[str, Any] = {}
        asked: list[int] | None = None
        if tape.running and not tape.inside:
            alive = dict(self.requests)  # type: ignore[attr-defined]
            asked = tape.safely(lambda: tape.observer.before_abort(request_ids))

        def after(result: list[tuple[str, int]]) -> None:
            ended = [alive[id] for id, _ in result]
            tape.write(tape.observer.abort(asked, finished_status, ended))

        return self._observed(
            "abort", lambda: engine.finish_requests(request_ids, finished_status), after
        )

    def set_pause_state(self, pause_state: Any) -> None:
        """Change how much is scheduled."""
        engine: Any = super()
        self._observed(
            "pause",
            lambda: engine.set_pause_state(pause_state),
            lambda _: self._tape.write({"ev": "pause", "pause_state": pause_state.name}),
        )

    def reset_prefix_cache(
        self, reset_running_requests: bool = False, reset_connector: bool = False
    ) -> Any:
        """Empty the prefix cache."""
        engine: Any = super()
        tape = self._tape
        return self._observed(
            "reset",
            lambda: engine.reset_prefix_cache(reset_running_requests, reset_connector),
            lambda ok: tape.write(tape.observer.reset(reset_running_requests, ok)),
        )

    def _watch_evictions(self) -> None:
        """The manager's ``evict_blocks`` is called past the scheduler."""
        manager: Any = self.kv_cache_manager  # type: ignore[attr-defined]
        evict_blocks = manager.evict_blocks

        def watched(block_ids: Any) -> Any:
            return self._observed(
                "evict",
                lambda: evict_blocks(block_ids),
                lambda _: self._tape.write({"ev": "evict", "blocks": sorted(block_ids)}),
            )

        manager.evict_blocks = watched

    def shutdown(self) -> None:
        """Seal the recording."""
        engine: Any = super()
        self._tape.stop()
        engine.shutdown()
