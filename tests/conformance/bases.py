"""Small traces that together have every field of every record in them."""

import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from traces import BUSY, documents, trace_of
from violations import recorded

from nullblock.conformance import bundled
from nullblock.conformance.lines.example import VECTORS
from nullblock.conformance.trace.reader import TraceReader

Lines = list[dict[str, Any]]
FOUND = Path(__file__).parents[1] / "fuzz" / "data" / "found.json"
"""Scenarios, by name, in which random steps found a difference once."""

PRIORITY: dict[str, Any] = {
    "config": {
        "block_size": 4,
        "num_blocks": 9,
        "max_num_batched_tokens": 16,
        "policy": "priority",
        "scheduler_reserve_full_isl": False,
        "long_prefill_token_threshold": 6,
        "max_num_seqs": 3,
    },
    "events": [
        {"op": "add", "id": "a", "prompt": {"range": [0, 13]}, "max_tokens": 12, "priority": 3},
        {
            **{"op": "add", "id": "b", "prompt": {"range": [0, 9]}, "max_tokens": 12},
            **{"priority": 5, "eos": 5, "eos_at": 9},
        },
        {
            **{"op": "add", "id": "d", "prompt": {"range": [50, 58]}, "max_tokens": 9},
            **{"priority": 1, "arrival": 2.0},
        },
        {
            **{"op": "add", "id": "e", "prompt": {"range": [50, 62]}, "max_tokens": 9},
            **{"priority": 1, "arrival": 2.0, "skip_cache_read": True},
        },
        {"op": "run", "max_steps": 70},
    ],
}
"""Preemptions, ties, seats that run out, a prompt that may not read the cache."""

ENDS: dict[str, Any] = {
    "config": {
        "block_size": 4,
        "num_blocks": 12,
        "max_num_batched_tokens": 32,
        "max_model_len": 16,
        "max_num_seqs": 2,
        "enable_chunked_prefill": False,
        "vocab": 1,
    },
    "events": [
        {
            **{"op": "add", "id": "a", "prompt": {"range": [1, 7]}, "max_tokens": 30},
            **{"min_tokens": 3, "eos": 9, "eos_at": 2},
        },
        {
            **{"op": "add", "id": "b", "prompt": {"range": [1, 9]}, "max_tokens": 30},
            **{"min_tokens": 4, "stop": [0]},
        },
        {"op": "step", "n": 2},
        {"op": "add", "id": "long", "prompt": {"range": [30, 43]}, "max_tokens": 30},
        {"op": "add", "id": "never", "prompt": {"range": [0, 60]}, "max_tokens": 30},
        {"op": "run", "max_steps": 20},
        {
            **{"op": "add", "id": "next", "prompt": [1, 2, 3, 4, 5, 6, 0, 0, 9]},
            **{"max_tokens": 2},
        },
        {"op": "run", "max_steps": 20},
    ],
}
"""Output that a later prompt repeats; ends by eos, by a stop id, by length, and by rejection."""

UNCUT: dict[str, Any] = {
    "config": {
        "block_size": 4,
        "num_blocks": 6,
        "max_num_batched_tokens": 8,
        "long_prefill_token_threshold": 4,
        "max_model_len": 17,
    },
    "events": [
        {"op": "add", "id": "a", "prompt": {"range": [0, 12]}, "max_tokens": 30},
        {"op": "add", "id": "b", "prompt": {"range": [20, 36]}, "max_tokens": 30},
        {"op": "step", "n": 4},
        {"op": "evict_blocks", "ids": [1]},
        {"op": "step", "n": 3},
        {"op": "add", "id": "c", "prompt": {"range": [0, 9]}, "max_tokens": 3},
        {"op": "run", "max_steps": 30},
    ],
}
"""A whole sequence that has to wait, an eviction that costs a hit, an end at max_model_len."""

RAISES: dict[str, Any] = {
    "config": {"block_size": 4, "num_blocks": 12, "max_model_len": 16},
    "events": [
        {
            **{"op": "add", "id": "a", "prompt": {"range": [0, 22]}, "max_tokens": 4},
            **{"min_tokens": 2},
        },
        {"op": "step", "n": 3},
    ],
}
"""The engine raises, and so do its rules."""


AHEAD: dict[str, Any] = {
    "config": {
        **{"block_size": 4, "num_blocks": 9, "max_num_batched_tokens": 16},
        **{"async_scheduling": True, "kv_events": True},
    },
    "events": [
        {
            **{"op": "add", "id": "a", "prompt": {"range": [0, 13]}, "max_tokens": 9},
            **{"eos": 5, "eos_at": 4},
        },
        {"op": "schedule"},
        {"op": "schedule"},
        {"op": "update"},
        {"op": "add", "id": "b", "prompt": {"range": [0, 9]}, "max_tokens": 6},
        *({"op": op} for op in ("schedule", "update") * 6),
        {"op": "drain"},
        {"op": "reset_prefix_cache"},
        {"op": "add", "id": "c", "prompt": {"range": [20, 40]}, "max_tokens": 9},
        {"op": "run", "max_steps": 20},
        {"op": "add", "id": "d", "prompt": {"range": [60, 80]}, "max_tokens": 9},
        {"op": "run", "max_steps": 20},
    ],
}
"""Two steps in flight, and the events of the prefix cache, an emptied one among them."""


KEPT_FREE: dict[str, Any] = {
    "config": {
        **{"block_size": 4, "num_blocks": 9, "max_num_batched_tokens": 32, "max_model_len": 32},
        "watermark": 0.34,
    },
    "events": [
        {"op": "add", "id": "a", "prompt": {"range": [0, 8]}, "max_tokens": 2},
        {"op": "add", "id": "b", "prompt": {"range": [100, 112]}, "max_tokens": 2},
        {"op": "add", "id": "c", "prompt": {"range": [200, 208]}, "max_tokens": 2},
        {"op": "run", "max_steps": 9},
    ],
}
"""A watermark lets one just in and holds the next back, in the line that has one."""


GATE_AHEAD: dict[str, Any] = {
    "config": {
        **{"block_size": 2, "num_blocks": 8, "max_num_batched_tokens": 4},
        **{"async_scheduling": True, "queue_depth": 2},
        "groups": [{"type": "sliding_window", "sliding_window": 3}],
    },
    "events": [
        {"op": "add", "id": "a", "prompt": {"range": [0, 20]}, "max_tokens": 2},
        {"op": "run", "max_steps": 20},
    ],
}
"""The gate of a window reckons with two steps in flight, in the line that does."""


LOADS_AHEAD: dict[str, Any] = {
    "config": {
        **{"block_size": 4, "num_blocks": 12, "async_scheduling": True, "queue_depth": 2},
        "connector": {"matched": {"b": 4}},
    },
    "events": [
        {
            **{"op": "add", "id": "a", "prompt": {"range": [0, 13]}, "max_tokens": 9},
            **{"eos": 5, "eos_at": 2},
        },
        {"op": "add", "id": "b", "prompt": {"range": [50, 59]}, "max_tokens": 4},
        {"op": "run", "max_steps": 30},
    ],
}
"""Blocks that are given up wait for a step in flight, in the line in which a load may come."""


DRAFTED: dict[str, Any] = {
    "config": {
        **{"block_size": 4, "num_blocks": 14, "max_num_batched_tokens": 16, "vocab": 30},
        **{"num_spec_tokens": 3, "spec_method": "eagle", "accept": [2, 0, 3, 1]},
        **{"scheduler_reserve_full_isl": False, "drafts": {"length": [3, 3, 2, 3, 1]}},
    },
    "events": [
        {"op": "add", "id": "a", "prompt": {"range": [0, 13]}, "max_tokens": 12},
        {
            **{"op": "add", "id": "b", "prompt": {"range": [0, 9]}, "max_tokens": 14},
            **{"eos": 5, "eos_at": 7},
        },
        {"op": "add", "id": "c", "prompt": {"range": [0, 12]}, "max_tokens": 9, "stop": [3, 7]},
        {"op": "step", "n": 4},
        {"op": "add", "id": "d", "prompt": {"range": [0, 17]}, "max_tokens": 12},
        {"op": "run", "max_steps": 60},
    ],
}
"""Drafts that need slots, some of them right: ends among them, hits without their last block."""


DRAFTED_AHEAD: dict[str, Any] = {
    "config": {
        **{"block_size": 4, "num_blocks": 12, "max_num_batched_tokens": 16},
        **{"num_spec_tokens": 2, "accept": [1, 0, 2], "async_scheduling": True},
        **{"scheduler_reserve_full_isl": False},
    },
    "events": [
        {"op": "add", "id": "a", "prompt": {"range": [0, 13]}, "max_tokens": 14},
        {"op": "add", "id": "b", "prompt": {"range": [0, 9]}, "max_tokens": 11},
        {"op": "schedule"},
        *({"op": op} for op in ("schedule", "update") * 12),
        {"op": "drain"},
        {"op": "add", "id": "c", "prompt": {"range": [0, 11]}, "max_tokens": 6},
        {"op": "run", "max_steps": 20},
    ],
}
"""Drafts that need no slots, two steps in flight, and a preemption."""


def seeing_a_part(group: dict[str, Any]) -> dict[str, Any]:
    """One group of layers, and a pool in which an admission has to wait."""
    config = {"block_size": 4, "num_blocks": 12, "max_num_batched_tokens": 19}
    prompts = {"a": [0, 13], "b": [0, 40], "c": [100, 140]}
    adds = [
        {"op": "add", "id": id, "prompt": {"range": bounds}, "max_tokens": 12}
        for id, bounds in prompts.items()
    ]
    config |= {"max_num_scheduled_tokens": 12}
    return {
        "config": config | {"groups": [group]},
        "events": [*adds, {"op": "run", "max_steps": 40}],
    }


FEATURES = (
    *("windows", "hybrid", "states", "sizes", "uncached"),
    *("waits", "items", "sessions", "remote", "remote-fails"),
    *("encoder-decoder", "sinks", "external", "items-of-sessions"),
)
"""Kept recordings of what a trace has had words for since 1.3 or 1.4, each of one feature."""

LATENT = ("latent", "latent-alone")
"""Kept recordings of latent attention, for which scenarios have no words: of the driver alone."""


@cache
def scenarios() -> dict[str, Any]:
    """The scenarios of the kept recordings."""
    found: dict[str, Any] = json.loads(KEPT.joinpath("scenarios.json").read_text())
    return found


HELD: dict[str, Any] = {
    "config": {"block_size": 4},
    "events": [
        {"op": "add", "id": "a", "prompt": [1, 2, 3, 4], "max_tokens": 1, "resumable": True},
        {"op": "step", "n": 2},
        {"op": "reset_prefix_cache", "reset_running": True},
    ],
}
"""A session waits for its turn and holds its blocks: vLLM raises where everybody gives way."""


def _vector(name: str) -> dict[str, Any]:
    """A golden scenario."""
    document: dict[str, Any] = json.loads((VECTORS / f"{name}.json").read_text())
    return document


@cache
def _traces() -> dict[str, bytes]:
    return {
        "busy": trace_of(BUSY),
        "priority": trace_of(PRIORITY),
        "ends": trace_of(ENDS, semantics="normative"),
        "uncut": trace_of(UNCUT),
        "raises": trace_of(RAISES),
        "ahead": trace_of(AHEAD),
        "drafted": trace_of(DRAFTED),
        "drafted ahead": trace_of(DRAFTED_AHEAD),
        "kept free": trace_of(KEPT_FREE, semantics="vllm-0.32.0"),
        "a gate ahead": trace_of(GATE_AHEAD, semantics="vllm-0.32.0"),
        "loads ahead": trace_of(LOADS_AHEAD, semantics="vllm-0.32.0"),
        "within a step": trace_of(_vector("aligned-state-within-a-step"), semantics="vllm-0.32.0"),
        "handed off": trace_of(_vector("handoffs-must-arrive"), semantics="vllm-0.32.0"),
        "no tokens": trace_of(_vector("vectors-take-no-place"), semantics="vllm-0.32.0"),
        "reset raises": trace_of(HELD),
        **{name: trace_of(scenarios()[name]) for name in FEATURES},
        "turns": trace_of(scenarios()["sessions"], semantics="normative"),
        "turns by priority": trace_of(scenarios()["sessions-by-priority"]),
        "second runner": trace_of(scenarios()["second-runner"]),
        "chunks": trace_of(seeing_a_part({"type": "chunked_local", "chunk": 9})),
        "window": trace_of(seeing_a_part({"type": "sliding_window", "sliding_window": 6})),
    }


class Bases(Mapping[str, Lines]):
    """Traces by name. One is read when it is asked for, and belongs to who asks."""

    def __init__(self, found: dict[str, Lines]) -> None:
        """They are kept as text, of which nobody can alter what others read."""
        self.text = {name: msgspec.json.encode(lines) for name, lines in found.items()}

    def __getitem__(self, name: str) -> Lines:
        lines: Lines = json.loads(self.text[name])
        return lines

    def __iter__(self) -> Iterator[str]:
        return iter(self.text)

    def __len__(self) -> int:
        return len(self.text)


@cache
def bases() -> Bases:
    """The traces by name, sealed; the crowded one is the beginning of a bundled recording."""
    found = {name: documents(data) for name, data in _traces().items()}
    found["crowded"] = recorded(bundled.CROWDED, 60)
    found["lost"] = [*found["busy"][:20], {"ev": "lost", "reason": "MemoryError"}]
    for name in (*FEATURES, *LATENT):
        found[f"recorded {name}"] = whole(KEPT / f"{name}.jsonl")
    for line in found["busy"]:
        if line["ev"] == "add":
            line["name"] = f"request {line['id']}"
    return Bases(found)


@cache
def midway() -> Bases:
    """Recordings of the real vLLM that begin in the middle of a run (`record_process.py
    starts_late_and_crowded`, and `starts_late_and_drafted` with two drafts), unsealed.
    """
    found = {}
    for path in sorted(Path(__file__).with_name("data").joinpath("midway").glob("*.jsonl")):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        found[path.stem] = [lines[0] | {"sealed": False}, *lines[1:-1]]
    found |= {name: begun_later(KEPT / f"{name}.jsonl", 0) for name in FEATURES}
    for name in ("second-runner", *LATENT):
        found[name] = begun_later(KEPT / f"{name}.jsonl", 0)
    found["queued end"] = begun_later(KEPT / "queued-end.jsonl", 0)
    found["stop id"] = begun_later(KEPT / "sessions.jsonl", 5)
    found["chunks by priority"] = begun_later(KEPT / "sessions-by-priority.jsonl", 0)
    found["heap"] = begun_later(KEPT / "heap.jsonl", 2)
    return Bases(found)


def begun_later(path: Path, number: int) -> Lines:
    """A recording from one of its states on, counted from 0, whole records, unsealed."""
    lines = whole(path)
    places = [at for at, line in enumerate(lines) if line["ev"] == "state"]
    rest = [line for line in lines[places[number] + 1 :] if line["ev"] != "state"]
    return [lines[0] | {"start": "unknown"}, lines[places[number]], *rest]


def whole(path: Path) -> Lines:
    """A recording with its short forms written out, unsealed."""
    records = (located.record for located in TraceReader(path))
    header, *lines = [json.loads(msgspec.json.encode(record)) for record in records]
    return [header | {"sealed": False}, *lines[:-1]]


KEPT = Path(__file__).with_name("data") / "recorded"
RECORDED = sorted(KEPT.glob("*.jsonl"))
"""Files of recordings of the real vLLM, sealed (`record_again.py` makes them anew)."""


@cache
def as_recorded() -> dict[str, Lines]:
    """Those recordings line by line as the recorder wrote them, with a whole state after every
    third step, unsealed.
    """
    found = {}
    for path in RECORDED:
        header, *lines = map(json.loads, path.read_text().splitlines())
        found[path.stem] = [header | {"sealed": False}, *lines[:-1]]
    return found
