"""The end of a step: what the worker is told, and what counts as computed from now on."""

import numpy as np

from nullblock.impl.arrays import Blocks, Ints, Part, cells
from nullblock.impl.requests import Request
from nullblock.impl.state import State
from nullblock.impl.step import InFlight, Step


def decide(state: State, ran: int, admitted: list[Request], preempted: list[str]) -> InFlight:
    """Turn what was granted into a step, and count it as computed (UPD-1).

    `ran`: how many of the running list ran before the step.
    """
    running = state.running
    granted = running.granted[: running.count]
    places: Part = slice(0, running.count)
    if granted.all():
        ids, requests, scheduled_before = running.ids.copy(), running.requests.copy(), ran
    else:
        places = granted.nonzero()[0]
        ids = [running.ids[place] for place in places.tolist()]
        requests = [running.requests[place] for place in places.tolist()]
        scheduled_before = len(ids) - len(admitted)
    computed, scheduled = running.num_computed[places].copy(), granted[places].copy()
    num_tokens, owed = running.num_tokens[places], running.placeholders[places]
    rows = running.row[places].copy()
    counts = running.num_blocks[places] - running.told[places]
    after = computed + scheduled
    samples = after >= num_tokens + owed
    num_output_tokens = num_tokens - running.num_prompt[places]
    if state.config.async_scheduling:
        num_output_tokens += owed
    step = Step(
        ids=ids,
        rows=rows,
        num_scheduled_tokens=scheduled,
        samples=samples,
        running=scheduled_before,
        admitted=admitted,
        num_computed_tokens=computed,
        num_output_tokens=num_output_tokens,
        new_block_counts=counts,
        new_block_ids=_appended(state, places, counts),
        all_token_ids=_sent_again(state, places, scheduled_before, admitted),
        preempted=preempted,
        finished=list(dict.fromkeys(state.finished)),
        num_common_prefix_blocks=_common_prefix(state),
    )
    running.num_computed[places] = after
    running.in_previous[: running.count] = granted != 0
    if state.counts_outputs:
        running.placeholders[places] += samples
    state.finished = []
    return InFlight(step, requests, places, running.visit[rows], running.departures)


def tokens_to_compute(state: State) -> list[list[int]]:
    """The tokens of the step just decided, of each request that the worker knows: the first of
    several pipeline stages does not sample them itself.
    """
    decided, running = state.in_flight[-1], state.running
    step, known = decided.step, [request.num_preemptions > 0 for request in decided.step.admitted]
    places: list[int] = np.arange(running.count)[decided.places].tolist()
    first, counts = step.num_computed_tokens.tolist(), step.num_scheduled_tokens.tolist()
    found = list[list[int]]()
    for i, place in enumerate(places):
        if i < step.running or known[i - step.running]:
            # Scheduling ahead, the last of them are not known yet.
            stop = min(first[i] + counts[i], int(running.num_tokens[place]))
            found.append(running.tokens[running.row[place], first[i] : stop].tolist())
    return found


def _appended(state: State, places: Part, counts: Ints) -> Blocks:
    """The blocks that each of these got in this step, one after another (OUT-2)."""
    running = state.running
    some = counts.nonzero()[0]
    counts = counts[some]
    which, columns = cells(running.told[places][some], counts, int(counts.sum()))
    found: Blocks = running.table[running.row[places][some][which], columns]
    return found


def _sent_again(
    state: State, places: Part, ran: int, admitted: list[Request]
) -> dict[str, list[int]]:
    """All tokens of the known requests that were not in the step before (OUT-3)."""
    running = state.running
    known = running.in_previous[places][:ran]
    resumed = [i for i, request in enumerate(admitted, start=ran) if request.num_preemptions]
    if known.all() and not resumed:
        return {}
    missing = [*(known == 0).nonzero()[0].tolist(), *resumed]
    standing = np.arange(running.count)[places][missing].tolist()
    return {
        running.ids[i]: running.tokens[running.row[i], : running.num_tokens[i]].tolist()
        for i in standing
    }


def _common_prefix(state: State) -> int:
    """Leading blocks of the first running request that every request holds (OUT-4)."""
    running, ref_cnt = state.running, state.pool.ref_cnt
    if not running.count or not state.config.enable_prefix_caching:
        return 0
    if ref_cnt[running.table[running.row[0], 0]] != running.count:
        return 0
    shared = ref_cnt[running.blocks(0)] == running.count
    return len(shared) if shared.all() else int(shared.argmin())
