"""What surrounds a scheduler of vLLM's shape, played by the scenario: a connector, grammars."""

from collections import deque
from typing import Any

import msgspec

from nullblock.conformance.adapters import shape
from nullblock.conformance.adapters.shape import Modules
from nullblock.conformance.adapters.vllm.remote import Answers, watch
from nullblock.conformance.engine import Fields, NewRequest
from nullblock.conformance.played.connector import make_connector
from nullblock.conformance.played.grammar import PlayedGrammar
from nullblock.conformance.scenario_format import Config


class Surroundings:
    """Implements :class:`nullblock.conformance.engine.Waits` around a scheduler."""

    modules: Modules
    scheduler: Any
    in_flight: deque[Any]

    def surround(self, config: Config) -> None:
        """Give the scheduler the connector of its configuration, if it has one."""
        self.report: Any = None
        """What workers report with the next update."""
        self.played_grammars: dict[str, PlayedGrammar] = {}
        """By id, compiled or not."""
        if config.connector is None:
            return
        self.scheduler.connector = make_connector(msgspec.to_builtins(config.connector))
        self.scheduler.recompute_kv_load_failures = config.connector.failure_policy == "recompute"

    def constraints(self, request: NewRequest) -> dict[str, Any]:
        """The sampling parameters of a request that has a grammar: which one, nobody looks at."""
        if request.grammar is None:
            return {}
        return {
            "structured_outputs": self.modules.sampling_params.StructuredOutputsParams(
                regex="played"
            )
        }

    def add_grammar(self, made: Any, request: NewRequest) -> None:
        """Note a request's grammar; the scheduler sees it once it is compiled. A session keeps
        the one that it came with: nobody looks at those of its chunks.
        """
        if request.grammar is None:
            return
        if request.id not in self.scheduler.requests:
            self.played_grammars[request.id] = request.grammar
        if request.grammar.is_ready:
            made.structured_output_request.grammar = request.grammar

    def compile_grammars(self, ids: list[str]) -> None:
        """Grammars of requests that are alive are compiled."""
        for id in ids:
            request = self.scheduler.requests.get(id)
            if request is not None and request.structured_output_request is not None:
                request.structured_output_request.grammar = self.played_grammars[id]

    def grammars(self) -> Fields:
        """What the step scheduled last says of grammars."""
        return shape.grammars(self.scheduler, self.in_flight[-1])

    def listen(self) -> Answers:
        """Hear what the connector is asked."""
        heard = watch(self.scheduler, lambda note, *args, **kwargs: note(*args, **kwargs))
        assert heard is not None, "there is a connector"
        return heard

    def match_remote(self, matched: dict[str, int | None]) -> None:
        """The connector learns how much of which request the remote side holds."""
        self.scheduler.connector.matched.update(matched)

    def report_transfers(self, recv: list[str], send: list[str], invalid: list[int]) -> None:
        """Workers report with the next update, instead of what they were to report before."""
        # Ids in an order of their own, where vLLM has the order of a set of strings.
        self.report = self.modules.outputs.KVConnectorOutput(
            finished_recving=dict.fromkeys(recv).keys(),
            finished_sending=dict.fromkeys(send).keys(),
            invalid_block_ids=set(invalid),
        )

    def take_report(self) -> Any:
        """The report that goes with this update; None for none."""
        report, self.report = self.report, None
        return report
