"""The scheduler's whole state on a device: the one definition of its layout.

Everything is a tensor that never moves; `new_state` makes them all. Kernels take them as one
argument, a tuple of tuples by name (`arrays.pool.ref_cnt`), and `Sizes` as another. R below is
`num_rows`, S `max_num_seqs`, N `num_blocks`, B `row_blocks`.

A request has a row as long as it is alive, and its row never moves. Whoever adds requests chooses
rows that are ABSENT, fills in the columns, and appends the row to the waiting queue.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from nullblock.kernels.control import words
from nullblock.kernels.control.faults import Fault
from nullblock.kernels.control.sizes import Sizes
from nullblock.kernels.control.weights import Weights, new_weights

NO_EOS = -1
"""No token is called that: tokens are not negative."""


class Requests(NamedTuple):
    """What is known of the request in each row."""

    tokens: torch.Tensor
    """int32 [R, row_tokens]: prompt and output. Not negative."""
    table: torch.Tensor
    """int32 [R, B]: its blocks; what stands behind `num_blocks` means nothing."""
    keys: torch.Tensor
    """int64 [R, B, 2]: the chained keys of its full blocks; `num_keys` of them are known."""
    stop_ids: torch.Tensor
    """int32 [R, stop_width]: `num_stop` of them."""
    stage: torch.Tensor
    """int32 [R]: ABSENT, WAITING (new or preempted) or RUNNING."""
    num_tokens: torch.Tensor
    """int32 [R]: tokens, prompt and output."""
    num_prompt: torch.Tensor
    """int32 [R]: tokens."""
    num_computed: torch.Tensor
    """int32 [R]: tokens; 0 of a request that waits (RUN-17)."""
    num_blocks: torch.Tensor
    """int32 [R]: blocks held; 0 of a request that waits (TABLE-7)."""
    num_cached: torch.Tensor
    """int32 [R]: leading blocks that were hit or cached."""
    num_keys: torch.Tensor
    """int32 [R]: leading blocks whose key is known."""
    limit: torch.Tensor
    """int32 [R]: tokens, prompt included, at which it ends: by max_tokens or max_model_len."""
    at_least: torch.Tensor
    """int32 [R]: tokens, prompt included, below which it does not stop: by min_tokens."""
    eos: torch.Tensor
    """int32 [R]: a token, or NO_EOS."""
    num_stop: torch.Tensor
    """int32 [R]: stop ids."""
    extra: torch.Tensor
    """int32 [R, 2]: what tells its first block, and its others, from blocks with the same tokens
    (HASH-1): a number for each different adapter and salt, given by the host; 0: nothing."""
    skip_reading_prefix_cache: torch.Tensor
    """int32 [R]: 1: it takes no hits."""
    priority: torch.Tensor
    """int64 [R]: smaller is served first."""
    arrival: torch.Tensor
    """float64 [R]: any unit, no NaN."""
    tie: torch.Tensor
    """int64 [R]: the order of ids, where priority and arrival are equal (WAIT-1). All differ."""
    num_preemptions: torch.Tensor
    """int32 [R]."""
    granted: torch.Tensor
    """int32 [R]: tokens that the step being decided gives it."""
    told: torch.Tensor
    """int32 [R]: blocks that the worker knows of."""
    in_previous: torch.Tensor
    """int32 [R]: 1: the step before had it (OUT-3)."""


class Queues(NamedTuple):
    """Who runs and who waits."""

    running: torch.Tensor
    """int32 [S]: rows, in order of admission; NUM_RUNNING of them."""
    waiting: torch.Tensor
    """int32 [waiting_capacity]: rows, from WAITING_HEAD to WAITING_TAIL, position p at p modulo
    the capacity. FCFS: in order, next one first. PRIORITY: in any order."""
    ended: torch.Tensor
    """int32 [R]: rows of requests that ended, in order; NUM_ENDED of them. The next step tells of
    them (LIFE-6), and until it is decided the rows are not used again."""


class Pool(NamedTuple):
    """The blocks and the free queue: a ring of positions with holes."""

    ref_cnt: torch.Tensor
    """int32 [N]: holders of each block."""
    ring: torch.Tensor
    """int32 [ring_capacity]: the block at position p stands at p modulo the capacity; HOLE: none.
    All places outside HEAD to TAIL are HOLE."""
    position: torch.Tensor
    """int64 [N]: where in the queue a block stands; NOT_FREE: it is held, or the null block."""


class Cache(NamedTuple):
    """What is cached in which block: an open-addressed table of blocks, one entry for every cached
    block. Which slot an entry has depends on races; what is found does not: of several with one
    key the one with the least stamp (HASH-10).
    """

    slots: torch.Tensor
    """int32 [index_capacity]: a block, EMPTY or DELETED."""
    carried: torch.Tensor
    """int64 [N, 2]: the key that a block is cached under; (0, 0): it is not cached."""
    slot: torch.Tensor
    """int32 [N]: where a cached block's entry stands."""
    stamp: torch.Tensor
    """int64 [N]: when a cached block was cached, counted in insertions."""


class Decision(NamedTuple):
    """What a step decides. The first arrays run in parallel: everybody scheduled, in order, first
    those who ran (NUM_RAN), then those admitted; NUM_SCHEDULED in all.
    """

    row: torch.Tensor
    """int32 [S]."""
    num_scheduled_tokens: torch.Tensor
    """int32 [S]: tokens, at least 1 (RUN-23)."""
    samples: torch.Tensor
    """int32 [S]: 1: the step reaches its last token, so that one is sampled (UPD-1)."""
    num_computed_tokens: torch.Tensor
    """int32 [S]: before the step."""
    num_output_tokens: torch.Tensor
    """int32 [S]: before the step."""
    new_block_counts: torch.Tensor
    """int32 [S]: blocks appended; of an admitted one, its whole table (OUT-2)."""
    resumed: torch.Tensor
    """int32 [S]: 1: admitted, and known from before a preemption (WAIT-9)."""
    send_all_tokens: torch.Tensor
    """int32 [S]: 1: known, and not in the step before (OUT-3)."""
    new_block_ids: torch.Tensor
    """int32 [S * B]: those blocks, one request after another; NUM_NEW_BLOCKS of them."""
    preempted: torch.Tensor
    """int32 [S]: rows, in order; NUM_PREEMPTED of them."""
    finished: torch.Tensor
    """int32 [R]: rows of requests that ended since the step before; NUM_FINISHED of them."""


class Scratch(NamedTuple):
    """Where kernels put what one phase leaves to the next. Nothing here outlives a kernel."""

    blocks: torch.Tensor
    """int32 [N]: popped blocks."""
    run_row: torch.Tensor
    """int32 [S]: see `runs.py`."""
    run_start: torch.Tensor
    """int32 [S]: see `runs.py`."""
    run_column: torch.Tensor
    """int32 [S]: see `runs.py`."""
    run_front: torch.Tensor
    """int32 [S]: see `release.py`."""
    releases: torch.Tensor
    """int32 [N]: how often each block is released; 0 between kernels."""
    last: torch.Tensor
    """int32 [N]: which release of each block is its last one; -1 between kernels."""


class Arrays(NamedTuple):
    """Everything, as kernels take it."""

    requests: Requests
    queues: Queues
    pool: Pool
    cache: Cache
    weights: Weights
    decision: Decision
    scratch: Scratch
    words: torch.Tensor
    """int64 [NUM_WORDS]: the control words, see `words.py`."""
    error: torch.Tensor
    """int32 [1]: the error word, see `faults.py`."""


@dataclass(frozen=True, slots=True)
class State:
    """The state of one engine: what kernels change, and what they are compiled for."""

    arrays: Arrays
    sizes: Sizes

    @property
    def device(self) -> torch.device:
        """Where all of it is."""
        return self.arrays.words.device

    def word(self, word: Any) -> int:
        """A control word, of those in `words.py`; waits for the device."""
        return int(self.arrays.words[word.value])

    def set_word(self, word: Any, value: int) -> None:
        """Write a control word."""
        self.arrays.words[word.value] = value

    def report(self, fault: Fault) -> None:
        """Set a bit of the error word."""
        self.arrays.error.bitwise_or_(int(fault))


def new_state(sizes: Sizes, device: torch.device | str = "cpu", seed: int | None = None) -> State:
    """An engine without requests, its blocks free in order of id.

    `seed`: of the secret points that keys are computed at; None draws them afresh, as every
    engine should that strangers send prompts to.
    """
    place = torch.device(device)
    arrays = Arrays(
        requests=_requests(sizes, place),
        queues=_queues(sizes, place),
        pool=_pool(sizes, place),
        cache=_cache(sizes, place),
        weights=new_weights(sizes, place, seed),
        decision=_decision(sizes, place),
        scratch=_scratch(sizes, place),
        words=_words(sizes, place),
        error=_ints(place, 1),
    )
    return State(arrays, sizes)


def _ints(device: torch.device, *shape: int, fill: int = 0) -> torch.Tensor:
    return torch.full(shape, fill, dtype=torch.int32, device=device)


def _longs(device: torch.device, *shape: int, fill: int = 0) -> torch.Tensor:
    return torch.full(shape, fill, dtype=torch.int64, device=device)


def _requests(sizes: Sizes, device: torch.device) -> Requests:
    rows, blocks = sizes.num_rows, sizes.row_blocks
    wide = {
        "tokens": _ints(device, rows, sizes.row_tokens),
        "table": _ints(device, rows, blocks),
        "keys": _longs(device, rows, blocks, 2),
        "stop_ids": _ints(device, rows, max(1, sizes.stop_width)),
        "eos": _ints(device, rows, fill=NO_EOS),
        "extra": _ints(device, rows, 2),
        "priority": _longs(device, rows),
        "arrival": torch.zeros(rows, dtype=torch.float64, device=device),
        "tie": _longs(device, rows),
    }
    return Requests(**{name: wide.get(name, _ints(device, rows)) for name in Requests._fields})


def _queues(sizes: Sizes, device: torch.device) -> Queues:
    return Queues(
        running=_ints(device, sizes.max_num_seqs),
        waiting=_ints(device, sizes.waiting_capacity),
        ended=_ints(device, sizes.num_rows),
    )


def _pool(sizes: Sizes, device: torch.device) -> Pool:
    blocks = torch.arange(1, sizes.num_blocks, dtype=torch.int32, device=device)
    ring = _ints(device, sizes.ring_capacity, fill=words.HOLE.value)
    ring[: len(blocks)] = blocks
    position = _longs(device, sizes.num_blocks, fill=words.NOT_FREE.value)
    position[1:] = words.FIRST.value + blocks.to(torch.int64) - 1
    return Pool(_ints(device, sizes.num_blocks), ring, position)


def _cache(sizes: Sizes, device: torch.device) -> Cache:
    slots = _ints(device, sizes.index_capacity, fill=words.EMPTY.value)
    n = sizes.num_blocks
    return Cache(slots, _longs(device, n, 2), _ints(device, n), _longs(device, n))


def _decision(sizes: Sizes, device: torch.device) -> Decision:
    most = sizes.max_num_seqs
    long = {
        "new_block_ids": _ints(device, most * sizes.row_blocks),
        "finished": _ints(device, sizes.num_rows),
    }
    return Decision(**{name: long.get(name, _ints(device, most)) for name in Decision._fields})


def _scratch(sizes: Sizes, device: torch.device) -> Scratch:
    blocks, most = sizes.num_blocks, sizes.max_num_seqs
    return Scratch(
        blocks=_ints(device, blocks),
        run_row=_ints(device, most),
        run_start=_ints(device, most),
        run_column=_ints(device, most),
        run_front=_ints(device, most),
        releases=_ints(device, blocks),
        last=_ints(device, blocks, fill=-1),
    )


def _words(sizes: Sizes, device: torch.device) -> torch.Tensor:
    found = _longs(device, words.NUM_WORDS.value)
    first = words.FIRST.value
    found[words.HEAD.value] = first
    found[words.TAIL.value] = first + sizes.num_blocks - 1
    found[words.NUM_FREE.value] = sizes.num_blocks - 1
    found[words.WAITING_HEAD.value] = found[words.WAITING_TAIL.value] = first
    return found
