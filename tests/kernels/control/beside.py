"""The device state and the NumPy engine, fed with the same and compared in everything. Kernels run
on a device, their twins on a CPU.

What the NumPy engine says of a step's output (who stops) is taken over: the update phase has tests
of its own. All else the kernels, or their twins, decide by themselves.
"""

from collections.abc import Iterable

import torch
from control_bench import CPU, ints, place_of

from nullblock.impl import Outputs, Request, Scheduler, Step, update_from_output
from nullblock.kernels.arguments import Backend
from nullblock.kernels.control.decision import decide
from nullblock.kernels.control.evict import evict_blocks
from nullblock.kernels.control.faults import raise_if
from nullblock.kernels.control.queues import unqueue, waiting_rows
from nullblock.kernels.control.release import release_rows
from nullblock.kernels.control.reset import reset_prefix_cache
from nullblock.kernels.control.ring import free_blocks
from nullblock.kernels.control.running_phase import schedule_running
from nullblock.kernels.control.schedule import schedule
from nullblock.kernels.control.sizes import Sizes
from nullblock.kernels.control.state import State, new_state
from nullblock.kernels.control.waiting_phase import schedule_waiting
from nullblock.kernels.control.words import (
    ABSENT,
    NUM_COMMON_PREFIX_BLOCKS,
    NUM_ENDED,
    NUM_FINISHED,
    NUM_FREE,
    NUM_NEW_BLOCKS,
    NUM_PREEMPTED,
    NUM_RAN,
    NUM_RUNNING,
    NUM_SCHEDULED,
    NUM_TOKENS,
    PAUSE,
    RESET_DONE,
    RUNNING,
    WAITING,
    WAITING_TAIL,
)
from nullblock.spec.facts import Config
from nullblock.spec.fields import PAUSED_ALL, PAUSED_NEW, UNPAUSED

PAUSES = [UNPAUSED, PAUSED_NEW, PAUSED_ALL]


def sizes_of(config: Config, num_rows: int, lanes: int = 8) -> Sizes:
    """The same engine's constants, as the kernels take them."""
    semantics = config.semantics
    return Sizes(
        num_blocks=config.num_blocks,
        block_size=config.block_size,
        max_num_seqs=config.max_num_seqs,
        max_model_len=config.max_model_len,
        max_num_scheduled_tokens=config.max_num_scheduled_tokens,
        num_rows=num_rows,
        long_prefill_token_threshold=config.long_prefill_token_threshold,
        enable_chunked_prefill=config.enable_chunked_prefill,
        enable_prefix_caching=config.enable_prefix_caching,
        scheduler_reserve_full_isl=config.scheduler_reserve_full_isl,
        priority=config.policy == "priority",
        withdraw_uncaches=semantics.withdraw_uncaches,
        victim_shifts_index=semantics.victim_shifts_index,
        victim_by_id=semantics.victim_by_id,
        length_before_min_tokens=semantics.length_before_min_tokens,
        freed_unhashed_first=semantics.freed_unhashed_first,
        lanes=lanes,
    )


class Beside:
    """Both engines. Every method leaves them equal, or fails."""

    def __init__(
        self,
        config: Config,
        backend: Backend,
        fused: bool = True,
        num_rows: int = 12,
        device: torch.device = CPU,
    ) -> None:
        self.config, self.backend, self.fused = config, backend, fused
        self.engine = Scheduler(config)
        where = place_of(backend, device)
        self.state: State = new_state(sizes_of(config, num_rows), where, seed=num_rows)
        self.rows: dict[str, int] = {}
        self.free_rows = list(range(num_rows - 1, -1, -1))
        self.known: dict[int, tuple[int, int]] = {}
        """The key of each name of the NumPy engine that was ever seen with a block."""

    # What may happen between steps ---------------------------------------------------------------

    def add(self, request: Request) -> bool:
        """An arrival; False: there is no row for it, or it is refused."""
        if not self.free_rows or request.num_tokens > self.config.max_model_len:
            return False
        self.engine.add_request(request)
        if self.engine.rejected:
            self.engine.rejected.clear()
            return False
        row = self.rows[request.id] = self.free_rows.pop()
        self._fill(row, request)
        tail = self.state.word(WAITING_TAIL)
        place = tail % self.state.sizes.waiting_capacity
        self.state.arrays.queues.waiting[place] = row
        self.state.set_word(WAITING_TAIL, tail + 1)
        self.same()
        return True

    def _fill(self, row: int, request: Request) -> None:
        columns = self.state.arrays.requests
        n = request.num_tokens
        columns.tokens[row, :n] = torch.from_numpy(request.tokens)
        values = {
            "stage": WAITING.value,
            "num_tokens": n,
            "num_prompt": n,
            "num_computed": 0,
            "num_blocks": 0,
            "num_cached": 0,
            "num_keys": 0,
            "skip_reading_prefix_cache": int(request.skip_reading_prefix_cache),
            "priority": request.priority,
            "arrival": request.arrival_time,
            "tie": sum(ord(c) << 8 * (6 - i) for i, c in enumerate(request.id)),
            "num_preemptions": 0,
        }
        for name, value in values.items():
            getattr(columns, name)[row] = value
        for i, extra in enumerate(request.extras):
            columns.extra[row, i] = sum(map(ord, "".join(extra)))

    def finish(self, ids: list[str]) -> None:
        """End requests from outside, in this order (LIFE-4, LIFE-5)."""
        running = {request.id for request in self.engine.running.requests}
        ended = self.engine.finish_requests(ids)
        self._end(ended, [id for id in ended if id in running])
        self.same()

    def reset(self, reset_running: bool) -> None:
        """Empty the cache, if it can be (LIFE-10)."""
        done = self.engine.reset_prefix_cache(reset_running)
        reset_prefix_cache(self.state, reset_running, self.backend)
        assert self.state.word(RESET_DONE) == done
        self.same()

    def evict(self, blocks: list[int]) -> None:
        """Take blocks out of the cache (HASH-13)."""
        self.engine.evict_blocks(blocks)
        evict_blocks(self.state, ints(blocks, self.state.device), self.backend)
        self.same()

    def pause(self, how: int) -> None:
        """Pause or go on (LIFE-7)."""
        self.engine.pause_state = PAUSES[how]
        self.state.set_word(PAUSE, how)

    # A step --------------------------------------------------------------------------------------

    def step(self, tokens: Iterable[int]) -> tuple[Step, Outputs]:
        """Schedule and update; `tokens` are what is sampled, one after another."""
        step = self.engine.schedule()
        if self.fused:
            schedule(self.state, self.backend)
        else:
            schedule_running(self.state, self.backend)
            schedule_waiting(self.state, self.backend)
            decide(self.state, self.backend)
        self._same_decision(step)
        self.same()
        source = iter(tokens)
        sampled = [next(source) for _ in step.ids]
        outputs = update_from_output(self.engine, sampled)
        columns = self.state.arrays.requests
        for id, token in zip(outputs.ids, outputs.tokens.tolist(), strict=True):
            row = self.rows[id]
            columns.tokens[row, int(columns.num_tokens[row])] = token
            columns.num_tokens[row] += 1
        stopped = [id for id, why in zip(outputs.ids, outputs.why, strict=True) if why]
        self._end(stopped, stopped)
        self.same()
        return step, outputs

    def _end(self, ids: list[str], held: list[str]) -> None:
        """Requests end; those that ran release their blocks, in this order."""
        queues, stage = self.state.arrays.queues, self.state.arrays.requests.stage
        rows = ints([self.rows[id] for id in held], self.state.device)
        release_rows(self.state, rows, self.backend)
        for id in ids:
            row = self.rows.pop(id)
            stage[row] = ABSENT.value
            queues.ended[self.state.word(NUM_ENDED)] = row
            self.state.set_word(NUM_ENDED, self.state.word(NUM_ENDED) + 1)
            self.free_rows.insert(0, row)
        unqueue(self.state, self.backend)

    # Comparison ----------------------------------------------------------------------------------

    def _same_decision(self, step: Step) -> None:
        """The step is the same in all that a worker is told (OUT-1 to OUT-6)."""
        raise_if(self.state.arrays.error)
        word, decision = self.state.word, self.state.arrays.decision
        n = word(NUM_SCHEDULED)
        told = {name: getattr(decision, name)[:n].tolist() for name in PARALLEL}
        ids = {row: id for id, row in self.rows.items()}
        assert [ids[row] for row in told["row"]] == step.ids
        for name in ("num_scheduled_tokens", "num_computed_tokens", "num_output_tokens"):
            assert told[name] == getattr(step, name).tolist(), name
        assert told["samples"] == step.samples.astype(int).tolist()
        assert told["new_block_counts"] == step.new_block_counts.tolist()
        new = decision.new_block_ids[: word(NUM_NEW_BLOCKS)].tolist()
        assert new == step.new_block_ids.tolist()
        again = [id for id, flag in zip(step.ids, told["send_all_tokens"], strict=True) if flag]
        assert sorted(again) == sorted(step.all_token_ids)
        resumed = [r.num_preemptions > 0 for r in step.admitted]
        assert told["resumed"] == [0] * step.running + [int(r) for r in resumed]
        preempted = decision.preempted[: word(NUM_PREEMPTED)].tolist()
        assert [ids[row] for row in preempted] == step.preempted
        assert word(NUM_RAN) == step.running and word(NUM_FINISHED) == len(step.finished)
        assert word(NUM_TOKENS) == step.num_scheduled_tokens.sum()
        assert word(NUM_COMMON_PREFIX_BLOCKS) == step.num_common_prefix_blocks

    def same(self) -> None:
        """Both are in the same state, to the order of every free block."""
        raise_if(self.state.arrays.error)
        self._same_pool()
        self._same_cache()
        self._same_requests()
        self._tidy()

    def _same_pool(self) -> None:
        pool, free = self.state.arrays.pool, free_blocks(self.state).tolist()
        assert free == self.engine.pool.free.in_order()
        assert len(free) == self.state.word(NUM_FREE)
        assert pool.ref_cnt.tolist() == self.engine.pool.ref_cnt.tolist()
        at = {b: p for b, p in enumerate(pool.position.tolist()) if p >= 0}
        assert sorted(at, key=at.__getitem__) == free
        places = [p % len(pool.ring) for p in at.values()]
        assert pool.ring[places].tolist() == list(at)
        assert int((pool.ring >= 0).sum()) == len(free), "a place outside the queue is not a hole"

    def _same_cache(self) -> None:
        """The same blocks are cached, equal contents under equal keys, in the same order."""
        cache, names = self.state.arrays.cache, self.engine.pool.cache
        found: dict[tuple[int, int], list[int]] = {}
        cached = cache.carried[:, 0].nonzero()[:, 0].tolist()
        for block in sorted(cached, key=lambda block: int(cache.stamp[block])):
            found.setdefault(tuple(cache.carried[block].tolist()), []).append(block)
            assert int(cache.slots[cache.slot[block]]) == block
        groups = {name: names.blocks_of(name) for name in set(names.carried.tolist()) - {0}}
        assert sorted(found.values()) == sorted(groups.values())
        assert int((cache.slots >= 0).sum()) == len(cached)

    def _same_requests(self) -> None:
        requests, running = self.state.arrays.requests, self.engine.running
        rows = self.state.arrays.queues.running[: self.state.word(NUM_RUNNING)].tolist()
        ids = {row: id for id, row in self.rows.items()}
        assert [ids[row] for row in rows] == running.ids
        for i, row in enumerate(rows):
            n = int(requests.num_blocks[row])
            assert requests.table[row, :n].tolist() == running.blocks(i).tolist()
            assert int(requests.stage[row]) == RUNNING.value
            for name in ("num_tokens", "num_computed", "num_cached"):
                assert int(getattr(requests, name)[row]) == int(getattr(running, name)[i]), name
        waiting = [ids[row] for row in waiting_rows(self.state).tolist()]
        expected = [request.id for request in self.engine.waiting]
        assert (sorted(waiting) if self.state.sizes.priority else waiting) == (
            sorted(expected) if self.state.sizes.priority else expected
        )
        for request in self.engine.waiting:
            row = self.rows[request.id]
            assert int(requests.num_preemptions[row]) == request.num_preemptions
            assert int(requests.stage[row]) == WAITING.value
            assert not int(requests.num_blocks[row]) and not int(requests.num_computed[row])

    def _tidy(self) -> None:
        """Scratch is as every kernel leaves it."""
        scratch = self.state.arrays.scratch
        assert not scratch.releases.any() and bool((scratch.last == -1).all())


PARALLEL = (
    "row",
    "num_scheduled_tokens",
    "samples",
    "num_computed_tokens",
    "num_output_tokens",
    "new_block_counts",
    "resumed",
    "send_all_tokens",
)
