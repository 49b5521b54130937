"""Which traces can be judged at all, by their headers: what is not known is named.

The rules are shown to say what vLLM does for one feature beside the core, and for some of them
together. A trace with others together is refused: nothing is guessed.
"""

from collections.abc import Iterator
from typing import Final

from msgspec import UNSET

from nullblock.conformance.checker import sessions
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
    if semantics.resumes_await_output:
        return
    if semantics.freed_unhashed_first:
        named = {GROUPS: bool(config.groups), CONNECTOR: config.connector is not UNSET}
        yield from (f"{name} with freed_unhashed_first" for name, used in named.items() if used)


def why_not(header: Header, semantics: Semantics, feature: str) -> str | None:
    """Why a request with a feature cannot be judged; None if it can."""
    config = header.config
    if feature not in header.features_of_requests:
        return f"the feature {feature}"
    if feature == RESUMABLE:
        return sessions.why_not(config, semantics)
    return None


def _together(config: TraceConfig) -> Iterator[str]:
    """What no rules are shown to say of features that are on together."""
    groups = config.groups
    yield from _under_eagle(config)
    if len(groups) < 2:
        return
    if config.enable_prefix_caching and all(group == groups[0] for group in groups):
        yield "several KV cache groups of one kind, with prefix caching"


def _under_eagle(config: TraceConfig) -> Iterator[str]:
    """The same of an EAGLE-like method."""
    if not (config.enable_prefix_caching and config.is_eagle):
        return
    marked = [group for group in config.groups if group.eagle]
    if any(group.attention_chunk_size for group in marked or config.groups):
        yield "an EAGLE-like method with chunked local attention, where vLLM raises"
