"""What is measured, on whichever engine: run as a program, prints one JSON object of seconds.

    python benchmarks/workloads.py vllm|nullblock.reference [--features]

Runs in the interpreter that has that engine, so it imports nothing but the standard library, the
engine, and this project's way to configure a scheduler, which needs the standard library alone.
Both engines are driven through the same names: that is what the reference is for. Seconds are of
processor time, so that other programs on the machine count little.
"""

import importlib
import importlib.util
import json
import os
import statistics
import sys
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

BLOCK_SIZE = 16
PROMPT_TOKENS = 100
DECODE_BATCHES = (64, 256, 1024)
DECODE_STEPS = 120
HYBRID_MODELS = ("windows", "Mamba")
"""One full-attention group and three others: of sliding windows, or of Mamba in its mode align."""
WAITING_BATCH = 256
HYBRID_BATCH = 256
WINDOW = 64
LOOKUP_TOKENS = (8192, 32768)
POOL_BLOCKS = 4096
NUM_DRAFTS = 3
"""Drafts of a request in a step that has any; one of them is accepted."""


class Engine:
    """The names of one engine, wherever its modules live."""

    def __init__(self, package: str) -> None:
        core, v1 = ("vllm.v1.core", "vllm.v1") if package == "vllm" else (package, package)
        load = importlib.import_module
        self.hashing = load("vllm.utils.hashing" if package == "vllm" else f"{package}.hashing")
        self.sampling = load(f"{package}.sampling_params")
        self.utils = load(f"{core}.kv_cache_utils")
        self.pool = load(f"{core}.block_pool")
        self.manager = load(f"{core}.kv_cache_manager")
        self.scheduler = load(f"{core}.sched.scheduler")
        self.async_scheduler = load(f"{core}.sched.async_scheduler")
        self.request = load(f"{v1}.request")
        self.outputs = load(f"{v1}.outputs")
        self.cache = load(f"{v1}.kv_cache_interface")
        hash_fn = self.hashing.get_hash_fn_by_name("sha256")
        self.utils.init_none_hash(hash_fn)
        self.hasher = self.utils.get_request_block_hasher(BLOCK_SIZE, hash_fn)

    def kv_cache_config(self, num_blocks: int, model: str = "plain") -> Any:
        """One full-attention group, and what the model has beside it."""
        cache = self.cache
        layer = {"block_size": BLOCK_SIZE, "num_kv_heads": 1, "head_size": 1, "dtype": None}
        specs = [cache.FullAttentionSpec(**layer)]
        match model:
            case "windows":
                specs += [cache.SlidingWindowSpec(**layer, sliding_window=WINDOW)] * 3
            case "Mamba":
                state = {"shapes": ((1,),), "dtypes": (None,), "mamba_cache_mode": "align"}
                specs += [cache.MambaSpec(block_size=BLOCK_SIZE, **state)] * 3
        groups = [cache.KVCacheGroupSpec([f"layer{i}"], spec) for i, spec in enumerate(specs)]
        return cache.KVCacheConfig(num_blocks * len(specs), [], groups)

    def new_request(
        self, name: str, prompt: list[int], max_tokens: int = 10_000, **more: Any
    ) -> Any:
        """A request that nothing but its length stops."""
        params = self.sampling.SamplingParams(max_tokens=max_tokens, ignore_eos=True)
        return self.request.Request(
            name, prompt, params, None, arrival_time=0.0, block_hasher=self.hasher, **more
        )

    def new_scheduler(
        self,
        num_blocks: int,
        max_num_seqs: int,
        ahead: bool,
        model: str = "plain",
        num_drafts: int = 0,
        encoder: Callable[[Any], dict[str, Any]] | None = None,
        **settings: Any,
    ) -> Any:
        """A scheduler with room for every request and every token, and `settings` besides.

        An `encoder` completes the configuration, and gives the arguments that a model with one
        takes.
        """
        budget = max_num_seqs * (PROMPT_TOKENS + 1)
        module = importlib.import_module("nullblock.conformance.adapters.vllm.vllm_config")
        config = module.vllm_config(
            block_size=BLOCK_SIZE,
            num_blocks=num_blocks,
            max_num_seqs=max_num_seqs,
            max_num_batched_tokens=budget,
            max_model_len=8192,
            async_scheduling=ahead,
            num_spec_tokens=num_drafts,
            spec_method="eagle",
            mamba_cache_mode="align" if model == "Mamba" else "none",
            **settings,
        )
        more = {} if encoder is None else encoder(config)
        synchronous, asynchronous = self.scheduler.Scheduler, self.async_scheduler.AsyncScheduler
        return (asynchronous if ahead else synchronous)(
            vllm_config=config,
            kv_cache_config=self.kv_cache_config(num_blocks, model),
            structured_output_manager=SimpleNamespace(should_advance=lambda request: False),
            block_size=BLOCK_SIZE,
            hash_block_size=BLOCK_SIZE,
            **more,
        )


def decode_step(
    engine: Engine,
    num_running: int,
    depth: int = 1,
    model: str = "plain",
    num_drafts: int = 0,
) -> tuple[float, float]:
    """Median seconds of ``schedule()`` and of ``update_from_output()`` with that many decodes.

    With a depth of more than 1 the scheduler is asynchronous, and so many steps are in flight.
    With drafts, taking those for the next step is part of the update.
    """
    num_slots = PROMPT_TOKENS + DECODE_STEPS * (2 if num_drafts else 1) + 4 * num_drafts
    num_blocks = 1 + num_running * (1 + num_slots // BLOCK_SIZE)
    scheduler = engine.new_scheduler(num_blocks, num_running, depth > 1, model, num_drafts)
    for i in range(num_running):
        # Prompts that share nothing, and that end at different places of their last block.
        length = PROMPT_TOKENS - i % BLOCK_SIZE
        prompt = list(range(i * PROMPT_TOKENS, i * PROMPT_TOKENS + length))
        scheduler.add_request(engine.new_request(f"request-{i}", prompt))
    seconds = timed_steps(engine, scheduler, depth, num_drafts)
    assert len(scheduler.running) == num_running
    return seconds


def timed_steps(
    engine: Engine, scheduler: Any, depth: int = 1, num_drafts: int = 0, chunks: bool = False
) -> tuple[float, float]:
    """Median seconds of ``schedule()`` and of ``update_from_output()`` over many steps.

    With chunks every step is one of prompts that it does not complete: nothing is sampled.
    """
    sampled_by = [] if chunks else [7, 7] if num_drafts else [7]
    schedule_s, update_s = [], []
    in_flight = deque(scheduler.schedule() for _ in range(depth - 1))
    for _ in range(DECODE_STEPS):
        start = time.process_time()
        in_flight.append(scheduler.schedule())
        scheduled = time.process_time()
        output = in_flight.popleft()
        ids = list(output.num_scheduled_tokens)
        sampled = engine.outputs.ModelRunnerOutput(
            req_ids=ids,
            req_id_to_index={name: i for i, name in enumerate(ids)},
            sampled_token_ids=[
                list(sampled_by if output.scheduled_spec_decode_tokens else sampled_by[:1])
                for _ in ids
            ],
        )
        drafts = engine.outputs.DraftTokenIds(ids, [[7] * num_drafts for _ in ids])
        ready = time.process_time()
        scheduler.update_from_output(output, sampled)
        if num_drafts and depth == 1:
            scheduler.update_draft_token_ids(drafts)
        schedule_s.append(scheduled - start)
        update_s.append(time.process_time() - ready)
    return statistics.median(schedule_s[1:]), statistics.median(update_s[1:])


def waiting_figures(engine: Engine) -> dict[str, float]:
    """Seconds of a step of decodes: with as many requests that load, and with grammars."""
    played = "nullblock.conformance.played"
    grammars = importlib.import_module(f"{played}.grammar")
    connectors = importlib.import_module(f"{played}.connector")
    figures: dict[str, float] = {}
    num_blocks = 2 * WAITING_BATCH * (2 + (PROMPT_TOKENS + DECODE_STEPS) // BLOCK_SIZE)
    for kind in ("others load", "grammars"):
        scheduler = engine.new_scheduler(num_blocks, 2 * WAITING_BATCH, ahead=False)
        prompts = [[i] * PROMPT_TOKENS for i in range(WAITING_BATCH)]
        requests = [engine.new_request(f"request-{i}", p) for i, p in enumerate(prompts)]
        if kind == "grammars":
            scheduler.structured_output_manager = grammars.PlayedGrammars()
            for request in requests:
                constrain(engine, request, grammars.PlayedGrammar({}))
        else:
            later = [engine.new_request(f"later-{i}", p) for i, p in enumerate(prompts)]
            matched = {request.request_id: PROMPT_TOKENS for request in later}
            scripted = {"matched": matched, "async": True}
            scheduler.connector = connectors.PlayedConnector(scripted)
            requests = later + requests
        for request in requests:
            scheduler.add_request(request)
        figures[f"{kind}, {WAITING_BATCH} running"] = sum(timed_steps(engine, scheduler))
        assert len(scheduler.running) == WAITING_BATCH
    return figures


def constrain(engine: Engine, request: Any, grammar: Any) -> None:
    """Give a request a grammar that is compiled already."""
    package = engine.request.__name__.removesuffix(".request")
    module = importlib.import_module(f"{package}.structured_output.request")
    request.structured_output_request = module.StructuredOutputRequest(params=None)
    request.structured_output_request.grammar = grammar


def best_of(times: int, prepare: Callable[[], Any], work: Callable[[Any], object]) -> float:
    """The shortest of several runs of ``work`` on what ``prepare`` made, in seconds."""
    best = float("inf")
    for _ in range(times):
        subject = prepare()
        start = time.process_time()
        work(subject)
        best = min(best, time.process_time() - start)
    return best


def pool_operations(engine: Engine) -> dict[str, float]:
    """Seconds a block: taking and freeing many at once and one by one, touching free ones."""
    count = POOL_BLOCKS - 1

    def fresh() -> Any:
        return engine.pool.BlockPool(POOL_BLOCKS, True, BLOCK_SIZE)

    def held() -> tuple[Any, list[Any]]:
        pool = fresh()
        return pool, pool.get_new_blocks(count)

    def released() -> tuple[Any, list[Any]]:
        pool, blocks = held()
        pool.free_blocks(reversed(blocks))
        return pool, blocks

    runs: dict[str, tuple[Callable[[], Any], Callable[[Any], object]]] = {
        "get_new_blocks, bulk": (fresh, lambda p: p.get_new_blocks(count)),
        "get_new_blocks, single": (fresh, lambda p: [p.get_new_blocks(1) for _ in range(count)]),
        "free_blocks, bulk": (held, lambda h: h[0].free_blocks(reversed(h[1]))),
        "free_blocks, single": (held, lambda h: [h[0].free_blocks([b]) for b in h[1]]),
        "touch, bulk": (released, lambda h: h[0].touch(h[1])),
    }
    return {name: best_of(15, *run) / count for name, run in runs.items()}


def full_hit_lookup(engine: Engine, num_tokens: int) -> float:
    """Seconds to look up a prompt all of whose blocks are cached."""
    num_blocks = 2 + num_tokens // BLOCK_SIZE
    manager = engine.manager.KVCacheManager(
        engine.kv_cache_config(num_blocks),
        max_model_len=num_tokens * 2,
        hash_block_size=BLOCK_SIZE,
    )
    prompt = list(range(num_tokens))
    first = engine.new_request("first", prompt)
    manager.allocate_slots(first, num_tokens)
    manager.free(first)
    second = engine.new_request("second", prompt)
    _, hits = manager.get_computed_blocks(second)
    assert hits == num_tokens - BLOCK_SIZE
    return best_of(15, lambda: second, manager.get_computed_blocks)


def request_construction(engine: Engine, num_tokens: int) -> float:
    """Seconds to construct a request, which hashes the full blocks of its prompt."""
    prompt = list(range(num_tokens))
    return best_of(5, lambda: prompt, lambda tokens: engine.new_request("new", tokens))


def feature_figures(engine: Engine) -> dict[str, float]:
    """Seconds of a step with encoder inputs, adapters and KV events."""
    features = importlib.import_module("feature_workloads")
    figures: dict[str, float] = features.figures(engine, timed_steps)
    return figures


def measure(package: str) -> dict[str, float]:
    """Every figure, in seconds."""
    engine = Engine(package)
    figures: dict[str, float] = {}
    for num_running in DECODE_BATCHES:
        schedule_s, update_s = decode_step(engine, num_running)
        figures[f"decode step, {num_running} running"] = schedule_s + update_s
        figures[f"  schedule, {num_running} running"] = schedule_s
        figures[f"  update, {num_running} running"] = update_s
    for num_running in DECODE_BATCHES:
        schedule_s, update_s = decode_step(engine, num_running, depth=2)
        figures[f"asynchronous, {num_running} running"] = schedule_s + update_s
        figures[f"  schedule, {num_running} running, ahead"] = schedule_s
        figures[f"  update, {num_running} running, ahead"] = update_s
    for num_running in DECODE_BATCHES:
        for depth, mode in ((1, ""), (2, ", ahead")):
            name = f"{NUM_DRAFTS} drafts each, {num_running} running{mode}"
            seconds = decode_step(engine, num_running, depth, num_drafts=NUM_DRAFTS)
            figures[name] = sum(seconds)
    for model in HYBRID_MODELS:
        for depth, mode in ((1, ""), (2, ", ahead")):
            name = f"hybrid ({model}), {HYBRID_BATCH} running{mode}"
            figures[name] = sum(decode_step(engine, HYBRID_BATCH, depth, model))
    figures |= waiting_figures(engine)
    figures |= feature_figures(engine)
    figures |= pool_operations(engine)
    for num_tokens in LOOKUP_TOKENS:
        name = f"full-hit lookup, {num_tokens // 1024}k tokens"
        figures[name] = full_hit_lookup(engine, num_tokens)
        name = f"new request with hashes, {num_tokens // 1024}k tokens"
        figures[name] = request_construction(engine, num_tokens)
    return figures


def prepare(engine: str) -> None:
    """See to it that an engine, and what it needs of ours, can be imported: where vLLM is,
    nullblock is not installed, and torch need not be.
    """
    sys.path.insert(0, str(Path(__file__).parents[1] / ".src"))
    if engine == "vllm" and importlib.util.find_spec("torch") is None:
        # The scheduler needs nothing of torch: stand-ins for it come with the oracle's tests.
        sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "oracle"))
        importlib.import_module("torchless").install()
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")


def main() -> None:
    """Measure the engine named on the command line."""
    package = sys.argv[1]
    prepare(package)
    figures = feature_figures(Engine(package)) if "--features" in sys.argv else measure(package)
    json.dump(figures, sys.stdout)


if __name__ == "__main__":
    main()
