"""The fast engine under a workload: prompts as synthetic tokens that share what the prompts do."""

from typing import TYPE_CHECKING, cast

from nullblock.conformance.adapters import impl as adapter
from nullblock.conformance.engine import Feature
from nullblock.conformance.engines import DeviceName
from nullblock.conformance.replaying.engine import Pool, ReplayEngine
from nullblock.conformance.replaying.engine import Request as ReplayRequest
from nullblock.conformance.scenario_format import Config
from nullblock.spec.profiles import Semantics

if TYPE_CHECKING:
    from nullblock.impl import Scheduler
    from nullblock.impl.arrays import Blocks


def create(config: Config, semantics: Semantics) -> ReplayEngine:
    """The fast engine under a configuration. Raises OutOfScope, as the adapter it builds on."""
    made = cast(adapter._Impl, adapter.create(config, semantics, DeviceName.cpu))
    return _Replayed(cast("Scheduler", made.engine), config, made.features)


class _Replayed(adapter._Impl):
    """Implements :class:`nullblock.conformance.replaying.engine.ReplayEngine`."""

    def __init__(self, engine: "Scheduler", config: Config, features: frozenset[Feature]) -> None:
        super().__init__(engine, config, features)
        self.pool = engine.pool
        self._evictions = 0
        self._count_evictions()

    def _count_evictions(self) -> None:
        from nullblock.impl.prefix_cache import ROOT

        cache = self.pool.cache
        evict = cache.evict

        def counted(blocks: "Blocks") -> None:
            self._evictions += int((cache.carried[blocks] != ROOT).sum())
            evict(blocks)

        cache.evict = counted  # type: ignore[method-assign]

    def add(self, request: ReplayRequest) -> None:  # type: ignore[override]
        """Queue a request, or note its rejection."""
        from nullblock.impl.requests import NO_EOS, Request

        self.engine.add_request(
            Request(
                id=request.id,
                prompt=request.content.tokens(),
                max_tokens=request.max_tokens,
                arrival_time=request.arrival,
                eos=NO_EOS if request.eos is None else request.eos,
            )
        )

    def num_evictions(self) -> int:
        """Blocks that lost the content they cached, so far."""
        return self._evictions

    def num_free_blocks(self) -> int:
        """Blocks that no request holds."""
        return self.pool.num_free

    def pool_use(self) -> Pool:
        """How the pool is used."""
        from nullblock.impl.prefix_cache import ROOT

        pool = self.pool
        free = pool.ref_cnt[1:] == 0
        cached = int((pool.cache.carried[1:][free] != ROOT).sum())
        return Pool(held=pool.num_blocks - 1 - pool.num_free, cached=cached)

    def finish(self) -> None:
        """It does not record itself."""

    def close(self) -> None:
        """Nothing is held outside this process."""
