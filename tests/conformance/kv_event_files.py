"""Files of KV events for the tests: recordings taken apart, altered, and written in every form.

A recording is a list of batches; a batch is ``{"seq", "ts", "rank", "events"}``, an event a map of
all fields that 0.22.1 has, with its name under ``type``.
"""

import copy
import io
import json
from pathlib import Path
from typing import Any

import msgspec

from nullblock.conformance.kv_events import Options, Verdict, check
from nullblock.conformance.kv_events.frames import Frame, frames
from nullblock.conformance.kv_events.wire import REMOVED, STORED
from nullblock.spec.kv_events import Premises

Batch = dict[str, Any]
DATA = Path(__file__).parent / "data" / "kv_events"
"""What ``record_kv_events.py`` has recorded of the real engine, by the names of its scenarios."""

FORMS: dict[str, tuple[int, int] | tuple[str, ...]] = {
    "0.9.2": (5, 1),
    "0.10.2": (6, 2),
    "0.14.1": (7, 2),
    "0.17.1": (8, 2),
    "0.20.2": (9, 3),
    "0.22.1": (11, 3),
    "0.24.0": (),
    "0.32.0": ("locality", "ownership", "session_id"),
}
"""By release: how many fields an array has in BlockStored and BlockRemoved; or that events are
maps, and which fields they have besides."""
FRAMINGS = ("message", "numbered", "bare", "prefixed", "json", "json batch", "json array")
_NAMES = {"BlockStored": STORED, "BlockRemoved": REMOVED, "AllBlocksCleared": ()}
_ALWAYS = {*STORED[:7], "medium"}
"""Fields without a default: a map has them even where they are null."""
_encode = msgspec.msgpack.Encoder().encode


def recording(name: str) -> list[Batch]:
    """A recording of the real engine."""
    with (DATA / f"{name}.msgpack").open("rb") as stream:
        return [taken(frame) for frame in frames(stream) if isinstance(frame, Frame)]


def taken(frame: Frame) -> Batch:
    """A batch of 0.22.1, its events as maps."""
    ts, events, rank = frame.body
    named = [
        {"type": name, **dict(zip(_NAMES[name], values, strict=True))} for name, *values in events
    ]
    return {"seq": frame.seq, "ts": ts, "rank": rank, "events": named}


def event_in(form: str, event: dict[str, Any]) -> Any:
    """An event as a release writes it."""
    shape, name = FORMS[form], event["type"]
    if len(shape) == 2 and isinstance(shape[0], int):
        length = {"BlockStored": shape[0], "BlockRemoved": shape[1], "AllBlocksCleared": 0}[name]
        return [name, *(event[field] for field in _NAMES[name][:length])]
    kept = {key: v for key, v in event.items() if key in _ALWAYS or v is not None}
    return kept | ({field: "x" for field in shape} if name != "AllBlocksCleared" else {})


def written(batches: list[Batch], form: str = "0.22.1", framing: str = "message") -> bytes:
    """A file."""
    whole = []
    for batch in batches:
        events = [event_in(form, event) for event in batch["events"]]
        body = [batch["ts"], events, batch["rank"]]
        payload, seq = _encode(body), batch["seq"]
        match framing:
            case "message":
                whole.append(_encode([b"kv", seq.to_bytes(8, "big"), payload]))
            case "numbered":
                whole.append(_encode([seq, payload]))
            case "bare":
                whole.append(payload)
            case "prefixed":
                message = _encode([b"", seq.to_bytes(8, "big"), payload])
                whole.append(len(message).to_bytes(4, "big") + message)
            case "json":
                named = {"seq": seq, "ts": body[0], "events": events, "data_parallel_rank": 0}
                whole.append(msgspec.json.encode(named) + b"\n")
            case "json batch":
                whole.append(json.dumps({"seq": seq, "topic": "t", "batch": body}).encode())
                whole.append(b"\n")
            case _:
                whole.append(json.dumps(body).encode() + b"\n")
    return b"".join(whole)


def judged(data: bytes | list[Batch], **options: Any) -> Verdict:
    """The verdict on a file; ``num_blocks``, ``full_attention``, ``no_connector`` are premises."""
    if isinstance(data, list):
        data = written(data)
    names = ("num_blocks", "full_attention", "no_connector")
    premises = Premises(**{name: options.pop(name) for name in names if name in options})
    return check("stream", io.BytesIO(data), Options(premises, **options))


def altered(batches: list[Batch]) -> list[Batch]:
    """A copy to alter."""
    return copy.deepcopy(batches)


def places(batches: list[Batch], kind: str) -> list[tuple[int, int]]:
    """Where the events of a kind are: batch and index in it."""
    return [
        (i, j)
        for i, batch in enumerate(batches)
        for j, event in enumerate(batch["events"])
        if event["type"] == kind
    ]


def at(batches: list[Batch], place: tuple[int, int]) -> dict[str, Any]:
    """The event at a place."""
    found: dict[str, Any] = batches[place[0]]["events"][place[1]]
    return found
