"""The fast engine as the driver sees it: arrays in, plain fields out."""

import itertools
from importlib.util import find_spec
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from nullblock.conformance.adapters.spec import constants
from nullblock.conformance.engine import Dump, Engine, Feature, Fields, NewRequest
from nullblock.conformance.errors import OutOfScope
from nullblock.conformance.scenario_format import Config
from nullblock.spec.keys import extra_keys
from nullblock.spec.names import PAUSE
from nullblock.spec.profiles import Semantics

if TYPE_CHECKING:
    from nullblock.impl.prefix_cache import Chain, Extra

FEATURES: frozenset[Feature] = frozenset()


def create(config: Config, semantics: Semantics) -> Engine:
    """The fast engine under a scenario's configuration.

    Raises :class:`OutOfScope` where NumPy is not installed.
    """
    if find_spec("numpy") is None:
        raise OutOfScope("the engine impl needs NumPy", "pip install 'nullblock[impl]'")
    return _Impl(config, semantics)


class _Impl:
    """Implements :class:`nullblock.conformance.engine.Engine`."""

    def __init__(self, config: Config, semantics: Semantics) -> None:
        from nullblock.impl.scheduler import Scheduler

        self.engine = Scheduler(constants(config, semantics))
        self.numbers: dict[tuple[int, bytes, Extra], int] = {}
        """Of every content there ever was: the same one may come again."""
        self.known: WeakKeyDictionary[Chain, int] = WeakKeyDictionary()
        self.chunks: set[str] = set()

    @property
    def features(self) -> frozenset[Feature]:
        """The least."""
        return FEATURES

    def add(self, request: NewRequest) -> None:
        """Queue a request. Raises :class:`OutOfScope` for one that vLLM cannot serve either."""
        import numpy as np

        from nullblock.impl.requests import NO_EOS, Request

        if request.max_tokens < 1 or not 0 <= request.min_tokens <= request.max_tokens:
            raise ValueError("max_tokens is at least 1 and min_tokens between 0 and max_tokens")
        sem, n = self.engine.semantics, len(request.prompt)
        if not sem.reject_unservable and not 0 < n < self.engine.config.max_model_len:
            limit = self.engine.config.max_model_len
            what = f"a prompt of {n} tokens, with max_model_len {limit}, is out of scope"
            raise OutOfScope(what, "the engine impl serves prompts that vLLM's front end lets by")
        self.engine.add_request(
            Request(
                id=request.id,
                tokens=np.array(request.prompt, np.int64),
                num_prompt_tokens=n,
                max_tokens=request.max_tokens,
                min_tokens=request.min_tokens,
                priority=request.priority,
                arrival_time=request.arrival,
                eos=NO_EOS if request.eos is None else request.eos,
                stop=frozenset(request.stop or ()),
                skip_reading_prefix_cache=bool(request.skip_cache_read),
                extra_first=extra_keys(sem, request.lora, request.salt, True),
                extra_rest=extra_keys(sem, request.lora, request.salt, False),
            )
        )

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
            "new_token_ids": [],
            "spec": {},
            "preempted": sorted(step.preempted),
            "finished": sorted(set(step.finished)),
            "num_common_prefix_blocks": [step.num_common_prefix_blocks],
            "new_block_ids_to_zero": None,
        }

    def update(self, sampled: dict[str, list[int]]) -> list[Fields]:
        """Take in what the step sampled."""
        import numpy as np

        from nullblock.impl.step import CONTINUE, LENGTH, STOPPED_BY_ID
        from nullblock.impl.update import update_from_output

        step = self.engine.step
        if step is None:
            raise IndexError("no step is in flight")
        tokens = np.array([(sampled.get(id) or [0])[0] for id in step.ids], np.int64)
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
        for block in ids:
            assert block < self.engine.pool.num_blocks, f"no block {block}"
            self.engine.evict_blocks([block])

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
        running = [engine.seats.requests[seat] for seat in engine.seats.taken.tolist()]
        fields: Fields = {
            "waiting": [request.id for request in engine.waiting],
            "skipped_waiting": [],
            "running": [request.id for request in running if request is not None],
            "num_free": engine.pool.num_free,
            "finished_req_ids": sorted(set(engine.finished)),
            "requests": {id: self.request(id) for id in engine.requests},
        }
        return fields | self.pool() if dump == "full" else fields

    def request(self, id: str) -> Fields:
        """One request in the driver's words."""
        engine = self.engine
        request, seats = engine.requests[id], engine.seats
        seat = request.seat
        tokens = engine.num_tokens(request)
        preempted = request.num_preemptions > 0
        fields: Fields = {
            "status": "PREEMPTED" if preempted else "WAITING",
            "computed": 0,
            "tokens": tokens,
            "output": tokens - request.num_prompt_tokens,
            "placeholders": request.num_output_placeholders,
            "discard": 0,
            "spec": 0,
            "preemptions": request.num_preemptions,
            "blocks": [[]],
            "num_cached_block": [None],
        }
        if seat is None:
            return fields
        return fields | {
            "status": "RUNNING",
            "computed": int(seats.num_computed[seat]),
            "placeholders": int(seats.placeholders[seat]),
            "blocks": [seats.table[seat, : seats.num_blocks[seat]].tolist()],
            "num_cached_block": [int(seats.num_cached[seat]) or None],
        }

    def number(self, chain: "Chain") -> int:
        """Of a chain, by its content and the number of the one before it."""
        path: list[Chain] = []
        before: Chain | None = chain
        while before is not None and before not in self.known:
            path.append(before)
            before = before.content[0]
        number = 0 if before is None else self.known[before]
        for one in reversed(path):
            _, tokens, extra = one.content
            number = self.numbers.setdefault((number, tokens, extra), len(self.numbers) + 1)
            self.known[one] = number
        return number

    def pool(self) -> Fields:
        """The block pool in the driver's words; a hash is the number of its chain."""
        pool = self.engine.pool
        cached = {b: chain for b, chain in enumerate(pool.cache.carried) if chain is not None}
        names = {chain: f"{self.number(chain):012x}:0" for chain in cached.values()}
        return {
            "free_queue": pool.free.in_order(),
            "ref_cnt": {str(b): n for b, n in enumerate(pool.ref_cnt.tolist()) if n},
            "block_hash": {str(b): names[chain] for b, chain in cached.items()},
            "cached_map": {name: list(chain.blocks) for chain, name in names.items()},
        }
