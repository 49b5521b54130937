"""What a recording scheduler does around each call of the engine."""

import os
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

from nullblock.conformance.adapters.vllm import items, remote, settings
from nullblock.conformance.adapters.vllm.tape import Tape
from nullblock.conformance.adapters.vllm.words import logger

FAILING = ("grammar_compile_error_reqs", "encoder_cache_mismatch_reqs")
"""Whom vLLM 0.32.0 ends with the next output for what no record tells of: a grammar that does not
compile, an encoder input of another size than one with its hash.
"""


def _engine(kind: type["Recording"]) -> dict[str, str]:
    """The ``engine`` of a header: behind the classes that record, the one that decides."""
    order = kind.__mro__
    decides = order[order.index(Recording) + 1]
    version, commit = kind.engine_version
    name = decides.__module__.partition(".")[0] if not kind.engine_name else kind.engine_name
    engine = {"name": name, "version": version}
    if commit:
        engine["commit"] = commit
    engine["scheduler"] = f"{decides.__module__}.{decides.__qualname__}"
    return engine


class Recording:
    """What is put over a scheduler's methods. Each call is passed on as it came."""

    engine_version: tuple[str, str | None] = ("unknown", None)
    """Of the engine: release and commit."""
    engine_name = ""
    """Of the engine; otherwise the package of the class that decides."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._tape = Tape()
        self._watch_evictions()
        self._nullblock_connector = self._tape.safely(remote.watch, self, self._noted)
        """What a KV connector answers, where there is one."""
        self._nullblock_items = self._tape.safely(items.watch, self, self._noted)
        """The same of an encoder connector."""
        self._emptied: Any = None
        """What the manager last said of emptying the prefix cache."""
        self._watch_resets()
        self._watch_turns()
        asked = self._tape.safely(settings.from_environment, os.environ, logger.warning)
        if asked is not None:
            self._tape.start(self, asked, _engine(type(self)), late=False)

    def start_recording(self, where: str) -> None:
        """Record from now on, whatever the engine is doing; variables say how.

        Does nothing while it is recording. Recording stops with :meth:`stop_recording`.
        """
        if not self._tape.running:
            given = {**os.environ, settings.VARIABLE: where}
            asked = settings.from_environment(given, logger.warning)
            unreturned, self._tape = self._tape.unreturned, Tape()
            self._tape.unreturned = unreturned
            if asked is not None:
                asked = replace(asked, where=where)
                self._tape.start(self, asked, _engine(type(self)), late=True)

    def stop_recording(self) -> None:
        """Seal the recording; serving goes on."""
        self._tape.stop()

    def _observed(
        self,
        kind: str,
        call: Callable[..., Any],
        after: Callable[..., Any],
        *args: Any,
        at_once: bool = True,
        **asked: bool,
    ) -> Any:
        """``call``, and then ``after`` with its result, too; only for calls from outside.

        ``at_once``: it is told at once, and so is what was seen before it. ``asked``: what is told
        of it where it raises.
        """
        tape = self._tape
        if tape.inside or not tape.running:
            return call(*args)
        if at_once:
            tape.safely(tape.catch_up)
        tape.inside = True
        try:
            result = call(*args)
        except BaseException as error:
            self._note_raised(error, kind, **asked)
            raise
        finally:
            tape.inside = False
        self._name_what_is_unusual()
        if tape.running:
            tape.safely(after, result, *args)
        return result

    def _note_raised(self, error: BaseException, during: str, *what: Any, **asked: bool) -> None:
        """The engine raised: that is told as what it did. An interrupt is not its own doing."""
        tape = self._tape
        if isinstance(error, Exception):
            tape.safely(tape.raised, during, error, *what, **asked)
        else:
            tape.failed(error)

    def _name_what_is_unusual(self) -> None:
        """What connectors have answered in the call that is over, before it is told."""
        for asked in self._nullblock_connector, self._nullblock_items:
            if asked is None or not asked.unusual:
                continue
            for name in dict.fromkeys(asked.unusual) if self._tape.running else ():
                self._tape.safely(self._tape.feature, name)
            asked.unusual.clear()

    def add_request(self, request: Any) -> None:
        """See ``SchedulerInterface``; so are the others."""
        engine: Any = super()
        session = getattr(self, "requests", {}).get(request.request_id)
        known = session is not None
        # What arrives for one that has ended, and whose blocks are kept, nobody takes.
        gone = session is not None and session.is_finished()
        if known and self._nullblock_connector is not None:
            self._nullblock_connector.clear()

        def after(_: None) -> None:
            # More input for a session is no new request; its first one was marked resumable.
            if gone:
                return
            if known:
                self._tape.sent(request, session)
            else:
                self._tape.added(request)

        self._observed("add", lambda: engine.add_request(request), after, at_once=known)

    def schedule(self, *args: Any, **kwargs: Any) -> Any:
        """Decide a step. An argument is new in 0.32.0: whether prefills are held back."""
        tape = self._tape
        tape.unreturned += 1
        if tape.inside or not tape.running:
            return super().schedule(*args, **kwargs)  # type: ignore[misc]
        if any(args) or any(kwargs.values()):
            tape.safely(tape.feature, "throttle_prefills")
        if self._nullblock_connector is not None:
            self._nullblock_connector.clear()
        if self._nullblock_items is not None:
            self._nullblock_items.clear()
        tape.inside = True
        try:
            decided = super().schedule(*args, **kwargs)  # type: ignore[misc]
        except BaseException as error:
            self._note_raised(error, "schedule")
            raise
        finally:
            tape.inside = False
        self._name_what_is_unusual()
        try:
            if tape.running:
                tape.scheduled(decided)
        except Exception as error:
            tape.failed(error)
        return decided

    def update_from_output(self, scheduler_output: Any, model_runner_output: Any) -> Any:
        """Take in what the model sampled."""
        tape = self._tape
        tape.unreturned -= 1
        call = super().update_from_output  # type: ignore[misc]
        if tape.inside or not tape.running:
            return call(scheduler_output, model_runner_output)
        if self._nullblock_connector is not None:
            self._nullblock_connector.clear()
            requests = self.requests  # type: ignore[attr-defined]
            if tape.safely(remote.fails_by_request, model_runner_output, requests):
                tape.safely(tape.feature, "failed_recving")
        for name in FAILING:
            if getattr(self, name, None):
                tape.safely(tape.feature, name)
        if tape.drafts:
            tape.safely(tape.before_update, model_runner_output)
        tape.inside = True
        try:
            result = call(scheduler_output, model_runner_output)
        except BaseException as error:
            self._note_raised(error, "update", model_runner_output)
            raise
        finally:
            tape.inside = False
        self._name_what_is_unusual()
        try:
            if tape.running:
                tape.updated(result, scheduler_output, model_runner_output)
        except Exception as error:
            tape.failed(error)
        return result

    def update_draft_token_ids(self, draft_token_ids: Any) -> Any:
        """Take drafts for the steps to come."""
        engine: Any = super()
        return self._observed(
            "draft",
            lambda: engine.update_draft_token_ids(draft_token_ids),
            lambda _: self._tape.proposed(draft_token_ids),
            at_once=False,
        )

    def finish_requests(self, request_ids: Any, finished_status: Any) -> Any:
        """End requests from outside."""
        engine: Any = super()
        tape = self._tape
        if request_ids is not None and not isinstance(request_ids, Collection):
            request_ids = list(request_ids)
        observed = tape.running and not tape.inside and not tape.waiting_for_start
        alive: dict[str, Any] = {}
        asked: list[int] | None = None
        if observed:
            if self._nullblock_connector is not None:
                self._nullblock_connector.clear()
            tape.safely(tape.catch_up)
            alive = dict(self.requests)  # type: ignore[attr-defined]
            asked = tape.safely(lambda: tape.observer.before_abort(request_ids))

        def after(result: list[tuple[str, int]]) -> None:
            if observed:
                ended = [alive[id] for id in map(_id_of, result)]
                told = tape.observer.with_abort()
                tape.write(*told, tape.observer.abort(asked, finished_status, ended))

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
        """Empty the prefix cache. That a connector empties its own as well is its own affair."""
        engine: Any = super()
        tape, self._emptied = self._tape, None

        def after(ok: Any) -> None:
            tape.was_reset(reset_running_requests, ok if self._emptied is None else self._emptied)

        return self._observed(
            "reset",
            lambda: engine.reset_prefix_cache(reset_running_requests, reset_connector),
            after,
            reset_running=bool(reset_running_requests),
        )

    def reset_encoder_cache(self) -> None:
        """Forget all embeddings."""
        engine: Any = super()
        tape = self._tape
        self._observed(
            "reset_encoder_cache",
            lambda: engine.reset_encoder_cache(),
            lambda _: tape.encoder_was_reset(),
        )

    def _noted(self, note: Callable[..., None], *args: Any, **kwargs: Any) -> None:
        """The connector was called; that is of interest while the engine is inside a call."""
        if self._tape.inside:
            self._tape.safely(note, *args, **kwargs)

    def _watch_evictions(self) -> None:
        """The manager's ``evict_blocks`` is called past the scheduler."""
        manager: Any = getattr(self, "kv_cache_manager", None)
        evict_blocks = getattr(manager, "evict_blocks", None)
        if evict_blocks is None:
            return

        def watched(block_ids: Any) -> Any:
            if not isinstance(block_ids, Collection):
                block_ids = list(block_ids)  # what is iterated over once is read twice
            return self._observed(
                "evict",
                lambda: evict_blocks(block_ids),
                lambda _: self._tape.write(self._tape.observer.evict(block_ids)),
            )

        manager.evict_blocks = watched

    def _watch_resets(self) -> None:
        """What a scheduler returns is whether its connector has emptied something, too."""
        manager: Any = getattr(self, "kv_cache_manager", None)
        reset_prefix_cache = getattr(manager, "reset_prefix_cache", None)
        if reset_prefix_cache is None:
            return

        def watched() -> Any:
            self._emptied = reset_prefix_cache()
            return self._emptied

        manager.reset_prefix_cache = watched

    def _watch_turns(self) -> None:
        """Where a session takes a chunk is inside other calls."""
        take_chunk = getattr(self, "_update_request_as_session", None)
        if take_chunk is None:
            return

        def watched(session: Any, update: Any) -> Any:
            tape = self._tape
            before = tape.safely(tape.before_turn, session) if tape.running else None
            result = take_chunk(session, update)
            if before is not None and tape.running:
                tape.safely(tape.took, session, *before)
            return result

        self._update_request_as_session = watched

    def shutdown(self) -> None:
        """Seal the recording."""
        engine: Any = super()
        self._tape.stop()
        engine.shutdown()


def _id_of(ended: Any) -> str:
    """Of what a scheduler ended: pairs of id and client, or, in 0.32.0, the requests."""
    return str(ended[0] if isinstance(ended, tuple) else ended.request_id)
