"""KV events of an engine of ours, as a trace tells them: in chain numbers."""

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from nullblock.conformance.consecutive import runs
from nullblock.conformance.engine import Fields
from nullblock.conformance.trace.records import Cleared, Event, Removed, Stored

Key = tuple[Any, ...]
"""Of a block: the chain number before it, its tokens, and what tells it from another with them."""


class TapedEvents:
    """Knows which content each hash of the stream names: the stream says so as blocks enter."""

    def __init__(self, block_size: int, tagged_keys: bool, *, tells_kinds: bool = False) -> None:
        """``block_size``: tokens that a chain number is for. ``tells_kinds``: whether groups are
        of different kinds, or one that is not plain.
        """
        self.size, self.tagged_keys = block_size, tagged_keys
        self.tells_kinds = tells_kinds
        self.named: dict[Any, int] = {}
        """Chain number by hash."""
        self.hashes: dict[int, Any] = {}
        """Hash by chain number."""

    def in_numbers(self, events: list[Fields], chains: Mapping[Key, int]) -> list[Event] | None:
        """The events; ``chains`` numbers all content. None where one names what no event told: a
        block that was given back, of layers with a window, before it was cached, or one with the
        hash of other tokens, which a session has dropped since.
        """
        try:
            return [self._event(event, chains) for event in events]
        except KeyError:
            return None

    def _event(self, event: Fields, chains: Mapping[Key, int]) -> Event:
        match event["t"]:
            case "BlockStored":
                return self._stored(event, chains)
            case "BlockRemoved":
                numbers = [self.named[hash] for hash in event["block_hashes"]]
                return Removed(chain=numbers, group=event["group_idx"] or 0)
            case _:
                return Cleared()

    def _stored(self, event: Fields, chains: Mapping[Key, int]) -> Stored:
        hashes, tokens = event["block_hashes"], event["token_ids"]
        extra = event["extra_keys"] or [None] * len(hashes)
        parent = event["parent_block_hash"]
        before = first = None if parent is None else self.named[parent]
        in_block = event["block_size"] // self.size
        if hashes and len(tokens) != len(hashes) * in_block * self.size:
            raise KeyError("blocks without a hash before these")
        if in_block > 1 and any(extra):
            raise KeyError("which part of a block it is that something else identifies")
        named: list[int] = []
        for i, hash in enumerate(hashes):
            number, keys = before, self._keys(extra[i], event["lora_name"])
            for start in range(i * in_block, (i + 1) * in_block):
                content = tuple(tokens[start * self.size : (start + 1) * self.size])
                contents = ((number, content, key) for key in keys)
                number = chains[next(filter(chains.__contains__, contents), (number, content, ()))]
            assert number is not None
            if self.hashes.setdefault(number, hash) != hash:
                raise KeyError("another hash of the same content")
            self.named[hash] = before = number
            named.append(number)
        told = Stored(
            chain=runs(named), parent=first, tokens=len(tokens), group=event["group_idx"] or 0
        )
        if not self.tells_kinds:
            return told
        window = event["kv_cache_spec_sliding_window"] or 0
        return replace(told, kind=event["kv_cache_spec_kind"], window=window)

    def _keys(self, extra: Any, lora: str | None) -> list[Key]:
        """What tells a block from another with the same tokens, as chains are numbered. Several,
        where an event does not say which of them is meant: a salt, or what embeddings come to.
        """
        keys = tuple(tuple(key) if isinstance(key, list) else key for key in extra or ())
        if not self.tagged_keys:
            return [keys]
        others = keys[1:] if lora else keys
        items = tuple(key for key in others if isinstance(key, tuple))
        behind = others[len(items) :]
        with_salt, without = (lora or "", *items, *behind), (lora or "", *items, "", *behind)
        return [with_salt, without] if behind else [without]
