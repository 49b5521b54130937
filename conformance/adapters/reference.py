"""The reference engine as the driver sees it: a scheduler of vLLM's shape."""

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from nullblock.conformance.adapters.shape import REFERENCE
from nullblock.conformance.adapters.shaped import Shaped
from nullblock.conformance.engine import ALL_FEATURES, Engine, Feature, Fields, NewRequest
from nullblock.conformance.errors import OutOfScope
from nullblock.conformance.lines.extent import check_followed, extent
from nullblock.conformance.scenario_format import Config
from nullblock.conformance.unruled import odd_inputs_before
from nullblock.reference.errors import UnsupportedFeature
from nullblock.reference.sched.async_scheduler import AsyncScheduler
from nullblock.reference.sched.scheduler import Scheduler
from nullblock.spec.profiles import Semantics

FEATURES = ALL_FEATURES


def _check_order(whose: str, places: Iterable[Any]) -> None:
    """Raise OutOfScope for items that overlap, or are not in order."""
    if any(after.offset < before.offset + before.length for before, after in pairwise(places)):
        what = f"{whose} whose encoder inputs overlap, or are not in order, is out of scope"
        raise OutOfScope(what, "vLLM 0.22.1 takes it")


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
        kind = AsyncScheduler if config.async_scheduling else Scheduler
        super().__init__(kind, config, semantics, REFERENCE)
        self.semantics = semantics
        self.scheduler.defer_block_free = config.loads_beside_steps
        self.scheduler.requires_kv_delivery = config.requires_kv_delivery
        encoder = config.encoder or None
        encodes = encoder is not None and not encoder.is_encoder_decoder
        self.looks_for_items = encodes and semantics.items_held_by_place
        """Whether the items of a prompt are looked for in their order, as a later line does."""
        self.reads_before = bool(encoder) and not encodes and semantics.items_held_by_place
        """Whether the model is an encoder-decoder model, as a later line has it."""
        self.caches = config.enable_prefix_caching
        self.sizes: dict[str, int] = {}
        """Embeddings of the items that have come, by what they are known by."""

    def add(self, request: NewRequest) -> None:
        """Queue a request. Raises OutOfScope for items with which a later line goes other ways:
        of two sizes, which end a request, and out of order, which are looked for by halves; and
        for those that no encoder-decoder model has.
        """
        odd = odd_inputs_before(request.mm_features, self.caches) if self.reads_before else None
        if odd is not None:
            raise OutOfScope(f"{odd} is out of scope", "vLLM 0.22.1 takes it")
        items = request.mm_features if self.looks_for_items else ()
        for item in items:
            size = item.length if item.is_embed is None else sum(item.is_embed)
            if self.sizes.setdefault(item.hash, size) != size:
                what = f"an encoder input of two sizes, {item.hash!r}, is out of scope"
                raise OutOfScope(what, "vLLM 0.22.1 takes it")
        _check_order("a request", items)
        super().add(request)
        self._check_sessions()

    def schedule(self) -> Fields:
        """Decide one step. Raises OutOfScope as `add` does, for a session that takes a chunk."""
        decided = super().schedule()
        self._check_sessions()
        return decided

    def update(self, sampled: dict[str, list[int]]) -> list[Fields]:
        """Take in what the oldest step in flight sampled. Raises OutOfScope as `schedule` does."""
        told = super().update(sampled)
        self._check_sessions()
        return told

    def _check_sessions(self) -> None:
        """Raise OutOfScope for a session that has items of an earlier turn behind the beginning of
        a later one's: it kept fewer tokens than they were to stand for.
        """
        if self.looks_for_items:
            for request in self.known.values():
                _check_order("a session", (item.mm_position for item in request.mm_features))

    @property
    def features(self) -> frozenset[Feature]:
        """All that the line is followed in."""
        return extent(super().features, self.semantics)
