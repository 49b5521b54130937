"""The real scheduler as a service: a line of JSON in, a line of JSON out.

    python serve.py FOLDER [PRELOAD.py]

runs where vLLM is, started by ``nullblock replay --engine vllm``. ``FOLDER`` is where
``nullblock`` can be imported from, for the recorder. ``PRELOAD.py`` is run before vLLM is
imported, with its folder on the path: it may prepare an environment in which something that vLLM
imports is missing.

The first line is the configuration; then come ``add`` (not answered), ``schedule``, ``update``,
``pool`` and ``close``. An answer is an object with what was asked for, or with ``error`` where
nothing can be asked, or with ``raised`` where the engine raised.
"""

import json
import os
import runpy
import sys
from collections import deque
from itertools import chain, repeat
from types import SimpleNamespace
from typing import Any, TextIO

Fields = dict[str, Any]


class Service:
    """One scheduler, and the steps in flight."""

    def __init__(self, config: Fields) -> None:
        self.config = config
        self.scheduler, self.hasher = _build(config)
        self.pool = self.scheduler.kv_cache_manager.block_pool
        self.in_flight: deque[Any] = deque()
        self.evictions = 0
        self._count_evictions()

    def _count_evictions(self) -> None:
        evict = self.pool._maybe_evict_cached_block

        def counted(block: Any) -> Any:
            done = evict(block)
            self.evictions += bool(done)
            return done

        self.pool._maybe_evict_cached_block = counted

    def add(self, asked: Fields) -> None:
        """A request arrives; its tokens are made from what it shares."""
        from vllm.sampling_params import SamplingParams  # type: ignore[import-not-found,unused-ignore]
        from vllm.v1.request import Request  # type: ignore[import-not-found,unused-ignore]

        eos = asked["eos"]
        params = SamplingParams(max_tokens=asked["max_tokens"], ignore_eos=eos is None)
        if eos is not None:
            params.update_from_generation_config({}, eos)
        ids = chain.from_iterable(range(first, first + many) for first, many in asked["runs"])
        units = chain.from_iterable(repeat(id, asked["unit"]) for id in ids)
        self.scheduler.add_request(
            Request(
                request_id=asked["id"],
                prompt_token_ids=list(units)[: asked["length"]],
                sampling_params=params,
                pooling_params=None,
                arrival_time=asked["arrival"],
                block_hasher=self.hasher,
            )
        )

    def schedule(self) -> Fields:
        """Decide a step."""
        output = self.scheduler.schedule()
        self.in_flight.append(output)
        scheduled = output.num_scheduled_tokens
        requests = self.scheduler.requests
        cached = output.scheduled_cached_reqs
        resumed = cached.resumed_req_ids
        decided = {
            "num_scheduled_tokens": scheduled,
            "total": output.total_num_scheduled_tokens,
            "new": [
                {"id": new.req_id, "computed": new.num_computed_tokens}
                for new in output.scheduled_new_reqs
            ],
            "cached": [
                {"id": id, "computed": computed, "resumed": True}
                for id, computed in zip(cached.req_ids, cached.num_computed_tokens, strict=True)
                if id in resumed
            ],
            "preempted": sorted(output.preempted_req_ids or ()),
        }
        chunks = [id for id in scheduled if requests[id].is_prefill_chunk]
        return self._told(decided=decided, chunks=chunks)

    def update(self, sampled: dict[str, list[int]]) -> Fields:
        """Take in what was sampled for the oldest step in flight."""
        from vllm.v1.outputs import ModelRunnerOutput  # type: ignore[import-not-found,unused-ignore]

        model_output = ModelRunnerOutput(
            req_ids=list(sampled),
            req_id_to_index={id: index for index, id in enumerate(sampled)},
            sampled_token_ids=list(sampled.values()),
        )
        by_client = self.scheduler.update_from_output(self.in_flight.popleft(), model_output)
        outputs = [
            {
                "id": output.request_id,
                "tokens": list(output.new_token_ids),
                "finish": None if output.finish_reason is None else str(output.finish_reason),
                "stop_reason": output.stop_reason,
            }
            for client in sorted(by_client)
            for output in by_client[client].outputs
        ]
        return self._told(outputs=outputs)

    def _told(self, **fields: Any) -> Fields:
        return {
            **fields,
            "has_requests": self.scheduler.has_requests(),
            "free": self.pool.get_num_free_blocks(),
            "evictions": self.evictions,
        }

    def pool_use(self) -> Fields:
        """How the pool is used."""
        free = self.pool.free_block_queue.get_all_free_blocks()
        return {"free": len(free), "cached": sum(b.block_hash is not None for b in free)}

    def answer(self, asked: list[Any]) -> Fields | None:
        """What is said to one line."""
        match asked:
            case ["add", fields]:
                self.add(fields)
                return None
            case ["schedule"]:
                return self.schedule()
            case ["update", sampled]:
                return self.update(sampled)
            case ["pool"]:
                return self.pool_use()
        self.scheduler.shutdown()
        return {"closed": True}


def _build(config: Fields) -> tuple[Any, Any]:
    """The scheduler, recorded if NULLBLOCK_TRACE says where, and its hash function."""
    from vllm.utils.hashing import (  # type: ignore[import-not-found,unused-ignore]
        get_hash_fn_by_name,
    )
    from vllm.v1.core.kv_cache_utils import (  # type: ignore[import-not-found,unused-ignore]
        get_request_block_hasher,
        init_none_hash,
    )
    from vllm.v1.kv_cache_interface import (  # type: ignore[import-not-found,unused-ignore]
        FullAttentionSpec,
        KVCacheConfig,
        KVCacheGroupSpec,
    )

    from nullblock.conformance.adapters.vllm import recorder
    from nullblock.conformance.adapters.vllm.vllm_config import vllm_config

    asynchronous = config["async_scheduling"]
    kind = recorder.RecordingAsyncScheduler if asynchronous else recorder.RecordingScheduler
    size = config["block_size"]
    layer = FullAttentionSpec(block_size=size, num_kv_heads=1, head_size=1, dtype=None)
    scheduler = kind(
        vllm_config=vllm_config(**{key: config[key] for key in _SETTINGS}),
        kv_cache_config=KVCacheConfig(
            num_blocks=config["num_blocks"],
            kv_cache_tensors=[],
            kv_cache_groups=[KVCacheGroupSpec(["layer"], layer)],
        ),
        structured_output_manager=SimpleNamespace(should_advance=lambda request: False),
        block_size=size,
        hash_block_size=size,
        log_stats=False,
    )
    hash_function = get_hash_fn_by_name(config["hash_algo"])
    init_none_hash(hash_function)
    return scheduler, get_request_block_hasher(size, hash_function)


_SETTINGS = (
    *("block_size", "num_blocks", "max_num_seqs", "max_num_batched_tokens", "max_model_len"),
    *("long_prefill_token_threshold", "enable_chunked_prefill", "enable_prefix_caching"),
    *("policy", "async_scheduling", "scheduler_reserve_full_isl"),
)
"""What the configuration line says, by the names of :func:`vllm_config`."""


def serve(answers: TextIO) -> None:
    """Answer until the input ends."""
    service: Service | None = None
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            if service is None:
                import vllm  # type: ignore[import-not-found,unused-ignore]

                service = Service(asked)
                said: Fields | None = {"version": vllm.__version__}
            else:
                said = service.answer(asked)
        except Exception as error:
            reason = (str(error).splitlines() or [""])[0]
            said = {"raised": type(error).__name__, "reason": reason}
            if service is None:
                said = {"error": f"{type(error).__name__}: {reason}"}
        if said is not None:
            print(json.dumps(said), file=answers, flush=True)


def main() -> None:
    """Keep standard output for the answers: what vLLM prints goes to standard error."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    folder, *preload = sys.argv[1:]
    # The folder of this file would make its neighbours importable by wrong names.
    sys.path[0] = folder
    with answers:
        try:
            for file in preload:
                sys.path.insert(0, os.path.dirname(os.path.abspath(file)))
                runpy.run_path(file)
        except Exception as error:
            said = f"{file}: {type(error).__name__}: {error}"
            print(json.dumps({"error": said}), file=answers, flush=True)
            return
        serve(answers)


if __name__ == "__main__":
    main()
