"""Runs a scenario on an engine and writes what it decides, line by line.

The lines are those of the driver of the real engine, byte for byte where the decisions agree: a
header, one JSON object for each event and each half step, a trailer with a digest of all lines
before it. The driver plays the model: a sampled token is a function of seed, id and position.
It plays the engine's batch queue as well: scheduling asynchronously, a step is decided before the
outputs of those before it are known, up to ``queue_depth`` of them.
"""

import hashlib
import json
import os
import sys
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from traceback import extract_tb
from typing import ParamSpec, TypeVar, assert_never, cast

from msgspec import UNSET

from nullblock.conformance import drafting, scope, surroundings
from nullblock.conformance.engine import (
    Dump,
    Engine,
    Fields,
    FullEngine,
    NewRequest,
)
from nullblock.conformance.errors import InputError, ScenarioError
from nullblock.conformance.groups import block_sizes
from nullblock.conformance.repetition import cycled
from nullblock.conformance.scenario_format import (
    MAX_STEPS,
    Abort,
    Add,
    Counts,
    Draft,
    Drain,
    Event,
    EvictBlocks,
    GrammarReady,
    KvDone,
    KvMatch,
    Pause,
    ResetEncoderCache,
    ResetPrefixCache,
    Run,
    Scenario,
    Schedule,
    Step,
    Update,
)

P = ParamSpec("P")
T = TypeVar("T")

HASHES_ARE_FIXED = not sys.flags.ignore_environment and os.environ.get(
    "PYTHONHASHSEED", "random"
) not in ("", "random")
"""Whether string hashes, and with them the order of a set of strings, were fixed at the start.

Read on import: an engine may set the variable later, for its own hashes.
"""


class EngineRaised(Exception):
    """The engine raised: an observation, not an error."""


@dataclass(frozen=True, slots=True)
class InFlight:
    """A step that was scheduled and not updated yet."""

    step: int
    is_prefill_chunk: dict[str, bool]
    """By id, in schedule order. A chunk that is not the prompt's last samples nothing."""
    is_empty: bool
    """Whether no token was scheduled."""
    waits_for_tokens: bool
    """Whether a grammar of it needs tokens in flight: the engine takes their step first."""


def run(
    scenario: Scenario, engine: Engine, *, dump: Dump = "full", version: str = "0.22.1"
) -> Iterator[str]:
    """The output lines, without line ends.

    Args:
        version: what the header calls the line of rules that the engine follows.

    Raises:
        OutOfScope: the scenario needs what the engine does not do.
        InputError: an event turns out to be unusable when its turn comes. Lines that were taken
            already are then worth nothing.
    """
    scope.check_run(scenario, "at hand", engine.features)
    digest, count = hashlib.sha256(), 0
    for fields in Player(scenario, engine, dump).lines(version):
        line = _json(fields)
        digest.update(b"\n" * (count > 0) + line.encode())
        count += 1
        yield line
    yield _json({"ev": "trailer", "lines": count, "sha256": digest.hexdigest()})


def _json(fields: Fields) -> str:
    return json.dumps(fields, sort_keys=True, separators=(",", ":"))


class Player:
    """The driver's own state: the clock, the model, and the steps in flight.

    ``lines`` plays its scenario; ``take`` plays one event more, whatever the scenario has.
    """

    def __init__(self, scenario: Scenario, engine: Engine, dump: Dump) -> None:
        self.scenario = scenario
        self.config = scenario.config
        self.engine = engine
        self.dump: Dump = dump
        self.in_flight: deque[InFlight] = deque()
        self.num_steps = 0
        self.num_arrivals = 0
        self.eos_at: dict[str, tuple[int, int]] = {}
        """From which position on the model samples which token, by id. Stays when the request is
        gone and another one takes its id, as in the driver of the real engine."""
        self.cycles: dict[str, tuple[int, int]] = {}
        """From which position on it samples how many tokens over and over; stays as well."""
        self.surroundings = surroundings.Surroundings(scenario, engine)
        self.pooling: set[str] = set()
        """Ids for which the model makes a vector and samples nothing."""
        self.proposer = drafting.proposer(scenario.config, engine)
        self.place = ""
        """The event at hand, for errors."""

    def lines(self, version: str) -> Iterator[Fields]:
        """The fields of each line but the trailer."""
        scheduler_block_size, hash_block_size = block_sizes(self.config)
        yield {
            "ev": "header",
            "vllm": version,
            "config": self.scenario.written_config,
            "ignored": self.scenario.ignored,
            "hash_block_size": hash_block_size,
            "scheduler_block_size": scheduler_block_size,
        }
        try:
            for index, event in enumerate(self.scenario.events):
                self.place = f"events[{index}]"
                yield from self.take(event, index)
        except EngineRaised as raised:
            yield _exception_line(raised)

    def ask(self, method: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call the engine; what it raises becomes :class:`EngineRaised`."""
        try:
            return method(*args, **kwargs)
        except InputError:
            raise
        except Exception as error:
            raise EngineRaised from error

    def take(self, event: Event, index: int) -> Iterator[Fields]:
        """One event."""
        match event:
            case Add():
                self.add(event)
                yield {"ev": "add", "n": index, "id": event.id}
            case Step(n=n):
                for _ in range(n):
                    yield from self.step()
            case Schedule():
                yield self.schedule()
            case Update():
                yield self.update()
            case Drain():
                while self.in_flight:
                    yield self.update()
            case Run(max_steps=max_steps):
                yield from self.run(max_steps)
            case Abort(ids=ids, status=status):
                aborted = self.ask(self.engine.abort, abort_order(ids), status)
                yield self.with_state({"ev": "abort", "n": index, "aborted": sorted(aborted)})
            case ResetPrefixCache(reset_running=reset_running):
                ok = self.ask(self.engine.reset_prefix_cache, reset_running)
                yield self.with_state({"ev": "reset_prefix_cache", "n": index, "ok": ok})
            case Pause(state=state):
                self.ask(self.engine.pause, state)
                yield {"ev": "pause", "n": index, "id": None}
            case EvictBlocks(ids=block_ids):
                # As a set of numbers is iterated, in which vLLM keeps them.
                self.ask(self.engine.evict_blocks, list(set(block_ids)))
                yield {"ev": "evict_blocks", "n": index, "id": None}
            case KvDone() | KvMatch() | GrammarReady():
                # Several are dealt with in the order of a set of strings, as aborts are.
                both = (event.recv, event.send) if isinstance(event, KvDone) else ([], [])
                orders = [abort_order(some) or [] for some in both]
                self.ask(self.surroundings.take, event, *orders)
                yield {"ev": event.__struct_config__.tag, "n": index, "id": None}
            case ResetEncoderCache():
                self.ask(self.full_engine.reset_encoder_cache)
                yield self.with_state({"ev": "reset_encoder_cache", "n": index})
            case Counts():
                yield {"ev": "counts", "n": index, **self.ask(self.full_engine.counts)}
            case Draft(tokens=tokens, fill_in=fill_in):
                assert self.proposer is not None
                told = self.ask(self.proposer.told, tokens, fill_in)
                yield self.with_state({"ev": "draft", "n": index, **told})
            case _:
                assert_never(event)

    def add(self, event: Add) -> None:
        """A request arrives."""
        is_alive = self.ask(self.engine.num_tokens, event.id) is not None
        if is_alive and event.id not in self.surroundings.sessions:
            raise ScenarioError(
                f"the id {json.dumps(event.id[:80])} belongs to a request that is still alive",
                "use another id, or let that request end first",
                f"{self.place}.id",
            )
        self.num_arrivals += 1
        arrival = float(self.num_arrivals) if event.arrival is UNSET else float(event.arrival)
        request = NewRequest(
            id=event.id,
            prompt=event.prompt.tokens(),
            max_tokens=event.max_tokens,
            min_tokens=event.min_tokens,
            priority=event.priority,
            arrival=arrival,
            lora=event.lora or None,
            lora_id=_lora_id(event),
            salt=event.salt,
            stop=event.stop,
            eos=event.eos,
            repetition=event.repetition_detection,
            skip_cache_read=event.skip_cache_read,
            resumable=bool(event.resumable),
            grammar=surroundings.grammar(event),
            mm_features=tuple(event.mm_features),
            prompt_embeds=event.prompt_embeds,
            pooling=event.pooling,
            client_index=event.client_index,
        )
        if event.resumable or not is_alive:  # of the end of a session workers never hear
            (self.pooling.add if event.pooling else self.pooling.discard)(event.id)
        self.surroundings.added(event, is_alive)
        if event.eos_at is not UNSET and event.eos is not None:
            self.eos_at[event.id] = (len(request.prompt) + event.eos_at, event.eos)
        if event.cycle is not None:
            self.cycles[event.id] = (len(request.prompt) + event.cycle[0], event.cycle[1])
        self.ask(self.engine.add, request)

    def schedule(self) -> Fields:
        """The first half of a step."""
        if self.in_flight:
            scope.check_in_flight(self.engine.features, self.place)
        if self.num_steps == MAX_STEPS:
            raise ScenarioError(f"more than {MAX_STEPS} steps", "split the scenario", self.place)
        self.num_steps += 1
        decided = self.ask(self.engine.schedule)
        chunks = {id: self.ask(self.engine.is_prefill_chunk, id) for id in decided["order"]}
        decided |= self.ask(self.surroundings.decision)
        self.in_flight.append(
            InFlight(
                self.num_steps,
                chunks,
                is_empty=decided["total"] == 0,
                waits_for_tokens=decided.get("grammar", {}).get("pending", False),
            )
        )
        if self.proposer is not None:
            self.proposer.scheduled(self.num_steps, decided)
        return self.with_state({"ev": "schedule", "step": self.num_steps, **decided})

    def update(self) -> Fields:
        """The second half of the oldest step in flight."""
        if not self.in_flight:
            raise EngineRaised from IndexError("an update with no step in flight")
        step = self.in_flight.popleft()
        sampled = {
            id: [] if is_chunk or id in self.pooling else self.sample(id, step.step)
            for id, is_chunk in step.is_prefill_chunk.items()
        }
        if self.pooling:
            whole = [id for id, is_chunk in step.is_prefill_chunk.items() if not is_chunk]
            self.ask(self.full_engine.pool, [id for id in whole if id in self.pooling])
        # The engine may keep and cut the lists that it is given.
        outputs = self.ask(self.engine.update, {id: list(t) for id, t in sampled.items()})
        drafted = self.ask(self.proposer.updated, step.step, sampled) if self.proposer else {}
        fields = {
            "ev": "update",
            "step": step.step,
            "sampled": sampled,
            "outputs": outputs,
            "kv_events": self.kv_events(),
            **drafted,
        }
        if self.config.has_clients:
            fields["finished_by_client"] = self.ask(self.full_engine.finished_by_client)
        return self.with_state(fields)

    @property
    def full_engine(self) -> FullEngine:
        """The engine, asked for a feature that it was found to have."""
        return cast(FullEngine, self.engine)

    def kv_events(self) -> list[Fields]:
        """What this update told of the prefix cache."""
        return self.ask(self.engine.kv_events) if self.config.kv_events else []

    def step(self) -> Iterator[Fields]:
        """A whole step; asynchronously, a turn of the engine's batch queue.

        A turn schedules, and leaves it at that while the queue has room and there was something
        to schedule; otherwise the oldest step returns.
        """
        if not self.config.async_scheduling:
            yield self.schedule()
            yield self.update()
            return
        if self.ask(self.engine.has_requests):
            yield self.schedule()
            has_room = len(self.in_flight) < self.config.queue_depth
            last = self.in_flight[-1]
            if has_room and not last.is_empty and not last.waits_for_tokens:
                return
        if self.in_flight:
            yield self.update()

    def run(self, max_steps: int) -> Iterator[Fields]:
        """Steps until nothing is unfinished."""
        for _ in range(max_steps):
            if not self.in_flight and not self.ask(self.engine.has_unfinished):
                return
            if not self.config.async_scheduling and not self.ask(self.engine.has_requests):
                return
            yield from self.step()

    def sample(self, id: str, step: int) -> list[int]:
        """What the model samples for a request of a step; nothing once the request is gone."""
        first = self.ask(self.engine.num_tokens, id)
        if first is None:
            return []
        num_accepted = self.proposer.num_accepted(step, id) if self.proposer else 0
        if num_accepted is None:
            return []
        end = first + 1 + num_accepted
        start, eos = self.eos_at.get(id, (end, 0))
        return [eos if at >= start else self.token(id, at) for at in range(first, end)]

    def token(self, id: str, position: int) -> int:
        """The token at a position of a request."""
        position = cycled(position, *self.cycles.get(id, (position + 1, 1)))
        return zlib.crc32(f"{self.config.seed}:{id}:{position}".encode()) % self.config.vocab

    def with_state(self, fields: Fields) -> Fields:
        """A line together with the engine's state after it."""
        state = None if self.dump == "none" else self.ask(self.engine.state, self.dump)
        return {**fields, "state": state}


def abort_order(ids: list[str] | None) -> list[str] | None:
    """The order in which requests that are aborted together give up their blocks.

    vLLM frees them in the iteration order of a Python set of strings, which ``PYTHONHASHSEED``
    decides. With that variable fixed, the order here is the same; otherwise, so that two runs
    print the same, it is the order in which the scenario lists them.
    """
    if ids is None:
        return None
    return list(set(ids) if HASHES_ARE_FIXED else dict.fromkeys(ids))


def _lora_id(event: Add) -> int | None:
    """An adapter's number: as written, or what the driver of the real engine makes of its name."""
    if not event.lora:
        return None
    if event.lora_id is UNSET:
        return zlib.crc32(event.lora.encode()) % 1000 + 1
    return event.lora_id


def _exception_line(raised: EngineRaised) -> Fields:
    """What the engine raised. Only that it raised is part of the format, not the text."""
    error = raised.__cause__
    assert error is not None
    frames = extract_tb(error.__traceback__)[-4:]
    return {
        "ev": "EXCEPTION",
        "type": type(error).__name__,
        "msg": str(error)[:300],
        "where": [f"{Path(frame.filename).name}:{frame.lineno}:{frame.name}" for frame in frames],
        "state": None,
    }
