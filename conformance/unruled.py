"""What no rule says of prompts and of streaming sessions: refused by name, in scenarios and in
traces; and where vLLM raises and the rules go on.
"""

from collections.abc import Collection
from math import lcm
from typing import Any

from nullblock.conformance.encoder_format import Item
from nullblock.spec import facts
from nullblock.spec.fields import RUNNING
from nullblock.spec.machine.output import SchedulerOutput
from nullblock.spec.profiles import Semantics
from nullblock.spec.remote import awaits_load
from nullblock.spec.sessions import awaits_input, may_stand_twice
from nullblock.spec.waiting import is_heap, is_skipped


def moves_past_others(s: Any, r: Any, after: Any, heap_is_known: bool = True) -> bool:
    """Whether r, who takes a chunk where it stands in a queue, passes others there, and no rule
    says what becomes of it.

    vLLM changes the arrival of a request inside a heap, and leaves the heap as it is (WAIT-53).
    While the order of those that stand there is the same, so is whatever a heap does. The rules
    follow the skipped queue, or that of those who wait with blocks; and in vllm-0.22.1 the other
    one as well.

    Args:
        after: its place from then on, as `order` has it: priority, arrival, id.
        heap_is_known: whether it is known where in that queue those stand who do.
    """
    if not s.k.priority or s.k.sem.chunks_reorder:
        return False
    if is_heap(s) and heap_is_known and (is_skipped(s, r) or may_stand_twice(s)):
        return False
    before, apart = s.k.order(r), is_skipped(s, r)
    beside = (q for q in s.rank if q != r and is_skipped(s, q) == apart)
    return any((other < before) != (other < after) for other in map(s.k.order, beside))


def stops_again(s: Any, r: Any) -> bool:
    """Whether a session that stops waits for its turn already, in vllm-0.32.0: for an id used
    again outputs of its predecessor are its own.
    """
    if not s.k.sem.holders_wait_apart or s.k.sem.sessions_stay_queued:
        return False
    return bool(awaits_input(s, r) or is_skipped(s, r))


def follows_odd_items(semantics: Semantics) -> bool:
    """Whether encoder inputs are followed that no front end makes: that overlap, have two sizes,
    or stand where an encoder-decoder model has none. In other lines no rule says what ought to be,
    or it was not established what a line does.
    """
    return not (semantics.reject_unservable or semantics.items_held_by_place)


def follows_many_items(semantics: Semantics) -> bool:
    """Whether so many of one request are followed that a set of their places need not be in order,
    where that may be the order in which vLLM lets go of them.
    """
    return not (semantics.inputs_taken_back or semantics.items_held_by_place)


def odd_inputs_before(items: Collection[Item], caches: bool) -> str | None:
    """What vllm-0.32.0 is not followed with of a request's inputs in an encoder-decoder model,
    which are whole and stand at the beginning; None: nothing. Of several with prefix caching it is
    to be known which of them tell blocks apart.
    """
    if any(item.offset or not item.length or item.is_embed is not None for item in items):
        return "an encoder-decoder model's input that is not whole, or not at the beginning,"
    if caches and len(items) > 1:
        return "several inputs of an encoder-decoder model, with prefix caching,"
    return None


def holders(s: Any) -> set[Any]:
    """Sessions that wait for their turn, hold blocks, and have nothing computed. Beside a KV
    connector the rules say what becomes of them.
    """
    if s.k.connector:
        return set()
    waiting = (r for r in s.rank if s.rank[r] and s.stage[r] < RUNNING and not s.comp[r])
    return {r for r in waiting if s.k.resumable(r) and any(s.tlen[t] for t in s.k.tables(r))}


def asserted(s: Any, out: SchedulerOutput, held: Collection[Any]) -> str | None:
    """Why vLLM raises AssertionError in a step in which the rules go on: one of `held`, who were
    `holders` before it, is hit, or more tokens are scheduled than a step may have (somebody was,
    with less than none, and is preempted). None: it does not.
    """
    if sum(n for _, n in out.num_scheduled_tokens) > s.k.budget:
        return f"more tokens than the {s.k.budget} of a step are scheduled"
    told: list[Any] = [*out.new, *out.cached]
    if any(one.computed > 0 and one.id in held for one in told):
        return "a session that holds blocks is hit"
    return None


def counts_on_lost(s: Any, blocks: Collection[int]) -> Any:
    """A session that waits for its turn or a chunk, and counts on some of these blocks, which were
    not loaded; None: there is none. What becomes of its turn no rule says.
    """
    if not s.k.sem.failed_loads_start_over:
        return None
    for r in s.k.requests:
        if not (s.k.resumable(r) and s.stage[r] < RUNNING) or awaits_load(s, r):
            continue
        held = range(min(s.tlen[r], s.k.blocks(s.comp[r])))
        if any(s.tab[r, i] in blocks for i in held):
            return r
    return None


def unruled_prompt(config: facts.Config, prompt_len: int) -> str | None:
    """What of a prompt so long a trace has no counts for, where prefixes are cached; None:
    nothing. An empty one where there are several groups, and
    none is of full attention or, in vllm-0.32.0, full attention drops its last hit: vLLM finds a
    hit of less than nothing, and computes a token that there is not (GROUP-66).
    """
    if prompt_len or not config.enable_prefix_caching or len(config.groups) < 2:
        return None
    if all(group.is_windowed for group in config.groups):
        return "an empty prompt in several groups, none of which is full attention"
    if config.semantics.dropped_hits_reach_on and any(map(config.is_marked, config.groups)):
        return "an empty prompt in several groups under an EAGLE-like method"
    return None


def raising_prompt(config: facts.Config, prompt_len: int) -> str | None:
    """What makes vLLM raise when it caches blocks of a prompt so long; None: nothing. It is longer
    than max_model_len beside a window of which not every block is cached (GROUP-19), that is in
    vllm-0.32.0 one of one token, too; or there beside Mamba layers (GROUP-25).
    """
    if not config.enable_prefix_caching or prompt_len <= config.max_model_len:
        return None
    narrow = any(group.sliding_window == 1 for group in config.groups)
    if narrow and config.semantics.narrow_windows_uncached:
        return "a prompt longer than max_model_len beside a window of one token"
    has_states = any(group.mamba for group in config.groups)
    if has_states and config.semantics.states_noted_by_place:
        return "a prompt longer than max_model_len beside Mamba layers"
    if not config.semantics.reject_unservable and _leaves_blocks_out(config):
        return "a prompt longer than max_model_len beside a window with blocks that are not cached"
    return None


def _leaves_blocks_out(config: facts.Config) -> bool:
    """Whether of some window only the blocks before an end of a hit are cached (GROUP-19)."""
    span = lcm(*map(config.size_of, config.groups))
    seen = ((g.sliding_window, config.size_of(g)) for g in config.groups if g.sliding_window)
    return any(size < span and -(-(window - 1) // size) < span // size for window, size in seen)
