"""What a scenario of a hybrid model reaches: watched inside the reference, and read off lines."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from nullblock.reference.block_tables import SingleTypeKVCacheManager
from nullblock.reference.group_coordinator import KVCacheCoordinator
from nullblock.reference.hybrid_coordinator import HybridKVCacheCoordinator
from nullblock.reference.kv_cache_manager import KVCacheManager
from nullblock.reference.mamba import MambaManager
from nullblock.reference.sched.mamba_split import MambaSplit
from nullblock.reference.windows import ChunkedLocalAttentionManager, SlidingWindowManager


@contextmanager
def watching(seen: Counter[str]) -> Iterator[None]:
    """Count, by name, what happens inside the reference meanwhile."""
    rounds: Counter[int] = Counter()

    def looked(seen: Counter[str], self: Any, *_: Any) -> None:
        rounds[id(self)] += 1
        if rounds[id(self)] > len(self.attention_groups):
            seen["hybrid look-up: another round"] += 1

    def hybrid_hit(seen: Counter[str], self: Any, result: Any, *_: Any) -> None:
        rounds[id(self)] = 0
        _hybrid_hit(seen, self, result)

    watchers: tuple[tuple[type, str, Callable[..., None]], ...] = (
        (HybridKVCacheCoordinator, "find_longest_cache_hit", hybrid_hit),
        (HybridKVCacheCoordinator, "_look_up", looked),
        (SlidingWindowManager, "_cache_block_mask", _mask),
        (SingleTypeKVCacheManager, "remove_skipped_blocks", _removed),
        (SingleTypeKVCacheManager, "get_num_blocks_to_allocate", _counted),
        (MambaManager, "get_num_blocks_to_allocate", _mamba_counted),
        (MambaManager, "allocate_new_blocks", _mamba_allocated),
        (MambaManager, "_outlived_state", _outlived),
        (MambaSplit, "_mamba_block_aligned_split", _split),
        (KVCacheManager, "get_computed_blocks", _hit),
        (KVCacheCoordinator, "is_covered", _covered),
    )
    patches = [patch.object(k, name, _watched(k, name, look, seen)) for k, name, look in watchers]
    for each in patches:
        each.start()
    try:
        yield
    finally:
        for each in patches:
            each.stop()


def _watched(
    owner: type, name: str, look: Callable[..., None], seen: Counter[str]
) -> Callable[..., Any]:
    original = getattr(owner, name)

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(self, *args, **kwargs)
        look(seen, self, result, *args)
        return result

    return call


def _hybrid_hit(seen: Counter[str], self: Any, result: Any) -> None:
    blocks, length = result
    if not length:
        seen["hybrid look-up: miss"] += 1
        return
    seen["hybrid hit"] += 1
    if not self.attention_groups[0].is_full:
        seen["hybrid hit without full attention"] += 1
    if len(self.attention_groups) > 2:
        seen["hybrid hit of three kinds"] += 1
    if any(b.is_null for group in blocks for b in group):
        seen["hybrid hit with nulls"] += 1
    if self.eagle_group_ids:
        seen["hybrid hit of EAGLE groups"] += 1
    sizes = {m.block_size for m in self.single_type_managers}
    if len(sizes) > 1:
        seen["hybrid hit of mixed block sizes"] += 1
    for manager, group in zip(self.single_type_managers, blocks, strict=True):
        if len(group) * manager.block_size != length:
            seen["a hit longer than a group's blocks"] += 1


def _mask(seen: Counter[str], self: Any, result: Any, *_: Any) -> None:
    if result is not None:
        seen["a mask leaves something out" if not all(result) else "a mask of nothing"] += 1


def _removed(seen: Counter[str], self: Any, result: Any, request_id: str, computed: int) -> None:
    table = self.req_to_blocks.get(request_id, [])
    if table and table[0].is_null:
        seen[f"nulls in the table of a {type(self).__name__}"] += 1


def _counted(seen: Counter[str], self: Any, result: int, *args: Any) -> None:
    request_id, num_tokens, hits, computed, _, *capped = args
    cap = self._max_admission_blocks_per_request
    if capped and capped[0] and cap is not None and -(-num_tokens // self.block_size) > cap:
        seen["an admission cap counts"] += 1
        if hits and result == 0:
            seen["a capped gate asks for nothing"] += 1


def _mamba_counted(seen: Counter[str], self: Any, result: int, *args: Any) -> None:
    if result > self.block_pool.num_gpu_blocks:
        seen["Mamba refuses a hit of the same step"] += 1
    if result < 0:
        seen["Mamba asks for less than nothing"] += 1


def _mamba_allocated(seen: Counter[str], self: Any, result: Any, request_id: str, *_: Any) -> None:
    if not self.aligns or not result:
        return
    seen["Mamba align: a table grows"] += 1
    if result[0].is_null:
        seen["Mamba align: nulls between"] += 1
    if len(result) > 1 and self.num_speculative_blocks and not result[-2].is_null:
        seen["Mamba align: states for drafts"] += 1


def _outlived(seen: Counter[str], self: Any, result: int | None, *_: Any) -> None:
    if result is not None:
        seen["Mamba align: an outlived state is freed"] += 1


def _split(seen: Counter[str], self: Any, result: int, request: Any, asked: int, *_: int) -> None:
    if result == 0 != asked:
        seen["Mamba split: nothing is left"] += 1
    elif result < asked:
        seen["Mamba split: cut"] += 1


def _hit(seen: Counter[str], self: Any, result: Any, request: Any) -> None:
    blocks, length = result
    managers = self.coordinator.single_type_managers
    if length and len(managers) == 1:
        kind = type(managers[0])
        seen[f"a hit of {kind.__name__} alone"] += 1
        if kind is ChunkedLocalAttentionManager and all(b.is_null for b in blocks.blocks[0]):
            seen["a hit of nothing but nulls"] += 1


def _covered(seen: Counter[str], self: Any, result: bool, *_: Any) -> None:
    seen[f"the shortcut is {'' if result else 'not '}taken"] += 1


def told(scenario: dict[str, Any], lines: list[str]) -> set[str]:
    """What the real engine's lines show."""
    seen: set[str] = set()
    groups = scenario["config"]["groups"]
    for text in lines:
        line = json.loads(text)
        if line["ev"] == "EXCEPTION":
            seen.add(f"exception: {line['type']}")
        if line.get("new_block_ids_to_zero"):
            seen.add("blocks to zero")
        if any(line.get("num_common_prefix_blocks", ())) and len(groups) > 1:
            seen.add("common prefix of a group")
        if line.get("preempted"):
            seen.add("preemption")
        for request in (line.get("state") or {}).get("requests", {}).values():
            for group, table in zip(groups, request["blocks"], strict=True):
                if group["type"] == "cross_attention" and table:
                    seen.add("blocks for an encoder")
            if len({*request["num_cached_block"]}) > 1:
                seen.add("groups that cached differently")
        for event in line.get("kv_events", ()):
            seen |= _of_event(event)
    seen |= {f"group: {group['type']}" for group in groups}
    return seen


def _of_event(event: dict[str, Any]) -> set[str]:
    """What one KV event shows."""
    if event["t"] != "BlockStored":
        return {f"event: {event['t']} of a group"} if event.get("group_idx") else set()
    seen = {f"event: stored {event['kv_cache_spec_kind']}"}
    if len(event["token_ids"]) > len(event["block_hashes"]) * event["block_size"]:
        seen.add("event: more tokens than stored blocks")
    if not event["block_hashes"]:
        seen.add("event: stored nothing")
    return seen
