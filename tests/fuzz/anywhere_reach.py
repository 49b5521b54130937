"""What stands beside what in a scenario from anywhere, as its lines show it.

A topic counts where something came of it: drafts that a step verified, a load that somebody waited
for. A connector that nobody's prompt is with says nothing about connectors.
"""

import json
from collections.abc import Collection, Iterator
from itertools import combinations
from typing import Any

Line = dict[str, Any]
Scenario = dict[str, Any]
TOPICS = (
    *("several groups", "a window", "chunks", "states", "a sink"),
    *("a load", "a load lost", "a send", "drafts", "a session", "a grammar", "an adapter"),
    *("an item", "embeddings", "a vector", "priority", "ahead", "a pipeline"),
    *("a preemption", "a reset", "a pause", "an abort", "an id again", "a hit", "an eviction"),
    *("an empty prompt", "a prompt beyond the limit", "an exception"),
)
KINDS = {
    "sliding_window": "a window",
    "chunked_local": "chunks",
    "mamba": "states",
    "sink": "a sink",
}
"""Topics that are kinds of layers."""
NEVER = frozenset({"a sink and a reset"})
"""What cannot meet: the blocks of a sink never come back, and the cache is not emptied."""


def reached(document: Scenario, lines: list[str]) -> set[str]:
    """Each two topics that meet in a scenario, in the order of :data:`TOPICS`."""
    return pairs(topics(document, lines))


def pairs(some: Collection[str]) -> set[str]:
    """Each two of these."""
    return {" and ".join(two) for two in combinations([t for t in TOPICS if t in some], 2)}


def topics(document: Scenario, lines: list[str]) -> set[str]:
    """What happens in a scenario, with the lines it printed."""
    told = [json.loads(line) for line in lines]
    seen = set(_configured(document["config"], told))
    seen |= set(_added(document))
    before: Line = {"requests": {}, "running": []}
    for line in told:
        seen |= set(_of_line(line, before, document["config"]))
        before = line.get("state") or before
    return seen


def _configured(config: dict[str, Any], told: list[Line]) -> Iterator[str]:
    """What is on all the time, if anything was scheduled."""
    if not any(line.get("total") for line in told):
        return
    groups = config.get("groups", ())
    if len(groups) > 1:
        yield "several groups"
    for group in groups:
        if group["type"] in KINDS:
            yield KINDS[group["type"]]
    if config.get("policy") == "priority":
        yield "priority"
    if config.get("pipeline_parallel_size", 1) > 1:
        yield "a pipeline"


def _added(document: Scenario) -> Iterator[str]:
    """What arrives, and what is done from outside."""
    ids: set[str] = set()
    for event in document["events"]:
        if event["op"] == "add":
            if event["id"] in ids and not event.get("resumable"):
                yield "an id again"
            ids.add(event["id"])
            if event.get("prompt_embeds"):
                yield "embeddings"
            if event.get("pooling"):
                yield "a vector"
            if event.get("lora"):
                yield "an adapter"
        elif event["op"] == "pause" and event["state"] != "UNPAUSED":
            yield "a pause"


def _of_line(line: Line, before: Line, config: dict[str, Any]) -> Iterator[str]:
    """What a line tells."""
    match line["ev"]:
        case "schedule":
            yield from _scheduled(line, config)
        case "abort" if line["aborted"]:
            yield "an abort"
        case "reset_prefix_cache" if line["ok"]:
            yield "a reset"
        case "EXCEPTION":
            yield "an exception"
    yield from _of_requests(line.get("state") or before, before)


def _scheduled(line: Line, config: dict[str, Any]) -> Iterator[str]:
    if line.get("spec"):
        yield "drafts"
    if line.get("grammar", {}).get("mask"):
        yield "a grammar"
    if line.get("scheduled_encoder_inputs"):
        yield "an item"
    if line["preempted"]:
        yield "a preemption"
    for one in line["new"]:
        if one["computed"] > 0:
            yield "a hit"
        if one["prompt_len"] > config.get("max_model_len", 256):
            yield "a prompt beyond the limit"


def _of_requests(now: Line, before: Line) -> Iterator[str]:
    """What becomes of requests from one state to the next."""
    was = before["requests"]
    for id, one in now["requests"].items():
        status = one["status"]
        if status == "WAITING_FOR_REMOTE_KVS":
            yield "a load"
        if status == "WAITING_FOR_STREAMING_REQ":
            yield "a session"
        if status.startswith("FINISHED"):
            yield "a send"
        if status in ("RUNNING", "WAITING_FOR_REMOTE_KVS") and id in was:
            if one["computed"] < was[id]["computed"] and was[id]["status"] == status:
                yield "a load lost"
        if one.get("placeholders"):
            yield "ahead"
        if one["tokens"] == 0:
            yield "an empty prompt"
    hashed, hashed_before = now.get("block_hash", {}), before.get("block_hash", {})
    if any(hashed.get(block) != hash for block, hash in hashed_before.items()):
        yield "an eviction"
