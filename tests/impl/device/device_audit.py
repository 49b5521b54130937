"""What has to be true of the state on a device between kernels, whatever was decided."""

from collections import Counter
from typing import Any

from nullblock.conformance import driver, scenario
from nullblock.conformance.engine import Dump, Fields
from nullblock.conformance.engines import make_engine
from nullblock.spec.profiles import Semantics

ABSENT, WAITING, RUNNING = range(3)


def audit(engine: Any) -> None:
    """Rows, queues, pool and index agree with each other and with what the host believes."""
    engine.resident.take_letters()
    arrays, sizes = engine.resident.state.arrays, engine.resident.sizes
    assert int(arrays.error) == 0
    audit_rows(engine)
    requests = arrays.requests
    held: Counter[int] = Counter()
    for row in range(sizes.num_rows):
        n = int(requests.num_blocks[row])
        assert n == 0 or int(requests.stage[row]) == RUNNING
        held.update(requests.table[row, :n].tolist())
        assert int(requests.num_keys[row]) * sizes.block_size <= int(requests.num_tokens[row])
    pool = arrays.pool
    assert pool.ref_cnt.tolist() == [held[block] for block in range(sizes.num_blocks)]
    audit_queue(engine)
    audit_index(arrays, sizes)
    scratch = arrays.scratch
    assert not scratch.releases.any() and bool((scratch.last == -1).all())


def audit_rows(engine: Any) -> None:
    """Every row is in one place, and the host knows who is in it."""
    from nullblock.kernels.control.queues import waiting_rows
    from nullblock.kernels.control.words import NUM_ENDED, NUM_RUNNING

    state, rows = engine.resident.state, engine.resident.rows
    queues, stage = state.arrays.queues, state.arrays.requests.stage.tolist()
    running = queues.running[: state.word(NUM_RUNNING)].tolist()
    waiting = waiting_rows(state).tolist()
    ended = queues.ended[: state.word(NUM_ENDED)].tolist()
    told = [*running, *waiting, *ended]
    assert len(told) == len(set(told)) == len(rows) - rows.num_free
    assert {row for row, what in enumerate(stage) if what == RUNNING} == set(running)
    assert {row for row, what in enumerate(stage) if what == WAITING} == set(waiting)
    alive = {rows[row].id: rows[row] for row in (*running, *waiting)}
    assert alive == engine.requests
    assert {rows[row].id for row in ended} == set(engine.finished)


def audit_queue(engine: Any) -> None:
    """The ring and the positions say the same, and everything else is a hole."""
    from nullblock.kernels.control.ring import free_blocks
    from nullblock.kernels.control.words import HEAD, NUM_FREE, TAIL

    state = engine.resident.state
    pool, capacity = state.arrays.pool, state.sizes.ring_capacity
    free = free_blocks(state).tolist()
    assert len(free) == len(set(free)) == state.word(NUM_FREE)
    assert set(free) == {b for b, n in enumerate(pool.ref_cnt.tolist()) if not n and b}
    position = pool.position.tolist()
    assert {b for b, at in enumerate(position) if at >= 0} == set(free)
    assert [pool.ring[position[b] % capacity].item() for b in free] == free
    assert all(state.word(HEAD) <= position[b] < state.word(TAIL) for b in free)
    assert int((pool.ring >= 0).sum()) == len(free)


def audit_index(arrays: Any, sizes: Any) -> None:
    """Every cached block has its slot, no other slot is taken, and stamps differ."""
    cache = arrays.cache
    cached = [b for b, key in enumerate(cache.carried[:, 0].tolist()) if key]
    slots = cache.slots[: sizes.index_capacity].tolist()
    assert sorted(b for b in slots if b >= 0) == cached
    assert all(slots[int(cache.slot[b])] == b for b in cached)
    stamps = [int(cache.stamp[b]) for b in cached]
    assert len(stamps) == len(set(stamps))
    assert 0 not in cached


def device_lines(document: dict[str, Any], semantics: Semantics, device: str) -> list[str]:
    """What the engine on a device prints for a scenario, audited after every half of a step."""
    taken = scenario.from_dict(document)
    adapter = make_engine("impl", taken.config, semantics, device)
    tell = adapter.state

    def state(dump: Dump) -> Fields | None:
        audit(adapter.engine)  # type: ignore[attr-defined]
        return tell(dump)

    adapter.state = state  # type: ignore[method-assign]
    return list(driver.run(taken, adapter))
