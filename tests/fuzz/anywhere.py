"""Scenarios from anywhere in the format: what happens to an engine, each event by its own dice.

How often each kind of event comes is drawn for each scenario anew, some never: a scenario of
nothing but chunks and aborts is as likely as one of everything.
"""

from collections.abc import Callable
from typing import Any

from fuzz.anywhere_model import IDS, Fields, config, matched
from fuzz.anywhere_play import REMOTE, Played, is_possible, line_of
from fuzz.anywhere_requests import Requests

from nullblock.conformance.engine import Feature
from nullblock.conformance.lockstep.choices import Choices, Seeded

Scenario = dict[str, Any]
ENDS = (
    *("FINISHED_ABORTED", "FINISHED_ABORTED", "FINISHED_STOPPED", "FINISHED_LENGTH_CAPPED"),
    *("FINISHED_IGNORED", "FINISHED_ERROR", "FINISHED_REPETITION"),
)


def seeded(key: str, size: int, features: frozenset[Feature]) -> Scenario:
    """The scenario of a key, with at most about so many groups of events."""
    dice = Seeded(f"anywhere {key}")
    return Maker(dice, features).scenario(size)


PATIENCE = 4
"""Turns in a row that may come to nothing."""


class Maker:
    """Draws one scenario."""

    def __init__(self, dice: Choices, features: frozenset[Feature]) -> None:
        self.dice, self.features = dice, features
        line = line_of(features)
        self.config = config(dice, features)
        while not is_possible(self.config, line):
            self.config = config(dice, features)
        self.played = Played(self.config, line)
        self.requests = Requests(dice, features, self.config)
        self.used: list[str] = []
        """Ids that were added, the latest last."""
        self.sessions: set[str] = set()
        self.has_sessions = dice.chance(40) and Feature.streaming in features
        self.has_sessions &= "runner_type" not in self.config
        self.events: list[Fields] = []
        """Those of this turn."""
        self.stubborn = dice.pick((0, 5, 20, 100))
        """How often what makes an engine raise stays, in percent."""
        self.kinds = self.weights()

    def weights(self) -> list[tuple[Callable[[], None], int]]:
        """What may happen, and how often."""
        dice, features = self.dice, self.features
        kinds: list[tuple[Callable[[], None], int]] = [
            (self.add, dice.pick((4, 8, 16))),
            (self.step, dice.pick((4, 8, 16))),
            (self.halves, dice.pick((0, 1, 4, 8))),
        ]
        seldom = (0, 0, 1, 2, 4)
        kinds += [(self.abort, dice.pick(seldom)), (self.again, dice.pick(seldom))]
        kinds += [(self.pause, dice.pick((0, 0, 1))), (self.reset, dice.pick(seldom))]
        kinds += [(self.evict, dice.pick((0, 0, 1, 2)))]
        if Feature.counts in features:
            kinds.append((self.counts, dice.pick((0, 0, 1))))
        if "encoder" in self.config:
            kinds.append((self.forget, dice.pick((0, 0, 1))))
        if self.config.get("connector"):
            kinds += [(self.report, dice.pick((2, 4, 8))), (self.match, dice.pick((0, 1, 3)))]
        if self.requests.has_grammars:
            kinds.append((self.compiled, dice.pick((1, 3, 6))))
        if self.has_sessions:
            kinds.append((self.chunk, dice.pick((3, 6, 12))))
        if Feature.drafts in features and self.config.get("num_spec_tokens"):
            kinds.append((self.draft, dice.pick(seldom)))
        return [(kind, weight) for kind, weight in kinds if weight]

    def scenario(self, size: int) -> Scenario:
        """All of it."""
        self.add()
        failures = 0 if self.taken() else 1
        total = sum(weight for _, weight in self.kinds)
        for _ in range(self.dice.integer(size // 3 + 1, size)):
            at = self.dice.integer(1, total)
            for kind, weight in self.kinds:
                at -= weight
                if at <= 0:
                    kind()
                    break
            failures = 0 if self.taken(failures > PATIENCE) else failures + 1
            if self.played.has_raised:
                break
        else:
            ends: tuple[list[Fields], ...] = (
                [{"op": "run", "max_steps": self.dice.pick((5, 20, 40))}],
                [{"op": "drain"}],
                [],
            )
            self.events = self.dice.pick(ends)
            self.taken()
        return {"config": self.config, "events": self.played.events}

    def taken(self, stubborn: bool = False) -> bool:
        """Play what this turn has brought."""
        stubborn = self.dice.chance(self.stubborn) or stubborn
        events, self.events = self.events, []
        return self.played.takes(events, stubborn=stubborn)

    # Arrivals

    def add(self) -> None:
        """A request of a new id."""
        fresh = next((id for id in IDS if id not in self.used), None)
        if fresh is None:
            fresh = f"r{len(self.used)}"
        self.arrive(fresh)

    def again(self) -> None:
        """A request of an id that has ended, or is ended just now."""
        if not self.used:
            return
        there = self.played.ids()
        id = self.dice.pick([id for id in self.used if id not in there] or self.used)
        if id in there or self.dice.chance(40):
            id = self.dice.pick(self.used)
            self.events.append({"op": "abort", "ids": [id]})
        if self.dice.chance(30):
            self.halves()
        self.sessions.discard(id)
        self.arrive(id)

    def chunk(self) -> None:
        """More of a session, or its end."""
        if not self.sessions:
            return self.add()
        id = self.dice.pick(sorted(self.sessions))
        event = self.requests.of(id)
        event.pop("pooling", None)
        if self.dice.chance(85):
            event["resumable"] = True
        else:
            event.pop("resumable", None)
            self.sessions.discard(id)
        self.events.append(event)

    def arrive(self, id: str) -> None:
        """A request of that id."""
        event = self.requests.of(id)
        if self.has_sessions and self.dice.chance(60):
            event["resumable"] = True
            event.pop("pooling", None)
            self.sessions.add(id)
        if id in self.used:
            self.used.remove(id)
        self.used.append(id)
        self.events.append(event)

    # What goes on

    def step(self) -> None:
        """Steps."""
        self.events.append({"op": "step", "n": self.dice.pick((1, 1, 2, 3, 6, 12))})

    def halves(self) -> None:
        """Half steps, in some order."""
        for _ in range(self.dice.integer(1, 3)):
            self.events.append({"op": "schedule"})
        self.events += self.dice.pick(
            (
                [{"op": "update"}],
                [{"op": "drain"}],
                [],
                [{"op": "update"}, {"op": "schedule"}],
                [{"op": "drain"}, {"op": "step"}],
            )
        )

    def abort(self) -> None:
        """Somebody is ended."""
        dice = self.dice
        ids = [id for id in self.used if dice.chance(30)][:3] or self.used[-1:]
        event: Fields = {"op": "abort", "ids": None if dice.chance(8) else ids}
        if dice.chance(25):
            event["status"] = dice.pick(ENDS)
        self.sessions -= set(self.sessions if event["ids"] is None else ids)
        self.events.append(event)

    def pause(self) -> None:
        """Scheduling stops, and goes on later."""
        state = self.dice.pick(("PAUSED_NEW", "PAUSED_ALL"))
        self.events.append({"op": "pause", "state": state})
        for _ in range(self.dice.integer(0, 3)):
            self.dice.pick((self.add, self.step, self.step, self.halves))()
        if self.dice.chance(90):
            self.events.append({"op": "pause", "state": "UNPAUSED"})

    def reset(self) -> None:
        """The cache is emptied."""
        running = self.dice.chance(50)
        self.events.append({"op": "reset_prefix_cache", "reset_running": running})

    def evict(self) -> None:
        """Blocks are evicted."""
        self.events.append({"op": "evict_blocks", "ids": self.blocks(0)})

    def blocks(self, first: int) -> list[int]:
        """Some blocks."""
        last = max(self.config["num_blocks"] - 1, first)
        return [self.dice.integer(first, last) for _ in range(self.dice.integer(1, 4))]

    def counts(self) -> None:
        """Somebody counts."""
        self.events.append({"op": "counts"})

    def forget(self) -> None:
        """The encoder cache is emptied."""
        self.events.append({"op": "reset_encoder_cache"})

    def report(self) -> None:
        """Workers report."""
        dice, there = self.dice, self.played.ids()
        event: Fields = {"op": "kv_done"}
        if dice.chance(80):
            loading = [id for id, status in there.items() if status == REMOTE]
            event["recv"] = [id for id in loading if dice.chance(60)]
            if dice.chance(4):
                event["recv"] += self.used[-1:]
        if dice.chance(30):
            ended = [id for id, status in there.items() if status.startswith("FINISHED")]
            event["send"] = [id for id in ended if dice.chance(60)]
        if dice.chance(30):
            held = self.played.blocks()
            event["invalid"] = self.blocks(1)
            if held and dice.chance(70):
                event["invalid"] = [dice.pick(held) for _ in range(dice.integer(1, 3))]
        self.events.append(event)
        if dice.chance(70):
            self.events.append({"op": dice.pick(("step", "update", "step"))})

    def match(self) -> None:
        """The remote side changes."""
        self.events.append({"op": "kv_match", "matched": matched(self.dice)})

    def compiled(self) -> None:
        """Grammars are compiled."""
        ids = [id for id in self.used if self.dice.chance(70)]
        self.events.append({"op": "grammar_ready", "ids": ids})

    def draft(self) -> None:
        """Drafts from outside."""
        dice = self.dice
        tokens = {
            id: [dice.integer(0, 9) for _ in range(dice.integer(0, 4))]
            for id in self.used[-4:]
            if dice.chance(60)
        }
        event: Fields = {"op": "draft", "tokens": tokens}
        if dice.chance(30):
            self.events.append({"op": "schedule"})
            event["fill_in"] = True
        self.events.append(event)
