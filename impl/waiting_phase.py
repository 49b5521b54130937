"""Second half of a step: who is admitted."""

import numpy as np

from nullblock.impl.arrays import Blocks
from nullblock.impl.requests import Request
from nullblock.impl.running_phase import Open
from nullblock.impl.state import State

_NO_BLOCKS: Blocks = np.empty(0, np.int32)


def schedule_waiting(state: State, step: Open) -> list[Request]:
    """Admit from the head of the queue; who does not fit blocks all behind (WAIT-5)."""
    admitted = list[Request]()
    while len(state.waiting) and step.budget > 0:
        if state.running.count == state.config.max_num_seqs:
            break
        tokens = _admit(state, state.waiting.peek(), step.budget)
        if tokens is None:
            break
        admitted.append(state.waiting.pop())
        step.budget -= tokens
    return admitted


def _admit(state: State, request: Request, budget: int) -> int | None:
    """Let a waiting request run, if its slots fit; how many tokens it gets (WAIT-2 to WAIT-4)."""
    config, pool, running, n = state.config, state.pool, state.running, request.num_tokens
    hits = _hits(state, request)
    computed = len(hits) * config.block_size
    tokens = n - computed
    if 0 < config.long_prefill_token_threshold < tokens:
        tokens = config.long_prefill_token_threshold
    if tokens > budget:
        if not config.enable_chunked_prefill:
            return None
        tokens = budget
    assert tokens > 0, f"request {request.id!r} has no tokens to compute"
    wanted = state.blocks(min(computed + tokens, config.max_model_len))
    whole = wanted
    if config.scheduler_reserve_full_isl:
        whole = max(wanted, state.blocks(min(n, config.max_model_len)))
    in_queue = int((pool.ref_cnt[hits] == 0).sum()) if len(hits) else 0
    if whole - len(hits) + in_queue > pool.num_free:
        return None
    if len(hits):
        pool.touch(hits)
    place = running.enter(request, computed)
    table, names = running.table[running.row[place]], request.names
    have = running.num_blocks[place] = max(wanted, len(hits))
    table[: len(hits)] = hits
    table[len(hits) : have] = pool.take(have - len(hits))
    running.granted[place] = tokens
    if config.enable_prefix_caching:
        # HASH-12; as in `State.publish`, no more than there are blocks.
        full = running.num_cached[place] = min(computed + tokens, n) // config.block_size
        if full > len(hits):
            cached = slice(len(hits), min(full, have))
            pool.cache.insert(table[cached], names[cached])
    return tokens


def _hits(state: State, request: Request) -> Blocks:
    """The cached prefix of a waiting request: of all its tokens but the last (HASH-11)."""
    state.name_waiting(request)
    if not state.config.enable_prefix_caching or request.skip_reading_prefix_cache:
        return _NO_BLOCKS
    most = (request.num_tokens - 1) // state.config.block_size
    return state.pool.cache.hits(request.names[:most])
