"""How a full state tells the cache where hashes are spelled alike.

Lines show the beginning of a hash. One that covers a block of several ``hash_block_size`` is those
of its parts one behind the other, so that different contents may begin alike.
"""

from collections.abc import Iterable


def cached_map(cached: Iterable[tuple[str, Iterable[int]]]) -> dict[str, list[int]]:
    """The blocks of each spelling, from hashes as lines spell them with their blocks in order.

    Those of several hashes stand together, ascending: which hash is whose cannot be seen.
    """
    told: dict[str, list[int]] = {}
    for spelling, blocks in cached:
        told[spelling] = sorted([*told[spelling], *blocks]) if spelling in told else list(blocks)
    return told
