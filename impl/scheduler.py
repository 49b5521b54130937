"""The scheduler: vLLM's decisions, over arrays.

A step's usual work (every running request gets its tokens, and the free blocks suffice) is done for
all requests at once. Where the rules say "one after another" (a preemption, an admission, an end)
they are taken one after another.
"""

from dataclasses import dataclass

import numpy as np

from nullblock.impl.block_pool import BlockPool
from nullblock.impl.free_queue import Blocks
from nullblock.impl.requests import Request, Tokens
from nullblock.impl.seats import Ints, Seats
from nullblock.impl.step import Step
from nullblock.impl.waiting import FCFS, Priority, WaitingQueue
from nullblock.spec.facts import Config
from nullblock.spec.rejection import why_unservable

UNPAUSED, PAUSED_NEW, PAUSED_ALL = range(3)


@dataclass(slots=True)
class _Open:
    """The step being decided."""

    budget: int
    index: int = 0
    """The running request whose turn it is (an index of the running list)."""


class Scheduler:
    """Synchronous scheduling of one full-attention group.

    Raises ValueError for asynchronous scheduling.
    """

    def __init__(self, config: Config) -> None:
        if config.async_scheduling:
            raise ValueError("this engine schedules synchronously")
        self.config, self.semantics = config, config.semantics
        self.pool = BlockPool(config.num_blocks, self.semantics.freed_unhashed_first)
        self.seats = Seats(config.max_num_seqs, config.max_model_len, config.block_size)
        self.waiting: WaitingQueue = Priority() if config.policy == "priority" else FCFS()
        self.requests: dict[str, Request] = {}
        """Everybody alive, by id, in order of arrival."""
        self.rejected: list[tuple[str, str]] = []
        """Refused at arrival, and not reported yet."""
        self.finished: list[str] = []
        """Ended, and not yet told to the worker."""
        self.pause_state = UNPAUSED
        self.step: Step | None = None
        """The step in flight."""
        self._ids: list[str] | None = None
        """The ids of the running list, while it stays as it is."""

    # Inputs between steps ------------------------------------------------------------------------

    def add_request(self, request: Request) -> None:
        """Queue a request, or note its rejection (LIFE-2)."""
        if self.semantics.reject_unservable:
            why = why_unservable(self.config, request.num_prompt_tokens, request.max_tokens)
            if why is not None:
                self.rejected.append((request.id, why))
                return
        self.extend_chains(request, request.tokens)
        self.requests[request.id] = request
        self.waiting.add(request)

    def extend_chains(self, request: Request, tokens: Tokens) -> None:
        """Name the content of the full blocks that have none yet; `tokens` are all it has."""
        if not self.config.enable_prefix_caching:
            return
        size, chains, cache = self.config.block_size, request.chains, self.pool.cache
        for i in range(len(chains), len(tokens) // size):
            parent = chains[-1] if chains else None
            extra = request.extra_rest if i else request.extra_first
            chains.append(cache.chain(parent, tokens[i * size : (i + 1) * size].tobytes(), extra))

    def finish_requests(self, ids: list[str]) -> list[str]:
        """End requests from outside, in this order; those that were alive (LIFE-4, LIFE-5)."""
        ended = [id for id in dict.fromkeys(ids) if id in self.requests]
        for id in ended:
            request = self.requests[id]
            if request.seat is None:
                self.waiting.remove(request)
            else:
                index = int(np.flatnonzero(self.seats.taken == request.seat)[0])
                self.release(self.seats.drop(index))
                self._ids = None
            self.forget(request)
        return ended

    def list_changed(self) -> None:
        """The running list is not what it was."""
        self._ids = None

    def forget(self, request: Request) -> None:
        """A request that holds nothing any more is over (LIFE-6)."""
        self.finished.append(request.id)
        del self.requests[request.id]

    def reset_prefix_cache(self, reset_running: bool) -> bool:
        """Empty the cache; it cannot be while blocks are held. Whether it was done (LIFE-10).

        With `reset_running` all running requests are preempted first (LIFE-3).
        """
        if reset_running:
            while self.seats.count:
                self.preempt(self.seats.count - 1)
            self.seats.in_previous[:] = False
        return self.pool.reset()

    def num_tokens(self, request: Request) -> int:
        """Prompt and output of a request, wherever it is."""
        seat = request.seat
        return request.num_tokens if seat is None else int(self.seats.num_tokens[seat])

    def num_unfinished(self) -> int:
        """Requests that there is work for, under the pause state (LIFE-16)."""
        counts = {UNPAUSED: len(self.requests), PAUSED_NEW: self.seats.count, PAUSED_ALL: 0}
        return counts[self.pause_state]

    def evict_blocks(self, blocks: list[int]) -> None:
        """Take blocks out of the cache; whoever holds them keeps holding them (HASH-13)."""
        for block in blocks:
            self.pool.cache.evict(block)

    # The step ------------------------------------------------------------------------------------

    def schedule(self) -> Step:
        """Decide one step: running requests first, then admissions.

        Raises RuntimeError while another step is in flight.
        """
        if self.step is not None:
            raise RuntimeError("this engine has one step in flight at most")
        seats = self.seats
        paused = self.pause_state == PAUSED_ALL
        step = _Open(0 if paused else self.config.max_num_scheduled_tokens)
        taken = seats.taken
        seats.granted[taken] = 0
        seats.told[taken] = seats.num_blocks[taken]
        preempted = self._schedule_running(step)
        running, admitted = seats.count, list[Request]()
        if not preempted and self.pause_state == UNPAUSED and len(self.waiting):
            admitted = self._schedule_waiting(step)
        self.step = self._decided(running, admitted, preempted)
        return self.step

    def _schedule_running(self, step: _Open) -> list[str]:
        """Give each running request its tokens, in order (RUN-1 to RUN-4); whom that preempted.

        All of those before the first one that lacks blocks get theirs at once; then that one
        preempts, and so on.
        """
        seats, pool, preempted = self.seats, self.pool, list[str]()
        while step.index < seats.count and step.budget > 0:
            rest = seats.order[step.index : seats.count]
            tokens = self._tokens_to_run(rest, step.budget)
            needed = self._blocks_needed(rest, tokens)
            total = int(needed.sum())
            if total <= pool.num_free:
                self._grant(rest, tokens, needed, total)
                step.budget -= int(tokens.sum())
                break
            short = int((np.cumsum(needed) > pool.num_free).argmax())
            before = needed[:short]
            self._grant(rest[:short], tokens[:short], before, int(before.sum()))
            step.budget -= int(tokens[:short].sum())
            step.index += short
            if not self._preempt_for(int(rest[short]), int(tokens[short]), step, preempted):
                break
        return preempted

    def _tokens_to_run(self, rest: Ints, budget: int) -> Ints:
        """What each of these running requests gets, the budget spent from the first on (RUN-2)."""
        seats, threshold = self.seats, self.config.long_prefill_token_threshold
        computed = seats.num_computed[rest]
        tokens = seats.num_tokens[rest] - computed
        if threshold > 0:
            np.minimum(tokens, threshold, out=tokens)
        np.minimum(tokens, self.config.max_model_len - 1 - computed, out=tokens)
        if len(tokens) and int(tokens.min()) < 0:
            return _spent(tokens, budget)
        if int(tokens.sum()) > budget:
            before = np.cumsum(tokens) - tokens
            tokens = np.minimum(tokens, np.maximum(budget - before, 0))
        return tokens

    def _blocks_needed(self, rest: Ints, tokens: Ints) -> Ints:
        """Blocks that each lacks for so many more tokens (ALLOC-1)."""
        seats, size = self.seats, self.config.block_size
        goal: Ints = seats.num_computed[rest] + tokens
        goal += size - 1
        goal //= size
        goal -= seats.num_blocks[rest]
        np.maximum(goal, 0, out=goal)
        return goal

    def _grant(self, who: Ints, tokens: Ints, needed: Ints, total: int) -> None:
        """Give slots to each of these, and cache what the step fills (HASH-12)."""
        seats = self.seats
        if total:
            blocks = self.pool.take(total)
            lacking = needed.nonzero()[0]
            rows, counts = who[lacking], needed[lacking]
            columns = seats.num_blocks[rows]
            seats.num_blocks[rows] += counts
            if total > len(rows):
                rows, columns = np.repeat(rows, counts), np.repeat(columns, counts)
                columns += np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts)
            seats.table[rows, columns] = blocks
        seats.granted[who] = tokens
        if self.config.enable_prefix_caching:
            goal = seats.num_computed[who] + tokens
            np.minimum(goal, seats.num_tokens[who], out=goal)
            goal //= self.config.block_size
            fills = (goal > seats.num_cached[who]).nonzero()[0]
            for i in fills.tolist():
                self._publish(int(who[i]), int(goal[i]))

    def _publish(self, seat: int, full: int) -> None:
        """Cache the leading `full` blocks of a seat, as far as they are not (HASH-12)."""
        request = self.seats.requests[seat]
        assert request is not None
        first, insert = int(self.seats.num_cached[seat]), self.pool.cache.insert
        blocks = self.seats.table[seat, first:full].tolist()
        for block, chain in zip(blocks, request.chains[first:full], strict=True):
            insert(block, chain)
        self.seats.num_cached[seat] = full

    def _preempt_for(self, seat: int, tokens: int, step: _Open, preempted: list[str]) -> bool:
        """Preempt until a seat's slots fit; False once its own request was (PREEMPT-2)."""
        who, granted = np.array([seat]), np.array([tokens])
        while True:
            victim = self._victim()
            request = self._withdraw(victim, step)
            preempted.append(request.id)
            if seat == self._left:
                return False
            needed = self._blocks_needed(who, granted)
            if int(needed[0]) <= self.pool.num_free:
                break
        self._grant(who, granted, needed, int(needed[0]))
        step.budget -= tokens
        step.index += 1
        return True

    def _victim(self) -> int:
        """Whom to preempt, as an index of the running list (PREEMPT-1)."""
        seats = self.seats
        if self.config.policy != "priority":
            return seats.count - 1
        held = [seats.requests[seat] for seat in seats.taken.tolist()]
        keys = [(r.priority, r.arrival_time) for r in held if r is not None]
        return keys.index(max(keys))

    def _withdraw(self, victim: int, step: _Open) -> Request:
        """Preempt a running request, which may have had its turn (PREEMPT-3)."""
        seats = self.seats
        seat = self._left = int(seats.order[victim])
        granted = int(seats.granted[seat])
        if granted:
            step.budget += granted
            if self.semantics.withdraw_uncaches:
                first = int(seats.num_computed[seat]) // self.config.block_size
                for block in seats.table[seat, first : seats.num_blocks[seat]].tolist():
                    self.pool.cache.evict(block)
        # vLLM 0.22.1 notices that the list got shorter only if the victim was scheduled.
        if granted or (self.semantics.victim_shifts_index and victim < step.index):
            step.index -= 1
        return self.preempt(victim)

    def preempt(self, index: int) -> Request:
        """Take a running request's blocks, and let it wait and start over (PREEMPT-4)."""
        request = self.release(self.seats.drop(index))
        request.num_preemptions += 1
        self.waiting.put_back(request)
        self._ids = None
        return request

    def release(self, seat: int) -> Request:
        """Free a seat and its blocks, last block first (POOL-12)."""
        seats, step = self.seats, self.step
        if step is not None and step.requests is None:
            held_then = [seats.requests[taken] for taken in step.seats.tolist()]
            step.requests = [request for request in held_then if request is not None]
        held = seats.table[seat, : seats.num_blocks[seat]][::-1]
        self.pool.release(held.copy())
        return seats.leave(seat)

    def _schedule_waiting(self, step: _Open) -> list[Request]:
        """Admit from the head of the queue; the first that does not fit blocks all behind it
        (WAIT-5).
        """
        admitted = []
        while len(self.waiting) and step.budget > 0:
            if self.seats.count == self.config.max_num_seqs:
                break
            tokens = self._admit(self.waiting.peek(), step.budget)
            if tokens is None:
                break
            admitted.append(self.waiting.pop())
            step.budget -= tokens
        return admitted

    def _admit(self, request: Request, budget: int) -> int | None:
        """Let a waiting request run, if its slots fit; how many tokens it gets (WAIT-2, WAIT-3)."""
        config, pool, n = self.config, self.pool, request.num_tokens
        hits = self._hits(request)
        computed = len(hits) * config.block_size
        tokens = n - computed
        if 0 < config.long_prefill_token_threshold < tokens:
            tokens = config.long_prefill_token_threshold
        if tokens > budget:
            if not config.enable_chunked_prefill:
                return None
            tokens = budget
        wanted = [min(computed + tokens, config.max_model_len)]
        if config.scheduler_reserve_full_isl:
            wanted.append(min(n, config.max_model_len))
        found = np.array(hits, np.int32)
        in_queue = int((pool.ref_cnt[found] == 0).sum())
        if self._blocks(max(wanted)) - len(hits) + in_queue > pool.num_free:
            return None
        seat = self.seats.enter(request, computed, config.max_model_len)
        pool.touch(found)
        self.seats.table[seat, : len(hits)] = found
        self.seats.num_blocks[seat] = self.seats.num_cached[seat] = len(hits)
        who, granted = np.array([seat]), np.array([tokens])
        needed = self._blocks_needed(who, granted)
        self._grant(who, granted, needed, int(needed[0]))
        return tokens

    def _blocks(self, tokens: int) -> int:
        return -(-tokens // self.config.block_size)

    def _hits(self, request: Request) -> list[int]:
        """The cached prefix of a waiting request: all its tokens but the last (HASH-11)."""
        if not self.config.enable_prefix_caching or request.skip_reading_prefix_cache:
            return []
        most = (request.num_tokens - 1) // self.config.block_size
        return self.pool.cached_prefix(request.chains[:most])

    # What is decided -----------------------------------------------------------------------------

    def _decided(self, running: int, admitted: list[Request], preempted: list[str]) -> Step:
        """The step, which counts as computed from now on (UPD-1).

        `running`: how many of the running list ran before it.
        """
        seats = self.seats
        ids, who = self._names(admitted), seats.taken
        granted = seats.granted[who]
        if not granted.all():
            some = granted != 0
            ids = [id for id, scheduled in zip(ids, some.tolist(), strict=True) if scheduled]
            running = int(some[:running].sum())
            seats.in_previous[who[~some]] = False
            who, granted = who[some], granted[some]
        else:
            who = who.copy()
        computed = seats.num_computed[who]
        counts = seats.num_blocks[who] - seats.told[who]
        again = self._sent_again(ids, who, running, admitted)
        seats.in_previous[who] = True
        seats.num_computed[who] = after = computed + granted
        samples = after >= seats.num_tokens[who] + seats.placeholders[who]
        step = Step(
            ids=ids,
            seats=who,
            num_scheduled_tokens=granted,
            samples=samples,
            running=running,
            admitted=admitted,
            num_computed_tokens=computed,
            num_output_tokens=seats.num_tokens[who] - seats.num_prompt[who],
            new_block_counts=counts,
            new_block_ids=self._appended(who, counts),
            all_token_ids=again,
            preempted=preempted,
            finished=self.finished,
            num_common_prefix_blocks=self._common_prefix(),
        )
        if self.semantics.outputs_owed_once:
            seats.placeholders[who] += samples
        self.finished = []
        return step

    def _names(self, admitted: list[Request]) -> list[str]:
        """The ids of the running list."""
        if self._ids is None:
            held = [self.seats.requests[seat] for seat in self.seats.taken.tolist()]
            self._ids = [request.id for request in held if request is not None]
        elif admitted:
            self._ids = self._ids + [request.id for request in admitted]
        return self._ids

    def _sent_again(
        self, ids: list[str], who: Ints, running: int, admitted: list[Request]
    ) -> dict[str, list[int]]:
        """All tokens of the known requests that were not in the step before (OUT-3)."""
        seats = self.seats
        missing = (~seats.in_previous[who[:running]]).nonzero()[0].tolist()
        missing += [running + i for i, r in enumerate(admitted) if r.num_preemptions]
        return {ids[i]: seats.tokens[who[i], : seats.num_tokens[who[i]]].tolist() for i in missing}

    def _appended(self, who: Ints, counts: Ints) -> Blocks:
        """The blocks that each of these got in this step, one after another (OUT-2)."""
        seats = self.seats
        some = counts.nonzero()[0]
        rows, counts = who[some], counts[some]
        columns = seats.told[rows]
        total = int(counts.sum())
        if total > len(rows):
            rows, columns = np.repeat(rows, counts), np.repeat(columns, counts)
            columns += np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts)
        found: Blocks = seats.table[rows, columns]
        return found

    def _common_prefix(self) -> int:
        """Leading blocks of the first running request that every request holds (OUT-4)."""
        seats, ref_cnt = self.seats, self.pool.ref_cnt
        if not seats.count or not self.config.enable_prefix_caching:
            return 0
        first = seats.order[0]
        if ref_cnt[seats.table[first, 0]] != seats.count:
            return 0
        shared = ref_cnt[seats.table[first, : seats.num_blocks[first]]] == seats.count
        return len(shared) if shared.all() else int(shared.argmin())


def _spent(tokens: Ints, budget: int) -> Ints:
    """What each gets of a budget where some take less than nothing: in vLLM 0.22.1 a request at
    max_model_len, resumed below min_tokens, does.
    """
    found = np.zeros_like(tokens)
    for i, n in enumerate(tokens.tolist()):
        if budget <= 0:
            break
        found[i] = min(n, budget)
        budget -= int(found[i])
    return found
