"""The reference engine as the driver sees it: a scheduler of vLLM's shape."""

from nullblock.conformance.adapters.shape import REFERENCE
from nullblock.conformance.adapters.shaped import Shaped
from nullblock.conformance.engine import ALL_FEATURES, Engine, Feature
from nullblock.conformance.errors import OutOfScope
from nullblock.conformance.lines.extent import extent
from nullblock.conformance.scenario_format import Config
from nullblock.reference.errors import UnsupportedFeature
from nullblock.reference.sched.async_scheduler import AsyncScheduler
from nullblock.reference.sched.scheduler import Scheduler
from nullblock.spec.profiles import Semantics

FEATURES = ALL_FEATURES


def create(config: Config, semantics: Semantics) -> Engine:
    """A reference scheduler under a scenario's configuration.

    Raises :class:`OutOfScope` for what the reference refuses to be built with.
    """
    try:
        return Reference(config, semantics)
    except UnsupportedFeature as error:
        raise OutOfScope(f"{error.feature} is out of scope", place="config") from error


class Reference(Shaped):
    """Implements :class:`nullblock.conformance.engine.Engine`."""

    scheduler: Scheduler

    def __init__(self, config: Config, semantics: Semantics) -> None:
        kind = AsyncScheduler if config.async_scheduling else Scheduler
        super().__init__(kind, config, semantics, REFERENCE)
        self.semantics = semantics

    @property
    def features(self) -> frozenset[Feature]:
        """All that the line is followed in."""
        return extent(super().features, self.semantics)
