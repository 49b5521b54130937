"""Every law of KV events: kept by recordings of the real engine, broken by what alters them."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from kv_event_files import Batch, altered, at, judged, places, recording

from nullblock.conformance.kv_events.story import NEXT
from nullblock.spec.kv_events import LAWS, Cache, Cleared, Premises, Removed, Stored, judge, take
from nullblock.spec.kv_events import cache as cache_module

KNOWN: dict[str, Any] = {"num_blocks": 12, "no_connector": True}
"""What is known of the engine that was recorded as ``full``."""
STORED, REMOVED, CLEARED = "BlockStored", "BlockRemoved", "AllBlocksCleared"
Alteration = Callable[[list[Batch]], None]


def stores(batches: list[Batch]) -> list[dict[str, Any]]:
    """All BlockStored events."""
    return [at(batches, place) for place in places(batches, STORED)]


def twin(batches: list[Batch]) -> dict[str, Any]:
    """The event that stores what is cached already."""
    seen: set[int] = set()
    for event in stores(batches):
        if seen & set(event["block_hashes"]):
            return event
        seen |= set(event["block_hashes"])
    raise AssertionError("no content is stored twice")


def removal(hash: int) -> dict[str, Any]:
    """A removal of a copy."""
    return {"type": REMOVED, "block_hashes": [hash], "medium": "GPU", "group_idx": 0}


def insert(batches: list[Batch], place: tuple[int, int], *events: dict[str, Any]) -> None:
    """Put events before a place."""
    batches[place[0]]["events"][place[1] : place[1]] = events


# ---- alterations, by the law that each breaks --------------------------------


def lose_a_batch(batches: list[Batch]) -> None:
    """A batch in the middle is lost."""
    del batches[5]


def lose_the_first_batch(batches: list[Batch]) -> None:
    """The recording is said to begin with the server, and does not."""
    del batches[0]


def use_a_number_again(batches: list[Batch]) -> None:
    """Another batch comes under a number that was used."""
    batches[6] |= {"seq": 4}


def remove_twice(batches: list[Batch]) -> None:
    """A removal that was told twice."""
    place = places(batches, REMOVED)[-1]
    insert(batches, place, at(batches, place))


def remove_the_unknown(batches: list[Batch]) -> None:
    """A removal of what was never stored."""
    insert(batches, places(batches, STORED)[3], removal(4711))


def remove_after_clearing(batches: list[Batch]) -> None:
    """A removal of what was cleared."""
    hash = stores(batches)[0]["block_hashes"][-1]
    i, j = places(batches, CLEARED)[0]
    insert(batches, (i, j + 1), removal(hash))


def lose_a_removal(batches: list[Batch]) -> None:
    """A removal is not told, and the pool holds more than it can."""
    i, j = places(batches, REMOVED)[0]
    del batches[i]["events"][j]


def adopt_a_stranger(batches: list[Batch]) -> None:
    """A parent that was never stored."""
    next(e for e in stores(batches) if e["parent_block_hash"])["parent_block_hash"] = 4711


def lose_the_parent(batches: list[Batch]) -> None:
    """The event that stores a parent is not told."""
    parents = {e["parent_block_hash"] for e in stores(batches)}
    i, j = next(
        p for p in places(batches, STORED) if set(at(batches, p)["block_hashes"]) & parents
    )
    del batches[i]["events"][j]


def adopt_across_clearing(batches: list[Batch]) -> None:
    """A parent from before the cache was cleared."""
    place = places(batches, CLEARED)[0]
    last = next(p for p in places(batches, STORED) if p > place)
    at(batches, last)["parent_block_hash"] = stores(batches)[0]["block_hashes"][0]


def remove_the_parent(batches: list[Batch]) -> None:
    """A leaf is removed just before something is stored after it."""
    known: dict[int, int] = {}
    with_children: set[int | None] = set()
    for place in places(batches, STORED):
        event = at(batches, place)
        parent = event["parent_block_hash"]
        if parent is not None and parent not in with_children:
            insert(batches, place, *[removal(parent)] * known[parent])
            return
        chain = [parent, *event["block_hashes"]]
        with_children |= set(chain[:-1])
        for hash in event["block_hashes"]:
            known[hash] = known.get(hash, 0) + 1
    raise AssertionError("every parent has a child already")


def remove_the_front(batches: list[Batch]) -> None:
    """The first block of a prefix is removed before the second."""
    event = stores(batches)[0]
    assert len(event["block_hashes"]) > 1
    insert(batches, (1, 0), removal(event["block_hashes"][0]))


def add_a_token(batches: list[Batch]) -> None:
    """A span that ends inside a block."""
    stores(batches)[2]["token_ids"].append(1)


def span_nothing(batches: list[Batch]) -> None:
    """A span of no tokens."""
    stores(batches)[2]["token_ids"] = []


def add_a_hash(batches: list[Batch]) -> None:
    """More hashes than the span has blocks."""
    event = stores(batches)[2]
    event["block_hashes"].append(4711)
    event["extra_keys"].append(None)


def span_a_block_more(batches: list[Batch]) -> None:
    """A block of the span has no hash."""
    stores(batches)[2]["token_ids"] += [1, 2, 3, 4]


def double_the_blocks(batches: list[Batch]) -> None:
    """A block of another size."""
    event = stores(batches)[2]
    event["block_size"] *= 2
    event["token_ids"] *= 2


def change_the_kind(batches: list[Batch]) -> None:
    """The group is of another kind all at once."""
    stores(batches)[3]["kv_cache_spec_kind"] = "mla_attention"


def change_the_window(batches: list[Batch]) -> None:
    """The group has a window all at once."""
    stores(batches)[3]["kv_cache_spec_sliding_window"] = 128


def lose_extra_keys(batches: list[Batch]) -> None:
    """A hash without its entry."""
    next(e for e in stores(batches) if e["extra_keys"])["extra_keys"].pop()


def other_tokens(batches: list[Batch]) -> None:
    """A copy with another token."""
    twin(batches)["token_ids"][0] += 1


def other_extra_keys(batches: list[Batch]) -> None:
    """A copy with another salt."""
    twin(batches)["extra_keys"][0] = ["salt"]


def other_parent(batches: list[Batch]) -> None:
    """A copy after another block."""
    event = twin(batches)
    event["parent_block_hash"] = stores(batches)[0]["block_hashes"][0]
    assert event["parent_block_hash"] != event["block_hashes"][0]


BREAKS: list[tuple[str, Alteration, dict[str, Any]]] = [
    ("EVENT-1", lose_a_batch, {}),
    ("EVENT-1", lose_the_first_batch, {"from_start": True}),
    ("EVENT-1", use_a_number_again, {}),
    ("EVENT-2", remove_twice, {}),
    ("EVENT-2", remove_the_unknown, {}),
    ("EVENT-2", remove_after_clearing, {}),
    ("EVENT-3", lose_a_removal, {}),
    ("EVENT-4", adopt_a_stranger, {}),
    ("EVENT-4", lose_the_parent, {}),
    ("EVENT-4", adopt_across_clearing, {}),
    ("EVENT-5", remove_the_parent, {}),
    ("EVENT-6", remove_the_front, {}),
    ("EVENT-7", add_a_token, {}),
    ("EVENT-7", span_nothing, {}),
    ("EVENT-7", add_a_hash, {}),
    ("EVENT-8", span_a_block_more, {}),
    ("EVENT-9", double_the_blocks, {}),
    ("EVENT-10", change_the_kind, {}),
    ("EVENT-10", change_the_window, {}),
    ("EVENT-11", lose_extra_keys, {}),
    ("EVENT-12", other_tokens, {}),
    ("EVENT-12", other_extra_keys, {}),
    ("EVENT-12", other_parent, {}),
]
"""The law that each alteration of the recording ``full`` breaks."""


@pytest.mark.parametrize(
    ("rule", "alter", "options"), BREAKS, ids=[alter.__name__ for _, alter, _ in BREAKS]
)
def test_an_altered_stream_breaks_its_law(
    rule: str, alter: Alteration, options: dict[str, Any]
) -> None:
    """Each alteration is a VIOLATION of the law it is against, told with what to do next."""
    batches = altered(recording("full"))
    assert judged(batches, **KNOWN).verdict == "INCONCLUSIVE"
    alter(batches)
    found = judged(batches, **KNOWN, **options)
    assert found.verdict == "VIOLATION" and found.first is not None
    assert found.first.rule == rule, found.first.story
    assert all(found.first.next)
    assert any(f"nullblock rules {rule}" in line for line in found.first.story)


def test_every_law_is_broken_by_an_alteration() -> None:
    """No law is untried, and what to do next is said for laws that exist."""
    laws = {law.id for of in LAWS.values() for law in of} | {"EVENT-1"}
    assert {rule for rule, _, _ in BREAKS} == laws
    assert set(NEXT) <= laws


@pytest.mark.parametrize("alter", [a for r, a, _ in BREAKS if r in ("EVENT-5", "EVENT-6")])
def test_what_a_connector_may_do_is_counted(alter: Alteration) -> None:
    """Without --no-connector a missing parent and an orphan are evidence, and no violation."""
    batches = altered(recording("full"))
    alter(batches)
    found = judged(batches, num_blocks=12)
    assert found.first is None or found.first.rule == "EVENT-2"
    assert found.evidence.absent_parents + found.evidence.orphans > 0


def test_the_real_engine_makes_orphans_only_by_number() -> None:
    """Blocks evicted by number while a request holds them break EVENT-6, which needs that no
    connector is there, and nothing else."""
    assert judged(recording("evicted")).verdict == "INCONCLUSIVE"
    found = judged(recording("evicted"), no_connector=True)
    assert found.first is not None and found.first.rule == "EVENT-6"


def test_a_streaming_session_of_the_real_engine_is_a_violation() -> None:
    """A defect of 0.22.1 (upstream 49377) shows in its stream alone: one hash, two contents."""
    found = judged(recording("session"))
    assert found.first is not None and found.first.rule == "EVENT-12"
    assert (found.first.event, found.first.batch, found.first.seq) == (3, 3, 2)


OTHER: dict[str, Callable[[Any], Any]] = {
    "block_hashes": lambda v: [*v[:-1], 4711],
    "parent_block_hash": lambda v: 4711,
    "token_ids": lambda v: [v[0] + 1, *v[1:]],
    "block_size": lambda v: v + 1,
    "extra_keys": lambda v: v and [["other"], *v[1:]],
    "group_idx": lambda v: v + 5,
    "kv_cache_spec_kind": lambda v: v + "_2",
    "kv_cache_spec_sliding_window": lambda v: 4711,
    "lora_name": lambda v: "other",
    "lora_id": lambda v: 4711,
    "medium": lambda v: "CPU",
}
"""By field, another value."""
ALWAYS_SEEN = {"block_size", "kv_cache_spec_kind", "kv_cache_spec_sliding_window"}
NEVER_SEEN = {"lora_name", "lora_id"}
"""The adapter is told in the extra keys as well, and only those are part of a hash."""


@pytest.mark.parametrize("name", ["full", "async", "window", "groups"])
def test_a_changed_field_is_seen_or_could_not_be(name: str) -> None:
    """Each field of each event is changed in turn: a violation at that event or later, never
    before; what is the same in all events is always seen; a foreign parent too, in full
    attention."""
    batches = recording(name)
    events = [(i, j) for i, batch in enumerate(batches) for j in range(len(batch["events"]))]
    for number, place in enumerate(events, start=1):
        event = at(batches, place)
        for field in set(event) - {"type"}:
            changed = altered(batches)
            at(changed, place)[field] = OTHER[field](event[field])
            found = judged(changed, no_connector=True)
            assert found.verdict != "MALFORMED", (field, found.first)
            if found.first is not None:
                assert found.first.event >= number, (field, found.first)
                assert field not in NEVER_SEEN
            foreign = field == "parent_block_hash" and name in ("full", "async")
            if field in ALWAYS_SEEN or foreign:
                assert found.verdict == "VIOLATION", (field, number)


def test_a_copy_too_few_or_too_many_is_noticed() -> None:
    """EVENT-2 counts copies: a hash stored twice is removed twice, and not three times."""
    cache = Cache()
    store, remove = Stored([1], None, [7], 1), Removed(1)
    for number, event in enumerate((store, store, remove, remove), start=1):
        assert judge(cache, event, Counter()) is None
        take(cache, event, number)
    broken = judge(cache, remove, Counter())
    assert broken is not None and broken[0] == "EVENT-2"


def test_only_so_many_removed_hashes_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """A parent that was removed long ago is not judged: never stored and forgotten look alike."""
    monkeypatch.setattr(cache_module, "REMEMBERED", 3)
    cache = Cache(Premises(full_attention=True))
    for number in range(4):
        take(cache, Stored([number], None, [number], 1), 2 * number)
        take(cache, Removed(number), 2 * number + 1)
    assert list(cache.removed) == [1, 2, 3] or list(cache.removed) == [
        (None, n) for n in (1, 2, 3)
    ]
    counts = Counter()
    assert judge(cache, Stored([9], 0, [9], 1), counts) is None
    assert "EVENT-4" not in counts
    take(cache, Stored([5], None, [5], 1), 99)
    assert cache.forgotten


def test_memory_is_that_of_the_cache() -> None:
    """Nothing is kept of what was removed but its hash, and nothing at all after clearing."""
    cache = Cache()
    for number in range(1000):
        take(cache, Stored([number], None, [number], 1), number)
        take(cache, Removed(number), number)
    assert not cache.entries and not cache.children and cache.num_copies == 0
    take(cache, Cleared(), 1000)
    assert not cache.removed
