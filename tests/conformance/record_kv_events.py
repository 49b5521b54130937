"""Records KV events of the real vLLM 0.22.1 as its publisher sends them. Runs in the oracle's
environment, where nullblock is not installed:

    PYTHONHASHSEED=0 .oracle/bin/python tests/conformance/record_kv_events.py NAME FILE

``NAME`` is one of :data:`SCENARIOS`. The file is MessagePack: ``[topic, number, batch]`` one after
another, each batch encoded by vLLM's own classes. Times are counted from 0, one a batch, so that
a recording is always the same.
"""

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "oracle"))

import torchless  # noqa: E402  (found by the line above)


def _add(id: str, prompt: Any, max_tokens: int, **more: Any) -> dict[str, Any]:
    return {"op": "add", "id": id, "prompt": prompt, "max_tokens": max_tokens, **more}


def _range(low: int, high: int) -> dict[str, Any]:
    return {"range": [low, high]}


_CROWD = [
    _add("a", _range(0, 12), 9, priority=3),
    _add("twin", _range(0, 12), 9, priority=2),
    {"op": "step", "n": 3},
    _add("b", _range(100, 113), 9, priority=0, salt="s"),
    _add("c", _range(200, 208), 9, priority=1, lora="adapter"),
    {"op": "run"},
    _add("again", _range(0, 14), 3),
    {"op": "run"},
    {"op": "reset_prefix_cache"},
    _add("after", _range(0, 14), 3),
    {"op": "run"},
]
_SMALL = {"block_size": 4, "num_blocks": 12, "max_num_batched_tokens": 16, "kv_events": True}
_MIXED = [
    {"type": "full", "block_size": 4},
    {"type": "sliding_window", "sliding_window": 9, "block_size": 8},
]
SCENARIOS: dict[str, dict[str, Any]] = {
    "full": {"config": {**_SMALL, "policy": "priority"}, "events": _CROWD},
    "async": {
        "config": {**_SMALL, "async_scheduling": True, "queue_depth": 3},
        "events": _CROWD,
    },
    "window": {
        "config": {**_SMALL, "groups": [{"type": "sliding_window", "sliding_window": 6}]},
        "events": _CROWD,
    },
    "groups": {"config": {**_SMALL, "num_blocks": 24, "groups": _MIXED}, "events": _CROWD},
    "evicted": {
        "config": _SMALL,
        "events": [
            _add("a", _range(0, 9), 8),
            {"op": "step", "n": 2},
            {"op": "evict_blocks", "ids": [1, 2]},
            {"op": "run"},
        ],
    },
    "session": {
        "config": {**_SMALL, "num_blocks": 32},
        "events": [
            _add("s", _range(0, 6), 2, resumable=True),
            {"op": "step", "n": 3},
            _add("s", _range(200, 206), 2, resumable=True),
            {"op": "step", "n": 2},
            _add("old", {"concat": [_range(0, 6), [847, 993]]}, 2, skip_cache_read=True),
            {"op": "step"},
        ],
    },
}


def record(scenario: dict[str, Any], topic: bytes = b"kv-events") -> bytes:
    """The messages of a scenario's events."""
    torchless.install()
    import drive
    import msgspec

    driver = drive.Driver(scenario, "none")
    encode, sent = msgspec.msgpack.Encoder().encode, list[bytes]()

    def publish(batch: Any) -> None:
        batch.ts, batch.data_parallel_rank = float(len(sent)), 0
        message = [topic, len(sent).to_bytes(8, "big"), encode(batch)]
        sent.append(encode(message))

    driver.scheduler.kv_event_publisher.publish = publish
    last = json.loads(driver.run()[-2])
    assert last["ev"] != "EXCEPTION", last
    return b"".join(sent)


def main() -> None:
    """The command line."""
    name, path = sys.argv[1:]
    Path(path).write_bytes(record(SCENARIOS[name]))


if __name__ == "__main__":
    main()
