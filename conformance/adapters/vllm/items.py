"""Encoder inputs in a recording: items in numbers, what is computed of them, what is kept.

Nothing in here is called where the model has no encoder.
"""

from collections.abc import Callable, Collection, Iterable
from typing import Any

from nullblock.conformance.adapters.vllm.numbering import RequestNumbers, runs
from nullblock.conformance.adapters.vllm.remote import Watcher
from nullblock.conformance.adapters.vllm.seen import OfStep

Fields = dict[str, Any]


MANAGERS = ("EncoderCacheManager", "EncoderDecoderCacheManager")
"""Those of the encoder cache that the rules are of."""


def has_a_manager_of_its_own(scheduler: Any) -> bool:
    """Whether the encoder cache is somebody else's, as since 0.32.0 it may be."""
    manager = getattr(scheduler, "encoder_cache_manager", None)
    return manager is not None and type(manager).__name__ not in MANAGERS


def constants(scheduler: Any) -> Fields | None:
    """What a header's ``config`` says of the encoder; None where there is none, or no words."""
    manager = getattr(scheduler, "encoder_cache_manager", None)
    if manager is None:
        return None
    compute, kept = scheduler.max_num_encoder_input_tokens, manager.cache_size
    if not compute and not kept:
        return None
    told: Fields = {"max_num_encoder_input_tokens": compute, "encoder_cache_size": kept}
    if scheduler.scheduler_config.disable_chunked_mm_input:
        told["disable_chunked_mm_input"] = True
    if scheduler.vllm_config.model_config.is_encoder_decoder:
        told["is_encoder_decoder"] = True
    if getattr(scheduler, "_nullblock_items", None) is not None:
        told["ec_connector"] = True
    return told


UNUSUAL = {"ensure_cache_available": False, "take_unavailable_requests": True}
"""What a connector of vLLM 0.32.0 may answer that decides, and that no record tells."""


class Asked:
    """What an encoder connector was asked and told in the call of the engine that is under way."""

    def __init__(self) -> None:
        self.unusual: list[str] = []
        """What it has answered that no record tells, by name."""
        self._answers: list[tuple[str, bool]] = []
        self._room: list[tuple[str, int]] = []

    def clear(self) -> None:
        """A call begins."""
        if self._answers or self._room:
            self._answers, self._room = [], []

    def answered(self, answer: Any, identifier: str, *_: Any, **__: Any) -> None:
        """``has_cache_item`` was called."""
        self._answers.append((identifier, bool(answer)))

    def has_room(self, _: Any, request: Any, index: int, *__: Any, **___: Any) -> None:
        """``update_state_after_alloc`` was called."""
        self._room.append((request.request_id, int(index)))

    def take(self) -> tuple[list[tuple[str, bool]], list[tuple[str, int]]]:
        """Both of a step: items and answers, whose items and their places."""
        found, self._answers, self._room = (self._answers, self._room), [], []
        return found


def watch(scheduler: Any, safely: Callable[..., Any]) -> Asked | None:
    """Watch the encoder connector of a scheduler. None: there is none, or it cannot be watched,
    and then the recording names it as a feature. ``safely``: calls a method of this side.
    """
    connector, asked = getattr(scheduler, "ec_connector", None), Asked()
    if connector is None:
        return None
    watcher = Watcher(safely)
    notes: dict[str, Callable[..., None]]
    notes = {"has_cache_item": asked.answered, "update_state_after_alloc": asked.has_room}
    try:
        for name, note in notes.items():
            watcher.watch(connector, name, note)
        for name, unusual in UNUSUAL.items():
            watcher.watch_for(connector, name, unusual, asked.unusual)
    except Exception:
        return None
    return asked


class ItemNumbers:
    """Items are numbered from 1 as they appear, and forgotten once they are neither in the cache
    nor of a live request.
    """

    def __init__(self, manager: Any) -> None:
        self._manager = manager
        self._of: dict[str, int] = {}
        self._next = 1
        self._live: dict[str, dict[str, None]] = {}
        """The items of each live request, and of chunks that it has not taken."""
        self._had: set[str] = set()
        """Those of which an encoder connector has said last that it has them."""
        self._keeps = hasattr(manager, "cached")
        """Whether anything is kept: an encoder-decoder model has only what the step after the
        last is to forget."""

    @property
    def _kept(self) -> Collection[str]:
        """What is kept of items, or is still to be told."""
        manager = self._manager
        cached: Collection[str] = manager.cached if self._keeps else manager.to_free
        return cached

    def add(self, request: Any) -> list[Fields]:
        """A request arrives, or has more items than it had; what is told of all of them."""
        return self.of_chunk(request.request_id, request.mm_features, 0)

    def of_chunk(self, id: str, features: Any, before: int) -> list[Fields]:
        """What is told of the items of a chunk, where they stand behind so many tokens already."""
        self._live.setdefault(id, {}).update((item.identifier, None) for item in features)
        return [self._told(item, before) for item in features]

    def adopt(self) -> None:
        """Items that are kept when recording begins; mostly of requests that are gone."""
        for name in self._kept:
            self._number(name)

    def _number(self, name: str) -> int:
        if name not in self._of:
            self._of[name] = self._next
            self._next += 1
        return self._of[name]

    def _told(self, item: Any, before: int) -> Fields:
        where = item.mm_position
        number = self._number(item.identifier)
        told = {"item": number, "offset": where.offset - before, "length": where.length}
        if where.is_embed is not None:
            told["is_embed"] = runs(i for i, yes in enumerate(where.is_embed.tolist()) if yes)
        return told

    def remove(self, id: str) -> None:
        """A request ends."""
        kept = self._kept
        self._forget([name for name in self._live.pop(id, ()) if name not in kept])

    def evicted(self, names: list[str]) -> list[int]:
        """The numbers of items that are evicted."""
        numbers = [self._of[name] for name in names]
        self._forget([name for name in names if name not in self._kept])
        return numbers

    def emptied(self) -> None:
        """The cache has forgotten all."""
        self._forget(list(self._of))

    def _forget(self, names: list[str]) -> None:
        used = {name for names in self._live.values() for name in names}
        for name in names:
            if name not in used:
                self._of.pop(name, None)
                self._had.discard(name)

    def answers(self, told: Iterable[tuple[str, bool]]) -> list[tuple[int, bool]]:
        """Of an encoder connector's answers in a step those that are others than before; all of
        them where it has said both of one item.
        """
        given = list(dict.fromkeys(told))
        both = {name for name, has in given if (name, not has) in given}
        new = [(name, has) for name, has in given if has != (name in self._had) or name in both]
        for name, has in new:
            (self._had.add if has else self._had.discard)(name)
        return [(self._of[name], has) for name, has in new if name in self._of]

    def cache(self, numbers: RequestNumbers) -> Fields:
        """The encoder cache of a ``state`` record."""
        manager, of = self._manager, self._of
        had = sorted(of[name] for name in self._had if name in of)
        fields: Fields = {"num_free_slots": manager.num_free_slots}
        if not self._keeps:
            forgotten = [of[name] for name in manager.to_free]
            fields |= {"to_forget": forgotten} if forgotten else {}
            return fields | ({"at_connector": had} if had else {})
        fields["num_freeable_slots"] = manager.num_freeable_slots
        if manager.cached:
            users = {of[name]: _numbers(ids, numbers) for name, ids in manager.cached.items()}
            fields["cached"] = sorted(users.items())
        if manager.freeable:
            fields["freeable"] = [(of[name], size) for name, size in manager.freeable.items()]
        return fields | ({"at_connector": had} if had else {})


def step(decided: Any, asked: Asked | None) -> OfStep | None:
    """What a step computes, and what it forgets; what an encoder connector answered in it, and was
    told. None: nothing of all that.
    """
    inputs, evicted = decided.scheduled_encoder_inputs, decided.free_encoder_mm_hashes
    answers, room = ([], []) if asked is None else asked.take()
    if not (inputs or evicted or answers):
        return None
    computed = [(id, place) for id, places in inputs.items() for place in places]
    return computed, list(evicted), answers, room


def _numbers(ids: Collection[str], numbers: RequestNumbers) -> list[int]:
    return sorted(numbers.of[id] for id in ids)
