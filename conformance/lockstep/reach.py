"""What a scenario reaches: fuzzing that never preempts shows nothing about preemption.

Read from the lines of an engine that shows its whole state.
"""

import json
from collections import Counter
from typing import Any

from nullblock.conformance.lockstep import in_flight

Line = dict[str, Any]
Scenario = dict[str, Any]


def reached(document: Scenario, lines: list[str]) -> set[str]:
    """Everything that a scenario's lines show, those with full states."""
    told = [json.loads(line) for line in lines]
    asynchronous = bool(document["config"].get("async_scheduling"))
    mode = "asynchronous" if asynchronous else "synchronous"
    ahead = in_flight.reached(document, told)
    return from_lines(told) | ahead | {f"{what} ({mode})" for what in ahead}


def from_lines(lines: list[Line]) -> set[str]:
    """What the lines show."""
    seen: set[str] = set()
    before: Line = {}
    for line in lines:
        match line["ev"]:
            case "schedule":
                seen |= _from_schedule(line, before)
            case "update":
                seen |= _from_update(line) | _from_kv_events(line["kv_events"])
                if _stored(line, before):
                    seen.add("blocks cached by an update")
            case "reset_prefix_cache":
                seen.add("reset done" if line["ok"] else "reset refused")
            case "abort" if line["aborted"]:
                seen.add("abort")
            case "EXCEPTION":
                seen.add("exception")
        before = line.get("state") or before
    if before.get("requests"):
        last = [line for line in lines if line["ev"] == "schedule"][-1:]
        idle = last and not last[0]["order"]
        seen.add("somebody is stuck at the end" if idle else "unfinished at the end")
    return seen


def _from_schedule(line: Line, before: Line) -> set[str]:
    state, cached = line["state"], line["cached"]
    requests = state["requests"]
    kept = {(key, id) for key, ids in state["cached_map"].items() for id in ids}
    held = [(key, id) for key, ids in before.get("cached_map", {}).items() for id in ids]
    partial = [i for i in line["order"] if requests[i]["computed"] < requests[i]["tokens"]]
    facts = {
        "preemption": bool(line["preempted"]),
        "several victims in a step": len(line["preempted"]) > 1,
        "three scheduled at once": len(line["order"]) >= 3,
        "prefix hit": any(new["computed"] for new in line["new"]),
        "resumption": any(one["resumed"] for one in cached),
        "resumption with a hit": any(one["resumed"] and one["computed"] for one in cached),
        "eviction of a hashed block": any(pair not in kept for pair in held),
        "duplicate hash": any(len(ids) > 1 for ids in state["cached_map"].values()),
        "shared block": any(count > 1 for count in state["ref_cnt"].values()),
        "partial prefill": bool(partial),
        "common prefix": any(line["num_common_prefix_blocks"]),
        "tokens for the next pipeline stage": any(line["new_token_ids"]),
        "negative tokens": any(n < 0 for n in line["num_scheduled_tokens"].values()),
        "nothing to do while somebody waits": not line["order"] and bool(state["waiting"]),
    }
    return {what for what, is_so in facts.items() if is_so}


def _stored(line: Line, before: Line) -> bool:
    """Whether the line's state has a hash that the one before has not."""
    hashes = before.get("block_hash")
    return hashes is not None and bool(line["state"]["block_hash"].keys() - hashes.keys())


def _from_kv_events(events: list[Line]) -> set[str]:
    """What one update told of the prefix cache."""
    seen = {f"event: {event['t']}" for event in events}
    stored = [event for event in events if event["t"] == "BlockStored"]
    facts = {
        "event: several in one update": len(events) > 1,
        "event: stored behind a parent": any(e["parent_block_hash"] for e in stored),
        "event: stored several blocks": any(len(e["block_hashes"]) > 1 for e in stored),
        "event: stored with an adapter": any(e["lora_name"] for e in stored),
        "event: stored with extra keys": any(any(e["extra_keys"]) for e in stored),
    }
    return seen | {what for what, is_so in facts.items() if is_so}


def _from_update(line: Line) -> set[str]:
    seen = {f"finish: {output['finish']}" for output in line["outputs"] if output["finish"]}
    if any(output["stop_reason"] is not None for output in line["outputs"]):
        seen.add("stop token")
    requests = line["state"]["requests"]
    if any(requests.get(one["id"], {}).get("status") == "PREEMPTED" for one in line["outputs"]):
        seen.add("output for a preempted request")
    return seen


def table(counts: Counter[str], total: int) -> str:
    """Fractions for people, most frequent first."""
    rows = [f"  {100 * n / max(1, total):5.1f} %  {what}" for what, n in counts.most_common()]
    return "\n".join(rows)
