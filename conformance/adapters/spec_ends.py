"""The ends of prompts within blocks that several hashes cover, where a line caches them too.

No lookup reads those keys (GROUP-41), so the rules have no field for them: they are told as blocks
are, and here it is kept which there are.
"""

from typing import Any

from nullblock.conformance.adapters.shape import REMOVED_FROM, STORED_FROM
from nullblock.conformance.engine import Fields
from nullblock.conformance.errors import OutOfScope
from nullblock.conformance.groups import kind_of_layers
from nullblock.spec.cache_events import removed, stored
from nullblock.spec.keys import told_keys
from nullblock.spec.sessions import prompt

Key = tuple[int, int]
"""The number of a chain, and of a group."""


class PromptEnds:
    """Further keys of blocks, in the order in which they came."""

    def __init__(self, k: Any) -> None:
        self.k = k
        self.of_block: dict[int, Key] = {}
        self.own: dict[int, Key] = {}
        """Those that are the only keys of blocks, which are not full (GROUP-67)."""
        self.blocks: dict[Key, dict[int, None]] = {}
        """The blocks that have each."""

    def follows(self, s: Any, reading: Any, event: Any, args: tuple[Any, ...]) -> Fields | None:
        """What is told behind an event of the prefix cache, by which reading it was told of."""
        if reading is stored:
            return self.cached(s, args[0]) if self.k.caching else None
        if event is None:
            return None
        if reading is removed:
            return self.removed(args[0])
        self.of_block.clear()
        self.own.clear()
        self.blocks.clear()
        return None

    def cached(self, s: Any, t: Any) -> Fields | None:
        """Some blocks of table t were cached; the event for the end of the prompt that is cached
        with them. Raises OutOfScope where it is not known what becomes of it.
        """
        k, r = self.k, self.k.owner(t)
        end = k.end_of(t, prompt(s, r))
        i = end // k.size_of(t)
        if end == 0 or i >= s.tlen[t]:
            return None
        b, index, key = s.tab[t, i], end // k.hash_size - 1, k.end_hash(t, end)
        if i >= s.ncached[t]:
            if s.hsh[b] != key or self.own.get(b) == key:
                return None
            self.own[b] = key
            self.blocks.setdefault(key, {})[b] = None
            return self.told(r, t, index)
        if self.of_block.get(b, key) != key or s.hsh[b] == k.NOHASH:
            what = f"the end of a prompt in block {b}, which "
            what += "was evicted" if s.hsh[b] == k.NOHASH else "is the end of another"
            raise OutOfScope(f"{what}, is out of scope", "the reference has it")
        if b in self.of_block:
            return None
        self.of_block[b] = key
        self.blocks.setdefault(key, {})[b] = None
        return self.told(r, t, index)

    def told(self, r: str, t: Any, index: int) -> Fields:
        """The event for the tokens of one hash of a request."""
        k = self.k
        added, size = k.added[r], k.hash_size
        return {
            "t": "BlockStored",
            "block_hashes": [k.chain(r, index)],
            "parent_block_hash": k.chain(r, index - 1) if index else None,
            "token_ids": k.content[r][index * size : (index + 1) * size],
            "block_size": size,
            "lora_id": added.lora_id if added.lora else None,
            "medium": "GPU",
            "lora_name": added.lora,
            "extra_keys": [told_keys(k.extra_told(r, [index], size)[0])],
            "group_idx": k.group(t),
            "kv_cache_spec_kind": kind_of_layers(k.window_of(t), k.chunk_of(t)),
            "kv_cache_spec_sliding_window": k.window_of(t) or None,
            **(STORED_FROM if k.sem.events_tell_origin else {}),
        }

    def removed(self, b: int) -> Fields | None:
        """Block b has lost its hash; the event for its further key."""
        own, key = self.own.pop(b, None), self.of_block.pop(b, None)
        if own is not None:
            self.forget(own, b)
        if key is None:
            return None
        self.forget(key, b)
        origin = REMOVED_FROM if self.k.sem.events_tell_origin else {}
        named = {"block_hashes": [key[0]], "medium": "GPU", "group_idx": key[1]}
        return {"t": "BlockRemoved", **named, **origin}

    def holders(self) -> dict[str, list[int]]:
        """The blocks that have each key, as lines spell it."""
        return {f"{n:012x}:{g}": list(blocks) for (n, g), blocks in self.blocks.items()}

    def forget(self, key: Key, b: int) -> None:
        """Block b has that key no more."""
        blocks = self.blocks[key]
        del blocks[b]
        if not blocks:
            del self.blocks[key]
