"""What the real engine's objects look like in a line: its state, its decisions, its events."""

from typing import Any

Fields = dict[str, Any]


KEPT_APART = ("skipped_waiting", "kv_holding_waiting")
"""Where requests wait that do not wait with the others, by release."""


def state(scheduler: Any, dump: str) -> Fields | None:
    """Queues and requests, with ``full`` also the block pool; None for ``none``."""
    if dump == "none":
        return None
    manager = scheduler.kv_cache_manager
    fields: Fields = {
        "waiting": [request.request_id for request in scheduler.waiting],
        "skipped_waiting": [
            # Later releases keep no queue of those; they keep one of those that hold blocks.
            request.request_id
            for request in getattr(scheduler, KEPT_APART[0], None)
            or getattr(scheduler, KEPT_APART[1], ())
        ],
        "running": [request.request_id for request in scheduler.running],
        "num_free": manager.block_pool.get_num_free_blocks(),
        "finished_req_ids": sorted(scheduler.finished_req_ids),
        "requests": {
            id: _request(request, manager.coordinator.single_type_managers)
            for id, request in scheduler.requests.items()
        },
    }
    return fields | _pool(manager.block_pool) if dump == "full" else fields


def _request(request: Any, managers: Any) -> Fields:
    id = request.request_id
    return {
        "status": request.status.name,
        "computed": request.num_computed_tokens,
        "tokens": request.num_tokens,
        "output": request.num_output_tokens,
        "placeholders": request.num_output_placeholders,
        "discard": _discard(request),
        "spec": len(request.spec_token_ids),
        "preemptions": request.num_preemptions,
        # Both tables are read with get(): indexing the first would add an empty entry to it.
        "blocks": [[block.block_id for block in m.req_to_blocks.get(id, ())] for m in managers],
        "num_cached_block": [m.num_cached_block.get(id) for m in managers],
    }


def _discard(request: Any) -> int:
    """Output in flight that a preemption made worthless: later releases count its tokens."""
    if hasattr(request, "async_tokens_to_discard"):
        return int(request.async_tokens_to_discard)
    return int(request.num_stale_output_tokens)


def _pool(pool: Any) -> Fields:
    hashed = [block for block in pool.blocks if block.block_hash is not None]
    return {
        "free_queue": [b.block_id for b in pool.free_block_queue.get_all_free_blocks()],
        "ref_cnt": {block.block_id: block.ref_cnt for block in pool.blocks if block.ref_cnt},
        "block_hash": {block.block_id: _key(block.block_hash) for block in hashed},
        "cached_map": {
            _key(key): list(found) if isinstance(found, dict) else [found.block_id]
            for key, found in pool.cached_block_hash_to_block._cache.items()
        },
    }


def _key(key: bytes) -> str:
    """The front of a hash, and the group that follows it in four bytes."""
    return f"{key.hex()[:12]}:{int.from_bytes(key[-4:], 'big')}"


def decision(output: Any) -> Fields:
    """A SchedulerOutput."""
    cached = output.scheduled_cached_reqs
    columns = zip(
        cached.req_ids,
        cached.new_block_ids,
        cached.num_computed_tokens,
        cached.num_output_tokens,
        strict=True,
    )
    return {
        "num_scheduled_tokens": output.num_scheduled_tokens,
        "order": list(output.num_scheduled_tokens),
        "total": output.total_num_scheduled_tokens,
        "new": [_new_request(new) for new in output.scheduled_new_reqs],
        "cached": [
            {
                "id": id,
                "new_blocks": _lists(blocks),
                "computed": computed,
                "num_output": num_output,
                "resumed": id in cached.resumed_req_ids,
                "all_token_ids": _length(cached.all_token_ids.get(id)),
            }
            for id, blocks, computed, num_output in columns
        ],
        "new_token_ids": cached.new_token_ids,
        "spec": output.scheduled_spec_decode_tokens,
        "preempted": sorted(output.preempted_req_ids or ()),
        "finished": sorted(output.finished_req_ids),
        "num_common_prefix_blocks": output.num_common_prefix_blocks,
        "new_block_ids_to_zero": output.new_block_ids_to_zero,
    }


def grammar(scheduler: Any, output: Any) -> Fields:
    """Whether a SchedulerOutput has requests with a grammar, and for whom a mask is made.

    Where a grammar waits for tokens in flight there is no mask yet.
    """
    pending = output.pending_structured_output_tokens
    made = None if pending else scheduler.get_grammar_bitmask(output)
    return {
        "scheduled": output.has_structured_output_requests,
        "pending": pending,
        "mask": None if made is None else list(made.structured_output_request_ids),
    }


def _new_request(new: Any) -> Fields:
    return {
        "id": new.req_id,
        "blocks": _lists(new.block_ids),
        "computed": new.num_computed_tokens,
        "prompt_len": len(new.prompt_token_ids or ()),
        "prefill_len": _length(new.prefill_token_ids),
    }


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


def finished_by_client(by_client: Any) -> dict[int, list[str]]:
    """By client, whose end an update told."""
    told = {client: by_client[client].finished_requests for client in sorted(by_client)}
    return {client: sorted(ids) for client, ids in told.items() if ids is not None}


def counts(scheduler: Any) -> Fields:
    """How many requests there are, and whether there is anything to do or to tell."""
    running, waiting = scheduler.get_request_counts()
    return {
        "running": running,
        "waiting": waiting,
        "unfinished": scheduler.get_num_unfinished_requests(),
        "has_unfinished": scheduler.has_unfinished_requests(),
        "has_finished": scheduler.has_finished_requests(),
        "has_requests": scheduler.has_requests(),
    }


def kv_event(event: Any) -> Fields:
    """One event of the KV event stream."""
    fields: Fields = {"t": type(event).__name__}
    for name in event.__struct_fields__:
        value = getattr(event, name)
        match name:
            case "block_hashes":
                value = [_short(hash) for hash in value]
            case "parent_block_hash":
                value = _short(value)
            case "token_ids":
                value = list(value)
            case "extra_keys" if value is not None:
                value = [None if keys is None else _hex(keys) for keys in value]
        fields[name] = value
    return fields


def _short(hash: Any) -> Any:
    return hash.hex()[:12] if isinstance(hash, bytes) else hash


def _hex(keys: Any) -> list[Any]:
    return [key.hex() if isinstance(key, bytes) else key for key in keys]


def _lists(block_ids: Any) -> list[list[int]] | None:
    return None if block_ids is None else [list(group) for group in block_ids]


def _length(tokens: Any) -> int | None:
    return None if tokens is None else len(tokens)
