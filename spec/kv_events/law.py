"""What is true of every stream of KV events.

A law is judged where its premise is known (`Law.when`): some hold for full attention only, some
only where no KV connector evicts blocks by their number, some only once the whole cache is known.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from nullblock.spec.catalogue import clause
from nullblock.spec.kv_events.cache import Cache, is_full
from nullblock.spec.kv_events.events import (
    Cleared,
    Event,
    Hash,
    Key,
    Removed,
    Stored,
    contents,
)

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Breach:
    """How an event breaks a law."""

    expected: str
    actual: str
    key: Key | None = None
    """The hash at fault."""


@dataclass(frozen=True, slots=True)
class Law:
    """A law, and where it can be judged."""

    id: str
    when: Callable[[Cache, Any], bool]
    breach: Callable[[Cache, Any], Breach | None]


LAWS: dict[type[Event], list[Law]] = {Stored: [], Removed: [], Cleared: []}


def law(id: str, of: type[Event], when: Callable[[Cache, Any], bool]) -> Callable[[F], F]:
    """Register a law about one kind of event."""

    def enter(f: F) -> F:
        LAWS[of].append(Law(id, when, f))
        return clause(id)(f)

    return enter


def _always(c: Cache, e: Stored) -> bool:
    return True


def _in_full(c: Cache, e: Stored) -> bool:
    return is_full(c.premises, e)


def _in_whole_blocks(c: Cache, e: Stored) -> bool:
    return not e.partial or c.premises.full_attention


def _in_a_known_pool(c: Cache, e: Stored) -> bool:
    return c.premises.num_blocks is not None and _in_whole_blocks(c, e)


def _parent_in_full(c: Cache, e: Stored) -> bool:
    return c.known and e.parent is not None and is_full(c.premises, e)


def _parent_stays(c: Cache, e: Stored) -> bool:
    return c.premises.no_connector and _parent_in_full(c, e)


def _parent_remembered(c: Cache, e: Stored) -> bool:
    return not c.forgotten and _parent_in_full(c, e)


def _leaves_full(c: Cache, e: Removed) -> bool:
    return c.known and c.premises.no_connector and c.full(e.group)


def _parent(e: Stored) -> Key:
    assert e.parent is not None
    return e.group, e.parent


@clause("EVENT-1")
def follows(last: int | None, seq: int) -> bool:
    """The batches of a publisher are numbered from 0 on, each one more than the one before.

    A missing number is a lost batch. A number that comes again is a batch that was sent again.
    Source: ZmqEventPublisher._publisher_thread.
    """
    return seq == (0 if last is None else last + 1)


@law("EVENT-2", Removed, lambda c, e: c.known)
def removes_a_copy(c: Cache, e: Removed) -> Breach | None:
    """A hash is removed once for each block that was stored under it, and never more often.

    The same content may be cached several times: it is gone with the last copy only. Source:
    BlockPool._maybe_evict_cached_block, BlockHashToBlockMap.
    """
    key = (e.group, e.hash)
    if key in c.entries:
        return None
    return Breach("a hash that is cached", "none of its copies is cached", key)


@law("EVENT-3", Stored, _in_a_known_pool)
def fits_the_pool(c: Cache, e: Stored) -> Breach | None:
    """No more blocks are cached at once than the pool has, the null block apart.

    Of a stream that begins in the middle the blocks stored since are counted. A block may have
    several hashes where prefixes end inside a block (0.24.0 on), and requests with
    kv_cache_report_mode=full (0.26.0 on) are announced without a block: not for those. Source:
    BlockPool.
    """
    assert c.premises.num_blocks is not None
    most, would = c.premises.num_blocks - 1, c.num_copies + len(e.hashes)
    return None if would <= most else Breach(f"at most {most} blocks", f"{would} blocks")


@law("EVENT-4", Stored, _parent_remembered)
def parent_was_stored(c: Cache, e: Stored) -> Breach | None:
    """With full attention the parent of stored blocks was stored before, since the last clearing.

    A request that stores a block holds all blocks before it. Source: cache_full_blocks.
    """
    key = _parent(e)
    if key in c.entries or key in c.removed:
        return None
    return Breach("a parent that was stored before", "it never was", key)


@law("EVENT-5", Stored, _parent_stays)
def parent_is_cached(c: Cache, e: Stored) -> Breach | None:
    """With full attention and no KV connector the parent of stored blocks is cached.

    A connector that fails to load blocks has them evicted while requests hold them. Source:
    cache_full_blocks, Scheduler._handle_invalid_blocks.
    """
    key = _parent(e)
    if key in c.entries:
        return None
    return Breach("a parent that is cached", "it is not", key)


@law("EVENT-6", Removed, _leaves_full)
def children_go_first(c: Cache, e: Removed) -> Breach | None:
    """With full attention and no KV connector the last copy of a hash is removed after all
    blocks that name it as their parent.

    The consequence of HASH-4 that a consumer sees: a prefix never loses its front first. Source:
    KVCacheManager.free, FreeKVCacheBlockQueue.
    """
    key = (e.group, e.hash)
    entry, children = c.entries.get(key), c.children.get(key, 0)
    if entry is None or entry.copies > 1 or children == 0:
        return None
    return Breach("no cached block that follows it", f"{children} cached: orphans", key)


@law("EVENT-7", Stored, _always)
def spans_whole_blocks(c: Cache, e: Stored) -> Breach | None:
    """The tokens of an event fill whole blocks, at least one and no fewer than it has hashes.

    A group that skips blocks may tell more tokens than hashes, and no hash at all. Source:
    cache_full_blocks.
    """
    span, size = len(e.token_ids), e.block_size
    if size > 0 and span > 0 and span % size == 0 and span // size >= len(e.hashes):
        return None
    whole = f"whole blocks of {size} tokens, {max(1, len(e.hashes))} or more"
    return Breach(whole, f"{span} tokens and {len(e.hashes)} hashes")


@law("EVENT-8", Stored, _in_full)
def every_block_has_its_hash(c: Cache, e: Stored) -> Breach | None:
    """With full attention every block of the span has its hash.

    Source: cache_full_blocks: only null blocks and masked blocks are skipped.
    """
    if len(e.token_ids) == len(e.hashes) * e.block_size:
        return None
    return Breach(
        f"{len(e.hashes) * e.block_size} tokens for {len(e.hashes)} hashes",
        f"{len(e.token_ids)} tokens",
    )


@law("EVENT-9", Stored, _in_whole_blocks)
def one_block_size(c: Cache, e: Stored) -> Breach | None:
    """All blocks of a group have one size.

    Source: cache_full_blocks; from 0.24.0 on a prefix that ends inside a block has its own.
    """
    shape = c.shapes.get(e.group)
    if shape is None or shape.block_size == e.block_size:
        return None
    return Breach(f"blocks of {shape.block_size} tokens", f"{e.block_size} tokens")


@law("EVENT-10", Stored, _always)
def one_kind(c: Cache, e: Stored) -> Breach | None:
    """A group keeps its kind of attention and its window.

    Source: KVCacheManager.take_events.
    """
    shape = c.shapes.get(e.group)
    if shape is None or (shape.kind, shape.sliding_window) == (e.kind, e.sliding_window):
        return None
    return Breach(
        f"{shape.kind}, window {shape.sliding_window}", f"{e.kind}, window {e.sliding_window}"
    )


@law("EVENT-11", Stored, lambda c, e: e.extra_keys is not None)
def extra_keys_for_each(c: Cache, e: Stored) -> Breach | None:
    """Extra keys are told for every hash of an event or for none.

    Source: cache_full_blocks.
    """
    assert e.extra_keys is not None
    if len(e.extra_keys) == len(e.hashes):
        return None
    return Breach(f"{len(e.hashes)} entries of extra keys", f"{len(e.extra_keys)} entries")


@law("EVENT-12", Stored, lambda c, e: bool(contents(e)))
def equal_hashes_equal_content(c: Cache, e: Stored) -> Breach | None:
    """Equal hashes mean equal tokens, parents and extra keys.

    The adapter is not compared: in 0.22.1 an adapter and a salt of one spelling share blocks
    (HASH-1). A streaming session can break it there (upstream 49377). Source: hash_block_tokens.
    """
    here: dict[Hash, bytes] = {}
    for hash, content in zip(e.hashes, contents(e), strict=True):
        entry = c.entries.get((e.group, hash))
        known = here.setdefault(hash, content)
        if entry is not None and entry.content is not None and entry.block_size == e.block_size:
            known = entry.content
        if known != content:
            key = (e.group, hash)
            return Breach("the content it was stored with before", "other content", key)
    return None


def judge(c: Cache, e: Event, judged: Counter[str]) -> tuple[str, Breach] | None:
    """The first law that an event breaks, in the order of the file; counts those judged."""
    for one in LAWS[type(e)]:
        if one.when(c, e):
            judged[one.id] += 1
            breach = one.breach(c, e)
            if breach is not None:
                return one.id, breach
    return None
