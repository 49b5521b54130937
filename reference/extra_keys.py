"""What makes blocks of equal tokens differ: an adapter, a salt, encoder inputs, embeddings.

extra keys = (adapter name, items in the block, salt in the first block, the embeddings)
"""

import hashlib
from typing import TYPE_CHECKING, Any

from nullblock.spec.profiles import VLLM_0_22_1, Semantics

if TYPE_CHECKING:
    from nullblock.reference.request import Request

ExtraKeys = tuple[Any, ...] | None


def need_extra_keys(request: "Request") -> bool:
    """Whether anything but tokens tells this request's blocks apart."""
    return bool(request.mm_features) or not (
        request.lora_request is None and request.cache_salt is None
    )


def differ_by_block(request: "Request") -> bool:
    """Whether later blocks may have other extra keys than the second one."""
    return bool(request.mm_features) or request.prompt_embeds is not None


def generate_block_hash_extra_keys(
    request: "Request",
    start_token_idx: int,
    end_token_idx: int,
    start_mm_idx: int,
    *,
    semantics: Semantics = VLLM_0_22_1,
) -> tuple[ExtraKeys, int]:
    """The extra keys of the block ``[start_token_idx, end_token_idx)``, or None for none.

    Args:
        start_mm_idx: the first encoder input to look at; -1: the last one.

    Returns:
        The keys, and where to look for the next block's encoder inputs.
    """
    keys: list[Any] = []
    if request.lora_request:
        name = request.lora_request.lora_name
        # Untagged, adapter "X" and salt "X" give one key: upstream issue 44701.
        keys.append(("lora", name) if semantics.extra_keys_tagged else name)
    if request.mm_features:
        if semantics.finds_every_item:
            start_mm_idx = 0  # HASH-1: every item in the block. From elsewhere on some are missed.
        items, start_mm_idx = _items_in(request, start_token_idx, end_token_idx, start_mm_idx)
        keys += items
    if start_token_idx == 0 and request.cache_salt:
        salt = request.cache_salt
        keys.append(("cache_salt", salt) if semantics.extra_keys_tagged else salt)
    if request.prompt_embeds is not None:
        keys.append(_embeds_digest(request, start_token_idx, end_token_idx))
    return tuple(keys) if keys else None, start_mm_idx


def to_event_extra_keys(keys: ExtraKeys) -> ExtraKeys:
    """Extra keys of a block as events tell them: without tags, which only the hashes need."""
    if keys is None:
        return None
    return tuple(key[1] if _is_tagged(key) else key for key in keys)


def _is_tagged(key: Any) -> bool:
    """Whether a key is a kind and a name; an item's is a name and a number."""
    return isinstance(key, tuple) and isinstance(key[1], str)


def _items_in(
    request: "Request", start: int, end: int, index: int
) -> tuple[list[tuple[str, int]], int]:
    """The encoder inputs in a block: identifier, and distance of their start from the block's.

    That distance tells the same item at two places apart where all tokens are placeholders.
    """
    features, found = request.mm_features, list[tuple[str, int]]()
    last = features[-1].mm_position
    if last.offset + last.length <= start:
        return found, index
    if index < 0:
        index += len(features)
    while index < len(features):
        item = features[index]
        offset, after = item.mm_position.offset, item.mm_position.offset + item.mm_position.length
        if end <= offset:
            break
        if start < after:
            found.append((item.identifier, offset - start))
            if end < after:
                break
        index += 1
    return found, index


def _embeds_digest(request: "Request", start: int, end: int) -> bytes:
    """SHA-256 of the prompt's embeddings in a block; beyond the prompt, that of nothing."""
    digests = request._prompt_embeds_per_block_hashes
    if (start, end) not in digests:
        assert request.prompt_embeds is not None
        data = _bytes_of(request.prompt_embeds[start:end])
        digests[start, end] = hashlib.sha256(data).digest()
    return digests[start, end]


def _bytes_of(embeds: Any) -> Any:
    """The memory of a tensor, or of anything else that has some."""
    if not hasattr(embeds, "contiguous"):
        return embeds
    flat = embeds.flatten().cpu().contiguous()
    # As bytes, since not every type of a tensor is one of numpy's.
    return flat.view(flat.new_empty(0).byte().dtype).numpy().data
