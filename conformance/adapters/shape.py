"""vLLM's shape: the classes that a scheduler is fed with, its state and its decisions."""

from dataclasses import dataclass
from importlib import import_module
from types import SimpleNamespace
from typing import Any

from nullblock.conformance.adapters import encoder_shape
from nullblock.conformance.adapters.vllm.vllm_config import vllm_config
from nullblock.conformance.engine import Dump, Fields, NewRequest
from nullblock.conformance.errors import InputError
from nullblock.conformance.groups import mamba_cache_mode
from nullblock.conformance.scenario_format import Config

REFERENCE = "nullblock.reference"
VLLM = "vllm"
README = "conformance/pytest_plugin/README.md"


class NotShaped(InputError):
    """A scheduler lacks what one of vLLM's shape has."""

    exit_code = 3
    kind = "shape"


def part(owner: object, name: str) -> Any:
    """An attribute that vLLM's shape has. Raises :class:`NotShaped` where it is missing."""
    try:
        return getattr(owner, name)
    except AttributeError:
        what = f"{type(owner).__name__} has no {name}"
        raise NotShaped(what, f"vLLM 0.22.1 has one; or write an adapter: {README}") from None


@dataclass(frozen=True, slots=True)
class Modules:
    """Where the classes that a scheduler is fed with come from."""

    request: Any
    sampling_params: Any
    outputs: Any
    interface: Any
    kv_cache_interface: Any
    kv_cache_utils: Any
    hashing: Any
    multimodal: Any
    """Of an encoder's inputs; None where there is none."""
    pooling_params: Any
    """Of pooling requests; None where there is none."""
    dtype: Any
    """Of the only layer. Nothing is allocated."""


def modules(package: str) -> Modules:
    """The modules of vLLM, or those of the same names in the reference. Raises ``ImportError``."""
    is_vllm = package == VLLM
    v1, core = (f"{VLLM}.v1", f"{VLLM}.v1.core") if is_vllm else (package, package)
    cache = import_module(f"{v1}.kv_cache_interface")
    return Modules(
        request=import_module(f"{v1}.request"),
        sampling_params=import_module(f"{package}.sampling_params"),
        outputs=import_module(f"{v1}.outputs"),
        interface=import_module(f"{core}.sched.interface"),
        kv_cache_interface=cache,
        kv_cache_utils=import_module(f"{core}.kv_cache_utils"),
        multimodal=_if_any(f"{package}.multimodal.inputs"),
        pooling_params=_if_any(f"{package}.pooling_params"),
        hashing=import_module(f"{package}.utils.hashing" if is_vllm else f"{package}.hashing"),
        dtype=cache.torch.float32 if is_vllm else None,
    )


def _if_any(module: str) -> Any:
    try:
        return import_module(module)
    except ImportError:
        return None


_SETTINGS = (
    *("block_size", "num_blocks", "max_num_seqs", "max_num_batched_tokens", "max_model_len"),
    *("max_num_scheduled_tokens", "long_prefill_token_threshold", "enable_chunked_prefill"),
    *("enable_prefix_caching", "policy", "async_scheduling", "scheduler_reserve_full_isl"),
    *("pipeline_parallel_size", "kv_events", "max_loras", "num_spec_tokens", "spec_method"),
    *("use_v2_model_runner", "hash_block_size", "dcp_world_size", "pcp_world_size"),
)
"""Keys of a scenario's configuration that vLLM's configuration has fields for."""


def engine_config(config: Config) -> SimpleNamespace:
    """The fields of vLLM's configuration that a scheduler reads."""
    settings = {name: getattr(config, name) for name in _SETTINGS}
    if config.makes_vectors:
        settings["runner_type"] = "pooling"
    made = vllm_config(**settings, mamba_cache_mode=mamba_cache_mode(config))
    if config.encoder:
        encoder, model = config.encoder, made.model_config
        fields = encoder_shape.settings(encoder, config.max_num_batched_tokens)
        vars(made.scheduler_config).update(fields)
        model.is_encoder_decoder = encoder.is_encoder_decoder
        model.get_multimodal_config = lambda: None
    # What follows later releases read.
    made.scheduler_config.watermark = config.watermark or 0.0
    made.max_in_flight_tokens = config.max_num_batched_tokens * config.max_concurrent_batches
    return made


def adapter(request: NewRequest) -> SimpleNamespace | None:
    """An adapter, as far as a scheduler looks at it."""
    if request.lora is None:
        return None
    name, number = request.lora, request.lora_id
    return SimpleNamespace(lora_name=name, name=name, lora_int_id=number, adapter_id=number)


def decision(output: Any) -> Fields:
    """A ``SchedulerOutput`` in the words of a ``schedule`` line."""
    cached = part(output, "scheduled_cached_reqs")
    columns = zip(
        part(cached, "req_ids"),
        part(cached, "new_block_ids"),
        part(cached, "num_computed_tokens"),
        part(cached, "num_output_tokens"),
        strict=True,
    )
    all_token_ids, resumed = part(cached, "all_token_ids"), part(cached, "resumed_req_ids")
    scheduled = part(output, "num_scheduled_tokens")
    return {
        "num_scheduled_tokens": dict(scheduled),
        "order": list(scheduled),
        "total": part(output, "total_num_scheduled_tokens"),
        "new": [_new(new) for new in part(output, "scheduled_new_reqs")],
        "cached": [
            {
                "id": id,
                "new_blocks": _lists(blocks),
                "computed": computed,
                "num_output": num_output,
                "resumed": id in resumed,
                "all_token_ids": len(all_token_ids[id]) if id in all_token_ids else None,
            }
            for id, blocks, computed, num_output in columns
        ],
        "new_token_ids": [list(tokens) for tokens in part(cached, "new_token_ids")],
        "spec": dict(getattr(output, "scheduled_spec_decode_tokens", {})),
        "preempted": sorted(part(output, "preempted_req_ids") or ()),
        "finished": sorted(part(output, "finished_req_ids")),
        "num_common_prefix_blocks": list(part(output, "num_common_prefix_blocks")),
        "new_block_ids_to_zero": getattr(output, "new_block_ids_to_zero", None),
    }


def grammars(scheduler: Any, output: Any) -> Fields:
    """What a ``SchedulerOutput`` says of grammars, and for whom a mask is made."""
    pending = part(output, "pending_structured_output_tokens")
    made = None if pending else scheduler.get_grammar_bitmask(output)
    return {
        "scheduled": part(output, "has_structured_output_requests"),
        "pending": pending,
        "mask": None if made is None else list(made.structured_output_request_ids),
    }


def _new(new: Any) -> Fields:
    prefill = getattr(new, "prefill_token_ids", None)
    return {
        "id": part(new, "req_id"),
        "blocks": _lists(part(new, "block_ids")),
        "computed": part(new, "num_computed_tokens"),
        "prompt_len": len(part(new, "prompt_token_ids") or ()),
        "prefill_len": None if prefill is None else len(prefill),
    }


def _lists(block_ids: tuple[list[int], ...] | None) -> list[list[int]] | None:
    return None if block_ids is None else [list(group) for group in block_ids]


def outputs(by_client: Any) -> list[Fields]:
    """What an update tells the clients."""
    return [
        {
            "id": output.request_id,
            "tokens": list(output.new_token_ids),
            "finish": None if output.finish_reason is None else str(output.finish_reason),
            "stop_reason": output.stop_reason,
        }
        for client in sorted(by_client)
        for output in by_client[client].outputs
    ]


def state(scheduler: Any, dump: Dump) -> Fields | None:
    """Queues, requests and, in a full dump, the pool.

    Raises AttributeError for a scheduler that keeps them elsewhere.
    """
    if dump == "none":
        return None
    fields: Fields = {
        "waiting": [request.request_id for request in scheduler.waiting],
        "skipped_waiting": [
            request.request_id for request in getattr(scheduler, "skipped_waiting", ())
        ],
        "running": [request.request_id for request in scheduler.running],
        "num_free": scheduler.kv_cache_manager.block_pool.get_num_free_blocks(),
        "finished_req_ids": sorted(scheduler.finished_req_ids),
        "requests": {id: _request(scheduler, r) for id, r in scheduler.requests.items()},
    }
    return fields if dump == "brief" else fields | _pool(scheduler.kv_cache_manager.block_pool)


def _request(scheduler: Any, request: Any) -> Fields:
    managers = scheduler.kv_cache_manager.coordinator.single_type_managers
    id = request.request_id
    return {
        "status": request.status.name,
        "computed": request.num_computed_tokens,
        "tokens": request.num_tokens,
        "output": request.num_output_tokens,
        "placeholders": request.num_output_placeholders,
        # Later releases have another name for it.
        "discard": getattr(request, "async_tokens_to_discard", 0)
        + getattr(request, "num_stale_output_tokens", 0),
        "spec": len(request.spec_token_ids),
        "preemptions": request.num_preemptions,
        # get(), since looking a request up in the table itself would enter it there.
        "blocks": [[b.block_id for b in m.req_to_blocks.get(id, ())] for m in managers],
        "num_cached_block": [m.num_cached_block.get(id) for m in managers],
    }


def _pool(pool: Any) -> Fields:
    hashed = [block for block in pool.blocks if block.block_hash is not None]
    return {
        "free_queue": [b.block_id for b in pool.free_block_queue.get_all_free_blocks()],
        "ref_cnt": {b.block_id: b.ref_cnt for b in pool.blocks if b.ref_cnt},
        "block_hash": {b.block_id: _hash_text(b.block_hash) for b in hashed},
        "cached_map": {
            _hash_text(key): list(found) if isinstance(found, dict) else [found.block_id]
            for key, found in pool.cached_block_hash_to_block._cache.items()
        },
    }


def _hash_text(key: bytes) -> str:
    """A cache key for people: half of the hash's front, and the group."""
    return f"{key.hex()[:12]}:{int.from_bytes(key[-4:], 'big')}"


REMOVED_FROM: Fields = dict.fromkeys(("locality", "ownership"))
STORED_FROM: Fields = {**REMOVED_FROM, "session_id": None}
"""What lines with the switch `events_tell_origin` tell besides: that nobody knows."""


def kv_event(event: Any) -> Fields:
    """A KV event by its fields' names; of hashes that are bytes only the front is shown."""
    fields: Fields = {"t": type(event).__name__}
    for name in event.__struct_fields__:
        value = getattr(event, name)
        match name:
            case "block_hashes":
                value = [_short(block_hash) for block_hash in value]
            case "parent_block_hash":
                value = _short(value)
            case "token_ids":
                value = list(value)
            case "extra_keys" if value is not None:
                value = [None if keys is None else _hex(keys) for keys in value]
        fields[name] = value
    return fields


def _hex(keys: tuple[Any, ...]) -> list[Any]:
    return [key.hex() if isinstance(key, bytes) else key for key in keys]


def _short(block_hash: bytes | int | None) -> str | int | None:
    return block_hash.hex()[:12] if isinstance(block_hash, bytes) else block_hash
