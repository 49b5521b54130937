"""Encoder inputs in a recording: items in numbers, what is computed of them, what is kept.

Nothing in here is called where the model has no encoder.
"""

from collections.abc import Collection
from typing import Any

from nullblock.conformance.adapters.vllm.numbering import RequestNumbers, runs

Fields = dict[str, Any]


def constants(scheduler: Any) -> Fields | None:
    """What a header's ``config`` says of the encoder; None where there is none, or no words."""
    manager = getattr(scheduler, "encoder_cache_manager", None)
    if manager is None or scheduler.vllm_config.model_config.is_encoder_decoder:
        return None
    compute, kept = scheduler.max_num_encoder_input_tokens, manager.cache_size
    if not compute and not kept:
        return None
    told: Fields = {"max_num_encoder_input_tokens": compute, "encoder_cache_size": kept}
    if scheduler.scheduler_config.disable_chunked_mm_input:
        told["disable_chunked_mm_input"] = True
    return told


class ItemNumbers:
    """Items are numbered from 1 as they appear, and forgotten once they are neither in the cache
    nor of a live request.
    """

    def __init__(self, manager: Any) -> None:
        self._manager = manager
        self._of: dict[str, int] = {}
        self._next = 1
        self._live: dict[str, list[str]] = {}
        """The items of each live request."""

    def add(self, request: Any) -> list[Fields]:
        """A request arrives, or has more items than it had; what is told of all of them."""
        self._live[request.request_id] = [item.identifier for item in request.mm_features]
        return [self._told(item) for item in request.mm_features]

    def adopt(self) -> None:
        """Items that are kept when recording begins; mostly of requests that are gone."""
        for name in self._manager.cached:
            self._number(name)

    def _number(self, name: str) -> int:
        if name not in self._of:
            self._of[name] = self._next
            self._next += 1
        return self._of[name]

    def _told(self, item: Any) -> Fields:
        where = item.mm_position
        number = self._number(item.identifier)
        told = {"item": number, "offset": where.offset, "length": where.length}
        if where.is_embed is not None:
            told["is_embed"] = runs(i for i, yes in enumerate(where.is_embed.tolist()) if yes)
        return told

    def remove(self, id: str) -> None:
        """A request ends."""
        kept = self._manager.cached
        self._forget([name for name in self._live.pop(id, ()) if name not in kept])

    def evicted(self, names: list[str]) -> list[int]:
        """The numbers of items that are evicted."""
        numbers = [self._of[name] for name in names]
        self._forget([name for name in names if name not in self._manager.cached])
        return numbers

    def emptied(self) -> None:
        """The cache has forgotten all."""
        self._forget(list(self._of))

    def _forget(self, names: list[str]) -> None:
        used = {name for names in self._live.values() for name in names}
        for name in names:
            if name not in used:
                self._of.pop(name, None)

    def cache(self, numbers: RequestNumbers) -> Fields:
        """The encoder cache of a ``state`` record."""
        manager, of = self._manager, self._of
        fields: Fields = {
            "num_free_slots": manager.num_free_slots,
            "num_freeable_slots": manager.num_freeable_slots,
        }
        if manager.cached:
            users = {of[name]: _numbers(ids, numbers) for name, ids in manager.cached.items()}
            fields["cached"] = sorted(users.items())
        if manager.freeable:
            fields["freeable"] = [(of[name], size) for name, size in manager.freeable.items()]
        return fields


def step(decided: Any) -> tuple[list[tuple[str, int]], list[str]] | None:
    """What a step computes, and what it forgets; None: nothing."""
    inputs, evicted = decided.scheduled_encoder_inputs, decided.free_encoder_mm_hashes
    if not inputs and not evicted:
        return None
    return [(id, place) for id, places in inputs.items() for place in places], list(evicted)


def _numbers(ids: Collection[str], numbers: RequestNumbers) -> list[int]:
    return sorted(numbers.of[id] for id in ids)
