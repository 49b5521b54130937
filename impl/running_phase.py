"""First half of a step: requests that run already, and whom they push out.

All of those before the first one that lacks blocks get theirs at once; then that one preempts, and
so on.
"""

from dataclasses import dataclass, field

import numpy as np

from nullblock.impl.arrays import Flags, Ints, cells
from nullblock.impl.state import State


@dataclass(slots=True)
class Open:
    """The step being decided."""

    budget: int
    """Tokens that may still be scheduled."""
    index: int = 0
    """The running request whose turn it is."""
    preempted: list[str] = field(default_factory=list)


def schedule_running(state: State, step: Open) -> None:
    """Give each running request its tokens, in order (RUN-1 to RUN-4)."""
    running, pool = state.running, state.pool
    while step.index < running.count and step.budget > 0:
        rest = slice(step.index, running.count)
        tokens = _tokens_to_run(state, rest, step.budget)
        needed = blocks_needed(state, rest, tokens)
        total = int(needed.sum())
        if total <= pool.num_free:
            grant(state, rest, tokens, needed, total)
            step.budget -= int(tokens.sum())
            return
        short = int((np.cumsum(needed) > pool.num_free).argmax())
        before = slice(step.index, step.index + short)
        grant(state, before, tokens[:short], needed[:short], int(needed[:short].sum()))
        step.budget -= int(tokens[:short].sum())
        step.index += short
        if not _preempt_for(state, int(tokens[short]), step):
            return


def _tokens_to_run(state: State, rest: slice, budget: int) -> Ints:
    """What each of these gets, the budget spent from the first on (RUN-1, RUN-2)."""
    running, config = state.running, state.config
    computed = running.num_computed[rest]
    tokens: Ints = running.num_tokens[rest] - computed
    if config.async_scheduling:
        tokens += running.placeholders[rest]
    if config.long_prefill_token_threshold > 0:
        np.minimum(tokens, config.long_prefill_token_threshold, out=tokens)
    np.minimum(tokens, config.max_model_len - 1 - computed, out=tokens)
    if config.async_scheduling:
        tokens[_last_in_flight(state, rest)] = 0
    if int(tokens.min()) < 0:
        return _spent(tokens, budget)
    if int(tokens.sum()) > budget:
        before = np.cumsum(tokens) - tokens
        np.minimum(tokens, np.maximum(budget - before, 0), out=tokens)
    return tokens


def _last_in_flight(state: State, rest: slice) -> Flags:
    """Who gets all that it may still get from steps in flight (RUN-25)."""
    running = state.running
    owed = running.placeholders[rest]
    if state.semantics.stop_check_counts_frames:
        reached = running.num_tokens[rest] + owed
    else:
        reached = running.num_computed[rest] + 2 - owed
    return (owed > 0) & (reached >= running.most[rest])


def _spent(tokens: Ints, budget: int) -> Ints:
    """What each gets of a budget where some take less than nothing: in vLLM 0.22.1 a request that
    is longer than max_model_len does.
    """
    found = np.zeros_like(tokens)
    for i, n in enumerate(tokens.tolist()):
        if budget <= 0:
            break
        found[i] = min(n, budget)
        budget -= int(found[i])
    return found


def blocks_needed(state: State, part: slice, tokens: Ints) -> Ints:
    """Blocks that each of these lacks for so many more tokens (ALLOC-1)."""
    running, size = state.running, state.config.block_size
    needed: Ints = running.num_computed[part] + tokens
    needed += size - 1
    needed //= size
    needed -= running.num_blocks[part]
    np.maximum(needed, 0, out=needed)
    # Who is passed over asks for nothing, even if, longer than max_model_len, it lacks blocks.
    needed *= tokens != 0
    return needed


def grant(state: State, part: slice, tokens: Ints, needed: Ints, total: int) -> None:
    """Give these their tokens and `total` blocks, and cache what the step fills (HASH-12)."""
    running, config = state.running, state.config
    if total:
        lacking = needed.nonzero()[0]
        counts = needed[lacking]
        lacking += part.start
        # Scheduling ahead, a block may be for tokens that are not known yet.
        running.make_room(int((running.num_blocks[lacking] + counts).max()) * config.block_size)
        which, columns = cells(running.num_blocks[lacking], counts, total)
        running.table[running.row[lacking][which], columns] = state.pool.take(total)
        running.num_blocks[lacking] += counts
    running.granted[part] = tokens
    if config.enable_prefix_caching:
        full = np.minimum(running.num_computed[part] + tokens, running.num_tokens[part])
        full //= config.block_size
        fills = ((full > running.num_cached[part]) & (tokens != 0)).nonzero()[0]
        if len(fills):
            state.publish(fills + part.start, full[fills])


def _preempt_for(state: State, tokens: int, step: Open) -> bool:
    """Preempt until the slots of the request whose turn it is fit; False once that one itself was
    preempted (PREEMPT-2).
    """
    running, granted = state.running, np.array([tokens], np.int64)
    request = running.requests[step.index]
    while True:
        victim = _victim(state)
        itself = running.requests[victim] is request
        step.preempted.append(_withdraw(state, victim, step))
        if itself:
            return False
        place = running.index(request)
        part = slice(place, place + 1)
        needed = blocks_needed(state, part, granted)
        if int(needed[0]) <= state.pool.num_free:
            break
    grant(state, part, granted, needed, int(needed[0]))
    step.budget -= tokens
    step.index += 1
    return True


def _victim(state: State) -> int:
    """Whom to preempt, as an index of the running list (PREEMPT-1)."""
    running = state.running
    if state.config.policy != "priority":
        return running.count - 1
    if state.semantics.victim_by_id:
        return running.requests.index(max(running.requests))
    keys = [(request.priority, request.arrival_time) for request in running.requests]
    return keys.index(max(keys))


def _withdraw(state: State, victim: int, step: Open) -> str:
    """Preempt a running request, which may have had its turn (PREEMPT-3); its id."""
    running = state.running
    granted = int(running.granted[victim])
    if granted:
        step.budget += granted
        if state.semantics.withdraw_uncaches:
            computed = int(running.num_computed[victim]) // state.config.block_size
            state.pool.cache.evict(running.blocks(victim, computed))
    # vLLM 0.22.1 notices that the list got shorter only if the victim was scheduled.
    if granted or (state.semantics.victim_shifts_index and victim < step.index):
        step.index -= 1
    return state.preempt(victim).id
