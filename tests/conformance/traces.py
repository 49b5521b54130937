"""Small traces for tests: made from scenarios, taken apart, damaged."""

import gzip
import io
import json
from collections import deque
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import zstandard

from nullblock.conformance import driver, scenario
from nullblock.conformance.checker import Verdict
from nullblock.conformance.engines import make_engine
from nullblock.conformance.trace.configured import has_grammars, has_sessions, header
from nullblock.conformance.trace.errors import Malformed
from nullblock.conformance.trace.reader import TraceReader
from nullblock.conformance.trace.records import Record
from nullblock.conformance.trace.tape import Tape
from nullblock.conformance.trace.writer import TraceWriter, compressed
from nullblock.spec.profiles import profile

BUSY: dict[str, Any] = {
    "config": {"block_size": 4, "num_blocks": 12, "max_num_batched_tokens": 8},
    "events": [
        {"op": "add", "id": "a", "prompt": {"range": [0, 13]}, "max_tokens": 9},
        {"op": "add", "id": "b", "prompt": {"range": [0, 9]}, "max_tokens": 12, "eos": 5},
        {"op": "step", "n": 3},
        {"op": "add", "id": "c", "prompt": {"fill": 7, "n": 8}, "max_tokens": 20, "stop": [3]},
        {"op": "step", "n": 6},
        {"op": "abort", "ids": ["b"]},
        {"op": "pause", "state": "PAUSED_NEW"},
        {"op": "reset_prefix_cache"},
        {"op": "evict_blocks", "ids": [1, 2]},
        {"op": "pause", "state": "UNPAUSED"},
        {"op": "reset_prefix_cache", "reset_running": True},
        {"op": "run", "max_steps": 60},
    ],
}
"""Chunks, hits, a preemption by reset, an abort, every other event."""


def trace_of(
    document: dict[str, Any], engine: str = "reference", semantics: str = "vllm-0.22.1"
) -> bytes:
    """The trace of a scenario, uncompressed."""
    taken = scenario.from_dict(document)
    values = profile(semantics)
    stream = io.BytesIO()
    writer = TraceWriter(stream)
    told = engine, "0", semantics, values
    writer.write(
        header(taken.config, *told, grammars=has_grammars(taken), sessions=has_sessions(taken))
    )
    made = make_engine(engine, taken.config, values)
    tagged = values.extra_keys_tagged
    tape = Tape(made, taken, writer.write, tagged_keys=tagged, semantics=values)
    deque(driver.run(taken, tape, dump="none"), maxlen=0)
    writer.end()
    return stream.getvalue()


def read(data: bytes, *, lax: bool = False) -> list[Any]:
    """The records of a trace."""
    reader = TraceReader(Path("trace"), stream=io.BytesIO(data), lax=lax)
    return [located.record for located in reader]


def refused(data: bytes) -> Malformed:
    """What is said about a damaged trace."""
    with pytest.raises(Malformed) as caught:
        read(data)
    return caught.value


def documents(data: bytes) -> list[dict[str, Any]]:
    """The lines of a trace as plain values."""
    return [json.loads(line) for line in data.splitlines()]


def unsealed(lines: list[dict[str, Any]]) -> bytes:
    """A trace of these lines that has no digest and no end: nothing but its content is checked."""
    kept = (line for line in lines if line["ev"] != "end")
    return b"".join(json.dumps(_unsealed(line)).encode() + b"\n" for line in kept)


def _unsealed(line: dict[str, Any]) -> dict[str, Any]:
    """A line without what a header says of the others; the line itself stays as it is, since
    tests share those that were read once.
    """
    if line["ev"] != "header":
        return line
    return {name: told for name, told in line.items() if name not in ("config_sha256", "sealed")}


def gzipped(data: bytes) -> bytes:
    """As one gzip member."""
    return gzip.compress(data, mtime=0)


def zstd(data: bytes) -> bytes:
    """As one zstd frame with a checksum."""
    return zstandard.ZstdCompressor(write_checksum=True).compress(data)


def written(data: bytes, name: str) -> bytes:
    """As our writer compresses and seals a file of that name."""
    stream = io.BytesIO()
    with compressed(stream, name) as inner:
        inner.write(data)
    return stream.getvalue()


def kinds(records: list[Record]) -> set[str]:
    """The kinds of some records."""
    return {type(record).__name__ for record in records}


def said(found: Verdict) -> dict[str, Any]:
    """All that a verdict says."""
    return {f.name: getattr(found, f.name) for f in fields(found) if f.name != "replay"}
