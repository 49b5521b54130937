"""What identifies a block of tokens besides the tokens and the chain before it."""

from nullblock.spec.catalogue import clause
from nullblock.spec.profiles import Semantics

Keys = tuple[str | tuple[str, str], ...]


@clause("HASH-1")
def extra_keys(semantics: Semantics, lora: str | None, salt: str | None, first: bool) -> Keys:
    """A block is identified by the hash before it, its tokens, the adapter's name, and in the
    first block the cache salt.

    Tagged, so that an adapter and a salt of one spelling differ. Source:
    generate_block_hash_extra_keys; in vllm-0.22.1 the bare strings are used (upstream 44701).
    """
    named = [("lora", lora)] if lora else []
    if salt and first:
        named.append(("cache_salt", salt))
    return tuple(named) if semantics.extra_keys_tagged else tuple(name for _, name in named)


def told_keys(keys: Keys) -> list[str] | None:
    """The same as events tell it: without tags in every line, for whoever reads them. None: there
    are none.
    """
    return [key if isinstance(key, str) else key[1] for key in keys] or None
