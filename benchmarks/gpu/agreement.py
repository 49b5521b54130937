"""The scheduler on the device beside the NumPy engine, in random games: a figure of one that
decides otherwise would mean nothing.

Kernels are compiled for the constants of an engine, so games are few in kind and long.
"""

import random
from collections import Counter
from dataclasses import fields, replace

import numpy as np

from nullblock.impl import Request, Scheduler
from nullblock.impl.device.scheduler import Scheduler as Resident
from nullblock.impl.step import Outputs, Step
from nullblock.spec.facts import Config
from nullblock.spec.fields import PAUSED_ALL, PAUSED_NEW, UNPAUSED
from nullblock.spec.profiles import NORMATIVE, VLLM_0_22_1

EOS, STOP, VOCAB = 1, 3, 100
STATES = 1000
"""Steps from one comparison of the whole states to the next one."""
OWN = {"requests", "rows", "admitted"}
"""Fields of a step that an engine fills as it likes, or holds objects of its own in."""
Engine = Resident | Scheduler

CONFIGURATIONS = (
    Config(
        num_blocks=30, block_size=4, max_num_scheduled_tokens=64, max_num_seqs=16,
        max_model_len=64, semantics=NORMATIVE,
    ),
    Config(
        num_blocks=50, block_size=3, max_num_scheduled_tokens=40, max_num_seqs=13,
        max_model_len=50, policy="priority", scheduler_reserve_full_isl=False,
        semantics=VLLM_0_22_1,
    ),
    Config(
        num_blocks=300, block_size=16, max_num_scheduled_tokens=512, max_num_seqs=64,
        max_model_len=400, long_prefill_token_threshold=96,
        semantics=replace(NORMATIVE, freed_unhashed_first=True),
    ),
    Config(
        num_blocks=61, block_size=2, max_num_scheduled_tokens=48, max_num_seqs=8,
        max_model_len=40, policy="priority", enable_chunked_prefill=False, semantics=NORMATIVE,
    ),
)  # fmt: skip
"""Both policies, both orders of freed blocks, with the defects of vLLM 0.22.1 and without; pools
that do not hold all who would run."""


class Divergence(RuntimeError):
    """The two engines part: in which game, at which step, and how."""


class Game:
    """Random requests on both: shared prefixes, preemptions, ends of every kind, at any time."""

    def __init__(self, device: str, config: Config, seed: int = 0) -> None:
        self.seed, self.config, self.draw = seed, config, random.Random(seed)
        most = 4 * config.max_num_seqs
        self.device = Resident(config, device, num_rows=most, row_tokens=config.max_model_len + 2)
        self.numpy = Scheduler(config)
        self.num_steps = self._arrived = 0
        self.seen = Counter[str]()
        """How often what is rare happened."""

    def play(self, steps: int) -> None:
        """Take so many steps. Raises Divergence at the first thing that differs."""
        for _ in range(steps):
            self._between()
            self._step()
            self.num_steps += 1
            if self.num_steps % STATES == 0:
                self.compare_states()
        self.compare_states()

    def _step(self) -> None:
        step = self.numpy.schedule()
        self._same(told(self.device.schedule()), told(step))
        self.seen["preempted"] += len(step.preempted)
        self.seen["hit"] += int((step.num_computed_tokens[step.running :] > 0).sum())
        self.seen["resumed"] += sum(request.num_preemptions > 0 for request in step.admitted)
        if self.draw.random() < 0.01:
            self._end(comes_again=self.draw.random() < 0.5)
        tokens = np.array([self.draw.randrange(VOCAB) for _ in step.ids], np.int64)
        outputs = self.numpy.update_from_output(tokens)
        self._same(came(self.device.update_from_output(tokens)), came(outputs))
        self.seen["ended by tokens"] += int((outputs.why != 0).sum())

    def _between(self) -> None:
        """Whatever may happen between two steps."""
        alive, chance = len(self.numpy.requests), self.draw.random
        while alive < 2 * self.config.max_num_seqs and chance() < 0.5:
            self._arrive(str(self._arrived))
            alive = len(self.numpy.requests)
        if chance() < 0.02:
            self._end(comes_again=False)
        if chance() < 0.003:
            running = chance() < 0.5
            done = [engine.reset_prefix_cache(running) for engine in (self.device, self.numpy)]
            self._same(*done)
            self.seen["reset"] += done[0]
        if chance() < 0.01:
            blocks = self.draw.sample(range(self.config.num_blocks), 3)
            self.device.evict_blocks(blocks)
            self.numpy.evict_blocks(blocks)
        if chance() < (0.005 if self.numpy.pause_state == UNPAUSED else 0.3):
            state = self.draw.choice([UNPAUSED, PAUSED_NEW, PAUSED_ALL])
            self.device.pause_state = self.numpy.pause_state = state
            self.seen["paused"] += state != UNPAUSED

    def _arrive(self, id: str) -> None:
        """A request; half of them begin alike."""
        draw, longest = self.draw, self.config.max_model_len
        prompt = [draw.randrange(VOCAB) for _ in range(draw.randrange(1, longest // 2))]
        if draw.random() < 0.5:
            prompt = [2] * draw.choice([longest // 8, longest // 4]) + prompt
        most = draw.randrange(1, longest // 2)
        # Who may not stop at max_model_len goes on behind it in 0.22.1: the device refuses that.
        least = draw.randrange(min(most, longest - len(prompt)))
        facts = {
            "max_tokens": most,
            "min_tokens": least if draw.random() < 0.2 else 0,
            "priority": draw.randrange(3),
            "arrival_time": float(self._arrived // 2),
            "eos": EOS,
            "stop": frozenset([STOP]) if draw.random() < 0.2 else frozenset(),
            "skip_reading_prefix_cache": draw.random() < 0.05,
            "extras": draw.choice([((), ()), ((), ()), (("salt",), ())]),
        }
        for engine in (self.device, self.numpy):
            engine.add_request(Request(id, prompt, **facts))
        self._arrived += 1

    def _end(self, comes_again: bool) -> None:
        """Somebody is ended from outside; perhaps one of the same id arrives."""
        if not self.numpy.requests:
            return
        id = self.draw.choice(list(self.numpy.requests))
        self._same(self.device.finish_requests([id]), self.numpy.finish_requests([id]))
        self.seen["ended from outside"] += 1
        if comes_again:
            self._arrive(id)

    def compare_states(self) -> None:
        """The whole states are alike, to the order of every free block."""
        self._same(state_of(self.device), state_of(self.numpy))

    def _same(self, found: object, expected: object) -> None:
        if found != expected:
            what = _difference(found, expected)
            raise Divergence(f"seed {self.seed}, step {self.num_steps}: {what}")


def compare(
    device: str, steps: int, seed: int = 0, config: Config = CONFIGURATIONS[0]
) -> Counter[str]:
    """Play one game; what it saw of what is rare. Raises Divergence where the engines part."""
    game = Game(device, config, seed)
    game.play(steps)
    return game.seen


def told(step: Step) -> dict[str, object]:
    """All that a step tells."""
    return _plain(step) | {"resumed": [r.id for r in step.admitted if r.num_preemptions]}


def came(outputs: Outputs) -> dict[str, object]:
    """All that came of it."""
    return _plain(outputs)


def _difference(found: object, expected: object) -> str:
    """What to say of two things that differ: of two records only the fields that do."""
    if isinstance(found, dict) and isinstance(expected, dict):
        return ", ".join(
            f"{name} is {found[name]} instead of {value}"
            for name, value in expected.items()
            if found[name] != value
        )
    return f"{found} instead of {expected}"


def _plain(record: Step | Outputs) -> dict[str, object]:
    """Its fields, arrays as lists."""
    values = {f.name: getattr(record, f.name) for f in fields(record) if f.name not in OWN}
    return {n: v.tolist() if isinstance(v, np.ndarray) else v for n, v in values.items()}


def state_of(engine: Engine) -> tuple[object, ...]:
    """All that decides what happens next, but for what engines call contents."""
    seen = engine.picture()
    assert seen.pool is not None
    return (
        *(seen.waiting, seen.running, sorted(seen.finished), seen.requests),
        *(seen.pool.free_queue, seen.pool.ref_cnt, sorted(seen.pool.copies.values())),
    )
