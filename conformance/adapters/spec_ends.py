"""What events, and the lines of a scenario, tell of the ends of prompts within blocks."""

from typing import Any

from nullblock.conformance.adapters.shape import REMOVED_FROM, STORED_FROM
from nullblock.conformance.engine import Fields
from nullblock.conformance.errors import OutOfScope
from nullblock.conformance.groups import kind_of_layers
from nullblock.conformance.prompt_ends import Key, PromptEnds
from nullblock.spec.keys import told_keys


class ToldEnds(PromptEnds[Fields]):
    """Further keys of blocks, told as the engine tells them."""

    def told(self, r: str, t: Any, index: int) -> Fields:
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

    def gone(self, key: Key) -> Fields:
        origin = REMOVED_FROM if self.k.sem.events_tell_origin else {}
        named = {"block_hashes": [key[0]], "medium": "GPU", "group_idx": key[1]}
        return {"t": "BlockRemoved", **named, **origin}

    def unknown(self, what: str) -> OutOfScope:
        return OutOfScope(f"{what}, is out of scope", "the reference has it")

    def holders(self) -> dict[str, list[int]]:
        """The blocks that have each key, as lines spell it."""
        return {f"{n:012x}:{g}": list(blocks) for (n, g), blocks in self.blocks.items()}
