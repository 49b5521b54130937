"""Runs a scenario on an engine with vLLM's shapes, whichever package it lives in.

    python vllm_shaped_driver.py vllm|nullblock.reference < scenarios.jsonl > digests.jsonl

The only difference between the two engines is where their modules are, which is what the tests
here claim of the reference. The module imports nothing but the standard library and the engine,
since nullblock is not installed where vLLM is.
"""

import hashlib
import importlib
import importlib.util
import json
import os
import sys
import zlib
from collections import deque
from pathlib import Path
from types import SimpleNamespace
from typing import Any

DEFAULTS: dict[str, Any] = {
    "block_size": 16,
    "num_blocks": 64,
    "max_num_batched_tokens": 64,
    "max_num_scheduled_tokens": None,
    "max_num_seqs": 8,
    "max_model_len": 256,
    "long_prefill_token_threshold": 0,
    "enable_chunked_prefill": True,
    "enable_prefix_caching": True,
    "policy": "fcfs",
    "async_scheduling": False,
    "queue_depth": 2,
    "kv_events": False,
    "scheduler_reserve_full_isl": True,
    "pipeline_parallel_size": 1,
    "use_v2_model_runner": False,
    "hash_algo": "sha256",
    "hash_seed": "0",
    "log_stats": False,
    "vocab": 1000,
    "seed": 0,
}


class Names:
    """The modules of one engine."""

    def __init__(self, package: str) -> None:
        real = package == "vllm"
        core, v1 = ("vllm.v1.core", "vllm.v1") if real else (package, package)
        load = importlib.import_module
        self.hashing = load("vllm.utils.hashing" if real else f"{package}.hashing")
        self.sampling_params = load(f"{package}.sampling_params")
        self.kv_cache_utils = load(f"{core}.kv_cache_utils")
        self.scheduler = load(f"{core}.sched.scheduler")
        self.async_scheduler = load(f"{core}.sched.async_scheduler")
        self.interface = load(f"{core}.sched.interface")
        self.request = load(f"{v1}.request")
        self.outputs = load(f"{v1}.outputs")
        self.kv_cache_interface = load(f"{v1}.kv_cache_interface")


def vllm_config(c: dict[str, Any]) -> SimpleNamespace:
    """The fields of vLLM's configuration that its scheduler reads."""
    picked = (
        "max_num_seqs max_num_batched_tokens max_num_scheduled_tokens policy "
        "long_prefill_token_threshold enable_chunked_prefill scheduler_reserve_full_isl "
        "async_scheduling"
    )
    return SimpleNamespace(
        scheduler_config=SimpleNamespace(
            **{name: c[name] for name in picked.split()},
            disable_chunked_mm_input=False,
        ),
        cache_config=SimpleNamespace(
            block_size=c["block_size"],
            num_gpu_blocks=c["num_blocks"],
            enable_prefix_caching=c["enable_prefix_caching"],
            mamba_cache_mode="none",
            hash_block_size=None,
        ),
        model_config=SimpleNamespace(
            is_encoder_decoder=False,
            max_model_len=c["max_model_len"],
            is_multimodal_model=False,
            enable_return_routed_experts=False,
        ),
        parallel_config=SimpleNamespace(
            data_parallel_index=0,
            decode_context_parallel_size=1,
            prefill_context_parallel_size=1,
            pipeline_parallel_size=c["pipeline_parallel_size"],
        ),
        observability_config=SimpleNamespace(kv_cache_metrics=False, enable_mfu_metrics=False),
        lora_config=None,
        kv_events_config=SimpleNamespace(enable_kv_cache_events=c["kv_events"], publisher="null"),
        speculative_config=None,
        kv_transfer_config=None,
        ec_transfer_config=None,
        use_v2_model_runner=c["use_v2_model_runner"],
    )


def adapter(name: str) -> SimpleNamespace:
    """An adapter; its number follows from its name."""
    return SimpleNamespace(lora_name=name, name=name, adapter_id=zlib.crc32(name.encode()) % 100)


def fields_of(event: Any) -> dict[str, Any]:
    """A KV cache event by its fields' names."""
    fields = {name: getattr(event, name) for name in event.__struct_fields__}
    return {"t": type(event).__name__, **fields}


def expand(prompt: Any) -> list[int]:
    """The tokens that a scenario's prompt stands for."""
    if isinstance(prompt, list):
        return list(prompt)
    if "concat" in prompt:
        return [token for part in prompt["concat"] for token in expand(part)]
    if "range" in prompt:
        return list(range(*prompt["range"]))
    return [prompt["fill"]] * prompt["n"]


class Driver:
    """One scheduler, a model that samples by checksum, and the lines that they give."""

    def __init__(self, names: Names, scenario: dict[str, Any], **scheduler_options: Any) -> None:
        self.names = names
        self.config = c = {**DEFAULTS, **scenario.get("config", {})}
        self.events = scenario["events"]
        self.lines: list[dict[str, Any]] = []
        self.in_flight: deque[tuple[int, Any, dict[str, bool]]] = deque()
        self.num_steps = 0
        self.num_arrivals = 0
        self.eos_at: dict[str, tuple[int, int]] = {}
        cache = names.kv_cache_interface
        spec = cache.FullAttentionSpec(
            block_size=c["block_size"], num_kv_heads=1, head_size=1, dtype=None
        )
        kv_cache_config = cache.KVCacheConfig(
            num_blocks=c["num_blocks"],
            kv_cache_tensors=[],
            kv_cache_groups=[cache.KVCacheGroupSpec(["layer"], spec)],
        )
        config = vllm_config(c)
        os.environ["PYTHONHASHSEED"] = str(c["hash_seed"])
        utils = names.kv_cache_utils
        block_size, hash_block_size = utils.resolve_kv_cache_block_sizes(kv_cache_config, config)
        synchronous, ahead = names.scheduler.Scheduler, names.async_scheduler.AsyncScheduler
        self.scheduler = (ahead if c["async_scheduling"] else synchronous)(
            vllm_config=config,
            kv_cache_config=kv_cache_config,
            structured_output_manager=SimpleNamespace(should_advance=lambda request: False),
            block_size=block_size,
            hash_block_size=hash_block_size,
            log_stats=c["log_stats"],
            **scheduler_options,
        )
        self.published: list[Any] = []
        self.scheduler.kv_event_publisher = SimpleNamespace(
            publish=lambda batch: self.published.append(batch.events)
        )
        hash_fn = names.hashing.get_hash_fn_by_name(c["hash_algo"])
        utils.init_none_hash(hash_fn)
        self.hasher = utils.get_request_block_hasher(hash_block_size, hash_fn, **scheduler_options)

    def run(self) -> list[dict[str, Any]]:
        """Run every event; what the engine raises is the last line."""
        try:
            for event in self.events:
                getattr(self, f"do_{event['op']}")(event)
        except Exception:
            self.lines.append({"ev": "EXCEPTION"})
        return self.lines

    def do_add(self, e: dict[str, Any]) -> None:
        """A request arrives."""
        eos = e.get("eos")
        params = self.names.sampling_params.SamplingParams(
            max_tokens=e.get("max_tokens", 16),
            min_tokens=e.get("min_tokens", 0),
            stop_token_ids=e.get("stop"),
            ignore_eos=eos is None,
            skip_reading_prefix_cache=e.get("skip_cache_read"),
        )
        if eos is not None:
            params.update_from_generation_config({}, eos)
        self.num_arrivals += 1
        request = self.names.request.Request(
            request_id=e["id"],
            prompt_token_ids=expand(e["prompt"]),
            sampling_params=params,
            pooling_params=None,
            arrival_time=float(e.get("arrival", self.num_arrivals)),
            lora_request=adapter(e["lora"]) if e.get("lora") else None,
            cache_salt=e.get("salt"),
            priority=e.get("priority", 0),
            block_hasher=self.hasher,
        )
        if "eos_at" in e:
            self.eos_at[e["id"]] = (request.num_prompt_tokens + e["eos_at"], e["eos"])
        self.scheduler.add_request(request)
        self.lines.append({"ev": "add", "id": e["id"]})

    def do_schedule(self, e: dict[str, Any]) -> None:
        """One call of ``schedule()``."""
        self.num_steps += 1
        out = self.scheduler.schedule()
        requests = self.scheduler.requests
        chunks = {name: requests[name].is_prefill_chunk for name in out.num_scheduled_tokens}
        self.in_flight.append((self.num_steps, out, chunks))
        cached = out.scheduled_cached_reqs
        columns = (
            cached.req_ids,
            cached.new_block_ids,
            cached.num_computed_tokens,
            cached.num_output_tokens,
        )
        line = {
            "ev": "schedule",
            "step": self.num_steps,
            "order": list(out.num_scheduled_tokens.items()),
            "total": out.total_num_scheduled_tokens,
            "new": [
                [n.req_id, n.block_ids, n.num_computed_tokens, n.prompt_token_ids]
                + [n.prefill_token_ids]
                for n in out.scheduled_new_reqs
            ],
            "cached": list(zip(*columns, strict=True)),
            "resumed": sorted(cached.resumed_req_ids),
            "all_token_ids": cached.all_token_ids,
            "new_token_ids": cached.new_token_ids,
            "preempted": sorted(out.preempted_req_ids or ()),
            "finished": sorted(out.finished_req_ids),
            "num_common_prefix_blocks": out.num_common_prefix_blocks,
            "state": self.state(),
        }
        # As JSON now: parts of the output are the scheduler's own lists, which grow.
        self.lines.append(json.loads(json.dumps(line)))

    def do_update(self, e: dict[str, Any]) -> None:
        """The oldest step in flight returns."""
        step, out, chunks = self.in_flight.popleft()
        ids = list(out.num_scheduled_tokens)
        sampled = [[] if chunks[name] else self.sample(name) for name in ids]
        model_output = self.names.outputs.ModelRunnerOutput(
            req_ids=ids,
            req_id_to_index={name: i for i, name in enumerate(ids)},
            sampled_token_ids=sampled,
        )
        by_client = self.scheduler.update_from_output(out, model_output)
        outputs = [
            [o.request_id, list(o.new_token_ids), o.finish_reason and str(o.finish_reason)]
            + [o.stop_reason, o.finished]
            for client in sorted(by_client)
            for o in by_client[client].outputs
        ]
        line = {"ev": "update", "step": step, "outputs": outputs, "state": self.state()}
        batches = [[fields_of(event) for event in events] for events in self.published]
        line |= {"batches": batches}
        self.published.clear()
        self.lines.append(json.loads(json.dumps(line)))

    def sample(self, name: str) -> list[int]:
        """The next token of a request, a function of its id and position; none once it is gone."""
        request = self.scheduler.requests.get(name)
        if request is None:
            return []
        position = request.num_tokens
        start, eos = self.eos_at.get(name, (position + 1, 0))
        if position >= start:
            return [eos]
        checksum = zlib.crc32(f"{self.config['seed']}:{name}:{position}".encode())
        return [checksum % self.config["vocab"]]

    def do_drain(self, e: dict[str, Any]) -> None:
        """Every step in flight returns."""
        while self.in_flight:
            self.do_update(e)

    def do_step(self, e: dict[str, Any]) -> None:
        """Whole steps."""
        for _ in range(e.get("n", 1)):
            self.step(e)

    def step(self, e: dict[str, Any]) -> None:
        """Both halves, or a turn of the batch queue."""
        if not self.config["async_scheduling"]:
            self.do_schedule(e)
            self.do_update(e)
            return
        if self.scheduler.has_requests():
            self.do_schedule(e)
            has_room = len(self.in_flight) < self.config["queue_depth"]
            if has_room and self.in_flight[-1][1].total_num_scheduled_tokens:
                return
        if self.in_flight:
            self.do_update(e)

    def do_run(self, e: dict[str, Any]) -> None:
        """Steps until nothing is unfinished."""
        for _ in range(e.get("max_steps", 1000)):
            if not self.scheduler.has_unfinished_requests() and not self.in_flight:
                return
            if not self.config["async_scheduling"] and not self.scheduler.has_requests():
                return
            self.step(e)

    def do_abort(self, e: dict[str, Any]) -> None:
        """Requests are ended from outside."""
        status = self.names.request.RequestStatus[e.get("status", "FINISHED_ABORTED")]
        ended = self.scheduler.finish_requests(e["ids"], status)
        self.lines.append({"ev": "abort", "ended": sorted(ended), "state": self.state()})

    def do_reset_prefix_cache(self, e: dict[str, Any]) -> None:
        """The prefix cache is emptied."""
        done = self.scheduler.reset_prefix_cache(e.get("reset_running", False))
        self.lines.append({"ev": "reset_prefix_cache", "done": done, "state": self.state()})

    def do_pause(self, e: dict[str, Any]) -> None:
        """The pause state changes."""
        self.scheduler.set_pause_state(self.names.interface.PauseState[e["state"]])
        counts = self.scheduler.get_request_counts()
        left = self.scheduler.get_num_unfinished_requests()
        self.lines.append({"ev": "pause", "counts": counts, "left": left})

    def do_evict_blocks(self, e: dict[str, Any]) -> None:
        """Blocks are taken out of the prefix cache."""
        self.scheduler.kv_cache_manager.evict_blocks(set(e["ids"]))
        self.lines.append({"ev": "evict_blocks", "state": self.state()})

    def state(self) -> dict[str, Any]:
        """Everything that later decisions depend on."""
        s = self.scheduler
        (tables,) = s.kv_cache_manager.coordinator.single_type_managers
        pool = s.kv_cache_manager.block_pool
        requests = {
            name: {
                "status": r.status.name,
                "computed": r.num_computed_tokens,
                "placeholders": r.num_output_placeholders,
                "discard": r.async_tokens_to_discard,
                "tokens": list(r.all_token_ids),
                "outputs": list(r.output_token_ids),
                "preemptions": r.num_preemptions,
                "blocks": [b.block_id for b in tables.req_to_blocks.get(name, ())],
                "cached": tables.num_cached_block.get(name),
                "hashes": [h.hex() for h in r.block_hashes],
            }
            for name, r in s.requests.items()
        }
        cached_map = {
            key.hex(): list(found) if isinstance(found, dict) else [found.block_id]
            for key, found in pool.cached_block_hash_to_block._cache.items()
        }
        return {
            "waiting": [r.request_id for r in s.waiting],
            "running": [r.request_id for r in s.running],
            "finished": sorted(s.finished_req_ids),
            "requests": requests,
            "owners": sorted(tables.req_to_blocks),
            "free_queue": [b.block_id for b in pool.free_block_queue.get_all_free_blocks()],
            "num_free": pool.get_num_free_blocks(),
            "usage": s.kv_cache_manager.usage,
            "ref_cnt": {b.block_id: b.ref_cnt for b in pool.blocks if b.ref_cnt},
            "block_hash": {b.block_id: b.block_hash.hex() for b in pool.blocks if b.block_hash},
            "cached_map": cached_map,
        }


def digests(lines: list[dict[str, Any]]) -> list[str]:
    """A short digest of each line, so that the first line that differs has a number."""
    texts = (json.dumps(line, sort_keys=True) for line in lines)
    return [hashlib.sha256(text.encode()).hexdigest()[:10] for text in texts]


def whole_digest(line_digests: list[str]) -> str:
    """One digest of a whole run, and its number of lines."""
    return f"{hashlib.sha256(''.join(line_digests).encode()).hexdigest()[:12]}/{len(line_digests)}"


def main() -> None:
    """Digest the lines of each scenario on standard input."""
    package = sys.argv[1]
    if package == "vllm" and importlib.util.find_spec("torch") is None:
        sys.path.insert(0, str(Path(__file__).parents[2] / "oracle"))
        importlib.import_module("torchless").install()
    names = Names(package)
    for text in sys.stdin:
        print(json.dumps(digests(Driver(names, json.loads(text)).run())), flush=True)


if __name__ == "__main__":
    main()
