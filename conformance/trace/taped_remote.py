"""A KV connector of an engine of ours, as a trace tells of it: in numbers."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from nullblock.conformance.engine import Connected, Engine, Feature, Fields, Heard
from nullblock.conformance.scenario_format import Connector, Scenario
from nullblock.conformance.trace.records import Answer, Matched, Record, Transfers

Write = Callable[[Record], None]
Numbers = Mapping[str, int]
"""Of requests, by id."""


class TapedRemote:
    """Writes what stands before the calls in which a connector says something."""

    def __init__(self, connector: Connector | None, heard: Heard | None) -> None:
        self.connector, self.heard = connector, heard
        self.report: tuple[list[str], list[str], list[int]] | None = None
        """What workers report with the next update."""

    @classmethod
    def of(cls, scenario: Scenario, engine: Engine) -> "TapedRemote":
        """What is heard of an engine's connector, if it has one."""
        connector = scenario.config.connector
        if connector is None or Feature.kv_connector not in engine.features:
            return cls(None, None)
        return cls(connector, cast(Connected, engine).listen())

    @property
    def keeps_blocks(self) -> bool:
        """Whether the engine may know a request that has ended, for its blocks."""
        return self.heard is not None

    def scheduled(self, write: Write, numbers: Numbers) -> None:
        """A step was decided."""
        asked = None if self.heard is None else self.heard.take()
        if asked:
            answers = [Answer(**told | {"id": numbers[told["id"]]}) for told in asked]
            write(Matched(answers=answers))

    def updated(self, outputs: list[Fields], write: Write, numbers: Numbers) -> None:
        """An output was applied; ``outputs``: those but of sessions that are alive."""
        if self.connector is None or self.heard is None:
            self._unconnected(write, numbers)
            return
        (received, sent, invalid), self.report = self.report or ([], [], []), None
        ended = [o["id"] for o in outputs if o["finish"] not in (None, "rejected")]
        failed = {o["id"] for o in outputs if o["finish"] == "error" and not o["tokens"]}
        told = Transfers(
            received=_known(received, numbers),
            sent=_known(sent, numbers),
            invalid=sorted(set(invalid)),
            failed=_known([id for id in self.heard.lost() if id in failed], numbers),
            delayed=self.delayed(ended, numbers),
        )
        if told != Transfers():
            write(told)

    def _unconnected(self, write: Write, numbers: Numbers) -> None:
        """Workers may report what there is no connector for."""
        if self.report is not None:
            (received, sent, invalid), self.report = self.report, None
            of = _known(received, numbers), _known(sent, numbers)
            write(Transfers(received=of[0], sent=of[1], invalid=sorted(set(invalid))))

    def aborted(self, ids: Iterable[str], write: Write, numbers: Numbers) -> None:
        """Requests were ended from outside."""
        if self.heard is not None:
            self.heard.lost()
        delayed = self.delayed(ids, numbers)
        if delayed:
            write(Transfers(delayed=delayed))

    def delayed(self, ended: Iterable[str], numbers: Numbers) -> list[int]:
        """Whose blocks the connector wants to be kept until they are sent."""
        whom: Any = () if self.connector is None else self.connector.delay_free
        return [numbers[id] for id in ended if (whom if isinstance(whom, bool) else id in whom)]


def _known(ids: Iterable[str], numbers: Numbers) -> list[int]:
    return [numbers[id] for id in dict.fromkeys(ids) if id in numbers]
