"""What surrounds the real scheduler: its KV connector, workers' reports, and grammars."""

from typing import Any

from played import AllGroupsConnector, PlayedGrammar, make_connector

Event = dict[str, Any]


def connect(scheduler: Any, config: dict[str, Any]) -> None:
    """Give a scheduler the connector of a scenario's complete configuration, and all that follows
    from it: a scheduler that makes its own from vLLM's configuration works out the same.
    """
    from vllm.v1.core.sched import scheduler as module

    scripted = config["connector"]
    # The scheduler asks for this class, which here is a stand-in.
    module.SupportsHMA = AllGroupsConnector
    scheduler.connector = make_connector(scripted)
    scheduler.recompute_kv_load_failures = scripted.get("failure_policy", "recompute") != "fail"
    # Later releases ask whether it loads while several steps are in flight.
    overlap = config["async_scheduling"] and config["queue_depth"] > 1
    overlap = overlap or config["pipeline_parallel_size"] > 1
    scheduler.defer_block_free = overlap and scripted.get("kv_role", "kv_both") != "kv_producer"
    scheduler.requires_kv_delivery = scripted.get("requires_kv_delivery", False)


class Surroundings:
    """Plays what a scenario says of them.

    Args:
        config: the scenario's, complete.
        events: the scenario's.
    """

    def __init__(self, scheduler: Any, config: dict[str, Any], events: list[Event]) -> None:
        self.scheduler = scheduler
        self.kv_done: Event | None = None
        """What workers report with the next update."""
        self.grammars: dict[str, Any] = {}
        """By request id, compiled or not."""
        self.has_grammars = any(event.get("grammar") is not None for event in events)
        """Whether lines tell of grammars."""
        if config["connector"] and scheduler.connector is None:
            connect(scheduler, config)

    def take(self, event: Event) -> None:
        """One event of theirs."""
        match event["op"]:
            case "kv_done":
                self.kv_done = event
            case "kv_match":
                self.scheduler.connector.matched.update(event["matched"])
            case "grammar_ready":
                self.compile_grammars(event["ids"])

    def constraints(self, event: Event) -> Any:
        """What an arrival asks of its outputs; which grammar it is, nobody looks at."""
        from vllm.sampling_params import StructuredOutputsParams

        has_grammar = event.get("grammar") is not None
        return StructuredOutputsParams(regex="played") if has_grammar else None

    def add_grammar(self, request: Any, event: Event) -> None:
        """Note an arrival's grammar; the scheduler sees it once it is compiled. A session keeps
        the one that it came with: nobody looks at those of its chunks.
        """
        if event.get("grammar") is None:
            return
        grammar = PlayedGrammar(event["grammar"])
        if request.request_id not in self.scheduler.requests:
            self.grammars[request.request_id] = grammar
        if grammar.is_ready:
            request.structured_output_request.grammar = grammar

    def compile_grammars(self, ids: list[str]) -> None:
        """Grammars of requests that are alive are compiled."""
        for id in ids:
            request = self.scheduler.requests.get(id)
            if request is not None and request.structured_output_request is not None:
                request.structured_output_request.grammar = self.grammars[id]

    def take_report(self) -> Any:
        """What workers report with this update; None for nothing."""
        event, self.kv_done = self.kv_done, None
        if not event:
            return None
        from vllm.v1.outputs import KVConnectorOutput

        return KVConnectorOutput(
            finished_recving=set(event.get("recv", ())),
            finished_sending=set(event.get("send", ())),
            invalid_block_ids=set(event.get("invalid", ())),
        )
