"""What the lines of a scenario show of requests that wait."""

import json
from collections.abc import Iterator
from typing import Any

Line = dict[str, Any]
Scenario = dict[str, Any]


def reached(document: Scenario, lines: list[str]) -> set[str]:
    """The cases that the lines, with full states, show; with the policy, and the mode, of each."""
    config = document["config"]
    told = [json.loads(line) for line in lines]
    seen = {what for before, line in _pairs(told) for what in _cases(before, line, config)}
    if told[-2]["ev"] == "EXCEPTION":
        seen.add(f"exception: {told[-2]['type']}")
    mode = "asynchronous" if config.get("async_scheduling") else "synchronous"
    policy = config.get("policy", "fcfs")
    return seen | {f"{what} ({policy}, {mode})" for what in seen}


def _pairs(lines: list[Line]) -> Iterator[tuple[Line, Line]]:
    """Each line with the last state before it; lines in between that have none are skipped."""
    before: Line = {"requests": {}, "skipped_waiting": [], "running": []}
    for line in lines:
        if line.get("state") is None:
            continue
        yield before, line
        before = line["state"]


def _cases(before: Line, line: Line, config: dict[str, Any]) -> Iterator[str]:
    state = line["state"]
    was, now = before["requests"], state["requests"]
    moved = {(was[id]["status"], one["status"]): id for id, one in now.items() if id in was}
    for old, new in moved:
        if old != new and (old.startswith("WAITING_FOR") or new.startswith("WAITING_FOR")):
            yield f"{old} to {new}"
    for id, one in now.items():
        if one["status"].startswith("FINISHED"):
            yield "blocks kept after the end"
        queued = id in state["waiting"] + state["skipped_waiting"] + state["running"]
        if not queued and not one["status"].startswith("FINISHED"):
            yield "known and in no queue"
        if id in was and one["computed"] < was[id]["computed"] and id in state["running"]:
            yield "computed tokens taken back while running"
        if id in was and one["status"] == was[id]["status"] == "WAITING_FOR_REMOTE_KVS":
            if one["computed"] < was[id]["computed"]:
                yield "computed tokens taken back while loading"
        if one["status"] == "WAITING" and one["computed"]:
            yield "waiting with computed tokens"
    if len(state["skipped_waiting"]) != len(set(state["skipped_waiting"])):
        yield "queued twice"
    if not set(state["skipped_waiting"]) <= now.keys():
        yield "ended and in a queue"
    if len(state["skipped_waiting"]) > 2:
        yield "three skipped"
    yield from _of_its_kind(before, line, config)


def _of_its_kind(before: Line, line: Line, config: dict[str, Any]) -> Iterator[str]:
    state = line["state"]
    match line["ev"]:
        case "schedule":
            waiting = {i: r["status"] for i, r in state["requests"].items()}
            skipped = state["skipped_waiting"]
            if config.get("max_loras") and any(waiting.get(i) == "WAITING" for i in skipped):
                yield "skipped although nothing blocks it"
            if any(waiting.get(i) == "PREEMPTED" for i in skipped):
                yield "skipped after a preemption"
            if any(new["computed"] and new["prompt_len"] > new["computed"] for new in line["new"]):
                yield "new with computed tokens"
            grammar = line.get("grammar") or {}
            if grammar.get("pending"):
                yield "a grammar waits for tokens in flight"
            if grammar.get("mask"):
                yield "a mask is made"
        case "update":
            for output in line["outputs"]:
                if output["finish"] == "error":
                    yield "finish: error"
                elif output["finish"] and output["id"] in state["requests"]:
                    yield "stopped and not ended"
                if output["finish"] is None and output["stop_reason"] is not None:
                    yield "a stop reason without a stop"
        case "abort":
            for id in line["aborted"]:
                yield f"abort of {before['requests'].get(id, {}).get('status', 'WAITING')}"
        case "reset_prefix_cache":
            yield f"reset done: {line['ok']}"
