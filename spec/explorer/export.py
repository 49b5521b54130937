"""A counterexample as a scenario: a document that an engine replays, a real one included.

The explorer knows tokens only by who sampled them where; a scenario's model computes them. So the
document gets a seed with which they differ wherever they must.
"""

import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any, assert_never

from nullblock.spec.explorer.actions import (
    Abort,
    Action,
    Add,
    Compiled,
    End,
    Evict,
    Offer,
    Pause,
    Received,
    Reset,
    ResetEncoder,
    Schedule,
    Send,
    Sent,
    Step,
    Unloaded,
    Update,
)
from nullblock.spec.explorer.answers import answers
from nullblock.spec.explorer.model import EOS_TOKEN, Scope, Template
from nullblock.spec.facts import Config, Encoder, Group, Item
from nullblock.spec.names import PAUSE_NAME
from nullblock.spec.profiles import Semantics

VOCAB = 1000
"""Sampled tokens are below this."""


def scenario(scope: Scope, actions: Sequence[Action], semantics: Semantics) -> dict[str, Any]:
    """The scenario document in which `actions` happen to the engine of `scope` in a profile.

    Raises ValueError, with one line that names what a scenario has no words for.
    """
    seed = _seed(scope)
    templates = {t.id: t for t in scope.templates}
    sent: Counter[str] = Counter()
    """Chunks that have been sent of each session."""
    return {
        "config": _config(scope.config, _connector(scope), _external(scope))
        | _drafts(scope, actions, semantics)
        | {"seed": seed, "vocab": VOCAB},
        "events": [e for a in actions for e in _events(a, templates, seed, scope.config, sent)],
    }


def _connector(scope: Scope) -> dict[str, Any]:
    """What the remote side holds is told when requests arrive."""
    several = len(scope.config.groups) > 1
    return {
        **({"all_groups": True} if several else {}),
        "async": [t.id for t in scope.templates if t.loads_over_steps],
        "delay_free": [t.id for t in scope.templates if t.delays_free],
        "failure_policy": "fail" if scope.config.fail_failed_loads else "recompute",
    }


def _external(scope: Scope) -> dict[str, Any]:
    """What an encoder connector has."""
    return {} if scope.external is None else {"external": [f"m{n}" for n in scope.external]}


def _config(c: Config, connector: dict[str, Any], external: dict[str, Any]) -> dict[str, Any]:
    return {
        "num_blocks": c.num_blocks + sum(g.sink_len // c.size_of(g) for g in c.groups),
        "block_size": c.block_size,
        "max_num_batched_tokens": c.max_num_scheduled_tokens,
        "max_num_seqs": c.max_num_seqs,
        "max_model_len": c.max_model_len,
        "long_prefill_token_threshold": c.long_prefill_token_threshold,
        "enable_chunked_prefill": c.enable_chunked_prefill,
        "enable_prefix_caching": c.enable_prefix_caching,
        "scheduler_reserve_full_isl": c.scheduler_reserve_full_isl,
        "policy": c.policy,
        "async_scheduling": c.async_scheduling,
        **({"max_loras": c.max_loras} if c.max_loras else {}),
        **({"connector": connector} if c.connector else {}),
        **({"encoder": _encoder(c.encoder) | external} if c.encoder else {}),
        **({"groups": [_group(g, c) for g in c.groups]} if c.groups != (Group(),) else {}),
    }


def _encoder(e: Encoder) -> dict[str, Any]:
    return {
        "max_num_encoder_input_tokens": e.max_num_encoder_input_tokens,
        "encoder_cache_size": e.encoder_cache_size,
        "disable_chunked_mm_input": e.disable_chunked_mm_input,
        **({"is_encoder_decoder": True} if e.is_encoder_decoder else {}),
    }


def _item(i: Item) -> dict[str, Any]:
    mask = {} if i.is_embed is None else {"is_embed": list(i.is_embed)}
    return {"hash": f"m{i.number}", "offset": i.start, "length": i.length, **mask}


def _group(group: Group, c: Config) -> dict[str, Any]:
    return {**_layers(group, c), **({"eagle": True} if group.eagle else {})}


def _layers(group: Group, c: Config) -> dict[str, Any]:
    size = {} if c.size_of(group) == c.block_size else {"block_size": group.block_size}
    if group.cross:
        return {"type": "cross_attention", **size}
    if group.sink_len:
        return {"type": "sink", "sink_len": group.sink_len, **size}
    if group.mamba:
        beside, within = group.num_speculative_blocks, group.prefill_checkpoint_alignment
        mode = "align" if group.aligned else "none"
        return {
            "type": "mamba",
            "mamba_cache_mode": mode,
            "num_speculative_blocks": beside,
            **({"prefill_checkpoint_alignment": within} if within else {}),
            **size,
        }
    if group.attention_chunk_size:
        return {"type": "chunked_local", "chunk": group.attention_chunk_size, **size}
    if group.sliding_window:
        return {"type": "sliding_window", "sliding_window": group.sliding_window, **size}
    return {"type": "full", **size}


def _drafts(scope: Scope, actions: Sequence[Action], semantics: Semantics) -> dict[str, Any]:
    """What proposes drafts, and what the model says of them: of all the same, or answer by answer
    as it does on this way.
    """
    c, misses = scope.config, {t.misses for t in scope.templates}
    if not c.num_spec_tokens:
        return {}
    if any(t.proposes is not None for t in scope.templates):
        raise ValueError(f"a scenario cannot say of scope {scope.name} who gets how many drafts")
    accept: Any = "none" if misses == {1} else "all"
    if misses not in ({None}, {1}) or any(t.silent_at is not None for t in scope.templates):
        accept = list(answers(scope, actions, semantics)) or "all"
    return {
        "num_spec_tokens": c.num_spec_tokens,
        "spec_method": c.spec_method,
        "accept": accept,
    }


def _events(
    action: Action,
    templates: dict[str, Template],
    seed: int,
    c: Config,
    sent: Counter[str],
) -> Iterator[dict[str, Any]]:
    """An action as one event, or as two where something happens with it."""
    match action:
        case Add(id) if c.connector:
            t = templates[id]
            yield {"op": "kv_match", "matched": {id: None if t.unsure else t.remote}}
        case Offer(id):
            yield {"op": "kv_match", "matched": {id: templates[id].remote}}
            return
        case Received(id):
            yield {"op": "kv_done", "recv": [id]}
        case Sent(id):
            yield {"op": "kv_done", "send": [id]}
        case Unloaded(block):
            yield {"op": "kv_done", "invalid": [block]}
    yield _event(action, templates, seed, c, sent)


def _event(
    action: Action,
    templates: dict[str, Template],
    seed: int,
    c: Config,
    sent: Counter[str],
) -> dict[str, Any]:
    match action:
        case Send(id):
            sent[id] += 1
            return _chunk(templates[id], sent[id], c.policy)
        case End(id):
            return {"op": "add", "id": id, "prompt": [1]}
        case Add(id):
            sent[id] = 0
            return _add(templates[id], seed, c.policy)
        case Step():
            return {"op": "step"}
        case Schedule():
            return {"op": "schedule"}
        case Update() | Received() | Sent() | Unloaded():
            return {"op": "update"}
        case Abort(id):
            return {"op": "abort", "ids": [id]}
        case Reset(reset_running):
            return {"op": "reset_prefix_cache", "reset_running": reset_running}
        case Evict(block):
            return {"op": "evict_blocks", "ids": [block]}
        case Pause(state):
            return {"op": "pause", "state": PAUSE_NAME[state]}
        case ResetEncoder():
            return {"op": "reset_encoder_cache"}
        case Compiled(id):
            return {"op": "grammar_ready", "ids": [id]}
        case Offer():
            raise AssertionError("told by _events")
        case _:
            assert_never(action)


def _chunk(t: Template, n: int, policy: str) -> dict[str, Any]:
    """The n-th chunk of a session; where nothing else is said it keeps the session's place under
    PRIORITY.
    """
    assert t.chunks is not None, "only sessions are sent chunks"
    limit = t.limits[n - 1] if t.limits else t.max_tokens
    chunk = {"op": "add", "id": t.id, "prompt": list(t.chunks[n - 1]), "max_tokens": limit}
    arrival = t.arrivals[n - 1] if t.arrivals else t.arrival
    place = {"arrival": arrival} if policy == "priority" else {}
    return {**chunk, **place, "resumable": True, **_eos(t)}


def _eos(t: Template) -> dict[str, Any]:
    if t.eos_at is None:
        return {}
    if t.chunks is not None and t.eos_at:
        raise ValueError(f"a scenario cannot say where each turn of {t.id} ends")
    return {"eos": EOS_TOKEN, "eos_at": t.eos_at}


def _add(t: Template, seed: int, policy: str) -> dict[str, Any]:
    event: dict[str, Any] = {
        "op": "add",
        "id": t.id,
        "prompt": list(t.prompt),
        "max_tokens": t.max_tokens,
    }
    if t.min_tokens:
        event["min_tokens"] = t.min_tokens
    if policy == "priority":
        event |= {"priority": t.priority, "arrival": t.arrival}
    if t.lora is not None:
        event["lora"] = t.lora
    if t.adapter:
        event |= {"lora": t.lora or f"adapter {t.adapter}", "lora_id": t.adapter}
    if t.grammar:
        rejects = {} if t.reject_at is None else {"reject_at": t.reject_at}
        event["grammar"] = {"ready": False, **rejects}
    if t.items:
        event["mm_features"] = [_item(i) for i in t.items]
    if t.client:
        event["client_index"] = t.client
    if t.pooling:
        event["pooling"] = True
    if t.embeds is not None:
        event["prompt_embeds"] = {"seed": t.embeds, "with_tokens": any(t.prompt)}
    if t.salt is not None:
        event["salt"] = t.salt
    if t.skip_cache_read:
        event["skip_cache_read"] = True
    event |= _eos(t)
    if t.chunks is not None:
        event["resumable"] = True
    if t.stop_at is not None:
        event["stop"] = [sampled(seed, t.id, len(t.prompt) + t.stop_at)]
    if t.repeats_at is not None:
        event["repetition_detection"] = {"max_pattern_size": 1, "min_count": 2}
        event["cycle"] = [t.repeats_at - 1, 1]
    return event


def sampled(seed: int, id: str, position: int) -> int:
    """The token that the model of a scenario samples for a request at a position."""
    return zlib.crc32(f"{seed}:{id}:{position}".encode()) % VOCAB


def _seed(scope: Scope) -> int:
    """The first seed with which no two sampled tokens are alike, nor like a prompt's or eos."""
    prompts = {
        token for t in scope.templates for some in (t.prompt, *(t.chunks or ())) for token in some
    }
    places = [
        (t.id, p)
        for t in scope.templates
        for p in range(len(t.prompt), max(len(t.prompt), scope.config.max_model_len) + 1)
    ]
    for seed in count():
        tokens = {sampled(seed, id, position) for id, position in places}
        if len(tokens) == len(places) and not tokens & (prompts | {EOS_TOKEN}):
            return seed
    raise AssertionError("count() does not end")
