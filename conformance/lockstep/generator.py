"""Scenarios over the whole scope, written down once for every source of choices.

A scenario is made by asking a :class:`Choices` again and again: a seeded generator answers for
runs in bulk; in the tests Hypothesis answers, and shrinks. Moods aim at what random events seldom
reach:

* ``crowded``: requests fit one by one and not together (preemption, resumption, eviction);
* ``alike``: equal prompts of whole blocks (duplicate hashes, hits within a step);
* ``growing``: a request outgrows the pool (it preempts itself);
* ``cornered``: requests that may not stop yet have no room left;
* ``roomy``: a larger pool, and a crowd in it;
* ``wild``: anything.

Each of them synchronously and asynchronously, with one step in flight or several, as far as the
engines can: a scenario asks for no feature that it was not allowed.
"""

import json
import zlib
from dataclasses import dataclass, field
from typing import Any, cast

from nullblock.conformance.engine import CORE_FEATURES, Feature
from nullblock.conformance.lockstep.choices import Choices, Seeded
from nullblock.conformance.lockstep.configurations import NONE, make_config
from nullblock.conformance.lockstep.restriction import restricted

Event = dict[str, Any]
Scenario = dict[str, Any]

MOODS = ("crowded", "crowded", "crowded", "alike", "growing", "cornered", "roomy", "wild")
NAMES = ("X", "Y", "XY", "", "\u00e9\U0001f9e9")
"""Of adapters and of salts: equal names on purpose, and an empty one, which counts for none."""
LETTERS = "abcdefghZ\u00e9"
ODD_TOKENS = (-1, -(2**31), 2**31, 2**62, -(2**62))
ODD_PRIORITIES = (2**40, -(2**62))
ENDS = ("FINISHED_ABORTED", "FINISHED_STOPPED", "FINISHED_ERROR", "FINISHED_LENGTH_CAPPED")
PAUSES = ("UNPAUSED", "UNPAUSED", "PAUSED_NEW", "PAUSED_ALL")
ARRIVALS = (0, 1, 1, 2, 2.5, 7, -1)
FAMILY_STRIDE = 1000
"""First tokens of two families of prompts are that far apart: no prefix in common."""


@dataclass(slots=True)
class Made:
    """What is known about a request that was added."""

    id: str
    prompt: Any
    prompt_len: int


@dataclass(slots=True)
class Generator:
    """Makes one scenario of at most about ``size`` events."""

    ask: Choices
    size: int
    features: frozenset[Feature] = CORE_FEATURES
    wanted: frozenset[Feature] = NONE
    mood: str = field(init=False)
    config: dict[str, Any] = field(init=False)
    requests: list[Made] = field(default_factory=list)

    def scenario(self) -> Scenario:
        """A configuration, and arrivals, steps and disturbances under it."""
        self.mood = self.ask.pick(MOODS)
        self.config = make_config(self.ask, self.mood, self.features, self.wanted)
        events: list[Event] = []
        for _ in range(self.ask.integer(4, self.size)):
            events += self.some_events()
        if self.is_ahead or self.ask.chance(30):
            events.append({"op": "drain"})
        events += [{"op": "pause", "state": "UNPAUSED"}, {"op": "run", "max_steps": 40}]
        scenario = {"config": self.config, "events": events}
        whole = self.features >= CORE_FEATURES
        return scenario if whole else restricted(scenario, self.features)

    @property
    def is_ahead(self) -> bool:
        """Whether steps stay in flight without being left there on purpose."""
        return bool(self.config.get("async_scheduling"))

    @property
    def slots(self) -> int:
        """Tokens that the pool holds."""
        return int(max(1, self.config["num_blocks"] - 1) * self.config["block_size"])

    # ---- requests ------------------------------------------------------------

    def prompt_len(self) -> int:
        """Usually room for some output; now and then at a limit or beyond."""
        ask, limit = self.ask, int(self.config["max_model_len"])
        if ask.chance(0.5):
            return ask.pick((limit, limit + 1, limit + 7, 0))
        block_size = int(self.config["block_size"])
        share = {"alike": 2, "growing": 1.3, "wild": 0.8}.get(self.mood, 3)
        most = min(limit - 1, int(self.slots / share), 90)
        length = ask.integer(1, max(1, most))
        if self.mood == "alike" or ask.chance(25):
            length = max(block_size, length // block_size * block_size)
        return length

    def prompt(self) -> tuple[Any, int]:
        """Tokens in the scenario's short form, and how many they are."""
        ask = self.ask
        if self.requests and ask.chance(25):
            return self.follow_up(ask.pick(self.requests[-6:]))
        if self.requests and ask.chance(45 if self.mood == "alike" else 12):
            earlier = ask.pick(self.requests[-6:])
            return earlier.prompt, earlier.prompt_len
        return self.fresh_prompt(self.prompt_len())

    def fresh_prompt(self, length: int) -> tuple[Any, int]:
        """The front of one of a few families of prompts, and a bit of its own."""
        ask = self.ask
        start = FAMILY_STRIDE * ask.pick((0, 0, 0, 1, 2))
        if ask.chance(6):
            return {"fill": ask.integer(0, 3), "n": length}, length
        tail = min(length, ask.pick((0, 0, 1, 2, 5)))
        prefix = {"range": [start, start + length - tail]}
        if tail == 0:
            return prefix, length
        tokens = [ask.integer(0, 3) for _ in range(tail)]
        if ask.chance(2):
            tokens[0] = ask.pick(ODD_TOKENS)
        return {"concat": [prefix, tokens]}, length

    def follow_up(self, earlier: Made) -> tuple[Any, int]:
        """The next turn of a conversation: an earlier prompt, its output, and a bit more."""
        num_outputs = self.ask.integer(0, 6)
        positions = range(earlier.prompt_len, earlier.prompt_len + num_outputs)
        outputs = [self.token(earlier.id, position) for position in positions]
        more = [self.ask.integer(0, 3) for _ in range(self.ask.integer(0, 2))]
        length = earlier.prompt_len + num_outputs + len(more)
        if length >= min(self.config["max_model_len"], self.slots):
            return earlier.prompt, earlier.prompt_len
        return {"concat": [earlier.prompt, outputs + more]}, length

    def token(self, id: str, position: int) -> int:
        """What the model samples there, if nothing ends the request before."""
        checksum = zlib.crc32(f"{self.config['seed']}:{id}:{position}".encode())
        return checksum % int(self.config["vocab"])

    def add(self, id: str, num_tokens: int | None = None) -> Event:
        """A request; with a given prompt length, or any."""
        ask = self.ask
        prompt, length = self.prompt() if num_tokens is None else self.fresh_prompt(num_tokens)
        max_tokens = self.max_tokens(length)
        event: Event = {"op": "add", "id": id, "prompt": prompt, "max_tokens": max_tokens}
        if ask.chance(15):
            event["min_tokens"] = ask.integer(0, max_tokens)
        if self.mood == "cornered" and ask.chance(30):
            event["max_tokens"] = event["min_tokens"] = int(self.config["max_model_len"])
        if self.config["policy"] == "priority" or ask.chance(5):
            event["priority"] = ask.pick((0, 1, 2, -1, 5))
            if ask.chance(1):
                event["priority"] = ask.pick(ODD_PRIORITIES)
        if ask.chance(20):
            event["arrival"] = ask.pick(ARRIVALS)
        if ask.chance(12):
            event["lora"] = ask.pick(NAMES)
            if ask.chance(20):
                event["lora_id"] = ask.pick((7, 0, None))
        if ask.chance(12):
            event["salt"] = ask.pick(NAMES)
        if ask.chance(8):
            event["skip_cache_read"] = ask.chance(80)
        self.add_ends(event)
        self.requests.append(Made(id, prompt, length))
        return event

    def max_tokens(self, prompt_len: int) -> int:
        """Usually as many as the pool has room for beside the prompt, so that few get stuck."""
        ask = self.ask
        if self.mood == "growing" and ask.chance(40):
            return ask.integer(1, 40)
        room = self.slots - prompt_len + 1
        if ask.chance(2):
            room += ask.integer(1, 9)
        return ask.integer(1, max(1, min(room, ask.pick((24, 6, 48)))))

    def add_ends(self, event: Event) -> None:
        """What may stop the request, and, seldom, parameters that no request may have."""
        ask = self.ask
        if ask.chance(20):
            event["stop"] = [ask.integer(0, 4) for _ in range(ask.integer(0, 3))]
        if ask.chance(20):
            event["eos"] = ask.integer(0, 4)
            if ask.chance(60):
                event["eos_at"] = ask.integer(0, 9)
        if ask.chance(0.1):
            event.update(ask.pick(({"max_tokens": 0}, {"min_tokens": 99}, {"min_tokens": -1})))

    def new_id(self) -> str:
        """An id that was not used before; its order says nothing about its age."""
        return f"{self.ask.pick(LETTERS)}{len(self.requests)}"

    def known_id(self) -> str:
        """An id that was used; rather a recent one."""
        return self.ask.pick(self.requests[-8:]).id if self.requests else "nobody"

    # ---- events --------------------------------------------------------------

    def some_events(self) -> list[Event]:
        """The next event, or a few that belong together."""
        ask = self.ask
        match ask.integer(0, 99):
            case n if n < 28:
                return [{"op": "step", "n": ask.integer(1, 4)}]
            case n if n < 56:
                several = ask.pick((6, 12) if self.mood == "roomy" else (1, 1, 2, 3))
                return [self.add(self.new_id()) for _ in range(several)]
            case n if n < 70:
                return self.halves()
            case n if n < 77:
                return self.disturbance()
            case n if n < 83:
                return [{"op": "run", "max_steps": ask.pick((5, 20, 0))}]
            case n if n < 99:
                return self.collision()
            case _:
                return self.mistake()

    def halves(self) -> list[Event]:
        """Steps that are scheduled one after another, things in between, and some return.

        Those that do not are in flight for whatever comes next.
        """
        ask = self.ask
        several = Feature.several_in_flight in self.features
        num_steps = ask.pick((1, 2, 1, 3, 2, 4)) if several else 1
        events: list[Event] = []
        # The second of two resets finds outputs in flight that the first one left to drop.
        resets = several and ask.chance(15)
        for _ in range(num_steps + resets):
            events.append({"op": "schedule"})
            if resets:
                events.append({"op": "reset_prefix_cache", "reset_running": True})
            elif ask.chance(60):
                events += self.disturbance()
        if several and ask.chance(40):
            return events + [{"op": "update"}] * ask.integer(0, num_steps)
        if ask.chance(50):
            return [*events, {"op": "drain"}]
        for _ in range(num_steps):
            events.append({"op": "update"})
            if ask.chance(30):
                events += self.disturbance()
        return events

    def disturbance(self) -> list[Event]:
        """Something that may happen at any time, between the halves of a step as well."""
        ask = self.ask
        match ask.integer(0, 9):
            case 0 | 1 | 2:
                ids = None if ask.chance(12) else [self.known_id()]
                return [{"op": "abort", "ids": ids, "status": ask.pick(ENDS)}]
            case 3 | 4:
                # Aborting first makes sure that the id is free; an output may still be in flight.
                # Asynchronously the real engine seldom survives that.
                id = self.known_id()
                again = self.new_id() if self.is_ahead and ask.chance(60) else id
                return [{"op": "abort", "ids": [id]}, self.add(again)]
            case 5 | 6:
                return [{"op": "reset_prefix_cache", "reset_running": ask.chance(55)}]
            case 7:
                return [{"op": "pause", "state": ask.pick(PAUSES)}]
            case 8:
                most = int(self.config["num_blocks"]) - 1
                blocks = [ask.integer(0, most) for _ in range(ask.integer(0, 4))]
                return [{"op": "evict_blocks", "ids": blocks}]
            case _:
                return [self.add(self.new_id())]

    def collision(self) -> list[Event]:
        """Several requests that fill the pool together: at a decode blocks run out for all.

        Under PRIORITY the later ones are often the more urgent: whoever pays has been scheduled.
        """
        ask = self.ask
        events: list[Event] = [{"op": "abort", "ids": None}] if ask.chance(40) else []
        num_requests = ask.pick((6, 9, 16) if self.mood == "roomy" else (2, 3, 4))
        block_size = int(self.config["block_size"])
        length = max(1, self.slots // num_requests // block_size * block_size)
        length = min(length, 90, max(1, self.config["max_model_len"] - 2))
        by_urgency = ask.chance(60)
        for index in range(num_requests):
            event = self.add(self.new_id(), max(1, length - ask.pick((0, 0, 1, 3))))
            if event.get("min_tokens", 0) <= 2:
                event["max_tokens"] = ask.integer(2, 2 + 2 * block_size)
            if by_urgency and self.config["policy"] == "priority":
                event["priority"] = -index
            events.append(event)
        return [*events, {"op": "step", "n": ask.integer(2, 8)}]

    def mistake(self) -> list[Event]:
        """What the engine answers with an exception; nothing after it counts, so it is rare."""
        ask = self.ask
        match ask.integer(0, 11):
            case 0:
                return [{"op": "update"}]
            case 1:
                return [{"op": "abort", "ids": [self.known_id()], "status": "RUNNING"}]
            case 2:
                return [{"op": "evict_blocks", "ids": [int(self.config["num_blocks"])]}]
            case _:
                return []


def make(
    choices: Choices,
    size: int = 30,
    features: frozenset[Feature] = CORE_FEATURES,
    wanted: frozenset[Feature] = NONE,
) -> Scenario:
    """A scenario. ``size`` bounds the number of groups of events."""
    scenario = Generator(choices, size, features, wanted).scenario()
    # By way of JSON, as an engine gets it: no value is shared between two places.
    return cast(Scenario, json.loads(json.dumps(scenario)))


def seeded(
    seed: str,
    size: int = 30,
    features: frozenset[Feature] = CORE_FEATURES,
    wanted: frozenset[Feature] = NONE,
) -> Scenario:
    """The scenario of a seed."""
    return make(Seeded(seed), size, features, wanted)
