"""The KV cache groups of a scenario's configuration: their sizes, and what cannot be."""

from math import gcd, lcm

from msgspec import UNSET

from nullblock.conformance.errors import OutOfScope, ScenarioError
from nullblock.conformance.scenario_format import Config, Group
from nullblock.spec.machine.output import Blocks

_NEEDS = {"sliding_window": "sliding_window", "chunked_local": "chunk", "sink": "sink_len"}
"""The key that a group of that type cannot do without."""
CROSS = "cross_attention"
_KINDS = {
    (False, False): "full_attention",
    (True, False): "sliding_window",
    (False, True): "chunked_local_attention",
}
_LATENT = {"full_attention": "mla_attention", "sliding_window": "sliding_window_mla"}
MAMBA, SINK = "mamba", "sink_full_attention"
"""What KV events call Mamba layers, and attention with a sink."""


def kind_of_layers(window: int, chunk: int) -> str:
    """What KV events call layers: the sizes of their window and their chunks, 0 for none."""
    return _KINDS[window > 0, chunk > 0]


def latent(kind: str) -> str:
    """What they call layers of that kind that are latent attention."""
    return _LATENT[kind]


def told_kind(mamba: bool, sink: bool, window: int, chunk: int) -> tuple[str, int]:
    """The same of any layers that traces have words for, and the window that events tell of: to
    the rules the one state of Mamba layers is a window.
    """
    if mamba or sink:
        return MAMBA if mamba else SINK, 0
    return kind_of_layers(window, chunk), window


def are_plain(config: Config) -> bool:
    """Whether there is nothing but one group of full attention."""
    (first, *others) = config.groups
    return not others and first.type == "full" and not first.eagle


def has(config: Config, type: str) -> bool:
    """Whether a group is of that type."""
    return any(group.type == type for group in config.groups)


def are_windowed(config: Config) -> bool:
    """Whether there is nothing but one group of attention with a window or chunks."""
    (first, *others) = config.groups
    return not others and first.type in ("sliding_window", "chunked_local")


def are_marked_alone(config: Config) -> bool:
    """Whether there is nothing but one group, with layers of an EAGLE-like method."""
    (first, *others) = config.groups
    return not others and first.eagle


def are_hybrid(config: Config) -> bool:
    """Whether there are several groups, with blocks of one size that one hash covers."""
    return len(config.groups) > 1 and not _are_sized(config)


def are_mixed(config: Config) -> bool:
    """The same with blocks of several sizes, or of one size that several hashes cover."""
    return len(config.groups) > 1 and _are_sized(config)


def _are_sized(config: Config) -> bool:
    sizes = {block_size_of(group, config) for group in config.groups}
    return len(sizes | {config.hash_block_size or min(sizes)}) > 1


def drop_hits(config: Config) -> bool:
    """Whether a lookup drops the last hit of some kind: layers of an EAGLE-like method."""
    return looks_ahead(config) or any(group.eagle for group in config.groups)


def looks_ahead(config: Config) -> bool:
    """Whether an EAGLE-like method proposes drafts."""
    return config.num_spec_tokens > 0 and config.spec_method == "eagle"


def block_size_of(group: Group, config: Config) -> int:
    """Tokens in a block of a group, of all ranks of context parallelism together."""
    return size_on_a_rank(group, config) * config.context_parallel_size


def size_on_a_rank(group: Group, config: Config) -> int:
    """The same on one rank: what the layers' specification says."""
    return config.block_size if group.block_size is UNSET else group.block_size


def block_sizes(config: Config) -> tuple[int, int]:
    """What the scheduler's steps of a prefix hit are, and what one block hash covers: tokens."""
    if len(config.groups) == 1:
        size = config.block_size * config.context_parallel_size
        return size, size
    sizes = [block_size_of(group, config) for group in config.groups]
    both = lcm(*sizes)
    if not config.enable_prefix_caching or any(
        group.type == "mamba" and size != config.block_size
        for group, size in zip(config.groups, sizes, strict=True)
    ):
        return both, both
    return both, gcd(*sizes) if config.hash_block_size is None else config.hash_block_size


def size_of_chains(config: Config) -> int:
    """Tokens that a chain number of a trace is for, and mostly those of a block: what one block
    hash covers or, where there are none, a block of the first group.
    """
    if len(config.groups) > 1 and config.enable_prefix_caching:
        return block_sizes(config)[1]
    return block_size_of(config.groups[0], config)


def mamba_cache_mode(config: Config) -> str:
    """The mode of the cache: what the last Mamba group says."""
    modes = [group.mamba_cache_mode for group in config.groups if group.type == "mamba"]
    return modes[-1] if modes else "none"


def of_one_group(config: Config) -> bool:
    """Whether there are several groups, and a connector that takes the blocks of one."""
    connector = config.connector
    return connector is not None and len(config.groups) > 1 and not connector.all_groups


def aligns(config: Config) -> bool:
    """Whether any Mamba group keeps only the state that a step ends with."""
    return any(g.type == "mamba" and g.mamba_cache_mode == "align" for g in config.groups)


def check(config: Config) -> None:
    """Raise :class:`ScenarioError` for groups that no engine could be built with, OutOfScope for
    those that context parallelism is not followed beside.
    """
    _check_parallel(config)
    num_left = config.num_blocks - 1
    for index, group in enumerate(config.groups):
        place = f"config.groups[{index}]"
        key = _NEEDS.get(group.type)
        if key is not None and getattr(group, key) is UNSET:
            raise ScenarioError(f"a group of type {group.type} without {key}", "add it", place)
        if group.type == "sink":
            assert group.sink_len is not UNSET
            size = block_size_of(group, config)
            if group.sink_len <= 0 or group.sink_len % size:
                what = f"a sink of {group.sink_len} tokens in blocks of {size}"
                raise ScenarioError(what, "whole blocks, at least one", f"{place}.sink_len")
            num_left -= group.sink_len // size
            if num_left < 0:
                what = f"sinks of more blocks than the {config.num_blocks} of the pool"
                raise ScenarioError(what, "a shorter sink, or more blocks", f"{place}.sink_len")
    if config.enable_prefix_caching:
        _check_caching(config)
    elif are_plain(config):
        _check_only_size(config)


def _check_parallel(config: Config) -> None:
    """Of several groups vLLM 0.22.1 raises when it is built, of layers that see a part of the past
    when it looks the first prefix up. Later releases divide some kinds and not others.
    """
    if config.context_parallel_size > 1 and [g.type for g in config.groups] != ["full"]:
        what = "context parallelism beside anything but one group of full attention"
        remedy = "one group of type full"
        raise OutOfScope(f"{what} is out of scope", remedy, "config.groups")


def _check_caching(config: Config) -> None:
    """What prefix caching asks of the groups."""
    if len(config.groups) == 1:
        _check_only_size(config)
        return
    sizes = [block_size_of(group, config) for group in config.groups]
    covered = block_sizes(config)[1]
    if covered < 1 or any(size % covered for size in sizes):
        what = f"a block hash covers {covered} tokens, the groups have blocks of {sizes}"
        own = config.hash_block_size is not None
        remedy = "a size that divides them all" if own else "give all the cache's block_size"
        place = "config.hash_block_size" if own else "config.groups"
        raise ScenarioError(what, remedy, place)
    if len({_kind(group, config) for group in config.groups}) == 1:
        remedy = "one group, or different ones, or enable_prefix_caching false"
        raise ScenarioError("several groups of one kind", remedy, "config.groups")


def _check_only_size(config: Config) -> None:
    """The only group's hashes are of the cache's blocks."""
    size = size_on_a_rank(config.groups[0], config)
    if size != config.block_size:
        raise ScenarioError(
            f"the only group has blocks of {size} tokens, the cache of {config.block_size}",
            "give both the same block_size",
            "config.groups[0].block_size",
        )


def _kind(group: Group, config: Config) -> tuple[object, ...]:
    """What makes two groups of a scenario the same to a look-up."""
    settings: dict[str, tuple[object, ...]] = {
        "sliding_window": (group.sliding_window,),
        "chunked_local": (group.chunk,),
        "sink": (group.sink_len,),
        "mamba": (
            group.mamba_cache_mode,
            group.num_speculative_blocks,
            alignment_of(group),
        ),
    }
    return group.type, block_size_of(group, config), settings.get(group.type, ())


def alignment_of(group: Group) -> int:
    """How far from the begin of a step states within it are kept, where the layers keep any; 0:
    they keep none.
    """
    aligns = group.type == "mamba" and group.mamba_cache_mode == "align"
    return group.prefill_checkpoint_alignment if aligns else 0


def by_group(blocks: Blocks) -> tuple[tuple[int, ...], ...]:
    """A tuple of blocks for each KV-cache group, as workers are told."""
    groups = tuple(b for b in blocks if isinstance(b, tuple))
    return groups or (tuple(b for b in blocks if not isinstance(b, tuple)),)


def num_sink_blocks(config: Config) -> int:
    """Blocks that no request ever gets: those of sinks."""
    return sum(
        group.sink_len // block_size_of(group, config)
        for group in config.groups
        if group.type == "sink" and group.sink_len is not UNSET
    )
