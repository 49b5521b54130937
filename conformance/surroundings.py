"""What surrounds the engine while a scenario runs: a connector's news, reports, grammars."""

from typing import cast

import msgspec

from nullblock.conformance.engine import Engine, Fields, Waits
from nullblock.conformance.played.grammar import PlayedGrammar
from nullblock.conformance.scenario_format import Add, GrammarReady, KvDone, KvMatch, Scenario

Outside = KvDone | KvMatch | GrammarReady
"""An event that does not concern the engine's own work."""


class Surroundings:
    """Tells an engine what happens around it.

    The engine has the features that the scenario needs, so it can be told.
    """

    def __init__(self, scenario: Scenario, engine: Engine) -> None:
        self.engine = cast(Waits, engine)
        self.has_grammars = any(
            isinstance(event, Add) and event.grammar is not None for event in scenario.events
        )
        """Whether lines tell of grammars."""
        self.sessions: set[str] = set()
        """Ids that were last taken by a chunk of a session."""

    def take(self, event: Outside, received: list[str], sent: list[str]) -> None:
        """One event. Of a report the ids are given in the order in which they are dealt with."""
        match event:
            case KvDone(invalid=invalid):
                self.engine.report_transfers(received, sent, invalid)
            case KvMatch(matched=matched):
                self.engine.match_remote(matched)
            case GrammarReady(ids=ids):
                self.engine.compile_grammars(ids)

    def decision(self) -> Fields:
        """What the line of the step just scheduled tells of grammars."""
        return {"grammar": self.engine.grammars()} if self.has_grammars else {}

    def added(self, event: Add, is_alive: bool) -> None:
        """A request is about to arrive; whether its id belongs to one that lives."""
        if event.resumable:
            self.sessions.add(event.id)
        elif not is_alive:
            self.sessions.discard(event.id)


def grammar(event: Add) -> PlayedGrammar | None:
    """The grammar of an arrival."""
    return None if event.grammar is None else PlayedGrammar(msgspec.to_builtins(event.grammar))
