"""What has to be true of the fast engine between steps, whatever it decides."""

from collections import Counter
from typing import Any

from nullblock.conformance import driver, scenario
from nullblock.conformance.engine import Dump, Fields
from nullblock.conformance.engines import make_engine
from nullblock.impl import Scheduler
from nullblock.impl.prefix_cache import ROOT, PrefixCache
from nullblock.spec.profiles import Semantics


def audit(engine: Scheduler) -> None:
    """Counts are what they count, and nothing is kept that nobody needs."""
    pool, running = engine.pool, engine.running
    held: Counter[int] = Counter()
    for place in range(running.count):
        held.update(running.blocks(place).tolist())
    assert pool.ref_cnt.tolist() == [held[block] for block in range(pool.num_blocks)]
    free = pool.free.in_order()
    assert len(free) == len(set(free)) == pool.num_free
    assert set(free) == set(range(1, pool.num_blocks)) - set(held)
    assert len(running.ids) == len(running.requests) == running.count
    rows = running.row[: running.count].tolist()
    assert len(rows) == len(set(rows)) and running.count + len(running._free_rows) == len(
        running.tokens
    )
    assert {r.id for r in running.requests} | {r.id for r in engine.waiting} == set(
        engine.requests
    )
    audit_names(pool.cache, [last_name(engine, id) for id in engine.requests])


def last_name(engine: Scheduler, id: str) -> int:
    """The name that a request holds; ROOT: none."""
    request, running = engine.requests[id], engine.running
    if not request.is_running:
        return request.last_name
    place = running.index(request)
    named = int(running.num_named[place])
    return int(running.names[running.row[place], named - 1]) if named else ROOT


def audit_names(cache: PrefixCache, by_requests: list[int]) -> None:
    """Each name in use has the holders it should have, at least one; no other name has any."""
    used = [name for name, content in enumerate(cache.contents) if content is not None]
    holders = Counter(name for name in (*by_requests, *cache.carried.tolist()) if name != ROOT)
    holders.update(name for name in cache.parent[used].tolist() if name != ROOT)
    assert set(holders) == set(used) and len(used) == len(cache)
    assert {name: int(cache.holders[name]) for name in used} == dict(holders)
    assert not set(cache._unused) & set(used)
    assert len(set(cache._unused)) + len(used) + 1 == len(cache.contents)
    found = {block: name for name in used for block in cache.blocks_of(name)}
    assert found == {b: name for b, name in enumerate(cache.carried.tolist()) if name != ROOT}
    assert all(len(cache.blocks_of(name)) > 1 for name in cache.copies)


def audited_lines(document: dict[str, Any], semantics: Semantics) -> list[str]:
    """What the fast engine prints for a scenario; it is audited after every half of a step."""
    taken = scenario.from_dict(document)
    adapter = make_engine("impl", taken.config, semantics)
    tell = adapter.state

    def state(dump: Dump) -> Fields | None:
        audit(adapter.engine)  # type: ignore[attr-defined]
        return tell(dump)

    adapter.state = state  # type: ignore[method-assign]
    return list(driver.run(taken, adapter))
