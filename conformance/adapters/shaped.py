"""A scheduler of vLLM's shape as the driver sees it: its objects in, plain fields out."""

import inspect
import os
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from nullblock.conformance import repetition
from nullblock.conformance.adapters import encoder_shape, shape
from nullblock.conformance.adapters.drafting import TakesDrafts
from nullblock.conformance.adapters.shape import REFERENCE, VLLM, Modules, modules, part
from nullblock.conformance.adapters.shape_groups import kv_cache_groups
from nullblock.conformance.adapters.surroundings import Surroundings
from nullblock.conformance.engine import ALL_FEATURES, Dump, Feature, Fields, NewRequest
from nullblock.conformance.groups import block_sizes
from nullblock.conformance.played import encoder
from nullblock.conformance.played.grammar import PlayedGrammars
from nullblock.conformance.scenario_format import Config
from nullblock.spec.profiles import Semantics

Kind = Callable[..., Any]
METHODS = ("add_request", "schedule", "update_from_output", "has_requests")
"""What every scheduler of this shape has."""
OPTIONAL = {
    Feature.abort: "finish_requests",
    Feature.pause: "set_pause_state",
    Feature.reset: "reset_prefix_cache",
    Feature.kv_events: "kv_event_publisher",
    Feature.drafts: "update_draft_token_ids",
}
"""What it may lack, and what it cannot be asked for then."""


def package_of(kind: Kind) -> str:
    """Whose requests, sampling parameters and outputs a class is fed with.

    vLLM's if it is derived from one of vLLM's classes, or its module imports some; else the
    reference's, which have the same shape and need no vLLM.
    """
    bases = {base.__module__ for base in getattr(kind, "__mro__", ())}
    module = inspect.getmodule(kind)
    known = {str(getattr(v, "__module__", "")) for v in vars(module).values()} if module else set()
    named = {str(getattr(v, "__name__", "")) for v in vars(module).values()} if module else set()
    if any(_is_in(name, REFERENCE) for name in bases):
        return REFERENCE
    return VLLM if any(_is_in(name, VLLM) for name in bases | known | named) else REFERENCE


def _is_in(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


class Shaped(Surroundings, TakesDrafts):
    """Implements :class:`nullblock.conformance.engine.Engine` around a scheduler."""

    def __init__(
        self, kind: Kind, config: Config, semantics: Semantics, package: str | None = None
    ) -> None:
        """Build a scheduler.

        Args:
            kind: its class, constructed with the keywords of vLLM's that it takes. One that takes
                ``semantics`` is given it.
            package: whose classes it is fed with; default: :func:`package_of`.

        Raises :class:`NotShaped`, ``ImportError``, and what the constructor raises.
        """
        package = package or package_of(kind)
        self.modules: Modules = modules(package)
        takes = _keywords(kind)
        wanted = _arguments(self.modules, config) | {"semantics": semantics}
        self.scheduler = kind(**{k: v for k, v in wanted.items() if takes is None or k in takes})
        for name in METHODS:
            part(self.scheduler, name)
        self._make_hasher(config, semantics)
        self.origins: dict[str, Fields] = {}
        """By type of event, what the line tells besides of its reference's events."""
        if package == REFERENCE and semantics.events_tell_origin:
            self.origins = {"BlockStored": shape.STORED_FROM, "BlockRemoved": shape.REMOVED_FROM}
        self.has_encoder = bool(config.encoder)
        if config.encoder and config.encoder.external is not None:
            self.scheduler.ec_connector = encoder.EncoderConnector(config.encoder.external)
        self.pooled: list[str] = []
        """Whom the next update brings a vector."""
        self.told: Any = {}
        """What the last update told, by client."""
        self.published: list[Any] = []
        if hasattr(self.scheduler, OPTIONAL[Feature.kv_events]):
            self.scheduler.kv_event_publisher = SimpleNamespace(
                publish=lambda batch: self.published.extend(batch.events), shutdown=lambda: None
            )
        self.surround(config)
        self.in_flight: deque[Any] = deque()
        self.alive: dict[str, Any] = {}
        """Requests that were added and have not ended, by id."""
        self.chunks: set[str] = set()
        """Whose tokens the step scheduled last does not all compute: they sample nothing."""

    def _make_hasher(self, config: Config, semantics: Semantics) -> None:
        utils = self.modules.kv_cache_utils
        hash_fn = self.modules.hashing.get_hash_fn_by_name(config.hash_algo)
        with _environment("PYTHONHASHSEED", str(config.hash_seed)):
            utils.init_none_hash(hash_fn)
        self.none_hash = utils.NONE_HASH
        make = utils.get_request_block_hasher
        takes = _keywords(make) or ()
        keywords = {"semantics": semantics} if "semantics" in takes else {}
        self.hasher = make(block_sizes(config)[1], hash_fn, **keywords)

    @property
    def features(self) -> frozenset[Feature]:
        """All but what its methods do not allow."""
        lacking = {f for f, name in OPTIONAL.items() if not hasattr(self.scheduler, name)}
        manager = getattr(self.scheduler, "kv_cache_manager", None)
        if not hasattr(manager, "evict_blocks"):
            lacking.add(Feature.evict)
        return ALL_FEATURES - lacking

    def add(self, request: NewRequest) -> None:
        """Queue a request."""
        self._use_own_none_hash()
        params = self.modules.sampling_params.SamplingParams(
            max_tokens=request.max_tokens,
            min_tokens=request.min_tokens,
            stop_token_ids=request.stop,
            ignore_eos=request.eos is None,
            skip_reading_prefix_cache=request.skip_cache_read,
            **self.constraints(request),
            **repetition.parameters(self.modules.sampling_params, request.repetition),
        )
        if request.eos is not None:
            params.update_from_generation_config({}, request.eos)
        made = self.modules.request.Request(
            request_id=request.id,
            **self._kind(request, params),
            arrival_time=request.arrival,
            lora_request=shape.adapter(request),
            cache_salt=request.salt,
            priority=request.priority,
            block_hasher=self.hasher,
            resumable=request.resumable,
        )
        self.add_grammar(made, request)
        self.scheduler.add_request(made)
        self.alive[request.id] = made

    def _kind(self, request: NewRequest, sampling_params: Any) -> dict[str, Any]:
        """The arguments of a request that differ with its kind: mostly one of tokens."""
        made: dict[str, Any] = {
            "prompt_token_ids": request.prompt,
            "sampling_params": sampling_params,
            "pooling_params": None,
            "client_index": request.client_index,
        }
        if request.mm_features:
            inputs = encoder_shape.features(self.modules.multimodal, list(request.mm_features))
            made["mm_features"] = inputs
        if request.prompt_embeds is not None:
            seed = request.prompt_embeds.seed
            made["prompt_embeds"] = encoder.Embeds.of(seed, len(request.prompt))
            if not request.prompt_embeds.with_tokens:
                made["prompt_token_ids"] = None
        if request.pooling:
            made["sampling_params"] = None
            made["pooling_params"] = self.modules.pooling_params.PoolingParams(
                skip_reading_prefix_cache=request.skip_cache_read
            )
        return made

    def schedule(self) -> Fields:
        """Decide one step."""
        in_flight = {id: _placeholders(request) for id, request in self.known.items()}
        output = self.scheduler.schedule()
        self.in_flight.append(output)
        decided = shape.decision(output)
        if self.has_encoder:
            decided |= encoder.decision(self.scheduler, output)
        # As the worker finds out: from what it is told, not from what the scheduler remembers.
        computed = {one["id"]: one["computed"] for one in decided["new"] + decided["cached"]}
        self.chunks = {
            id
            for id, n in decided["num_scheduled_tokens"].items()
            if id in in_flight
            and computed.get(id, 0) + n < self.known[id].num_tokens + in_flight[id]
        }
        return decided

    @property
    def known(self) -> dict[str, Any]:
        """The requests that are alive, by id: as the scheduler says, or else as was noted."""
        found: dict[str, Any] = getattr(self.scheduler, "requests", self.alive)
        return found

    def update(self, sampled: dict[str, list[int]]) -> list[Fields]:
        """Take in what the oldest step in flight sampled."""
        self._use_own_none_hash()
        model_output = self.modules.outputs.ModelRunnerOutput(
            req_ids=list(sampled),
            req_id_to_index={id: index for index, id in enumerate(sampled)},
            sampled_token_ids=list(sampled.values()),
            kv_connector_output=self.take_report(),
            **self._take_pooled(sampled),
        )
        self.told = by_client = self.scheduler.update_from_output(
            self.in_flight.popleft(), model_output
        )
        told = shape.outputs(by_client)
        self.count(by_client)
        for output in told:
            if output["finish"] is not None:
                self.alive.pop(output["id"], None)
        return told

    def pool(self, ids: list[str]) -> None:
        """What the next update brings: a vector for each of those."""
        self.pooled = ids

    def _take_pooled(self, sampled: dict[str, list[int]]) -> dict[str, Any]:
        """The pooler's part of a model's output, if it has one."""
        pooled, self.pooled = self.pooled, []
        return {"pooler_output": [0 if i in pooled else None for i in sampled]} if pooled else {}

    def finished_by_client(self) -> dict[int, list[str]]:
        """By client, whose end the last update told."""
        told = {client: self.told[client].finished_requests for client in sorted(self.told)}
        return {client: sorted(ids) for client, ids in told.items() if ids is not None}

    def reset_encoder_cache(self) -> None:
        """Forget all embeddings."""
        self.scheduler.reset_encoder_cache()

    def counts(self) -> Fields:
        """How many requests there are, and whether there is anything to do or to tell."""
        running, waiting = self.scheduler.get_request_counts()
        return {
            "running": running,
            "waiting": waiting,
            "unfinished": self.scheduler.get_num_unfinished_requests(),
            "has_unfinished": self.scheduler.has_unfinished_requests(),
            "has_finished": self.scheduler.has_finished_requests(),
            "has_requests": self.scheduler.has_requests(),
        }

    def abort(self, ids: list[str] | None, status: str) -> list[str]:
        """End requests one after another, or all at once."""
        statuses = self.modules.request.RequestStatus
        finished = statuses[status]
        assert statuses.is_finished(finished), f"{status} does not end a request"
        # Several ids in one call would be freed in the order of a set of strings.
        calls = [None] if ids is None else ids
        ended = [one for asked in calls for one in self._finish(asked, finished)]
        for id in ended:
            self.alive.pop(id, None)
        return ended

    def _finish(self, asked: str | None, status: Any) -> list[str]:
        """The ids that a call ends, as it says or, if it says nothing, as they were known."""
        known = list(self.known) if asked is None else [asked] if asked in self.known else []
        told = self.scheduler.finish_requests(asked, status)
        return known if told is None else [id for id, _ in told]

    def reset_prefix_cache(self, reset_running: bool) -> bool:
        """Empty the prefix cache."""
        return bool(self.scheduler.reset_prefix_cache(reset_running_requests=reset_running))

    def pause(self, state: str) -> None:
        """Change how much is scheduled."""
        self.scheduler.set_pause_state(self.modules.interface.PauseState[state])

    def evict_blocks(self, ids: list[int]) -> None:
        """Take blocks out of the prefix cache."""
        self.scheduler.kv_cache_manager.evict_blocks(ids)

    def kv_events(self) -> list[Fields]:
        """What was published since the last call."""
        events, self.published = self.published, []
        origins = self.origins
        return [shape.kv_event(e) | origins.get(type(e).__name__, {}) for e in events]

    def has_unfinished(self) -> bool:
        """Whether there is work, or a rejection to report."""
        rejected = getattr(self.scheduler, "_rejected", ())
        return bool(self.scheduler.has_unfinished_requests() or rejected)

    def has_requests(self) -> bool:
        """Whether a step has anything to do or to tell."""
        return bool(self.scheduler.has_requests())

    def num_tokens(self, id: str) -> int | None:
        """Prompt and output tokens of a request."""
        request = self.known.get(id)
        return None if request is None else int(request.num_tokens)

    def is_prefill_chunk(self, id: str) -> bool:
        """Whether the step just scheduled leaves tokens of the request uncomputed."""
        return id in self.chunks

    def state(self, dump: Dump) -> Fields | None:
        """Queues, requests and, in a full dump, the pool."""
        fields = shape.state(self.scheduler, dump)
        if fields is not None and self.has_encoder:
            fields |= encoder.state(self.scheduler)
        return fields

    def _use_own_none_hash(self) -> None:
        """vLLM keeps the hash of no parent in its module; two engines may differ in theirs."""
        self.modules.kv_cache_utils.NONE_HASH = self.none_hash


def _placeholders(request: Any) -> int:
    """Tokens in flight that a request will take."""
    return int(getattr(request, "num_output_placeholders", 0))


def _arguments(classes: Modules, config: Config) -> dict[str, Any]:
    """What vLLM constructs a scheduler with, by keyword."""
    cache = classes.kv_cache_interface
    scheduler_block_size, hash_block_size = block_sizes(config)
    return {
        "vllm_config": shape.engine_config(config),
        "kv_cache_config": cache.KVCacheConfig(
            num_blocks=config.num_blocks,
            kv_cache_tensors=[],
            kv_cache_groups=kv_cache_groups(cache, classes.dtype, config),
        ),
        "structured_output_manager": PlayedGrammars(),
        "block_size": scheduler_block_size,
        "hash_block_size": hash_block_size,
        "log_stats": config.log_stats,
        "include_finished_set": config.has_clients,
        **({"mm_registry": encoder_shape.registry(config.encoder)} if config.encoder else {}),
    }


def _keywords(function: Callable[..., Any]) -> set[str] | None:
    """The keywords that a callable takes; None: any, or nobody knows.

    A constructor with ``**kwargs`` passes them on to that of the next class.
    """
    makers = [
        vars(c)["__init__"] for c in getattr(function, "__mro__", ()) if "__init__" in vars(c)
    ]
    found: set[str] = set()
    for each in makers or [function]:
        try:
            parameters = inspect.signature(each).parameters.values()
        except (TypeError, ValueError):
            return None
        found |= {p.name for p in parameters if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)}
        if not any(p.kind is p.VAR_KEYWORD for p in parameters):
            return found
    return None


@contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    """A variable set for a while: vLLM's interface takes the hash seed from there."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
