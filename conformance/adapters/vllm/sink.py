"""Where a recording goes: one file, or a folder of parts. Nothing that exists is overwritten."""

import gzip
import hashlib
from pathlib import Path
from typing import BinaryIO, cast

from msgspec import json

SUFFIXES = (".jsonl", ".jsonl.gz")
PART_BYTES = 256 * 2**20
"""Bytes of JSON after which a folder gets its next part."""

BUFFER_BYTES = 2**18
"""What a plain file gets at once: a system call a step would be felt."""


class Sink:
    """Writes lines; counts and digests them for the ``end`` record."""

    def __init__(self, where: str, recording: str, part_bytes: int = PART_BYTES) -> None:
        """``where`` names a file if it ends in ``.jsonl`` or ``.jsonl.gz``, otherwise a folder.

        Raises ``OSError``.
        """
        self._recording, self._part_bytes = recording, part_bytes
        self._folder = not where.endswith(SUFFIXES)
        self.path = _unused(Path(where))
        if self._folder:
            self.path.mkdir(parents=True)
        self._part = 1
        self._part_size = 0
        self._stream = self._open()
        self._digest = hashlib.sha256()
        self.records = self.steps = 0

    def write(self, record: dict[str, object]) -> None:
        """Add a record."""
        if self._folder and self._part_size >= self._part_bytes:
            self._next_part()
        self._put(record)

    def close(self) -> None:
        """Add the ``end`` record and close the file."""
        digest = self._digest.hexdigest()
        self._put({"ev": "end", "steps": self.steps, "records": self.records, "sha256": digest})
        self._stream.close()

    def _put(self, record: dict[str, object]) -> None:
        line = json.encode(record) + b"\n"
        self._stream.write(line)
        self._digest.update(line)
        self._part_size += len(line)
        self.records += 1
        self.steps += record["ev"] == "schedule"

    def _next_part(self) -> None:
        self._stream.close()
        self._part += 1
        self._part_size = 0
        self._stream = self._open()
        self._put({"ev": "part", "number": self._part, "recording": self._recording})

    def _open(self) -> BinaryIO:
        path = self.path / f"{self._part:04d}.jsonl.gz" if self._folder else self.path
        if path.name.endswith(".gz"):
            return cast(BinaryIO, gzip.open(path, "xb", compresslevel=1))
        return path.open("xb", buffering=BUFFER_BYTES)


def _unused(path: Path) -> Path:
    """The path, with ``-2``, ``-3``, … after its stem if there is something already."""
    stem, dot, suffix = path.name.partition(".")
    candidate, number = path, 1
    while candidate.exists():
        number += 1
        candidate = path.with_name(f"{stem}-{number}{dot}{suffix}")
    return candidate
