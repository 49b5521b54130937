"""The picture of an engine on a device: everything is read from there, the host's ids apart."""

from hashlib import sha256

from nullblock.impl.device.resident import Resident
from nullblock.impl.picture import Picture, PoolPicture, RequestPicture
from nullblock.impl.requests import Request
from nullblock.impl.step import Step
from nullblock.kernels.control.queues import waiting_rows
from nullblock.kernels.control.ring import free_blocks
from nullblock.kernels.control.state import State
from nullblock.kernels.control.words import NUM_ENDED, NUM_FREE, NUM_RUNNING, RUNNING


def portray(resident: Resident, requests: list[Request], owed: Step | None, pool: bool) -> Picture:
    """The whole state, copied; without the block pool if that is not asked for.

    `requests`: those alive, in order of arrival. `owed`: the step in flight, if its outputs are
    counted (UPD-17).
    """
    resident.take_letters()
    state, rows = resident.state, resident.rows
    arrays = state.arrays
    finished = arrays.queues.ended[: state.word(NUM_ENDED)].tolist()
    return Picture(
        waiting=[rows[row].id for row in _in_order(state, waiting_rows(state).tolist())],
        running=[
            rows[row].id for row in arrays.queues.running[: state.word(NUM_RUNNING)].tolist()
        ],
        finished=list(dict.fromkeys(rows[row].id for row in finished)),
        num_free=state.word(NUM_FREE),
        requests={request.id: _request(state, rows.of(request), owed) for request in requests},
        pool=_pool(state) if pool else None,
    )


def _in_order(state: State, rows: list[int]) -> list[int]:
    """Who waits, next one first (WAIT-1)."""
    if not state.sizes.priority:
        return rows
    columns = state.arrays.requests
    return sorted(
        rows,
        key=lambda row: (
            int(columns.priority[row]),
            float(columns.arrival[row]),
            int(columns.tie[row]),
        ),
    )


def _request(state: State, row: int, owed: Step | None) -> RequestPicture:
    """The request in a row; one in the step in flight that samples is owed a token."""
    columns = state.arrays.requests
    held = int(columns.num_blocks[row])
    waits_for = 0
    if owed is not None:
        waits_for = int((owed.rows[owed.samples] == row).sum())
    return RequestPicture(
        is_running=int(columns.stage[row]) == RUNNING.value,
        num_preemptions=int(columns.num_preemptions[row]),
        num_tokens=int(columns.num_tokens[row]),
        num_prompt_tokens=int(columns.num_prompt[row]),
        num_output_placeholders=waits_for,
        num_computed_tokens=int(columns.num_computed[row]),
        blocks=columns.table[row, :held].tolist(),
        num_cached_blocks=int(columns.num_cached[row]),
    )


def _pool(state: State) -> PoolPicture:
    """Keys are secret: a content is called by a digest of its key."""
    pool, cache = state.arrays.pool, state.arrays.cache
    keys = {b: tuple(key) for b, key in enumerate(cache.carried.tolist()) if key[0]}
    content = {b: sha256(f"{key}".encode()).hexdigest() for b, key in keys.items()}
    stamps = cache.stamp.tolist()
    copies: dict[str, list[int]] = {}
    for block in sorted(content, key=lambda block: int(stamps[block])):
        copies.setdefault(content[block], []).append(block)
    return PoolPicture(
        free_queue=free_blocks(state).tolist(),
        ref_cnt={b: n for b, n in enumerate(pool.ref_cnt.tolist()) if n},
        content=content,
        copies=copies,
    )
