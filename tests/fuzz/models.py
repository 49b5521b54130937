"""Random scenarios of any family on another model: an encoder-decoder model, one with sinks, one
whose encoder inputs a connector may have.

Each changes a scenario in place, by dice of its own, and says whether it can.
"""

import random
from typing import Any

from fuzz import cross

from nullblock.conformance.scenario import from_dict

Document = dict[str, Any]
RANKS = ("decode_context_parallel_size", "prefill_context_parallel_size")


def across(document: Document, r: random.Random) -> bool:
    """An encoder-decoder model, mostly with cross-attention layers beside the others, which share
    no prefixes then. Chunks of sessions have no items: only their beginning has some.
    """
    config = document["config"]
    if config.get("connector") or any(config.get(ranks, 1) > 1 for ranks in RANKS):
        return False
    if r.random() < 0.8:
        layers = [g for g in _layers(config) if g["type"] != "cross_attention"]
        config["groups"] = [*layers, {"type": "cross_attention"}]
        r.shuffle(config["groups"])
        config["enable_prefix_caching"] = False
        config["num_blocks"] = config.get("num_blocks", 64) + r.choice((0, 2, 5, 12))
    config["encoder"] = cross.encoder(r)
    sessions: set[str] = set()
    events = []
    for event in document["events"]:
        if event["op"] == "add":
            event = {name: told for name, told in event.items() if name != "mm_features"}
            if event["id"] not in sessions and not event.get("prompt_embeds"):
                event["mm_features"] = [cross.item(r) for _ in range(r.choice((0, 1, 1, 1, 2)))]
            if event.get("resumable"):
                sessions.add(event["id"])
        events.append(event)
        if r.random() < 0.02:
            events.append({"op": "reset_encoder_cache"})
    document["events"] = events
    return True


def sinks(document: Document, r: random.Random) -> bool:
    """Layers of full attention see a sink, mostly in a pool that is as much larger. Resets let
    run who runs: where blocks are held all the same, as those of sinks are, vLLM 0.22.1 raises.
    """
    config = document["config"]
    if any(config.get(ranks, 1) > 1 for ranks in RANKS):
        return False
    config["groups"] = layers = _layers(config)
    full = [group for group in layers if group["type"] == "full" and not group.get("mla")]
    for group in full[: r.choice((1, len(full)))]:
        many = r.choice((1, 1, 2, 3))
        size = group.get("block_size", config.get("block_size", 16))
        group |= {"type": "sink", "sink_len": many * size}
        config["num_blocks"] = config.get("num_blocks", 64) + r.choice((0, many, many))
    for event in document["events"]:
        event.pop("reset_running", None)
    return bool(full)


def external(document: Document, r: random.Random) -> bool:
    """An encoder connector that has some of the items; in one of four scenarios the model is an
    encoder-decoder model.
    """
    if r.random() < 0.25:
        if not across(document, r):
            return False
    elif not document["config"].get("encoder"):
        _give_items(document, r)
    items = [item for event in document["events"] for item in event.get("mm_features", ())]
    known = sorted({item["hash"] for item in items})
    held = [name for name in known if r.random() < 0.5]
    document["config"]["encoder"]["external"] = held
    return bool(held)


def _give_items(document: Document, r: random.Random) -> None:
    """An encoder with little room, and items somewhere in the prompts, each of one size."""
    sizes = {f"m{number}": r.choice((1, 2, 3, 5)) for number in range(5)}
    document["config"]["encoder"] = {
        "max_num_encoder_input_tokens": r.choice((5, 8, 16)),
        "encoder_cache_size": r.choice((5, 8, 16)),
        "disable_chunked_mm_input": r.random() < 0.2,
    }
    sessions: set[str] = set()
    for event, taken in zip(document["events"], from_dict(document).events, strict=True):
        if event["op"] != "add" or event["id"] in sessions or event.get("prompt_embeds"):
            continue
        if event.get("resumable"):
            sessions.add(event["id"])
        place, found = r.randrange(3), []
        for name in r.choices(sorted(sizes), k=3):
            if place + sizes[name] <= len(taken.prompt):  # type: ignore[union-attr]
                found.append({"hash": name, "offset": place, "length": sizes[name]})
                place += sizes[name] + r.randrange(4)
        event["mm_features"] = found


def _layers(config: Document) -> list[Document]:
    made: list[Document] = config.get("groups") or [{"type": "full"}]
    return made
