"""What the specification tells of its prefix cache, in the words of the driver."""

from typing import Any

from nullblock.conformance.adapters.shape import REMOVED_FROM, STORED_FROM
from nullblock.conformance.engine import Fields
from nullblock.conformance.groups import MAMBA, SINK, kind_of_layers
from nullblock.spec.cache_events import AllBlocksCleared, BlockRemoved, BlockStored, CacheEvent
from nullblock.spec.concrete import State
from nullblock.spec.groups import is_null
from nullblock.spec.keys import told_keys
from nullblock.spec.sizes import is_left_out


def told(k: Any, s: State, event: CacheEvent) -> Fields:
    """An event of the environment `k`; as in vLLM's stream a hash is a number.

    Raises IndexError for a block that the table has not: of a prompt longer than max_model_len
    vLLM tells more than it holds.
    """
    match event:
        case BlockStored(table=t, first=first, last=last):
            return _stored(k, s, t, first, last)
        case BlockRemoved(hash=h):
            n, group = k.spelled(h)
            named = {"block_hashes": [n], "medium": "GPU", "group_idx": group}
            origin = REMOVED_FROM if k.sem.events_tell_origin else {}
            return {"t": "BlockRemoved", **named, **origin}
        case AllBlocksCleared():
            return {"t": "AllBlocksCleared"}


def _stored(k: Any, s: Any, t: Any, first: int, last: int) -> Fields:
    """The fields of a BlockStored: null blocks of the range, and those that are left out, have no
    hashes, but tokens.
    """
    r = k.owner(t)
    if last > s.tlen[t]:
        raise IndexError(f"request {r} has no block {last - 1}")
    added, size = k.added[r], k.size_of(t) if k.several else k.block_size
    cached = [i for i in range(first, last) if not (is_null(s, t, i) or is_left_out(s, t, i))]
    keys = k.extra_told(r, cached, size)
    return {
        "t": "BlockStored",
        "block_hashes": [k.chain_of(t, i) for i in cached],
        "parent_block_hash": k.chain_of(t, first - 1) if first else None,
        "token_ids": k.content[r][first * size : last * size],
        "block_size": size,
        "lora_id": added.lora_id if added.lora else None,
        "medium": "GPU",
        "lora_name": added.lora,
        "extra_keys": [told_keys(key) for key in keys] or None,
        "group_idx": k.group(t),
        **_kind(k, t),
        **(STORED_FROM if k.sem.events_tell_origin else {}),
    }


def _kind(k: Any, t: Any) -> Fields:
    """What the layers of a table's group are."""
    window = 0 if k.mamba_of(t) else k.window_of(t)
    kind = MAMBA if k.mamba_of(t) else kind_of_layers(window, k.chunk_of(t))
    if k.groups[k.group(t)].sink_len:
        kind = SINK
    return {"kv_cache_spec_kind": kind, "kv_cache_spec_sliding_window": window or None}
