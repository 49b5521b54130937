"""Examples of the switches that decide about Mamba layers, sinks, and kinds of layers together."""

from nullblock.conformance.engine import Feature
from nullblock.conformance.lines.example import Example

STATE_EXAMPLES: dict[str, Example] = {
    "gate_asks_behind_hits": Example(
        "defect-window-gate-forgets-its-hits",
        "SingleTypeKVCacheManager.get_num_blocks_to_allocate; no report known",
        "A hit lies before what the cap counts: taken off it, it lets in who cannot stay. "
        "What others hold too does not come free either when it is given back.",
        Feature.windows,
    ),
    "sinks_are_nobodys": Example(
        "defect-sink-blocks-never-come-back",
        "SinkFullAttentionManager.__init__; issue 53696",
        "The blocks of a sink are nobody's from the start: a pool in which nobody holds any other "
        "is idle, and can be reset.",
        Feature.sinks,
    ),
    "short_chunks_go_on": Example(
        "defect-aligned-chunk-is-nothing",
        "Scheduler._mamba_block_aligned_split; issue 45414, repaired in 0.32.0",
        "A chunk of nothing is waited for by everybody behind it, for ever: one that ends within "
        "a block leaves no state to hit, and no more.",
        Feature.aligned_mamba,
    ),
    "states_stay_within": Example(
        "defect-mamba-hit-outruns-full-attention",
        "MambaManager.find_longest_cache_hit; issue 43559, repaired in 0.32.0",
        "Full attention would read a block of tokens that nobody computed for this request.",
        Feature.mamba,
    ),
    "chunks_asked_again": Example(
        "defect-chunk-that-nobody-looked-for",
        "HybridKVCacheCoordinator.find_longest_cache_hit; no report known",
        "The next token would read the null block; in a model that has full attention too, all "
        "that come after it see what it computes of that.",
        Feature.hybrid,
    ),
    "hits_cut_alike": Example(
        "defect-second-kind-reaches-on",
        "HybridKVCacheCoordinator.find_longest_cache_hit; reports of projects built on vLLM, "
        "repaired in 0.32.0",
        "A request would write to blocks that others read, and behind a load more blocks would "
        "count as free than there are.",
        Feature.block_sizes,
    ),
}
LATER_STATE_EXAMPLES: dict[str, Example] = {
    "windows_zeroed": Example(
        "zeroed-beside-states",
        "SingleTypeKVCacheManager.__init__: needs_kv_cache_zeroing; AttentionSpec",
        "What layers with a window read was written for the request, and what was not is masked: "
        "zeros in front of it change nothing.",
        Feature.mamba,
    ),
    "states_noted_by_place": Example(
        "states-beyond-their-places",
        "MambaManager.cache_blocks",
        "A prompt that long is not taken in (reject_unservable), and a block that is not there "
        "has no state to note.",
        Feature.mamba,
    ),
    "chunks_end_at_junctions": Example(
        "aligned-chunk-ends-at-a-junction",
        "HybridKVCacheCoordinator.find_longest_cache_hit: num_uncached_common_prefix_tokens",
        "One more step of each request that shares a beginning is paid for a hit that nobody may "
        "ask for.",
        Feature.aligned_mamba,
    ),
    "prefills_end_in_blocks": Example(
        "aligned-last-state-before-the-last-token",
        "Scheduler._mamba_block_aligned_split: last_cache_position",
        "Only the repetition of a prompt that ends with a block gains by it.",
        Feature.aligned_mamba,
    ),
    "blocks_before_items": Example(
        "aligned-cut-before-items",
        "Scheduler.schedule: the order of _mamba_block_aligned_split and encoder inputs",
        "A step may end within a block for want of an item, and the cut be lost.",
        Feature.aligned_mamba,
    ),
    "prompt_states_awaited": Example(
        "aligned-prompt-state-awaited",
        "MambaManager._cache_partial_tail_block",
        "A state of a step before is computed: nobody has to wait for it.",
        Feature.aligned_mamba,
    ),
    "gaps_swept": Example(
        "aligned-states-behind-a-gap-go-back",
        "MambaManager._remove_blocks_in_range",
        "The state that a step began with goes back with the next one.",
        Feature.aligned_mamba,
    ),
    "inner_states_kept": Example(
        "aligned-state-within-a-step",
        "MambaManager._needs_internal_checkpoint; Scheduler._mamba_block_aligned_split",
        "Where workers can, it saves a step of each prompt that ends within a block.",
        Feature.aligned_mamba,
    ),
    "long_tables_stay": Example(
        "aligned-table-longer-than-its-tokens",
        "MambaManager.allocate_new_blocks",
        "Not settled: normative has no step there, as vLLM 0.22.1 has none.",
        Feature.aligned_mamba,
    ),
    "states_shorten_quietly": Example(
        "states-shorten-what-others-drop",
        "HybridKVCacheCoordinator.find_longest_cache_hit: eagle_verified; no report known",
        "What a kind drops of a hit has to be cached behind every length that is tried, whoever "
        "has shortened it.",
        Feature.mamba,
    ),
}
"""Of the switches that no line before vllm-0.32.0 has."""
