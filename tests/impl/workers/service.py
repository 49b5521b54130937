"""A service with clients that do everything: a scheduler, and random events around its steps.

The engine is imported when a service is made, so that one with a planted defect can be.
"""

import random
from collections import Counter
from collections.abc import Callable, Generator
from typing import Any

import numpy as np

from nullblock.impl.known import KNOWN
from nullblock.spec.facts import Config
from nullblock.spec.fields import PAUSED_ALL, PAUSED_NEW, UNPAUSED
from nullblock.spec.profiles import PROFILES, VLLM_0_22_1

SEEDS = (*range(24), 57)


def config_of(dice: random.Random) -> Config:
    """A small pool, and little of everything."""
    return Config(
        num_blocks=dice.choice([9, 14, 30]),
        block_size=dice.choice([2, 4]),
        max_num_scheduled_tokens=dice.choice([8, 17, 64]),
        max_num_seqs=dice.choice([3, 6, 20]),
        max_model_len=28,
        long_prefill_token_threshold=dice.choice([0, 0, 5]),
        enable_prefix_caching=dice.random() < 0.8,
        policy=dice.choice(["fcfs", "priority"]),
        semantics=PROFILES[dice.choice(list(KNOWN))],
    )


class Service:
    """One scenario, replayed from its seed. `seen` counts what happened in it."""

    def __init__(self, seed: int, steps: int = 60) -> None:
        from nullblock.impl import Scheduler

        self.dice = random.Random(f"workers:{seed}")
        self.rate = self.dice.choice([0.15, 0.3, 0.5])
        self.scheduler = Scheduler(config_of(self.dice))
        self.steps = steps
        self.seen: Counter[str] = Counter()
        self.reset: Callable[[], None] = lambda: None
        """What is called when all who run were preempted between two steps."""
        self.arrived = 0
        self.about: dict[str, bytes] = {}
        """What the engine says of the latest request of an id."""
        self._last_rows: dict[int, str] = {}

    def play(self) -> Generator[Any, Any, None]:
        """Each step when it has been decided; then somebody sends what was sampled."""
        from nullblock.impl import update_from_output

        for _ in range(self.steps):
            self._events()
            try:
                step = self.scheduler.schedule()
            except AssertionError:
                return self._dies()
            self._notice(step)
            if (step.num_scheduled_tokens < 1).any():
                return self._dies()
            sampled = yield step
            self._events()
            update_from_output(self.scheduler, sampled)

    def _dies(self) -> None:
        """In vLLM 0.22.1 a request that is longer than max_model_len ends the engine."""
        assert self.scheduler.semantics == VLLM_0_22_1
        self.seen["died"] += 1

    def _events(self) -> None:
        dice, scheduler = self.dice, self.scheduler
        while dice.random() < self.rate:
            self._arrive()
        waiting = [request.id for request in scheduler.waiting if request.num_preemptions]
        if waiting and dice.random() < 0.15:
            self.seen["ended waiting"] += bool(scheduler.finish_requests(waiting))
            self._arrive(waiting[0])
        alive = list(scheduler.requests)
        if alive and dice.random() < 0.12:
            chosen = dice.sample(alive, min(len(alive), dice.choice([1, 1, 3])))
            self.seen["aborted"] += bool(scheduler.finish_requests(chosen))
            if dice.random() < 0.5:
                self.seen["id again"] += 1
                self._arrive(chosen[0])
        if dice.random() < 0.04:
            running = scheduler.running.count
            with_running = dice.random() < 0.7
            scheduler.reset_prefix_cache(with_running)
            if with_running:
                self.reset()
                self.seen["reset in flight" if scheduler.step else "reset"] += bool(running)
        if dice.random() < 0.05:
            scheduler.evict_blocks([dice.randrange(1, scheduler.config.num_blocks)])
        if dice.random() < 0.1 or (scheduler.pause_state and dice.random() < 0.5):
            scheduler.pause_state = dice.choice([UNPAUSED] * 5 + [PAUSED_NEW, PAUSED_ALL])

    def _arrive(self, id: str | None = None) -> None:
        from nullblock.impl import Request

        dice, scheduler = self.dice, self.scheduler
        config = scheduler.config
        most = min(config.max_model_len, config.block_size * (config.num_blocks - 1))
        self.arrived += 1
        # In vLLM 0.22.1 such a one is never done, and not scheduled any more (UPD-4).
        beyond = scheduler.semantics == VLLM_0_22_1 and dice.random() < 0.15
        length = most - 3 if beyond else dice.randrange(1, most - 1)
        longest = most - length + 2 if beyond else dice.randrange(1, most - length + 1)
        prompt = [dice.choice([0, 0, 0, 1])] * length
        if dice.random() < 0.2:
            prompt[-1] = dice.choice([2**31, -(2**31) - 1, 2**31 - 1, -(2**31), 2**63 - 1])
        id = f"r{self.arrived}" if id is None else id
        self.about[id] = f"arrived {self.arrived}".encode()
        scheduler.add_request(
            Request(
                id=id,
                prompt=prompt,
                max_tokens=longest,
                min_tokens=longest if beyond else 0,
                priority=dice.randrange(3),
                arrival_time=float(self.arrived),
                eos=7,
                stop=frozenset({8}) if dice.random() < 0.3 else frozenset(),
            )
        )

    def answer(self, step: Any) -> Any:
        """What the model says."""
        return np.array([self.dice.randrange(9) for _ in step.ids], np.int64)

    def _notice(self, step: Any) -> None:
        seen, running = self.seen, self.scheduler.running
        seen["preempted"] += len(step.preempted)
        admitted = step.admitted
        seen["resumed"] += sum(request.num_preemptions > 0 for request in admitted)
        seen["hit"] += int((step.num_computed_tokens[step.running :] > 0).sum())
        places = np.arange(running.count)[self.scheduler.in_flight[-1].places]
        seen["passed over"] += running.count - len(places)
        seen["passed over between"] += int((np.diff(places) > 1).sum())
        seen["chunk"] += int((~step.samples).sum())
        seen["several blocks"] += int((step.new_block_counts[: step.running] > 1).sum())
        seen["common prefix"] += step.num_common_prefix_blocks > 0
        seen["empty"] += not step.ids
        rows = dict(zip(running.row[: running.count].tolist(), running.ids, strict=False))
        seen["row again"] += sum(self._last_rows.get(row, id) != id for row, id in rows.items())
        self._last_rows |= rows
