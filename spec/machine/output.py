"""What a decided step tells the worker: readings of the state between `decide` and `commit`."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

from nullblock.spec.catalogue import clause
from nullblock.spec.drafts import tokens_ahead
from nullblock.spec.fields import NEW, RESUMED
from nullblock.spec.groups import sees_part
from nullblock.spec.kernel import State, Value
from nullblock.spec.sessions import num_output

T = TypeVar("T")
Blocks = tuple[int, ...] | tuple[tuple[int, ...], ...]
"""Blocks of a request; of several groups a tuple for each."""


@dataclass(frozen=True, slots=True)
class NewRequest:
    """A request the worker has not seen: everything about it."""

    id: Value
    blocks: Blocks
    computed: int
    prefill: int | None
    """How many tokens are sent besides the prompt's own; None: none."""


@dataclass(frozen=True, slots=True)
class CachedRequest:
    """A request the worker knows: what changed."""

    id: Value
    new_blocks: Blocks
    """For a resumed request the whole tables, otherwise the blocks appended in this step."""
    computed: int
    num_output: int
    """Output tokens so far; scheduling ahead, those in flight included."""
    resumed: bool
    all_tokens: int | None
    """How many tokens are sent again; None: none."""


@dataclass(frozen=True, slots=True)
class SchedulerOutput:
    """The decision of one step, in vLLM's terms."""

    num_scheduled_tokens: tuple[tuple[Value, int], ...]
    new: tuple[NewRequest, ...]
    cached: tuple[CachedRequest, ...]
    preempted: frozenset[Value]
    finished: frozenset[Value]
    num_common_prefix_blocks: int | tuple[int, ...] | None
    """Of several groups one for each; None: the line does not tell."""
    num_draft_tokens: tuple[tuple[Value, int], ...]
    """Of the tokens scheduled, the drafts."""
    encoder_inputs: tuple[tuple[Value, int], ...]
    """Items to compute: whose, and their places in the prompts, from 0."""
    connector_items: tuple[tuple[Value, int], ...]
    """What an encoder connector is told of: requests, and places of their items."""
    evicted_items: tuple[int, ...]
    """Numbers of items whose embeddings workers forget before the step."""
    to_zero: tuple[int, ...]
    """Blocks that workers zero before the step."""

    @property
    def common_prefixes(self) -> list[int]:
        """The common prefixes by KV cache group, as workers are told; empty where they are not."""
        told = self.num_common_prefix_blocks
        if told is None:
            return []
        return list(told) if isinstance(told, tuple) else [told]


@clause("OUT-1")
def scheduled(s: State) -> tuple[tuple[Value, int], ...]:
    """The scheduled requests are reported in the order in which they were scheduled, which is the
    order of the running list.

    Source: Scheduler.schedule, running phase; Scheduler.schedule, SchedulerOutput.
    """
    return tuple((s.run[i], s.sched[s.run[i]]) for i in range(s.nr) if s.sched[s.run[i]] != 0)


@clause("OUT-11")
def drafts(s: State) -> tuple[tuple[Value, int], ...]:
    """The drafts that a step verifies are reported of those requests that have some.

    Source: Scheduler.schedule, scheduled_spec_decode_tokens.
    """
    return tuple((s.run[i], s.drafted[s.run[i]]) for i in range(s.nr) if s.drafted[s.run[i]] != 0)


@clause("OUT-14")
def encoder_inputs(s: State) -> tuple[tuple[Value, int], ...]:
    """The items that a step computes are reported by request, in the order in which their tokens
    were scheduled.

    A request among them may have been preempted since: others refer to its item. Source:
    Scheduler.schedule, scheduled_encoder_inputs.
    """
    if not s.k.encodes:
        return ()
    return tuple((s.inputof[i], s.inputs[i] - 1) for i in range(s.ninput) if s.inputs[i] != 0)


@clause("OUT-21")
def connector_items(s: State) -> tuple[tuple[Value, int], ...]:
    """An encoder connector is told of each item that takes room in a step, be it computed or
    loaded, in that order.

    Source: ECConnector.update_state_after_alloc.
    """
    if not s.k.encodes:
        return ()
    return tuple((s.asksof[i], s.asks[i] - 1) for i in range(s.nask))


@clause("OUT-15")
def evicted_items(s: State) -> tuple[int, ...]:
    """The items that were evicted in a step are reported with it, in that order.

    Source: Scheduler.schedule, free_encoder_mm_hashes. In vllm-0.32.0 not those that are in the
    cache again.
    """
    if not s.k.encodes:
        return ()
    told = (s.gone[i] for i in range(s.ngone))
    if s.k.sem.evictions_told_if_gone:
        return tuple(n for n in told if s.kept[n] == 0)
    return tuple(told)


@clause("GROUP-26")
def to_zero(s: State) -> tuple[int, ...]:
    """Beside Mamba layers workers are told which blocks full attention took in the step, group by
    group, in the order in which they were taken, to zero them.

    A block that a victim gave up again is among them, and one that was taken twice is so twice.
    In vllm-0.32.0 windows and chunks are told of as full attention is. Source:
    Scheduler.schedule, new_block_ids_to_zero; KVCacheManager.take_new_block_ids.
    """
    if not s.k.mamba:
        return ()
    taken = range(s.nzero)
    return tuple(s.zero[i] for i in sorted(taken, key=lambda i: s.zerofor[i]))


@clause("OUT-2")
def table(s: State, t: Value, first: int = 0) -> tuple[int, ...]:
    """A new or resumed request is reported with all its blocks, a running one with those appended
    in this step, group by group.

    Source: Scheduler.schedule, waiting phase; Scheduler.schedule, SchedulerOutput:
    req_to_new_blocks.
    """
    return tuple(s.tab[t, i] for i in range(first, s.tlen[t]))


def blocks(s: State, r: Value, known: Value = False) -> Blocks:
    """What is reported of all tables of r: all blocks, or those that the worker does not know."""
    if not s.k.several:
        return table(s, r, s.told[r] if known else 0)
    return tuple(table(s, t, s.told[t] if known else 0) for t in s.k.tables(r))


@clause("OUT-3")
def tokens_again(s: State, r: Value) -> int | None:
    """All tokens are sent again for a known request that was not scheduled in the previous step.

    Source: CachedRequestData.all_token_ids. In vllm-0.32.0 the second model runner, which keeps
    them, is sent none.
    """
    if s.k.sem.second_runner_keeps_tokens:
        if s.k.second_runner:
            return None
    return None if s.k.mem(s.prev, r) else s.ntok[r]


@clause("OUT-4")
def common_prefix(s: State, g: int = 0) -> int:
    """The common prefix of a group counts the leading blocks of the first running request that
    every request with blocks holds.

    Source: FullAttentionManager.get_num_common_prefix_blocks; 0 with caching off, nobody
    running, or layers that see only a part of the past.
    """
    if s.nr == 0 or not s.k.caching:
        return 0
    t = s.k.table(s.run[0], g)
    if sees_part(s, t):
        return 0
    by = None if s.k.several else "tlen"
    holders = s.k.count("R", lambda r: s.tlen[s.k.table(r, g)] > 0, by=by)
    n = 0
    while n < s.tlen[t] and s.ref[s.tab[t, n]] == holders:
        n += 1
    return n


def common_prefixes(s: State) -> int | tuple[int, ...] | None:
    """What is reported of them, where the profile tells it."""
    if not s.k.sem.tells_common_prefix:
        return None
    if not s.k.several:
        return common_prefix(s)
    return tuple(common_prefix(s, g) for g in range(len(s.k.groups)))


@clause("OUT-16")
def new_order(s: State) -> list[Value]:
    """Requests that the worker has not seen are reported as new, in schedule order; to the second
    model runner, which forgets whoever was preempted, resumed ones are new as well, behind those.

    Source: Scheduler.schedule, use_v2_model_runner.
    """
    if s.k.second_runner:
        return _of_kind(s, NEW) + _of_kind(s, RESUMED)
    return _of_kind(s, NEW)


@clause("OUT-5")
def cached_order(s: State) -> list[Value]:
    """Known requests are reported running ones first, in schedule order, then resumed ones.

    Source: Scheduler._make_cached_request_data.
    """
    if s.k.second_runner:
        return _of_kind(s, 0)
    return _of_kind(s, 0) + _of_kind(s, RESUMED)


def _of_kind(s: State, kind: Value) -> list[Value]:
    return [r for r, _ in scheduled(s) if s.fresh[r] == kind]


@clause("OUT-17")
def prefill(s: State, r: Value) -> int | None:
    """The second model runner is sent all tokens of a request that is new to it: of a resumed one
    its output too.

    Source: NewRequestData.prefill_token_ids.
    """
    return s.ntok[r] if s.k.second_runner else None


def _cached(s: State, r: Value) -> CachedRequest:
    resumed = s.fresh[r] == RESUMED
    return CachedRequest(
        id=r,
        new_blocks=blocks(s, r, known=not resumed),
        computed=s.comp[r],
        num_output=num_output(s, r) + tokens_ahead(s, r),
        resumed=resumed,
        all_tokens=tokens_again(s, r),
    )


@clause("OUT-6")
def scheduler_output(s: State) -> SchedulerOutput:
    """A step reports what it schedules, whom it preempted, and who finished since the step before.

    Source: Scheduler.schedule, SchedulerOutput. Computed tokens are those before this step.
    """
    order = scheduled(s)
    return SchedulerOutput(
        num_scheduled_tokens=order,
        new=tuple(NewRequest(r, blocks(s, r), s.comp[r], prefill(s, r)) for r in new_order(s)),
        cached=tuple(_cached(s, r) for r in cached_order(s)),
        preempted=frozenset(s.preempted),
        finished=frozenset(s.finished),
        num_common_prefix_blocks=common_prefixes(s),
        num_draft_tokens=drafts(s),
        encoder_inputs=encoder_inputs(s),
        connector_items=connector_items(s),
        evicted_items=evicted_items(s),
        to_zero=to_zero(s),
    )


@clause("OUT-18")
def ends_told(s: State) -> dict[int, frozenset[Value]] | None:
    """With an update each client is told which of its requests have ended since the last one,
    whatever ended them; who has none to hear of is told nothing.

    Source: Scheduler.update_from_output: finished_req_ids_dict.
    """
    if not s.k.tells_ends:
        return None
    return {client: frozenset(s.ends[client]) for client in s.ends if s.ends[client]}


@clause("OUT-19")
def by_client(told: Iterable[tuple[int, T]]) -> list[T]:
    """Outputs go to one client after the other, to each in the order in which its requests were
    settled, its refusals first.

    Source: Scheduler.update_from_output: engine_core_outputs. `told` has whose an output is, and
    the output.
    """
    return [output for _, output in sorted(told, key=lambda one: one[0])]
