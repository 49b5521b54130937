"""The fast engine as the driver sees it: arrays in, plain fields out."""

import itertools
from importlib.util import find_spec
from typing import TYPE_CHECKING, cast

from nullblock.conformance import scope
from nullblock.conformance.adapters.spec_constants import constants
from nullblock.conformance.engine import CORE_FEATURES, Dump, Engine, Feature, Fields, NewRequest
from nullblock.conformance.engines import DeviceName
from nullblock.conformance.errors import OutOfScope
from nullblock.conformance.scenario_format import Config
from nullblock.spec.fields import CONTINUE, LENGTH, STOPPED_BY_ID
from nullblock.spec.keys import extra_keys
from nullblock.spec.names import PAUSE
from nullblock.spec.profiles import Semantics

if TYPE_CHECKING:
    from nullblock.impl import Scheduler
    from nullblock.impl.picture import PoolPicture, RequestPicture
    from nullblock.impl.protocol import Engine as FastEngine
    from nullblock.impl.step import Step
    from nullblock.spec.facts import Config as Constants

FEATURES = (CORE_FEATURES - {Feature.kv_events}) | {Feature.decode_ranks, Feature.prefill_ranks}
ON_A_DEVICE = FEATURES - {Feature.async_scheduling, Feature.several_in_flight, Feature.pipeline}


def create(config: Config, semantics: Semantics, device: DeviceName) -> Engine:
    """The fast engine under a scenario's configuration.

    Raises :class:`OutOfScope` where NumPy, or what the device needs, is not installed or not
    there, and for numbers beyond its range.
    """
    if find_spec("numpy") is None:
        raise OutOfScope("the engine impl needs NumPy", "pip install 'nullblock[impl]'")
    features = FEATURES if device == DeviceName.cpu else ON_A_DEVICE
    scope.check_engine(config, f"impl on {device}", features)
    try:
        return _Impl(_engine(constants(config, semantics), config.vocab, device), config, features)
    except ValueError as error:
        raise OutOfScope(f"for the engine impl {error}", place="config") from error


def _engine(config: "Constants", vocab: int, device: DeviceName) -> "FastEngine":
    """The engine on a device, for tokens below `vocab`.

    Raises ValueError for numbers beyond its range, :class:`OutOfScope` for a device that is not
    to be had.
    """
    if device == DeviceName.cpu:
        from nullblock.impl import Scheduler

        return Scheduler(config)
    if find_spec("torch") is None or find_spec("triton") is None:
        raise OutOfScope(
            f"the engine impl on {device} needs torch and Triton", "pip install 'nullblock[gpu]'"
        )
    from nullblock.impl.device.places import NoSuchDevice, place

    try:
        found = place(device.value)  # before the kernels are imported: Triton looks at it then
    except NoSuchDevice as error:
        raise OutOfScope(f"the engine impl on {device}: {error.why}", error.remedy) from error
    from nullblock.impl.device import Scheduler as OnDevice
    from nullblock.impl.device.letters import MOST_TOKEN

    if vocab > MOST_TOKEN:
        raise ValueError(f"samples tokens up to {vocab}: on a device they are 0 to {MOST_TOKEN}")
    return OnDevice(config, found)


class _Impl:
    """Implements :class:`nullblock.conformance.engine.Engine`."""

    def __init__(self, engine: "FastEngine", config: Config, features: frozenset[Feature]) -> None:
        self.engine, self.features = engine, features
        self.pipeline = config.pipeline_parallel_size > 1 and not config.async_scheduling
        self.decided: Step | None = None
        """The step decided last."""
        self.chunks: set[str] = set()

    def add(self, request: NewRequest) -> None:
        """Queue a request. Raises :class:`OutOfScope` for numbers that the engine cannot hold."""
        from nullblock.impl.requests import NO_EOS, Request

        sem = self.engine.semantics
        try:
            made = Request(
                id=request.id,
                prompt=request.prompt,
                max_tokens=request.max_tokens,
                min_tokens=request.min_tokens,
                priority=request.priority,
                arrival_time=request.arrival,
                eos=NO_EOS if request.eos is None else request.eos,
                stop=frozenset(request.stop or ()),
                skip_reading_prefix_cache=bool(request.skip_cache_read),
                extras=(
                    extra_keys(sem, request.lora, request.salt, first=True),
                    extra_keys(sem, request.lora, request.salt, first=False),
                ),
            )
            self.engine.add_request(made)
        except OverflowError as error:
            raise _too_large(error) from error

    def schedule(self) -> Fields:
        """Decide one step. Raises :class:`OutOfScope` for numbers that the engine cannot hold."""
        try:
            step = self.decided = self.engine.schedule()
        except OverflowError as error:
            raise _too_large(error) from error
        granted = step.num_scheduled_tokens.tolist()
        computed, output = step.num_computed_tokens.tolist(), step.num_output_tokens.tolist()
        ends = list(itertools.accumulate(step.new_block_counts.tolist(), initial=0))
        blocks = step.new_block_ids.tolist()
        got = [blocks[i:j] for i, j in itertools.pairwise(ends)]
        news = [not r.num_preemptions for r in step.admitted]
        places = range(step.running, len(step.ids))
        new = [i for i, first in zip(places, news, strict=True) if first]
        resumed = [i for i, first in zip(places, news, strict=True) if not first]
        self.chunks = {
            id for id, samples in zip(step.ids, step.samples.tolist(), strict=True) if not samples
        }
        return {
            "num_scheduled_tokens": dict(zip(step.ids, granted, strict=True)),
            "order": list(step.ids),
            "total": sum(granted),
            "new": [
                {
                    "id": step.ids[i],
                    "blocks": [got[i]],
                    "computed": computed[i],
                    "prompt_len": step.admitted[i - step.running].num_prompt_tokens,
                    "prefill_len": None,
                }
                for i in new
            ],
            "cached": [
                {
                    "id": step.ids[i],
                    "new_blocks": [got[i]] if got[i] else None,
                    "computed": computed[i],
                    "num_output": output[i],
                    "resumed": i >= step.running,
                    "all_token_ids": len(step.all_token_ids[step.ids[i]])
                    if step.ids[i] in step.all_token_ids
                    else None,
                }
                for i in [*range(step.running), *resumed]
            ],
            "new_token_ids": self.tokens_to_compute() if self.pipeline else [],
            "spec": {},
            "preempted": sorted(step.preempted),
            "finished": sorted(set(step.finished)),
            "num_common_prefix_blocks": [step.num_common_prefix_blocks],
            "new_block_ids_to_zero": None,
        }

    def tokens_to_compute(self) -> list[list[int]]:
        """Known requests that ran before, then resumed ones, as they are reported."""
        from nullblock.impl.output_phase import tokens_to_compute

        return tokens_to_compute(cast("Scheduler", self.engine))

    def update(self, sampled: dict[str, list[int]]) -> list[Fields]:
        """Take in what the step sampled."""
        step = self.engine.step
        if step is None:
            raise IndexError("no step is in flight")
        tokens = [(sampled.get(id) or [0])[0] for id in step.ids]
        found = self.engine.update_from_output(tokens)
        rejected: list[Fields] = [
            {"id": id, "tokens": [], "finish": "rejected", "stop_reason": why}
            for id, why in found.rejected
        ]
        return rejected + [
            {
                "id": id,
                "tokens": [token],
                "finish": None if why == CONTINUE else "length" if why == LENGTH else "stop",
                "stop_reason": token if why == STOPPED_BY_ID else None,
            }
            for id, token, why in zip(
                found.ids, found.tokens.tolist(), found.why.tolist(), strict=True
            )
        ]

    def abort(self, ids: list[str] | None, status: str) -> list[str]:
        """End requests one after another, or all in order of arrival."""
        if not status.startswith("FINISHED_"):
            raise AssertionError(f"{status} is not a finished status")
        return self.engine.finish_requests(list(self.engine.requests) if ids is None else ids)

    def reset_prefix_cache(self, reset_running: bool) -> bool:
        """Empty the prefix cache."""
        return self.engine.reset_prefix_cache(reset_running)

    def pause(self, state: str) -> None:
        """Change how much is scheduled."""
        self.engine.pause_state = PAUSE[state]

    def evict_blocks(self, ids: list[int]) -> None:
        """Take blocks out of the prefix cache."""
        self.engine.evict_blocks(ids)

    def kv_events(self) -> list[Fields]:
        """None: they are out of scope."""
        return []

    def has_unfinished(self) -> bool:
        """Whether there is work, or a rejection to report."""
        return bool(self.engine.num_unfinished() or self.engine.rejected)

    def has_requests(self) -> bool:
        """Whether a step has anything to do or to tell."""
        return self.has_unfinished() or bool(self.engine.finished)

    def num_tokens(self, id: str) -> int | None:
        """Prompt and output tokens of a request."""
        request = self.engine.requests.get(id)
        return None if request is None else self.engine.num_tokens(request)

    def is_prefill_chunk(self, id: str) -> bool:
        """Whether the step just scheduled leaves tokens of the request uncomputed."""
        return id in self.chunks

    def state(self, dump: Dump) -> Fields | None:
        """Queues, requests and, in a full dump, the pool."""
        if dump == "none":
            return None
        found = self.engine.picture(pool=dump == "full")
        fields: Fields = {
            "waiting": found.waiting,
            "skipped_waiting": [],
            "running": found.running,
            "num_free": found.num_free,
            "finished_req_ids": sorted(found.finished),
            "requests": {id: _request(request) for id, request in found.requests.items()},
        }
        return fields if found.pool is None else fields | _pool(found.pool)


def _too_large(error: OverflowError) -> OutOfScope:
    return OutOfScope(f"too large for the engine impl: {error}")


def _request(request: "RequestPicture") -> Fields:
    """One request in the driver's words."""
    status = "PREEMPTED" if request.num_preemptions else "WAITING"
    return {
        "status": "RUNNING" if request.is_running else status,
        "computed": request.num_computed_tokens,
        "tokens": request.num_tokens,
        "output": request.num_tokens - request.num_prompt_tokens,
        "placeholders": request.num_output_placeholders,
        "discard": request.num_discarded,
        "spec": 0,
        "preemptions": request.num_preemptions,
        "blocks": [request.blocks],
        "num_cached_block": [request.num_cached_blocks or None],
    }


def _pool(pool: "PoolPicture") -> Fields:
    """The block pool in the driver's words; a hash is whatever the engine calls a content."""
    return {
        "free_queue": pool.free_queue,
        "ref_cnt": {str(b): n for b, n in pool.ref_cnt.items()},
        "block_hash": {str(b): f"{content}:0" for b, content in pool.content.items()},
        "cached_map": {f"{content}:0": blocks for content, blocks in pool.copies.items()},
    }
