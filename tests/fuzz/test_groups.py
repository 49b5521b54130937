"""Hybrid models: the reference beside the real engine, and defects that scenarios notice."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from fuzz import lockstep, reach_groups
from fuzz.golden import first_missed, golden
from fuzz.groups import with_groups
from fuzz.source_defects import planted
from oracle.client import Oracle

from nullblock.conformance.scenario import from_dict
from nullblock.reference.block_pool import BlockPool
from nullblock.reference.block_tables import SingleTypeKVCacheManager
from nullblock.reference.full_attention import SinkFullAttentionManager
from nullblock.reference.group_coordinator import KVCacheCoordinator
from nullblock.reference.hybrid_coordinator import HybridKVCacheCoordinator
from nullblock.reference.kv_cache_interface import ChunkedLocalAttentionSpec, SlidingWindowSpec
from nullblock.reference.kv_cache_manager import KVCacheManager
from nullblock.reference.kv_cache_utils import BlockHashListWithBlockSize
from nullblock.reference.mamba import MambaManager
from nullblock.reference.sched.mamba_split import MambaSplit
from nullblock.reference.windows import ChunkedLocalAttentionManager, SlidingWindowManager

SCENARIOS = 80
SAMPLES: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "oracle" / "data" / "scenarios.json").read_text()
)
MUST_REACH = {
    "hybrid hit",
    "hybrid hit with nulls",
    "hybrid hit of three kinds",
    "hybrid hit of EAGLE groups",
    "hybrid hit of mixed block sizes",
    "hybrid hit without full attention",
    "hybrid look-up: another round",
    "a mask leaves something out",
    "an admission cap counts",
    "Mamba refuses a hit of the same step",
    "Mamba align: nulls between",
    "Mamba align: states for drafts",
    "Mamba align: an outlived state is freed",
    "Mamba split: cut",
    "Mamba split: nothing is left",
    "the shortcut is taken",
    "the shortcut is not taken",
    "blocks to zero",
    "blocks for an encoder",
    "groups that cached differently",
    "event: more tokens than stored blocks",
    "event: stored nothing",
    "event: BlockRemoved of a group",
    "preemption",
}


def are_groups(scenario: dict[str, Any]) -> bool:
    """Whether a scenario has other groups than one of full attention."""
    return scenario["config"].get("groups", [{"type": "full"}]) != [{"type": "full"}]


@pytest.mark.oracle
@pytest.mark.parametrize("name", [name for name, sample in SAMPLES.items() if are_groups(sample)])
def test_a_sample_scenario_prints_the_real_engines_lines(name: str, oracle: Oracle) -> None:
    """Each that has groups, drafts beside them or not, byte for byte."""
    outcome = lockstep.run(SAMPLES[name], ("reference",), oracle)
    assert outcome.num_steps and not outcome.refused and outcome.differences == {}


@pytest.mark.oracle
def test_random_hybrid_models_print_the_real_engines_lines(oracle: Oracle) -> None:
    """Whatever the groups, their block sizes, the mode and what happens; and it is not little."""
    seen: Counter[str] = Counter()
    for number in range(SCENARIOS):
        scenario = with_groups(f"9:{number}", 24)
        with reach_groups.watching(seen):
            outcome = lockstep.run(scenario, ("reference",), oracle)
        assert not outcome.refused and outcome.differences == {}, number
        seen.update(reach_groups.told(scenario, outcome.real))
    assert seen.keys() >= MUST_REACH, MUST_REACH - seen.keys()


def test_the_shortcut_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no step is taken for covered, every line is the same."""
    scenarios = [with_groups(f"8:{number}", 24) for number in range(12)]
    before = [lockstep.lines_of("reference", scenario) for scenario in scenarios]
    monkeypatch.setattr(KVCacheCoordinator, "is_covered", lambda *_: False)
    assert [lockstep.lines_of("reference", scenario) for scenario in scenarios] == before


DEFECTS: dict[str, tuple[Any, str, str, str]] = {
    "the earliest block outside goes first": (
        SingleTypeKVCacheManager,
        "remove_skipped_blocks",
        "self.block_pool.free_blocks(removed)",
        "self.block_pool.free_blocks(removed[::-1])",
    ),
    "blocks outside are kept": (
        SingleTypeKVCacheManager,
        "remove_skipped_blocks",
        "num_skipped_tokens <= 0",
        "True",
    ),
    "skipped hits are held": (
        SingleTypeKVCacheManager,
        "adopt_hits",
        "new_computed_blocks = new_computed_blocks[num_skipped:]",
        "table.clear()",
    ),
    "the gate knows no cap": (
        SingleTypeKVCacheManager,
        "get_num_blocks_to_allocate",
        "self._max_admission_blocks_per_request if apply_admission_cap else None",
        "None",
    ),
    "the gate takes hits off the whole demand": (
        SingleTypeKVCacheManager,
        "get_num_blocks_to_allocate",
        "num_new, num_free = max(num_required - there, 0), _num_free(kept)",
        "num_new = max(cdiv(num_tokens, self.block_size) - there, 0); num_free = _num_free(kept); "
        "cap = self._max_admission_blocks_per_request if apply_admission_cap else None; "
        "num_new = num_new if cap is None else min(num_new, cap); cap = None",
    ),
    "every step counts with the cap": (
        SingleTypeKVCacheManager,
        "get_num_blocks_to_allocate",
        "self._max_admission_blocks_per_request if apply_admission_cap else None",
        "self._max_admission_blocks_per_request",
    ),
    "the shortcut forgets what is outside": (
        SingleTypeKVCacheManager,
        "is_covered",
        "return num_skipped <= 0 or",
        "return True or",
    ),
    "the shortcut forgets the cache": (
        SingleTypeKVCacheManager,
        "is_covered",
        "to_cache // self.block_size > self.num_cached_block.get(request_id, 0)",
        "False",
    ),
    "the groups free in the other order": (
        KVCacheCoordinator,
        "free",
        "in self.single_type_managers",
        "in self.single_type_managers[::-1]",
    ),
    "a mark makes no EAGLE group": (
        KVCacheCoordinator,
        "__init__",
        "if group.is_eagle_group",
        "if 0",
    ),
    "cross-attention grows with the prompt": (
        KVCacheCoordinator,
        "allocate_new_blocks",
        "num_encoder_tokens\n",
        "num_tokens\n",
    ),
    "the encoder's blocks are not counted": (
        KVCacheCoordinator,
        "get_num_blocks_to_allocate",
        "request_id, num_encoder_tokens, (), 0",
        "request_id, 0, (), 0",
    ),
    "what is past the last multiple is cached": (
        HybridKVCacheCoordinator,
        "num_cacheable_tokens",
        "// self.lcm_block_size * self.lcm_block_size",
        "",
    ),
    "a hit is any multiple of the hash": (
        HybridKVCacheCoordinator,
        "_look_up",
        "alignment_tokens=self.lcm_block_size",
        "alignment_tokens=size",
    ),
    "one round is enough for three kinds": (
        HybridKVCacheCoordinator,
        "find_longest_cache_hit",
        "if one_round:",
        "if True:",
    ),
    "full attention is not cut to the hit": (
        HybridKVCacheCoordinator,
        "find_longest_cache_hit",
        "for group_id in kind.group_ids if kind.is_full else ():",
        "for group_id in ():",
    ),
    "the second kind of full attention is cut to the hit too": (
        HybridKVCacheCoordinator,
        "find_longest_cache_hit",
        "kinds if self.block_pool.semantics.hits_cut_alike else kinds[:1]",
        "kinds",
    ),
    "EAGLE does not look further": (
        HybridKVCacheCoordinator,
        "find_longest_cache_hit",
        "if use_eagle else length",
        "if False else length",
    ),
    "EAGLE takes a block in every round": (
        HybridKVCacheCoordinator,
        "find_longest_cache_hit",
        "verified.add(index)",
        "pass",
    ),
    "big blocks are named by their last hash": (
        BlockHashListWithBlockSize,
        "_joined",
        "self.block_hashes[first : first + self.scale_factor]",
        "self.block_hashes[first + self.scale_factor - 1 : first + self.scale_factor]",
    ),
    "the mask does not count": (
        BlockPool,
        "cache_full_blocks",
        "(block_mask is not None and not block_mask[index])",
        "False",
    ),
    "all groups share their keys": (
        BlockPool,
        "cache_full_blocks",
        "make_block_hash_with_group_id(block_hash, kv_cache_group_id)",
        "make_block_hash_with_group_id(block_hash, 0)",
    ),
    "events tell only the tokens that were stored": (
        BlockPool,
        "_tell_stored",
        "token_ids=request.all_token_ids[whole.start * size : whole.stop * size]",
        "token_ids=[t for i in stored for t in request.all_token_ids[i * size : (i + 1) * size]]",
    ),
    "events tell the hash's block size": (
        BlockPool,
        "_tell_stored",
        "block_size=size",
        "block_size=self.hash_block_size",
    ),
    "blocks go back only if there is room": (
        KVCacheManager,
        "allocate_slots",
        "coordinator.remove_skipped_blocks(request_id, verified)",
        "pass",
    ),
    "a window needs a token more": (
        SlidingWindowManager,
        "find_longest_cache_hit",
        "kv_cache_spec.sliding_window - 1",
        "kv_cache_spec.sliding_window + 3",
    ),
    "EAGLE's run is as long as another": (
        SlidingWindowManager,
        "find_longest_cache_hit",
        "block_size) + use_eagle",
        "block_size)",
    ),
    "a run may end anywhere": (
        SlidingWindowManager,
        "find_longest_cache_hit",
        "if not run and",
        "if False and",
    ),
    "the mask forgets the block at the edge": (
        SlidingWindowManager,
        "_cache_block_mask",
        "cdiv(self.sliding_window - 1, self.block_size)",
        "(self.sliding_window - 1) // self.block_size - 1",
    ),
    "the window is a token shorter": (
        SlidingWindowManager,
        "get_num_skipped_tokens",
        "self.sliding_window + 1",
        "self.sliding_window + 2",
    ),
    "a window has a common prefix": (
        SlidingWindowManager,
        "get_num_common_prefix_blocks",
        "return 0",
        "return 1",
    ),
    "the cap forgets the block at the edge": (
        SlidingWindowSpec,
        "max_admission_blocks_per_request",
        "self.block_size) + 1",
        "self.block_size)",
    ),
    "a chunk's cap is its own": (
        ChunkedLocalAttentionSpec,
        "max_admission_blocks_per_request",
        "self.attention_chunk_size + max_num_batched_tokens",
        "self.attention_chunk_size",
    ),
    "chunks before the one at hand are looked up": (
        ChunkedLocalAttentionManager,
        "find_longest_cache_hit",
        "[block_pool.null_block] * chunk_start",
        "[]",
    ),
    "the chunk at hand is given back": (
        ChunkedLocalAttentionManager,
        "get_num_skipped_tokens",
        "// self.attention_chunk_size * self.attention_chunk_size",
        "",
    ),
    "a sink takes nothing": (
        SinkFullAttentionManager,
        "__init__",
        "popleft_n(sink_len // self.block_size)",
        "popleft_n(0)",
    ),
    "a state of this step is hit": (
        MambaManager,
        "get_num_blocks_to_allocate",
        "in self.cached_blocks_this_step",
        "in ()",
    ),
    "no step forgets its states": (
        MambaManager,
        "new_step_starts",
        "self.cached_blocks_this_step.clear()",
        "pass",
    ),
    "Mamba's first state is looked for": (
        MambaManager,
        "find_longest_cache_hit",
        "reversed(range(max_length // block_size))",
        "range(max_length // block_size)",
    ),
    "drafts have no states": (MambaManager, "_with_speculative", "+ self.block_size", "+ 0"),
    "slots for drafts to come count": (
        MambaManager,
        "allocate_new_blocks",
        "self._num_aligned_blocks(num_tokens_main_model)",
        "self._num_aligned_blocks(num_tokens)",
    ),
    "states for drafts stay": (
        MambaManager,
        "allocate_new_blocks",
        "table.append(moved)",
        "break",
    ),
    "an outlived state stays": (MambaManager, "_outlived_state", "index is None or", "True or"),
    "a state goes back while drafts may be rejected": (
        MambaManager,
        "_settled",
        "num_computed - self.num_speculative_blocks",
        "num_computed",
    ),
    "Mamba keeps its last two states": (
        MambaManager,
        "get_num_skipped_tokens",
        "num_computed_tokens - 1",
        "num_computed_tokens - 1 - self.block_size",
    ),
    "a prefill ends anywhere": (
        MambaSplit,
        "_whole_blocks",
        "return num_new_tokens // size * size",
        "return num_new_tokens",
    ),
    "the last block's end is stepped over": (
        MambaSplit,
        "_mamba_block_aligned_split",
        "stops = [last_end]",
        "stops = [num_computed_tokens]",
    ),
    "a decode is cut too": (
        MambaSplit,
        "_mamba_block_aligned_split",
        "num_computed_tokens >= prefill_end",
        "num_computed_tokens > 99 + prefill_end",
    ),
    "EAGLE's prefill ends where others do": (
        MambaSplit,
        "_last_state",
        "if self.use_eagle:",
        "if False:",
    ),
}


GOLDEN = golden(are_groups)


def test_nothing_is_noticed_without_a_defect() -> None:
    """The golden scenarios of groups are in scope, and the reference is right about them."""
    assert len(GOLDEN) > 20
    assert all(from_dict(scenario) for scenario, _ in GOLDEN.values())
    assert first_missed(GOLDEN) == ""


@pytest.mark.parametrize("what", DEFECTS)
def test_a_defect_is_noticed(what: str) -> None:
    """By a golden scenario: a reference with one line that is wrong prints other lines."""
    with planted(*DEFECTS[what]):
        assert first_missed(GOLDEN)
