"""All that either line reads of its configuration is told in a header, or named among its
features, or decides nothing: a setting that nobody thought of would be a wrong verdict.
"""

import ast
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from recorded_engine import engine

from nullblock.conformance.adapters import vllm as adapter
from nullblock.conformance.adapters.vllm.configuration import LATER, features

CORE = (
    *("sched/scheduler.py", "sched/async_scheduler.py", "sched/utils.py"),
    *("sched/request_queue.py", "kv_cache_manager.py", "kv_cache_coordinator.py"),
    *("single_type_kv_cache_manager.py", "block_pool.py", "encoder_cache_manager.py"),
)
"""Files of either line that decide."""
CONFIGURED = re.compile(r"(config|spec)$")
"""What a configuration, or a part of one, is called there."""
TOLD = {
    "cache_config": "block_size enable_prefix_caching mamba_cache_mode num_gpu_blocks",
    "kv_cache_config": "has_mamba_layers kv_cache_groups needs_kv_cache_zeroing num_blocks",
    "kv_cache_spec": "attention_chunk_size block_size mamba_cache_mode num_speculative_blocks"
    " max_admission_blocks_per_request sink_len sliding_window",
    "kv_transfer_config": "is_kv_consumer kv_load_failure_policy",
    "lora_config": "max_loras",
    "model_config": "is_encoder_decoder max_model_len runner_type supports_multimodal_inputs",
    "parallel_config": "pipeline_parallel_size",
    "scheduler_config": "async_scheduling disable_chunked_mm_input enable_chunked_prefill"
    " encoder_cache_size long_prefill_token_threshold max_num_batched_tokens max_num_seqs policy"
    " max_num_encoder_input_tokens max_num_scheduled_tokens scheduler_reserve_full_isl watermark",
    "spec": "block_size",
    "speculative_config": "num_speculative_tokens use_eagle uses_draft_model",
    "vllm_config": "max_concurrent_batches max_in_flight_tokens num_lookahead_tokens"
    " num_speculative_tokens use_v2_model_runner",
}
"""What `config` of a header says, or what that follows from."""
NAMED = {
    "cache_config.enable_mamba_shared_prefix_checkpoint": "mamba_shared_prefix_checkpoint",
    "ec_manager_config.get_encoder_cache_manager_obj": "ec_manager_config",
    "kv_cache_config.prefix_cache_retention_interval": "prefix_cache_retention_interval",
    "kv_cache_spec.blocks_per_request": "kv_cache_spec:",
    "kv_cache_spec.dcp_sharded": "context_parallelism",
    "kv_cache_spec.extra_retained_tokens": "extra_retained_tokens",
    "kv_cache_spec.num_prefill_checkpoint_blocks": "num_prefill_checkpoint_blocks",
    "kv_cache_spec.prefill_checkpoint_alignment": "num_prefill_checkpoint_blocks",
    "kv_cache_spec.prefix_cacheable": "bounded_replay",
    "kv_cache_spec.prefix_replay_tokens": "bounded_replay",
    "kv_cache_spec.rswa_window": "kv_cache_spec:",
    "kv_transfer_config.is_kv_producer": "register_finished_partial_tail",
    "model_config.is_diffusion": "diffusion",
    "parallel_config.decode_context_parallel_size": "context_parallelism",
    "parallel_config.prefill_context_parallel_size": "context_parallelism",
    "scheduler_config.long_prefill_token_threshold_adaptive": (
        "long_prefill_token_threshold_adaptive"
    ),
    "scheduler_config.max_num_active_seqs": "max_num_active_seqs",
    "spec.dcp_sharded": "context_parallelism",
    "spec.max_num_new_slots_for_drafting": "max_num_new_slots_for_drafting",
    "speculative_config.num_speculative_tokens_per_batch_size": (
        "num_speculative_tokens_per_batch_size"
    ),
    "speculative_config.use_eagle_block_drop": "speculative_decoding",
    "vllm_config.ec_transfer_config": "ec_connector",
    "vllm_config.is_mm_encoder_only": "mm_encoder_only",
    "vllm_config.num_prefill_lookahead_tokens": "num_prefill_lookahead_tokens",
}
"""What is named among `features` where it decides, or in a record, with that name."""
SILENT = {
    "aux_output_config": "enabled",
    "kv_events_config": "enable_kv_cache_events",
    "model_config": "enable_return_routed_experts return_sampling_mask uses_mrope",
    "observability_config": "enable_logging_iteration_details enable_mfu_metrics kv_cache_metrics"
    " kv_cache_metrics_sample per_request_spec_decode_metrics",
    "parallel_config": "data_parallel_index",
    "vllm_config": "aux_output_config cache_config ec_manager_config kv_events_config lora_config"
    " kv_transfer_config model_config observability_config parallel_config scheduler_config"
    " speculative_config",
}
"""What decides nothing: what goes out beside the decisions, and what only holds other parts."""
FIELDS = {
    "KVCacheSpec": "block_size",
    "ChunkedLocalAttentionSpec": "attention_chunk_size",
    "SlidingWindowSpec": "sliding_window extra_retained_tokens",
    "SlidingWindowMLASpec": "bounded_replay",
    "MambaSpec": "mamba_cache_mode num_speculative_blocks num_prefill_checkpoint_blocks"
    " prefill_checkpoint_alignment",
    "SinkFullAttentionSpec": "sink_len",
}
"""Of a group's layers, what is told or named; and of those kinds what says how they are stored"""
STORED = {
    "KVCacheSpec": "dcp_sharded block_stride_alignment",
    "AttentionSpec": "dcp_sharded max_tp_shards num_kv_heads head_size dtype head_size_v"
    " kv_quant_mode page_size_padded num_head_slots state_content_bytes tokens_per_state",
    "FullAttentionSpec": "sliding_window attention_chunk_size non_causal head_size_v",
    "MLAAttentionSpec": "cache_dtype_str alignment compress_ratio model_version cache_role"
    " is_index_group_leader non_causal_multi_token_decode head_size_v",
    "SlidingWindowSpec": "head_size_v",
    "SlidingWindowMLASpec": "cache_dtype_str alignment compress_ratio model_version head_size_v",
    "MambaSpec": "shapes dtypes page_size_padded mamba_type num_heads tokens_per_state"
    " tp_replicated",
}
"""or, of full attention, what it would see if the engine kept account of it."""


class EncoderCacheManager:
    """Called as either line's own."""


class Alien:
    """Another one."""


def _listed(*tables: dict[str, str]) -> set[str]:
    return {f"{of}.{n}" for table in tables for of, names in table.items() for n in names.split()}


KNOWN = _listed(TOLD, SILENT) | set(NAMED)


def _package(python: Path) -> Path:
    return next((python.parent.parent / "lib").glob("python3*/site-packages/vllm"))


def _path(node: ast.expr) -> list[str]:
    """The names of an attribute of an attribute, the outermost last."""
    if isinstance(node, ast.Attribute):
        return [*_path(node.value), node.attr]
    return [node.id] if isinstance(node, ast.Name) else []


def _read(source: str) -> Iterator[str]:
    """What a text reads of a configuration, be it by `getattr`."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Attribute():
                names = _path(node)
            case ast.Call(ast.Name("getattr"), [of, ast.Constant(str(name)), *_]):
                names = [*_path(of), name]
            case _:
                continue
        for of_what, name in pairwise(names):
            if CONFIGURED.search(of_what):
                yield f"{of_what}.{name}"


def _read_by(python: Path) -> set[str]:
    core = _package(python) / "v1" / "core"
    return {name for file in CORE for name in _read((core / file).read_text())}


@pytest.mark.parametrize("line", ["vllm-0.22.1", "vllm-0.32.0"])
def test_whatever_is_read_is_told_or_named(line: str, pythons: dict[str, Path]) -> None:
    """Nothing is read that these tables do not have."""
    assert _read_by(pythons[line]) <= KNOWN


def test_what_the_tables_have_is_read(pythons: dict[str, Path]) -> None:
    """By one of the lines at least."""
    assert set.union(*map(_read_by, pythons.values())) == KNOWN


def test_names_are_those_of_the_recorder() -> None:
    """Each stands in its text."""
    folder = Path(adapter.__file__).parent
    text = "\n".join(file.read_text() for file in folder.glob("*.py"))
    for name in NAMED.values():
        assert f'"{name}' in text, name


@pytest.mark.parametrize("line", ["vllm-0.22.1", "vllm-0.32.0"])
def test_fields_of_layers_are_told_or_named(line: str, pythons: dict[str, Path]) -> None:
    """Of the kinds of layers that a trace has words for, all that they are made of is known."""
    text = (_package(pythons[line]) / "v1" / "kv_cache_interface.py").read_text()
    kinds = {*FIELDS, *STORED}
    found = {
        f"{made.name}.{field.target.id}"
        for made in ast.parse(text).body
        if isinstance(made, ast.ClassDef) and made.name in kinds
        for field in made.body
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
    }
    assert len(found) > len(kinds)
    assert found <= _listed(FIELDS, STORED)


def of(**has: Any) -> Any:
    """A scheduler that has so much of what is looked at, and no encoder."""
    model, drafting = SimpleNamespace(is_diffusion=False), None
    told = {"num_lookahead_tokens": 0, "use_eagle": False, "num_prefill_lookahead": 1}
    config = SimpleNamespace(model_config=model, speculative_config=drafting)
    return SimpleNamespace(**{"vllm_config": config} | told | has)


def drafting(slots: int) -> Any:
    """What a later scheduler knows of drafts that take so many slots."""
    told = SimpleNamespace(max_num_new_slots_for_drafting=slots)
    config = SimpleNamespace(model_config=SimpleNamespace(), speculative_config=told)
    return {"vllm_config": config, "use_eagle_block_drop": False}


NOT_ON = [
    *({}, {"dynamic_sd_lookup": None}, {"is_mm_encoder_only": False}),
    *({"mamba_partial_cache_hit": False}, {"encoder_cache_manager": EncoderCacheManager()}),
    *(drafting(0), drafting(1) | {"num_lookahead_tokens": 3}),
    drafting(0) | {"num_lookahead_tokens": 3, "use_eagle": True},
]
ON = {
    "num_speculative_tokens_per_batch_size": {"dynamic_sd_lookup": [3, 1]},
    "num_prefill_lookahead_tokens": {"num_prefill_lookahead": 2},
    "max_num_new_slots_for_drafting": drafting(3),
    "ec_manager_config": {"encoder_cache_manager": Alien()},
    "mm_encoder_only": {"is_mm_encoder_only": True},
    "diffusion": {"vllm_config": SimpleNamespace(model_config=SimpleNamespace(is_diffusion=True))},
    "mamba_partial_cache_hit": {"mamba_partial_cache_hit": True},
    "mamba_shared_prefix_checkpoint": {
        "kv_cache_manager": SimpleNamespace(mamba_shared_prefix_checkpoint=True)
    },
}
"""By feature, what an engine has that has it."""


def test_what_decides_is_named_where_it_is_on() -> None:
    """And nothing where it is not."""
    assert set(ON) == set(LATER)
    for has in NOT_ON:
        assert [name for name, is_on in LATER.items() if is_on(of(**has))] == [], has
    for feature, has in ON.items():
        assert [name for name, is_on in LATER.items() if is_on(of(**has))] == [feature]


def test_that_goes_into_a_header() -> None:
    """Of an engine as it is built."""
    made = engine().scheduler
    assert not set(ON).intersection(features(made))
    made.is_mm_encoder_only = True
    assert set(ON).intersection(features(made)) == {"mm_encoder_only"}


def test_a_setting_that_nobody_thought_of_is_found() -> None:
    """In whatever way it is read."""
    text = "x = self.vllm_config.cache_config.frob\ny = getattr(spec, 'knob', 0)"
    found = {"vllm_config.cache_config", "cache_config.frob", "spec.knob"}
    assert set(_read(text)) == found
    assert not found <= KNOWN
