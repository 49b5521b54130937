"""Where a recording goes: one file, or parts in a folder of its own. Nothing is overwritten.

Every file is a trace: it begins with a header and ends with an ``end`` record and, compressed,
with a digest of its own bytes (``nullblock/conformance/trace/seal.py`` reads it). Whatever was
flushed can be read, however the process ends.
"""

import contextlib
import hashlib
import importlib
import os
import zlib
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec import json

SUFFIXES = (".jsonl", ".jsonl.gz", ".jsonl.zst")
GZIP_LEVEL, ZSTD_LEVEL = 1, 3
STEP = b'{"ev":"schedule'
"""How a line begins that tells a step, in whole or in short."""
SEALS = {
    ".gz": (
        b"\x1f\x8b\x08\x04\0\0\0\0\0\xff" + (36).to_bytes(2, "little") + b"nb\x20\0",
        b"\x03\0" + bytes(8),
    ),
    ".zst": (b"\x50\x2a\x4d\x18" + (32).to_bytes(4, "little"), b""),
}
"""What stands before and after the digest of a file's bytes, where decompressors pass it over."""

Compress = Callable[[bytes], bytes]


class File:
    """One file of a recording, written batch by batch. Raises ``OSError``."""

    def __init__(self, path: Path) -> None:
        """Create the file; it must not exist."""
        self.path = path
        self._ending = path.suffix
        self._compress, self._flush, self._finish = _compressor(self._ending)
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o640)
        self._bytes = hashlib.sha256()
        self._content = hashlib.sha256()
        self._size = 0
        self.steps = self.records = 0

    def write(self, data: bytes) -> None:
        """Add whole lines, and let them be read."""
        self._content.update(data)
        self.records += data.count(b"\n")
        self.steps += data.count(STEP)
        self._put(self._compress(data) + self._flush())
        if not os.fstat(self._descriptor).st_nlink:
            raise FileNotFoundError("the file was removed")

    def close(self, continued: bool) -> None:
        """Add the ``end`` record and the seal."""
        end: dict[str, Any] = {"ev": "end", "steps": self.steps, "records": self.records}
        end["sha256"] = self._content.hexdigest()
        if continued:
            end["continued"] = True
        self._put(self._compress(json.encode(end) + b"\n") + self._finish())
        if self._ending in SEALS:
            before, after = SEALS[self._ending]
            self._put(before + self._bytes.digest() + after)
        os.close(self._descriptor)

    def abandon(self) -> None:
        """Something went wrong: leave what was written whole, and no more."""
        with contextlib.suppress(OSError):
            os.ftruncate(self._descriptor, self._size)
        with contextlib.suppress(OSError):
            os.close(self._descriptor)

    def _put(self, data: bytes) -> None:
        self._bytes.update(data)
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self._descriptor, rest) :]
        self._size += len(data)


def _zstandard() -> Any:
    """The package, where it is installed; vLLM does not bring it."""
    try:
        return importlib.import_module("zstandard")
    except ImportError:
        return None


def _compressor(ending: str) -> tuple[Compress, Callable[[], bytes], Callable[[], bytes]]:
    if ending == ".gz":
        gzip = zlib.compressobj(GZIP_LEVEL, zlib.DEFLATED, 31)
        return gzip.compress, lambda: gzip.flush(zlib.Z_SYNC_FLUSH), gzip.flush
    if ending == ".zst":
        zstandard = _zstandard()
        if zstandard is None:
            raise OSError("zstandard is not installed: name the trace .jsonl.gz")
        zstd = zstandard.ZstdCompressor(ZSTD_LEVEL, write_checksum=True).compressobj()
        block = zstandard.COMPRESSOBJ_FLUSH_BLOCK
        return zstd.compress, lambda: zstd.flush(block), zstd.flush
    return lambda data: data, bytes, bytes


class Files:
    """The files of a recording, one after another."""

    def __init__(self, where: str, rank: int, keep: int) -> None:
        """``where`` names a file by its suffix, otherwise a folder; raises ``OSError``.

        Several recordings in one folder get a folder each: ``rank0-run1``, ``rank0-run2``, …
        """
        self.in_parts = not where.endswith(SUFFIXES)
        self._ending = "gz" if _zstandard() is None else "zst"
        self._keep, self._written = keep, deque[Path]()
        self._part = 1
        if self.in_parts:
            self.path = _new_folder(Path(where), rank)
            self.file = File(self._name())
        else:
            self.file = _new_file(Path(where), rank)
            self.path = self.file.path

    def next_part(self) -> None:
        """End a part and begin the next one; older ones than are kept are removed."""
        self.file.close(continued=True)
        self._written.append(self.file.path)
        self._part += 1
        self.file = File(self._name())
        while self._keep and len(self._written) >= self._keep:
            with contextlib.suppress(FileNotFoundError):
                self._written.popleft().unlink()

    def _name(self) -> Path:
        return self.path / f"{self._part:04d}.jsonl.{self._ending}"


def _new_folder(base: Path, rank: int) -> Path:
    base.mkdir(parents=True, exist_ok=True)
    run = 1
    while True:
        folder = base / f"rank{rank}-run{run}"
        try:
            folder.mkdir()
        except FileExistsError:
            run += 1
        else:
            return folder


def _new_file(path: Path, rank: int) -> File:
    """The file, with its rank and ``-2``, ``-3``, … after its stem where they are needed."""
    stem, dot, suffix = path.name.partition(".")
    stem = f"{stem}-rank{rank}" if rank else stem
    number = 1
    while True:
        name = f"{stem}-{number}" if number > 1 else stem
        try:
            return File(path.with_name(f"{name}{dot}{suffix}"))
        except FileExistsError:
            number += 1
