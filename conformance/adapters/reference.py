"""The reference engine as the driver sees it: a scheduler of vLLM's shape."""

from nullblock.conformance.adapters.shape import REFERENCE
from nullblock.conformance.adapters.shaped import Shaped
from nullblock.conformance.engine import ALL_FEATURES, Engine, Feature, NewRequest
from nullblock.conformance.errors import OutOfScope
from nullblock.conformance.lines.extent import check_followed, extent
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
    check_followed(config, semantics)
    try:
        return Reference(config, semantics)
    except UnsupportedFeature as error:
        raise OutOfScope(f"{error.feature} is out of scope", place="config") from error


class Reference(Shaped):
    """Implements :class:`nullblock.conformance.engine.Engine`."""

    scheduler: Scheduler

    def __init__(self, config: Config, semantics: Semantics) -> None:
        if (
            config.encoder
            and config.encoder.external is not None
            and semantics.items_held_by_place
        ):
            raise UnsupportedFeature("an encoder connector in this line")
        kind = AsyncScheduler if config.async_scheduling else Scheduler
        super().__init__(kind, config, semantics, REFERENCE)
        self.semantics = semantics
        if semantics.freed_blocks_await_steps:
            self.scheduler.defer_block_free = config.loads_beside_steps
        self.sizes: dict[str, int] = {}
        """Embeddings of the items that have come, by what they are known by."""

    def add(self, request: NewRequest) -> None:
        """Queue a request. Raises OutOfScope for items with which a later line goes other ways:
        of two sizes, which end a request, and out of order, which are looked for by halves.
        """
        end = 0
        for item in request.mm_features if self.semantics.items_held_by_place else ():
            size = item.length if item.is_embed is None else sum(item.is_embed)
            if self.sizes.setdefault(item.hash, size) != size:
                what = f"an encoder input of two sizes, {item.hash!r}, is out of scope"
                raise OutOfScope(what, "vLLM 0.22.1 takes it")
            if item.offset < end:
                what = (
                    "a request whose encoder inputs overlap, or are not in order, is out of scope"
                )
                raise OutOfScope(what, "vLLM 0.22.1 takes it")
            end = item.offset + item.length
        super().add(request)

    @property
    def features(self) -> frozenset[Feature]:
        """All that the line is followed in."""
        return extent(super().features, self.semantics)
