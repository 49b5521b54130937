"""Damaged traces by the thousand: no crash, no hang, and never CONFORMS.

    python tests/fuzz/damage.py --files 10000 --seed 0

Each file is a sealed trace that conforms, damaged in one way out of many, so that its content is
no longer what was sealed. Some lie and are sealed again: for those a verdict of any kind will do.
File n of a seed is always the same one: a failure prints the command that makes it again.
"""

import argparse
import io
import json
import random
import re
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "conformance"))

from bases import RECORDED, bases  # noqa: E402  (found through the line above)
from traces import gzipped, written, zstd  # noqa: E402

from nullblock.conformance.checker import Verdict, check, report  # noqa: E402
from nullblock.conformance.checker.page import render  # noqa: E402
from nullblock.conformance.trace import seal  # noqa: E402
from nullblock.conformance.trace.errors import Malformed  # noqa: E402
from nullblock.conformance.trace.reader import TraceReader  # noqa: E402
from nullblock.conformance.trace.writer import TraceWriter  # noqa: E402

SECONDS = 30
"""After which a file counts as a hang."""
PAGES = 20
"""Every so many files the page is made as well."""

Damage = Callable[[bytes, random.Random], bytes]
LIES: tuple[Any, ...] = (
    *(0, 1, -1, 2, 17, 2**31, 2**53, -(2**53), 2**63, 10**30, 1.5, 1e308, True, None),
    *("", "x", "\ud83d", "\u0000", [], {}, [[]], [0, 0], [[0, 1]], {"ev": "add"}),
)


class Hang(Exception):
    """A file took too long."""


class Failed(Exception):
    """A file was not refused as it has to be."""


def truncated(data: bytes, chance: random.Random) -> bytes:
    """The end is gone."""
    return data[: chance.randrange(len(data))]


def flipped(data: bytes, chance: random.Random) -> bytes:
    """A few bits are turned."""
    told = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 8, 100))):
        told[chance.randrange(len(told))] ^= 1 << chance.randrange(8)
    return bytes(told)


def spliced(data: bytes, chance: random.Random) -> bytes:
    """A piece stands somewhere else as well, or instead."""
    start, end = sorted(chance.randrange(len(data)) for _ in range(2))
    at = chance.randrange(len(data))
    return data[:at] + data[start:end] + data[at + chance.choice((0, end - start)) :]


def joined(data: bytes, chance: random.Random) -> bytes:
    """The beginning of one trace and the end of another one."""
    other = chance.choice(SEALED)
    return data[: chance.randrange(len(data))] + other[chance.randrange(len(other)) :]


def followed(data: bytes, chance: random.Random) -> bytes:
    """Something stands behind the end: a trace, empty lines by the million, zeros."""
    return data + chance.choice((data, chance.choice(SEALED), b"\n" * 2**20, b"\0" * 4096))


def noisy(data: bytes, chance: random.Random) -> bytes:
    """Random bytes in the middle."""
    at, length = chance.randrange(len(data)), chance.choice((1, 3, 50, 4000))
    return data[:at] + chance.randbytes(length) + data[at + chance.choice((0, length)) :]


def lines_doubled(data: bytes, chance: random.Random) -> bytes:
    """A line stands there twice."""
    lines = data.splitlines(keepends=True)
    at = chance.randrange(len(lines))
    return b"".join([*lines[: at + 1], lines[at], *lines[at + 1 :]])


def lines_dropped(data: bytes, chance: random.Random) -> bytes:
    """Some lines are gone."""
    lines = data.splitlines(keepends=True)
    at = chance.randrange(len(lines))
    return b"".join(lines[:at] + lines[at + chance.choice((1, 1, 2, 9)) :])


def lines_moved(data: bytes, chance: random.Random) -> bytes:
    """Lines stand in another order."""
    lines = data.splitlines(keepends=True)
    a, b = chance.sample(range(len(lines)), 2)
    lines[a], lines[b] = lines[b], lines[a]
    return b"".join(lines)


def encoded(data: bytes, chance: random.Random) -> bytes:
    """Saved by a program that means well."""
    text = data.decode()
    ways: tuple[Callable[[], bytes], ...] = (
        lambda: text.encode("utf-16"),
        lambda: text.encode("utf-16-be"),
        lambda: text.encode("utf-32"),
        lambda: text.encode("utf-8-sig"),
        lambda: text.replace("\n", "\r\n").encode(),
        lambda: text.replace(" ", "\u00a0").replace("e", "\u00e9").encode("latin-1"),
        lambda: text.replace(":", ": ").encode(),
        lambda: text.replace("\n", "\n\n", 1).encode(),
        lambda: b"\x00" + data,
        lambda: data.replace(b"\n", b"\x00\n", 1),
        lambda: json.dumps([json.loads(line) for line in text.splitlines()]).encode(),
    )
    return chance.choice(ways)()


def giant(data: bytes, chance: random.Random) -> bytes:
    """A line as long as a film, or a number as long as a line."""
    lines = data.splitlines(keepends=True)
    at = chance.randrange(len(lines))
    size = chance.choice((2**16, 2**20, 17 * 2**20))
    filling = chance.choice((b" " * size, b'{"ev":"' + b"a" * size + b'"}', b"9" * (size // 16)))
    return b"".join([*lines[:at], filling, b"\n", *lines[at:]])


def nested(data: bytes, chance: random.Random) -> bytes:
    """Brackets without end."""
    lines = data.splitlines(keepends=True)
    at, depth = chance.randrange(len(lines)), chance.choice((100, 10_000, 300_000))
    deep = chance.choice((b"[" * depth, b'{"a":' * depth, b"[" * depth + b"]" * depth))
    if chance.random() < 0.5:
        deep = b'{"ev":"schedule","step":1,"ids":' + deep + b"}"
    return b"".join([*lines[:at], deep, b"\n", *lines[at:]])


def lying(data: bytes, chance: random.Random) -> bytes:
    """A value is replaced by another one, the seal stays."""
    lines = data.splitlines(keepends=True)
    at = 0 if chance.random() < 0.3 else chance.randrange(len(lines))
    line = json.loads(lines[at])
    _lie(line, chance)
    lines[at] = json.dumps(line, separators=(",", ":")).encode() + b"\n"
    return b"".join(lines)


def miscounting(data: bytes, chance: random.Random) -> bytes:
    """A number is another one, the seal stays."""
    lines = data.splitlines(keepends=True)
    at = 0 if chance.random() < 0.3 else chance.randrange(len(lines))
    numbers = list(re.finditer(rb"(?<=[\[:,])-?\d+(?=[,\]}])", lines[at]))
    if numbers:
        found = chance.choice(numbers)
        told = int(found[0]) + chance.choice((-1, 1, 1, 2, 100, 2**40))
        lines[at] = lines[at][: found.start()] + str(told).encode() + lines[at][found.end() :]
    return b"".join(lines)


def keys(data: bytes, chance: random.Random) -> bytes:
    """A key is unknown, or given twice."""
    lines = data.splitlines(keepends=True)
    at = chance.randrange(len(lines))
    extra = chance.choice((b'{"ev":"add",', b'{"strange":1,', b'{"step":1,', b'{"":{},'))
    lines[at] = extra + lines[at][1:]
    return b"".join(lines)


def _lie(line: Any, chance: random.Random) -> None:
    inside = line
    while True:
        places: Any = list(inside) if isinstance(inside, dict) else range(len(inside))
        place = chance.choice(list(places))
        value = inside[place]
        if not isinstance(value, (dict, list)) or not value or chance.random() < 0.2:
            inside[place] = chance.choice(LIES)
            return
        inside = value


DAMAGES: tuple[Damage, ...] = (
    *(truncated, flipped, spliced, joined, noisy, lines_doubled, lines_dropped, lines_moved),
    *(encoded, giant, nested, lying, miscounting, miscounting, keys, followed),
)
RESEALED = (lying, miscounting, lines_doubled, lines_dropped, lines_moved)
"""What somebody may do who then seals it again."""
OF_BYTES: tuple[Damage, ...] = (truncated, flipped, spliced, joined, noisy, followed)
"""What can happen to a compressed file."""


def _sealed() -> list[bytes]:
    """The traces that are damaged: our own, with a fresh seal, and those of a recorder."""
    found = []
    for name, lines in bases().items():
        if name != "lost":
            kept = [line for line in lines if line["ev"] != "end"]
            found.append(resealed(b"".join(json.dumps(x).encode() + b"\n" for x in kept)))
    return found + [path.read_bytes() for path in RECORDED]


def resealed(data: bytes) -> bytes:
    """The trace with digests that fit what is in it. Raises Malformed."""
    stream = io.BytesIO()
    writer = TraceWriter(stream)
    for located in TraceReader(Path("trace"), stream=io.BytesIO(data), lax=True):
        if type(located.record).__name__ != "End":
            writer.write(located.record)  # type: ignore[arg-type]
    writer.end()
    return stream.getvalue()


SEALED = _sealed()
FORMS: tuple[Callable[[bytes], bytes], ...] = (
    *(lambda data: written(data, "x.gz"), lambda data: written(data, "x.zst")),
    *(gzipped, zstd),
)
COMPRESSED = [[form(data) for form in FORMS] for data in SEALED]
SEALS = (seal.ZSTD.size, seal.GZIP.size)


def damaged(seed: int, number: int) -> tuple[str, bytes, bool]:
    """File `number` of a seed: what was done to it, its bytes, and whether it lies under a seal
    that fits.
    """
    chance = random.Random(f"{seed}/{number}")
    which = chance.randrange(len(SEALED))
    whole = SEALED[which]
    while True:
        form = chance.randrange(-4, len(FORMS))
        if form >= 0:
            packed = COMPRESSED[which][form]
            damage = chance.choice(OF_BYTES)
            data = damage(packed, chance)
            # Without its outer seal, and nothing else, a file is whole.
            if data not in (packed, *(packed[:-size] for size in SEALS)) and not _same(
                data, whole
            ):
                return f"{damage.__name__}, compressed", data, False
            continue
        damage = chance.choice(DAMAGES)
        data = damage(whole, chance)
        if data == whole:
            continue
        if damage in RESEALED and chance.random() < 0.7:
            try:
                return f"{damage.__name__}, sealed again", resealed(data), True
            except Malformed:
                pass
        return damage.__name__, data, False


def _same(data: bytes, whole: bytes) -> bool:
    """Whether a damaged compressed file still holds the whole trace, seal and all."""
    from nullblock.conformance.trace import source

    try:
        return b"".join(line + b"\n" for line in source.lines(io.BytesIO(data))) == whole
    except Malformed:
        return False


def judge(data: bytes, page: bool = False) -> Verdict:
    """The verdict on some bytes, told in every form. Raises Hang."""

    def hang(number: int, frame: FrameType | None) -> None:
        raise Hang

    before = signal.signal(signal.SIGALRM, hang)
    signal.alarm(SECONDS)
    try:
        verdict = check(Path("trace"), stream=io.BytesIO(data))
        json.dumps(report.document(verdict))
        report.junit([verdict])
        if page:
            render([verdict])
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    return verdict


def run(files: int, seed: int, first: int = 0) -> Counter[tuple[str, str]]:
    """Damage and judge; how many files of each damage got each verdict. Raises Failed."""
    seen: Counter[tuple[str, str]] = Counter()
    for number in range(first, first + files):
        what, data, sealed = damaged(seed, number)
        again = f"python tests/fuzz/damage.py --files 1 --seed {seed} --first {number}"
        try:
            verdict = judge(data, number % PAGES == 0)
        except (Exception, RecursionError) as error:
            raise Failed(f"{what}: {type(error).__name__}: {error}; {again}") from error
        if verdict.verdict == "CONFORMS" and not sealed:
            raise Failed(f"{what}: CONFORMS; {again}")
        if verdict.first is None and not verdict.missing and not sealed:
            raise Failed(f"{what}: {verdict.verdict} without a word; {again}")
        seen[what, verdict.verdict] += 1
    return seen


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first file")
    asked = parser.parse_args()
    print(f"seed {asked.seed}", flush=True)
    begun = time.monotonic()
    try:
        seen = run(asked.files, asked.seed, asked.first)
    except Failed as failed:
        print(f"FAILED {failed}")
        return 1
    for (what, said), many in sorted(seen.items()):
        print(f"{many:6} {said:12} {what}")
    print(f"{asked.files} files, {time.monotonic() - begun:.0f} seconds: none CONFORMS by damage")
    return 0


if __name__ == "__main__":
    sys.exit(main())
