"""Steps with encoder inputs, LoRA adapters and KV events, on whichever engine.

Part of ``workloads.py``, and like it driven by either interpreter: the standard library, the
engine's own names, and nothing else.
"""

import importlib
import statistics
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

RUNNING = 256
STEPS = 120
"""As many as ``workloads.py`` times."""
BLOCK_SIZE = 16
PROMPT_TOKENS = 100
ADAPTERS = 4
"""In one step at most; as many requests more wait for others."""
MODALITY = "image"
ITEM = 24
"""Tokens of an encoder input."""
CHUNK, IN_CHUNKS = 32, 64
"""Tokens of a prompt that a step computes, one input among them; requests that are computed so."""
LONG = 4096
"""Tokens of a prompt whose blocks are told, and of one that is computed in chunks."""

Timed = Callable[..., tuple[float, float]]


def figures(engine: Any, timed: Timed) -> dict[str, float]:
    """Seconds of a step, by what it is of."""
    found: dict[str, float] = {}
    for depth, mode in ((1, ""), (2, ", ahead")):
        ahead = depth > 1
        for name, made in (
            ("KV events", events(engine, ahead)),
            ("adapters", adapters(engine, ahead)),
            ("encoder inputs", inputs(engine, ahead)),
        ):
            found[f"{name}, {RUNNING} running{mode}"] = sum(timed(engine, made, depth))
            assert len(made.running) == RUNNING
    name = f"an input a chunk, {IN_CHUNKS} prompts"
    found[name] = sum(timed(engine, chunks(engine), chunks=True))
    found[f"KV events, a {LONG // 1024}k prompt evicts one"] = evictions(engine)
    return found


def blocks(running: int, tokens: int) -> int:
    """A pool with room for them all."""
    return 1 + running * (1 + tokens // BLOCK_SIZE)


def prompt(number: int) -> list[int]:
    """One that shares nothing, and ends anywhere in its last block."""
    first = number * PROMPT_TOKENS
    return list(range(first, first + PROMPT_TOKENS - number % BLOCK_SIZE))


def events(engine: Any, ahead: bool) -> Any:
    """Decodes whose blocks are told as they fill: those of one in sixteen in a step."""
    pool = blocks(RUNNING, PROMPT_TOKENS + STEPS + 8)
    scheduler = engine.new_scheduler(pool, RUNNING, ahead, kv_events=True)
    for number in range(RUNNING):
        scheduler.add_request(engine.new_request(f"request-{number}", prompt(number)))
    return scheduler


def adapters(engine: Any, ahead: bool) -> Any:
    """Decodes under a few adapters, and as many requests that wait for another one."""
    pool = blocks(2 * RUNNING, PROMPT_TOKENS + STEPS + 8)
    scheduler = engine.new_scheduler(pool, 2 * RUNNING, ahead, max_loras=ADAPTERS)
    for number in range(2 * RUNNING):
        adapter = 1 + number % ADAPTERS + ADAPTERS * (number >= RUNNING)
        request = SimpleNamespace(lora_name=f"adapter-{adapter}", lora_int_id=adapter)
        made = engine.new_request(f"request-{number}", prompt(number), lora_request=request)
        scheduler.add_request(made)
    return scheduler


def inputs(engine: Any, ahead: bool) -> Any:
    """Decodes of requests with two encoder inputs each in their prompt, passed long ago."""
    pool = blocks(RUNNING, PROMPT_TOKENS + STEPS + 8)
    room = RUNNING * 2 * ITEM
    scheduler = engine.new_scheduler(pool, RUNNING, ahead, encoder=encoder(room))
    for number in range(RUNNING):
        items = [item(engine, f"{number}-{k}", 5 + 40 * k) for k in range(2)]
        made = engine.new_request(f"request-{number}", prompt(number), mm_features=items)
        scheduler.add_request(made)
    return scheduler


def chunks(engine: Any) -> Any:
    """Long prompts in small chunks with an encoder input in each; two prompts share theirs."""
    pool = blocks(IN_CHUNKS, LONG)
    room = IN_CHUNKS * ITEM * 4
    settings = {"long_prefill_token_threshold": CHUNK, "encoder": encoder(room)}
    scheduler = engine.new_scheduler(pool, IN_CHUNKS, False, **settings)
    for number in range(IN_CHUNKS):
        items = [item(engine, f"{number // 2}-{at}", at + 4) for at in range(0, LONG, CHUNK)]
        tokens = list(range(number * LONG, (number + 1) * LONG))
        made = engine.new_request(f"request-{number}", tokens, mm_features=items)
        scheduler.add_request(made)
    return scheduler


def evictions(engine: Any) -> float:
    """Median seconds of the step of a long prompt, in a pool that has room for one."""
    scheduler = engine.new_scheduler(blocks(1, LONG), IN_CHUNKS, False, kv_events=True)
    seconds = []
    for number in range(20):
        tokens = list(range(number * LONG, (number + 1) * LONG))
        scheduler.add_request(engine.new_request(f"request-{number}", tokens, max_tokens=1))
        ids = [f"request-{number}"]
        sampled = engine.outputs.ModelRunnerOutput(
            req_ids=ids, req_id_to_index={ids[0]: 0}, sampled_token_ids=[[7]]
        )
        start = time.process_time()
        scheduler.update_from_output(scheduler.schedule(), sampled)
        seconds.append(time.process_time() - start)
        assert not scheduler.running
    return statistics.median(seconds[1:])


def item(engine: Any, name: str, offset: int) -> Any:
    """An encoder input."""
    ours = engine.request.__name__.startswith("nullblock")
    package = "nullblock.reference" if ours else "vllm"
    module = importlib.import_module(f"{package}.multimodal.inputs")
    return module.MultiModalFeatureSpec(
        data=None,
        modality=MODALITY,
        identifier=name,
        mm_position=module.PlaceholderRange(offset, ITEM),
    )


def encoder(room: int) -> Callable[[Any], dict[str, Any]]:
    """A model with an encoder that may compute, and keep, so many tokens."""

    def complete(config: Any) -> dict[str, Any]:
        config.scheduler_config.max_num_encoder_input_tokens = room
        config.scheduler_config.encoder_cache_size = room
        model = config.model_config
        model.supports_multimodal_inputs = True
        model.get_multimodal_config = lambda: None
        info = SimpleNamespace(
            supported_mm_limits={MODALITY: None},
            allowed_mm_limits={MODALITY: 1},
            get_mm_max_tokens_per_item=lambda seq_len, mm_counts: {MODALITY: ITEM},
            ctx=SimpleNamespace(model_config=model),
        )
        registry = SimpleNamespace(
            supports_multimodal_inputs=lambda model_config: True,
            processor_only_cache_from_config=lambda vllm_config: None,
            create_processor=lambda model_config, cache=None: SimpleNamespace(info=info),
        )
        return {"mm_registry": registry}

    return complete
