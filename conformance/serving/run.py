"""One run of ``serve-trace``: what is served, by whom, and what is written down."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from nullblock.conformance import scenario, strict_json
from nullblock.conformance.adapters import decoder
from nullblock.conformance.engine import Engine
from nullblock.conformance.engines import DeviceName, make_engine
from nullblock.conformance.errors import ScenarioError
from nullblock.conformance.scenario_format import Scenario
from nullblock.conformance.serving.play import Delivery, Figures, Serving
from nullblock.conformance.serving.workload import Workload
from nullblock.spec.profiles import Semantics


def drawn_scenario(
    given: dict[str, Any], config: dict[str, Any]
) -> tuple[dict[str, Any], Scenario]:
    """The scenario of a workload, of which `given` says what is not as usual; as plain values and
    read. Raises ScenarioError, OutOfScope.
    """
    document = Workload(**given).scenario(config)
    return document, scenario.from_dict(document)


def read_scenario(path: Path, config: dict[str, Any]) -> tuple[dict[str, Any], Scenario]:
    """The scenario of a file, its configuration changed; as plain values and read.

    Raises ScenarioError, OutOfScope, OSError.
    """
    with path.open("rb") as stream:
        data = stream.read(strict_json.MAX_BYTES + 1)
    taken = scenario.parse(data, str(path))
    document = strict_json.loads(data)
    if not config:
        return document, taken
    document["config"] = document.get("config", {}) | config
    try:
        return document, scenario.from_dict(document)
    except ScenarioError as error:
        raise error.at(place=f"--config: {error.place}") from None


@dataclass(frozen=True, slots=True)
class Run:
    """A scenario, an engine on a device under a profile, a model, and where the trace goes."""

    scenario: Scenario
    engine: str
    device: DeviceName
    semantics: Semantics
    profile: str
    model: decoder.Settings
    trace: Path | None

    def serve(self, tell: Callable[[Delivery], None], verify: bool) -> Figures:
        """Serve everything, and compare if that is asked for.

        Raises InputError, and OSError where the trace cannot be written.
        """
        made = make_engine(self.engine, self.scenario.config, self.semantics, self.device)
        model = decoder.create(made, self.scenario.config, self.model)
        with self._recorded(made) as engine:
            serving = Serving(self.scenario, engine, model)
            for delivery in serving.play():
                tell(delivery)
        if verify:
            for one in serving.figures.requests:
                one.verdict = model.judge(one.prompt, one.tokens)
        return serving.figures

    @contextmanager
    def _recorded(self, engine: Engine) -> Iterator[Engine]:
        """The engine, with a tape running if there is to be a trace."""
        from nullblock.conformance.trace.configured import header
        from nullblock.conformance.trace.tape import Tape
        from nullblock.conformance.trace.writer import trace_file

        if self.trace is None:
            yield engine
            return
        tagged = self.semantics.extra_keys_tagged
        with trace_file(self.trace) as writer:
            told = self.engine, version("nullblock"), self.profile, self.semantics
            writer.write(header(self.scenario.config, *told))
            yield Tape(engine, self.scenario, writer.write, tagged_keys=tagged)
