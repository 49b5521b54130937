"""Random scenarios of the output contract: who is told what, and requests of other kinds.

Takes the product's own random scenarios of one full-attention group, and gives requests prompts of
embeddings, workers the second model runner, and asks for counts between any two events.
"""

import json
import random
from collections.abc import Iterator
from typing import Any

from nullblock.conformance.engine import CORE_FEATURES, Feature
from nullblock.conformance.lockstep.generator import seeded

TOLD = frozenset(
    (
        *(Feature.v2_model_runner, Feature.counts, Feature.clients),
        *(Feature.prompt_embeds, Feature.pooling),
    )
)
"""What such a scenario has besides the core."""
MUST_REACH = {
    "resumed and told as new",
    "embeddings stored",
    "outputs behind embeddings stored",
    "embeddings hit",
    "counted while paused",
    "an end to tell and no work",
    "a vector",
    "a vector for who was preempted",
    "a vector in place of a token to be dropped",
    "two clients told of ends",
    "an end told without an output",
}


def with_contract(key: str, size: int, features: frozenset[Feature]) -> dict[str, Any]:
    """The scenario of that key, with what these features allow."""
    r = random.Random(f"contract {key}")
    scenario = seeded(key, size, features & CORE_FEATURES)
    scenario["config"]["use_v2_model_runner"] = r.random() < 0.5
    scenario["config"]["include_finished_set"] = r.random() < 0.5
    clients = r.choice((1, 2, 3))
    embedded, pooling = r.choice((0.0, 0.3, 0.8)), r.choice((0.0, 0.2, 0.6))
    for event in scenario["events"]:
        if event["op"] == "add" and r.random() < embedded:
            event["prompt_embeds"] = {"seed": r.randrange(2), "with_tokens": r.random() < 0.4}
        if event["op"] == "add" and r.random() < pooling:
            event["pooling"] = True
        if event["op"] == "add" and clients > 1:
            event["client_index"] = r.randrange(clients)
    scenario["events"] = [told for event in scenario["events"] for told in _counted(r, event)]
    return scenario


def _counted(r: random.Random, event: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """An event, and perhaps a count behind it."""
    yield event
    if r.random() < 0.2:
        yield {"op": "counts"}


def reached(document: dict[str, Any], lines: list[str]) -> set[str]:
    """What of :data:`MUST_REACH` the lines show."""
    found: set[str] = set()
    embedded: set[str] = set()
    before: dict[str, Any] = {}
    pause = "UNPAUSED"
    for line in map(json.loads, lines):
        match line["ev"]:
            case "add" | "pause":
                event = document["events"][line["n"]]
                pause = event.get("state", pause)
                if "prompt_embeds" in event:
                    embedded.add(event["id"])
            case "schedule":
                found.update(_of_schedule(line, embedded))
            case "update":
                found.update(_of_events(line["kv_events"]))
                found.update(_of_outputs(line, before))
            case "counts" if pause != "UNPAUSED":
                found.add("counted while paused")
            case "counts" if line["has_requests"] and not line["has_unfinished"]:
                found.add("an end to tell and no work")
        before = (line.get("state") or {}).get("requests", before)
    return found


def _of_outputs(line: dict[str, Any], before: dict[str, Any]) -> Iterator[str]:
    told = {output["id"] for output in line["outputs"]}
    ends = line.get("finished_by_client", {})
    if len(ends) > 1:
        yield "two clients told of ends"
    if any(id not in told for ids in ends.values() for id in ids):
        yield "an end told without an output"
    for output in line["outputs"]:
        if output["finish"] == "stop" and not output["tokens"]:
            yield "a vector"
            request = before.get(output["id"], {})
            if request.get("status") == "PREEMPTED":
                yield "a vector for who was preempted"
            if request.get("discard"):
                yield "a vector in place of a token to be dropped"


def _of_schedule(line: dict[str, Any], embedded: set[str]) -> Iterator[str]:
    requests = (line["state"] or {}).get("requests", {})
    for new in line["new"]:
        if requests.get(new["id"], {}).get("preemptions"):
            yield "resumed and told as new"
        elif new["computed"] and new["id"] in embedded:
            yield "embeddings hit"


def _of_events(events: list[dict[str, Any]]) -> Iterator[str]:
    nothing = "e3b0c442"
    """How the digest of nothing begins."""
    for event in events:
        for keys in event.get("extra_keys") or ():
            for key in keys or ():
                if isinstance(key, str) and len(key) == 64:
                    behind = key.startswith(nothing)
                    yield "outputs behind embeddings stored" if behind else "embeddings stored"
