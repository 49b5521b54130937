"""KV events in numbers: what an engine published with an update, without tokens and hashes."""

from collections.abc import Callable, Sequence
from typing import Any

from nullblock.conformance.adapters.vllm.groups import last_hash
from nullblock.conformance.adapters.vllm.numbering import ChainNumbers, runs

Fields = dict[str, Any]


class EventTap:
    """Listens to a cache manager as the scheduler takes its events. Changes nothing."""

    def __init__(self, manager: Any) -> None:
        self._taken: list[Any] = []
        take_events = manager.take_events

        def tapped() -> Any:
            events = take_events()
            if events:
                self._taken += events
            return events

        manager.take_events = tapped
        self._undo: Callable[[], None] = lambda: setattr(manager, "take_events", take_events)

    def take(self) -> list[Any]:
        """What was published since the last call."""
        taken, self._taken = self._taken, []
        return taken

    def remove(self) -> None:
        """Listen no longer."""
        self._undo()


def in_numbers(
    events: list[Any], chains: ChainNumbers, *, kinds: bool = False, many: Sequence[int] = (1,)
) -> list[Fields] | None:
    """Events as a record tells them; None where one is not understood.

    ``kinds``: whether it is told what layers they are of. ``many``: how many hashes a block of
    each group is known by.
    """
    told: list[Fields] = []
    for event in events:
        kind = type(event).__name__
        if kind == "AllBlocksCleared":
            told.append({"t": "cleared"})
            continue
        hashes = many[event.group_idx or 0]
        numbers = [chains.known(last_hash(hash, hashes)) for hash in event.block_hashes]
        fields: Fields | None = None
        if None not in numbers:
            if kind == "BlockStored":
                before = event.parent_block_hash
                parent = None if before is None else last_hash(before, hashes)
                fields = _stored(event, numbers, parent, chains, kinds)
            elif kind == "BlockRemoved":
                fields = {"t": "removed", "chain": numbers}
        if fields is None:
            return None
        if event.group_idx:
            fields["group"] = event.group_idx
        told.append(fields)
    return told


def _stored(
    event: Any, numbers: list[Any], before: Any, chains: ChainNumbers, kinds: bool
) -> Fields | None:
    """``before``: the hash of the block before these; None: there is none."""
    fields: Fields = {"t": "stored", "chain": runs(numbers)}
    if before is not None:
        parent = chains.known(before)
        if parent is None:
            return None
        fields["parent"] = parent
    fields["tokens"] = len(event.token_ids)
    if kinds and event.kv_cache_spec_kind is not None:
        fields["kind"] = event.kv_cache_spec_kind
        fields["window"] = event.kv_cache_spec_sliding_window or 0
    return fields
