"""The fast engine as the driver sees it: arrays in, plain fields out."""

import itertools
from importlib.util import find_spec
from typing import TYPE_CHECKING

from nullblock.conformance.adapters.spec import constants
from nullblock.conformance.engine import ALL_FEATURES, Dump, Engine, Feature, Fields, NewRequest
from nullblock.conformance.errors import OutOfScope
from nullblock.conformance.scenario_format import Config
from nullblock.spec.fields import CONTINUE, LENGTH, STOPPED_BY_ID
from nullblock.spec.keys import extra_keys
from nullblock.spec.names import PAUSE
from nullblock.spec.profiles import Semantics

if TYPE_CHECKING:
    from nullblock.impl import Scheduler, Step

FEATURES = ALL_FEATURES - {Feature.kv_events}


def create(config: Config, semantics: Semantics) -> Engine:
    """The fast engine under a scenario's configuration.

    Raises :class:`OutOfScope` where NumPy is not installed, and for numbers beyond its range.
    """
    if find_spec("numpy") is None:
        raise OutOfScope("the engine impl needs NumPy", "pip install 'nullblock[impl]'")
    from nullblock.impl import Scheduler

    try:
        pipeline = config.pipeline_parallel_size > 1 and not config.async_scheduling
        return _Impl(Scheduler(constants(config, semantics)), pipeline)
    except ValueError as error:
        raise OutOfScope(f"for the engine impl {error}", place="config") from error


class _Impl:
    """Implements :class:`nullblock.conformance.engine.Engine`."""

    def __init__(self, engine: "Scheduler", pipeline: bool) -> None:
        self.engine, self.pipeline = engine, pipeline
        self.numbers: dict[tuple[int, object], int] = {}
        """Of every content there ever was: the same one may come again under another name."""
        self.chunks: set[str] = set()

    @property
    def features(self) -> frozenset[Feature]:
        """The least."""
        return FEATURES

    def add(self, request: NewRequest) -> None:
        """Queue a request. Raises :class:`OutOfScope` for a token of more than 64 bits."""
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
        except OverflowError as error:
            raise OutOfScope(
                f"a token of more than 64 bits, for the engine impl: {error}"
            ) from error
        self.engine.add_request(made)

    def schedule(self) -> Fields:
        """Decide one step."""
        step = self.engine.schedule()
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
            "new_token_ids": self.tokens_to_compute(step) if self.pipeline else [],
            "spec": {},
            "preempted": sorted(step.preempted),
            "finished": sorted(set(step.finished)),
            "num_common_prefix_blocks": [step.num_common_prefix_blocks],
            "new_block_ids_to_zero": None,
        }

    def tokens_to_compute(self, step: "Step") -> list[list[int]]:
        """Known requests that ran before, then resumed ones, as they are reported."""
        from nullblock.impl.output_phase import tokens_to_compute

        return tokens_to_compute(self.engine, step)

    def update(self, sampled: dict[str, list[int]]) -> list[Fields]:
        """Take in what the step sampled."""
        from nullblock.impl import update_from_output

        step = self.engine.step
        if step is None:
            raise IndexError("no step is in flight")
        tokens = [(sampled.get(id) or [0])[0] for id in step.ids]
        found = update_from_output(self.engine, tokens)
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
        engine = self.engine
        fields: Fields = {
            "waiting": [request.id for request in engine.waiting],
            "skipped_waiting": [],
            "running": engine.running.ids.copy(),
            "num_free": engine.pool.num_free,
            "finished_req_ids": sorted(set(engine.finished)),
            "requests": {id: self.request(id) for id in engine.requests},
        }
        return fields | self.pool() if dump == "full" else fields

    def request(self, id: str) -> Fields:
        """One request in the driver's words."""
        engine = self.engine
        request, running = engine.requests[id], engine.running
        tokens = engine.num_tokens(request)
        fields: Fields = {
            "status": "PREEMPTED" if request.num_preemptions else "WAITING",
            "computed": 0,
            "tokens": tokens,
            "output": tokens - request.num_prompt_tokens,
            "placeholders": request.num_output_placeholders,
            "discard": request.num_discarded,
            "spec": 0,
            "preemptions": request.num_preemptions,
            "blocks": [[]],
            "num_cached_block": [None],
        }
        if not request.is_running:
            return fields
        place = running.index(request)
        return fields | {
            "status": "RUNNING",
            "computed": int(running.num_computed[place]),
            "placeholders": int(running.placeholders[place]),
            "discard": int(running.discarded[place]),
            "blocks": [running.blocks(place).tolist()],
            "num_cached_block": [int(running.num_cached[place]) or None],
        }

    def number(self, name: int, known: dict[int, int]) -> int:
        """Of a content, by what it is itself and the number of the one before it."""
        cache = self.engine.pool.cache
        path = []
        while name not in known:
            path.append(name)
            name = int(cache.parent[name])
        number = known[name]
        for name in reversed(path):
            content = cache.contents[name]
            # The first word is the name before, which may be another one the next time.
            text, extra = content if isinstance(content, tuple) else (content, ())
            assert text is not None
            number = self.numbers.setdefault((number, (text[8:], extra)), len(self.numbers) + 1)
            known[name] = number
        return number

    def pool(self) -> Fields:
        """The block pool in the driver's words; a hash is the number of its content."""
        pool = self.engine.pool
        known = {0: 0}
        carried = {b: name for b, name in enumerate(pool.cache.carried.tolist()) if name}
        hashes = {name: f"{self.number(name, known):012x}:0" for name in carried.values()}
        return {
            "free_queue": pool.free.in_order(),
            "ref_cnt": {str(b): n for b, n in enumerate(pool.ref_cnt.tolist()) if n},
            "block_hash": {str(b): hashes[name] for b, name in carried.items()},
            "cached_map": {hashes[name]: pool.cache.blocks_of(name) for name in hashes},
        }
