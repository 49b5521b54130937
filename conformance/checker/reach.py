"""Which traces can be judged at all, by their headers: what is not known is named.

The rules are shown to say what vLLM does for one feature beside the core, and for some of them
together. A trace with others together is refused: nothing is guessed.
"""

from collections.abc import Collection, Iterator
from typing import Final

from msgspec import UNSET

from nullblock.conformance.checker import sessions
from nullblock.conformance.checker.facts import GRAMMARS, POOLING
from nullblock.conformance.trace.records import Header, TraceConfig
from nullblock.conformance.trace.sessions import RESUMABLE
from nullblock.spec.profiles import Semantics

MAX_BLOCKS: Final = 2**21
"""More blocks than any pool has today; a trace that claims more is not given the memory."""

GROUPS = "several KV cache groups, or one of layers that see a part of the past,"
CONNECTOR = "a KV connector"


def out_of_reach(header: Header, semantics: Semantics) -> Iterator[str]:
    """Why a trace cannot be judged, by its header."""
    config = header.config
    yield from (f"the feature {name}" for name in header.unknown_features)
    for kind in ("add", "output"):
        seen = getattr(header.observed, kind)
        if seen != "complete":
            yield f"all {kind} records ({seen})"
    if config.num_spec_tokens and header.observed.draft != "complete":
        yield f"all draft records ({header.observed.draft})"
    for kind in ("matched", "transfers") if config.connector is not UNSET else ():
        seen = getattr(header.observed, kind)
        if seen != "complete":
            yield f"all {kind} records ({seen})"
    if config.num_blocks > MAX_BLOCKS:
        yield f"a pool of more than {MAX_BLOCKS:,} blocks: {config.num_blocks:,}"
    yield from _together(config)
    crosses = any(group.cross_attention for group in config.groups)
    if crosses and config.loads_items and semantics.reject_unservable:
        yield "cross-attention beside an encoder connector"
    if semantics.resumes_await_output:
        yield from _later(config)
        return
    if semantics.freed_unhashed_first:
        named = {GROUPS: not config.is_plain, CONNECTOR: config.connector is not UNSET}
        named["sinks"] = config.sink_blocks > 0
        yield from (f"{name} with freed_unhashed_first" for name, used in named.items() if used)


def why_not(header: Header, semantics: Semantics, feature: str) -> str | None:
    """Why a request with a feature cannot be judged; None if it can."""
    config = header.config
    if feature not in header.features_of_requests:
        return f"the feature {feature}"
    if feature == RESUMABLE:
        return sessions.why_not(config, semantics)
    return None


def at_odds(config: TraceConfig, features: Collection[str]) -> Iterator[str]:
    """What no rules are shown to say of features that one request has together, or of such a
    request of the model.
    """
    if config.runner_type == "pooling" and POOLING not in features:
        yield "tokens of a model that makes none,"
    if POOLING in features:
        for name in (GRAMMARS, RESUMABLE):
            if name in features:
                yield f"the feature {name} beside a vector"


def _together(config: TraceConfig) -> Iterator[str]:
    """What no rules are shown to say of features that are on together."""
    groups = config.groups
    if config.runner_type == "pooling" and config.num_spec_tokens:
        yield "drafts of a model that makes no tokens"
    yield from _under_eagle(config)
    yield from _across(config)
    if len(groups) < 2:
        return
    if config.enable_prefix_caching and all(group == groups[0] for group in groups):
        yield "several KV cache groups of one kind, with prefix caching"
    states = [group.mamba is not UNSET for group in groups]
    if any(states) and any(group.mla for group in groups):
        # Unlike blocks of other attention beside states, theirs are not zeroed.
        yield "latent attention beside Mamba layers"
    others = [g for g, is_state in zip(groups, states, strict=True) if not (g.mla or is_state)]
    seen = [(g.sliding_window, g.attention_chunk_size) for g in others]
    if config.enable_prefix_caching and any(
        group.mla and (group.sliding_window, 0) in seen for group in groups
    ):
        # vLLM looks them up apart, as two kinds of one size, of which no rule speaks.
        yield "latent attention beside other layers that see as much, with prefix caching"


def _across(config: TraceConfig) -> Iterator[str]:
    """The same of an encoder-decoder model, and of cross-attention."""
    crosses = any(group.cross_attention for group in config.groups)
    if crosses and config.encoder is not UNSET and not config.is_encoder_decoder:
        yield "cross-attention beside encoder inputs of another model"
    if crosses and config.enable_prefix_caching:
        yield "cross-attention with prefix caching, where vLLM raises"
    if config.connector is UNSET:
        return
    if config.is_encoder_decoder:
        yield "an encoder-decoder model with a KV connector, where vLLM raises"
    elif crosses:
        yield "cross-attention with a KV connector, which vLLM refuses"


def _later(config: TraceConfig) -> Iterator[str]:
    """The same in lines after vllm-0.22.1."""
    if config.sink_blocks:
        yield "sinks, in a line after vllm-0.22.1"


def _under_eagle(config: TraceConfig) -> Iterator[str]:
    """The same of an EAGLE-like method."""
    if not (config.enable_prefix_caching and config.is_eagle):
        return
    marked = [group for group in config.groups if group.eagle]
    if any(group.attention_chunk_size for group in marked or config.groups):
        yield "an EAGLE-like method with chunked local attention, where vLLM raises"
