"""The reference under a workload: its own scheduler and pool, hashes made from chain numbers.

A prompt's tokens are all zero, and nobody looks at them: what is hashed is what a prompt shares.
"""

from nullblock.conformance.adapters.reference import Reference
from nullblock.conformance.errors import OutOfScope
from nullblock.conformance.replaying.engine import Pool, ReplayEngine
from nullblock.conformance.replaying.engine import Request as ReplayRequest
from nullblock.conformance.scenario_format import Config
from nullblock.conformance.workloads.content import output_number
from nullblock.reference.errors import UnsupportedFeature
from nullblock.reference.free_block_queue import BlockHash, KVCacheBlock
from nullblock.reference.request import Request
from nullblock.reference.sampling_params import SamplingParams
from nullblock.spec.profiles import Semantics

_BYTES = 32


def create(config: Config, semantics: Semantics) -> ReplayEngine:
    """A reference scheduler under a configuration. Raises OutOfScope."""
    try:
        return _Reference(config, semantics)
    except UnsupportedFeature as error:
        raise OutOfScope(f"{error.feature} is out of scope", place="config") from error


class _Hasher:
    """Makes hashes of the full blocks that a request has none for yet."""

    def __init__(self, block_size: int, request: ReplayRequest) -> None:
        self.size, self.number = block_size, request.number
        self.prompt = request.content.numbers(block_size)

    def __call__(self, request: Request) -> list[BlockHash]:
        known, full = len(request.block_hashes), request.num_tokens // self.size
        if full == known:
            return []
        numbers = list(self.prompt) if known == 0 else []
        numbers += [
            output_number(self.number, block) for block in range(known + len(numbers), full)
        ]
        return [BlockHash(number.to_bytes(_BYTES, "big")) for number in numbers]


class _Reference(Reference):
    """Implements :class:`nullblock.conformance.replaying.engine.ReplayEngine`."""

    def __init__(self, config: Config, semantics: Semantics) -> None:
        super().__init__(config, semantics)
        self.config = config
        self._evictions = 0
        self._count_evictions()

    def _count_evictions(self) -> None:
        pool = self.scheduler.kv_cache_manager.block_pool
        evict = pool._maybe_evict_cached_block

        def counted(block: KVCacheBlock) -> bool:
            done = evict(block)
            self._evictions += done
            return done

        pool._maybe_evict_cached_block = counted  # type: ignore[method-assign]

    def add(self, request: ReplayRequest) -> None:  # type: ignore[override]
        """Queue a request."""
        params = SamplingParams(
            max_tokens=request.max_tokens,
            min_tokens=0,
            stop_token_ids=None,
            ignore_eos=request.eos is None,
        )
        if request.eos is not None:
            params.update_from_generation_config({}, request.eos)
        self.scheduler.add_request(
            Request(
                request_id=request.id,
                prompt_token_ids=[0] * request.content.length,
                sampling_params=params,
                pooling_params=None,
                arrival_time=request.arrival,
                block_hasher=_Hasher(self.config.block_size, request),
            )
        )

    def num_evictions(self) -> int:
        """Blocks that lost the content they cached, so far."""
        return self._evictions

    def num_free_blocks(self) -> int:
        """Blocks that no request holds."""
        return self.scheduler.kv_cache_manager.block_pool.get_num_free_blocks()

    def pool_use(self) -> Pool:
        """How the pool is used."""
        pool = self.scheduler.kv_cache_manager.block_pool
        free = pool.free_block_queue.get_all_free_blocks()
        cached = sum(block.block_hash is not None for block in free)
        return Pool(held=pool.num_gpu_blocks - 1 - len(free), cached=cached)

    def finish(self) -> None:
        """It does not record itself."""

    def close(self) -> None:
        """Nothing is held outside this process."""
