"""What the driver asks of an engine: the surface that spec, reference and impl share."""

import enum
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from nullblock.conformance.encoder_format import Item, PromptEmbeds
from nullblock.conformance.played.grammar import PlayedGrammar
from nullblock.conformance.repetition import Repetition

Dump = Literal["full", "brief", "none"]
"""How much state a line carries: with the block pool, without it, or none at all."""

Fields = dict[str, Any]
"""Part of an output line: anything that JSON can write."""


class Feature(enum.StrEnum):
    """What not every engine has to do; the value names it in a refusal."""

    async_scheduling = "asynchronous scheduling"
    several_in_flight = "a second step in flight"
    pipeline = "pipeline parallelism"
    kv_events = "the KV event stream"
    windows = "layers that see only a part of the past"
    hybrid = "several KV cache groups, with blocks of one size"
    block_sizes = "KV cache groups with blocks of several sizes, or of several hashes"
    mamba = "Mamba layers"
    aligned_mamba = "the Mamba mode align"
    sinks = "attention sinks"
    cross_attention = "cross-attention"
    priority = "the PRIORITY policy"
    prefix_caching = "prefix caching"
    adapters = "adapters and cache salts"
    unchunked = "chunked prefill switched off"
    stop_tokens = "stop tokens, end tokens and min_tokens"
    abort = "aborting requests"
    pause = "pausing"
    reset = "resetting the prefix cache"
    evict = "evicting named blocks"
    unchecked_input = "input that a front end refuses"
    encoder_inputs = "encoder inputs"
    encoder_decoder = "an encoder-decoder model"
    prompt_embeds = "prompts that are embeddings"
    pooling = "pooling requests"
    clients = "several clients"
    v2_model_runner = "the v2 model runner"
    decode_ranks = "decode context parallelism"
    prefill_ranks = "prefill context parallelism"
    counts = "counting requests"
    drafts = "speculative decoding"
    repetition = "repetition detection"
    silence = "a step that returns without a token"
    lora_cap = "a cap on adapters"
    kv_connector = "a KV connector"
    streaming = "a resumable request"
    structured_output = "a grammar"


ALL_FEATURES = frozenset(Feature)
CONTRACT = frozenset(
    (
        *(Feature.encoder_inputs, Feature.prompt_embeds, Feature.pooling, Feature.clients),
        *(Feature.v2_model_runner, Feature.counts),
    )
)
"""Encoder inputs, other kinds of requests, and what else an engine tells the outside."""
WAITS = frozenset(
    (
        *(Feature.lora_cap, Feature.kv_connector),
        *(Feature.streaming, Feature.structured_output),
    )
)
"""What makes a request wait for something else than its turn."""
CORE_FEATURES = (
    ALL_FEATURES
    - CONTRACT
    - WAITS
    - {Feature.drafts, Feature.silence, Feature.windows, Feature.hybrid}
    - {Feature.block_sizes, Feature.mamba, Feature.aligned_mamba}
    - {Feature.sinks, Feature.repetition}
    - {Feature.cross_attention, Feature.encoder_decoder}
    - {Feature.decode_ranks, Feature.prefill_ranks}
)
"""Those that concern one full-attention group and nothing beside it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRequest:
    """An ``add`` event with its prompt written out and its arrival resolved."""

    id: str
    prompt: list[int]
    """Tokens; may be empty."""
    max_tokens: int
    min_tokens: int
    priority: int
    """Smaller is served first; only the PRIORITY policy looks at it."""
    arrival: float
    """Any unit: only its order counts."""
    lora: str | None
    """The adapter's name, part of every block hash; None for the base model."""
    lora_id: int | None = None
    """The adapter's number, told with what it stores; nothing else looks at it."""
    salt: str | None
    """Part of the first block's hash; None and the empty string both mean no salt."""
    stop: list[int] | None
    """Tokens that stop the request and are reported as its stop reason."""
    eos: int | None
    """The token that ends the request without a stop reason; None: none does."""
    skip_cache_read: bool | None
    """Whether the request ignores cached prefixes; None: as the engine decides."""
    repetition: Repetition | None = None
    """What, repeated among its outputs, ends the request; None: nothing."""
    resumable: bool = False
    """Whether it is a chunk of a session. Its id may then belong to one that is alive."""
    grammar: PlayedGrammar | None = None
    """What its outputs have to follow."""
    mm_features: tuple[Item, ...] = ()
    """Encoder inputs."""
    prompt_embeds: PromptEmbeds | None = None
    """What the prompt consists of if not of tokens."""
    pooling: bool = False
    """Whether a vector is wanted instead of tokens."""
    client_index: int = 0
    """Which front end hears of it."""


class Engine(Protocol):
    """One engine under one configuration and one profile, empty at first.

    Whatever a method raises is an observation, printed as an ``EXCEPTION`` line, except an
    :class:`nullblock.conformance.errors.InputError`, which is the user's.
    """

    @property
    def features(self) -> frozenset[Feature]:
        """What the engine can be asked for beyond the least that every engine does."""
        ...

    def add(self, request: NewRequest) -> None:
        """Queue a request. Its id belongs to no request that the engine knows."""
        ...

    def schedule(self) -> Fields:
        """Decide one step: the fields of a ``schedule`` line but ``ev``, ``step``, ``state``.

        Other steps may be in flight; the engine keeps them in their order.
        """
        ...

    def update(self, sampled: dict[str, list[int]]) -> list[Fields]:
        """Take in the tokens sampled for the oldest step in flight, by id in schedule order.

        Returns ``id``, ``tokens``, ``finish`` and ``stop_reason`` of each output.
        """
        ...

    def abort(self, ids: list[str] | None, status: str) -> list[str]:
        """End requests, in the order given (None: all), with a ``RequestStatus`` name.

        Returns the ids that were alive. Unknown ids are ignored.
        """
        ...

    def reset_prefix_cache(self, reset_running: bool) -> bool:
        """Empty the prefix cache; whether it was done."""
        ...

    def pause(self, state: str) -> None:
        """Change how much is scheduled, by ``PauseState`` name."""
        ...

    def evict_blocks(self, ids: list[int]) -> None:
        """Take blocks out of the prefix cache, in the order given."""
        ...

    def kv_events(self) -> list[Fields]:
        """What the updates since the last call told of the prefix cache, if ``kv_events`` is on.

        ``t`` is the event's type, the rest are vLLM's fields. Events wait for the next update; a
        hash may have a spelling of the stream's own, but not sometimes that of ``state``.
        """
        ...

    def has_unfinished(self) -> bool:
        """Whether there is work (a rejection that no update has reported yet is work)."""
        ...

    def has_requests(self) -> bool:
        """Whether a step has anything to do or to tell."""
        ...

    def num_tokens(self, id: str) -> int | None:
        """Prompt and output tokens of a request; None if the engine knows no such request."""
        ...

    def is_prefill_chunk(self, id: str) -> bool:
        """Whether the step just scheduled leaves tokens of the request uncomputed."""
        ...

    def state(self, dump: Dump) -> Fields | None:
        """The ``state`` of a line; None if ``dump`` is ``none``."""
        ...


class Waits(Protocol):
    """What is asked besides of an engine with a feature of :data:`WAITS`."""

    def match_remote(self, matched: dict[str, int | None]) -> None:
        """The connector learns how much of which request the remote side holds."""
        ...

    def report_transfers(self, recv: list[str], send: list[str], invalid: list[int]) -> None:
        """Workers report ended transfers and blocks not loaded, with the next update."""
        ...

    def compile_grammars(self, ids: list[str]) -> None:
        """The grammars of those requests are compiled from now on."""
        ...

    def grammars(self) -> Fields:
        """Of the step scheduled last: whether it has requests with a grammar (``scheduled``),
        whether one of them waits for tokens in flight (``pending``), and for whom a mask of
        allowed tokens is made (``mask``; None while tokens are pending, and for nobody).
        """
        ...


class Heard(Protocol):
    """What a KV connector is asked, for whoever records an engine."""

    def take(self) -> list[Fields] | None:
        """Answers in the step just scheduled, in order: `id`, and what of `local` (tokens of the
        local hit), `tokens` (beyond it; absent: it does not know yet), `over_steps`, `begins` and
        `blocks` (of a load that begins and takes longer than the step) applies. None: none.
        """
        ...

    def lost(self) -> list[str]:
        """Who ended in the last call, in the order in which they gave their blocks up: those at
        least of whom blocks were not loaded.
        """
        ...


class Connected(Engine, Protocol):
    """What is asked of an engine with a KV connector (:attr:`Feature.kv_connector`) by whoever
    records it.
    """

    def listen(self) -> Heard:
        """Hear from now on what its connector is asked."""
        ...


class FullEngine(Engine, Protocol):
    """What is asked only of an engine that says it has the feature."""

    def reset_encoder_cache(self) -> None:
        """Forget all embeddings (:attr:`Feature.encoder_inputs`)."""
        ...

    def pool(self, ids: list[str]) -> None:
        """What the next update brings: a vector for each of those (:attr:`Feature.pooling`)."""
        ...

    def finished_by_client(self) -> dict[int, list[str]]:
        """By client, whose end the last update told, sorted (:attr:`Feature.clients`)."""
        ...

    def counts(self) -> Fields:
        """The fields of a ``counts`` line but ``ev`` and ``n`` (:attr:`Feature.counts`)."""
        ...
