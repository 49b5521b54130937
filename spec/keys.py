"""What identifies a block of tokens besides the tokens and the chain before it."""

from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Any

from nullblock.spec.catalogue import clause
from nullblock.spec.facts import Item
from nullblock.spec.profiles import Semantics

ItemKey = tuple[str | int, int]
"""An item by what it is known by, and how far behind the block's first token it begins."""
Keys = tuple[str | tuple[str, str] | ItemKey | bytes, ...]


@clause("HASH-1")
def extra_keys(
    semantics: Semantics,
    lora: str | None,
    salt: str | None,
    first: bool,
    items: tuple[ItemKey, ...] = (),
    embeds: tuple[bytes, ...] = (),
) -> Keys:
    """A block is identified by the hash before it, its tokens, the adapter's name, the encoder
    inputs in it, and in the first block the cache salt.

    Tagged, so that an adapter and a salt of one spelling differ. Source:
    generate_block_hash_extra_keys; in vllm-0.22.1 the bare strings are used (upstream 44701).
    """
    before: list[tuple[str, str]] = [("lora", lora)] if lora else []
    behind: list[tuple[str, str]] = [("cache_salt", salt)] if salt and first else []
    if semantics.extra_keys_tagged:
        return (*before, *items, *behind, *embeds)
    return (*(name for _, name in before), *items, *(name for _, name in behind), *embeds)


def items_in(items: Iterable[Item], start: int, end: int) -> tuple[ItemKey, ...]:
    """The items of which a token is among those from `start` to before `end`.

    Where all such tokens are alike, the distance tells one item at two places apart.
    """
    return tuple((i.number, i.start - start) for i in items if i.start < end and start < i.end)


@clause("HASH-24")
def items_from(
    items: Sequence[Item], start: int, end: int, first: int
) -> tuple[tuple[ItemKey, ...], int]:
    """In vllm-0.22.1 the items in a block are looked for from the place on where the block before
    left off; in a block that an output completes, and in the first that a chunk of a session does,
    from the last item on.

    Source: get_request_block_hasher, _gen_mm_extra_hash_keys. `first` is that place; returns what
    is found, and the place for the block behind. Items that overlap, or are not in order, may be
    missed, and so may those before the last one where the prompt ends: two blocks with other items
    then have one hash. Nowhere else is an item missed (HASH-1).
    """
    found: list[ItemKey] = []
    if not items or items[-1].end <= start:
        return (), first
    while first < len(items) and items[first].start < end:
        item = items[first]
        if item.end > start:
            found.append((item.number, item.start - start))
        if item.end > end:
            break
        first += 1
    return tuple(found), first


def find_items(
    semantics: Semantics, items: Sequence[Item], block: range, first: int, alone: bool
) -> tuple[tuple[ItemKey, ...], int]:
    """The items that identify a block of these positions, and from which those of the next one are
    looked for. `alone`: the block is not hashed along with the one before it.
    """
    if semantics.finds_every_item:
        return items_in(items, block.start, block.stop), 0
    first = max(0, len(items) - 1) if alone else first
    return items_from(items, block.start, block.stop, first)


@clause("HASH-23")
def embeds_in(embeds: Sequence[bytes] | None, start: int, end: int) -> tuple[bytes, ...]:
    """Where the prompt is embeddings, a block is identified by those in it as well, behind all
    else; a block of outputs alone by that there are none.

    Source: _gen_prompt_embeds_extra_hash_keys. `embeds` has the bytes of each; where the prompt is
    no embeddings (None), nothing identifies a block besides.
    """
    return () if embeds is None else (sha256(b"".join(embeds[start:end])).digest(),)


@clause("GROUP-40")
def num_hashes(semantics: Semantics, covers: int) -> int:
    """A block that several hashes cover is known by all of them, one after the other.

    Source: BlockHashListWithBlockSize. In vllm-0.32.0 it is known by the last of them, which is a
    hash of the whole prefix as well: blocks of two groups may then have one hash.
    """
    return 1 if semantics.last_hash_stands else covers


@clause("GROUP-41")
def prompt_end(num_prompt_tokens: int, covered: int, block_size: int) -> int:
    """In vllm-0.32.0 a cached block of full attention in which a prompt ends is known by one key
    more: the hash that ends last before the last token of the prompt, if it ends within the block;
    with that token, where a lookup drops its last hit, so that all of the prompt may be looked at.

    Nothing that is followed looks a block up by it. Source:
    FullAttentionManager._cache_partial_tail_block, BlockPool.cache_partial_block. Returns the
    tokens before the end of that hash, 0 if there is none; `covered` are those of one hash.
    """
    end = (num_prompt_tokens - 1) // covered * covered
    return end if end % block_size else 0


def told_keys(keys: Keys) -> list[Any] | None:
    """The same as events tell it: without tags in every line, for whoever reads them, and digests
    in letters. None: there are none.
    """
    return [_told(key) for key in keys] or None


def _told(key: Any) -> Any:
    if isinstance(key, bytes):
        return key.hex()
    return key[1] if _is_tagged(key) else key


def _is_tagged(key: Any) -> bool:
    return isinstance(key, tuple) and isinstance(key[1], str)
