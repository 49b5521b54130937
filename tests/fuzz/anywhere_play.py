"""A scenario that is played on the reference while it is made.

Most events that are drawn without a look at the engine end it soon: a load is reported that nobody
asked for, an id is used that is still alive. Such events are taken back, mostly.
"""

from typing import Any

from nullblock.conformance import scenario as reading
from nullblock.conformance.driver import EngineRaised, Player
from nullblock.conformance.engine import Feature
from nullblock.conformance.engines import make_engine
from nullblock.conformance.errors import InputError
from nullblock.spec.profiles import VLLM_0_22_1, VLLM_0_32_0, Semantics

Fields = dict[str, Any]
REMOTE = "WAITING_FOR_REMOTE_KVS"


def line_of(features: frozenset[Feature]) -> Semantics:
    """The line that an engine with those features follows: only the first has them all."""
    return VLLM_0_22_1 if Feature.sinks in features else VLLM_0_32_0


def is_possible(config: Fields, semantics: Semantics) -> bool:
    """Whether both engines of ours can be had with that configuration."""
    try:
        made = reading.from_dict({"config": config, "events": []}).config
        for name in ("spec", "reference"):
            make_engine(name, made, semantics)
    except InputError:
        return False
    return True


class Played:
    """The events so far, and the engine after them."""

    def __init__(self, config: Fields, semantics: Semantics) -> None:
        self.config, self.semantics = config, semantics
        self.events: list[Fields] = []
        self.has_raised = False
        self._begin()

    def _begin(self) -> None:
        empty = reading.from_dict({"config": self.config, "events": []})
        engine = make_engine("reference", empty.config, self.semantics)
        self.player = Player(empty, engine, "none")

    def takes(self, events: list[Fields], *, stubborn: bool) -> bool:
        """Play events; whether they are part of the scenario. They are not where they ask for what
        is out of scope, and where the engine raises only if `stubborn`; then it ends with them.
        """
        try:
            self._play(events)
        except InputError:
            self._again()
            return False
        except EngineRaised:
            if not stubborn:
                self._again()
                return False
            self.has_raised = True
        self.events += events
        return True

    def _play(self, events: list[Fields]) -> None:
        taken = reading.from_dict({"config": self.config, "events": events}).events
        for index, event in enumerate(taken, len(self.events)):
            for _ in self.player.take(event, index):
                pass

    def _again(self) -> None:
        """The engine as it was before the last events."""
        self._begin()
        events, self.events = self.events, []
        self._play(events)
        self.events = events

    def ids(self) -> dict[str, str]:
        """Who is there, with what status."""
        return {id: request["status"] for id, request in self._requests().items()}

    def blocks(self) -> list[int]:
        """The blocks of all requests; nobody loads into the null block."""
        tables = (table for r in self._requests().values() for table in r["blocks"])
        return sorted({block for table in tables for block in table if block})

    def _requests(self) -> dict[str, Any]:
        state = self.player.engine.state("brief") or {}
        requests: dict[str, Any] = state["requests"]
        return requests
