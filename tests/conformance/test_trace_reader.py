"""Reading traces: whole ones, compressed ones, parts, and every kind of damage."""

import io
import random
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import zstandard
from traces import BUSY, documents, gzipped, kinds, read, refused, trace_of, unsealed, zstd

from nullblock.conformance.trace import source
from nullblock.conformance.trace.errors import Cut, Malformed
from nullblock.conformance.trace.reader import TraceReader

PLAIN = trace_of(BUSY)
LINES = documents(PLAIN)


def line_of(kind: str, nth: int = 0) -> int:
    """Index of the nth line of a kind."""
    return [index for index, line in enumerate(LINES) if line["ev"] == kind][nth]


@pytest.mark.parametrize("packed", [bytes, gzipped, zstd])
def test_a_trace_reads_the_same_however_it_is_packed(packed: type[bytes]) -> None:
    """The first bytes say how a file is packed; its records do not depend on it."""
    assert read(packed(PLAIN)) == read(PLAIN)


@pytest.mark.parametrize("packed", [gzipped, zstd])
def test_packed_pieces_may_follow_one_another(packed: type[bytes]) -> None:
    """Gzip members and zstd frames are read one after another, wherever a line is cut."""
    for cut in (1, 700, len(PLAIN) // 2):
        assert read(packed(PLAIN[:cut]) + packed(PLAIN[cut:])) == read(PLAIN)


def test_the_sample_has_every_kind_of_record_that_a_healthy_engine_makes() -> None:
    """The traces of these tests would not be vacuous."""
    found = kinds(read(PLAIN))
    wanted = {"Header", "Add", "Abort", "Pause", "Reset", "Evict", "Schedule", "Output", "Update"}
    assert found == wanted | {"End"}


def test_spelling_does_not_matter() -> None:
    """Blanks, key order, carriage returns and explicit defaults change nothing."""
    loose = unsealed(documents(PLAIN)).replace(b"\n", b"\r\n")
    tight = [record for record in read(PLAIN)[1:-1]]
    assert read(loose)[1:] == tight
    add = line_of("add")
    spelled = documents(PLAIN)
    spelled[add] |= {"min_tokens": 0, "priority": 0, "features": []}
    assert read(unsealed(spelled))[1:] == tight


@pytest.mark.parametrize("cut", range(1, 40))
@pytest.mark.parametrize("packed", [bytes, gzipped, zstd])
def test_a_cut_trace_is_damaged(packed: type[bytes], cut: int) -> None:
    """A trace cut anywhere, between lines too, is refused."""
    data = packed(PLAIN)
    refused(data[: len(data) * cut // 40])


@pytest.mark.parametrize("packed", [gzipped, zstd])
def test_a_flipped_bit_in_a_packed_trace_is_damage(packed: type[bytes]) -> None:
    """Whichever byte of a compressed trace changes: no other trace comes out of it."""
    data = packed(PLAIN)
    whole = read(PLAIN)
    for seed in range(300):
        chosen = random.Random(seed)
        place = chosen.randrange(len(data))
        changed = bytearray(data)
        changed[place] ^= 1 << chosen.randrange(8)
        try:
            found = read(bytes(changed))
        except Malformed:
            continue
        # Some bits of a gzip header mean nothing.
        assert found == whole


def test_a_flipped_byte_in_a_plain_trace_is_damage() -> None:
    """The digest at the end catches what still looks like a trace."""
    for seed in range(600):
        chosen = random.Random(seed)
        place = chosen.randrange(len(PLAIN))
        changed = bytearray(PLAIN)
        changed[place] = chosen.choice(b'0123456789{}[],:"abc\n\x00\xff')
        if bytes(changed) != PLAIN:
            said = refused(bytes(changed))
            assert "\n" not in str(said) and said.what and (said.line > 0 or said.file)


def test_random_bytes_are_refused() -> None:
    """Junk, with the magic numbers of the formats before it too, is damage and never a crash."""
    chosen = random.Random(1)
    for length in (0, 1, 2, 5, 100, 5000):
        for magic in (b"", source.GZIP, source.ZSTD, b"{", b"PK\x03\x04", b"\xfd7zXZ"):
            refused(magic + chosen.randbytes(length))


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "empty"),
        (b"\n", "neither JSON"),
        (b"hello\n", "neither JSON"),
        (b"PK\x03\x04rest", "zip"),
        (b"\xef\xbb\xbf{}\n", "byte order mark"),
        (b"{}\n", "header"),
        (b'{"ev":"add"}\n', "header"),
        (b"[1]\n", "neither JSON"),
    ],
)
def test_what_is_no_trace_is_named(data: bytes, words: str) -> None:
    """A file that never was a trace is told apart from a damaged one."""
    said = refused(data)
    assert words in said.what and said.line == 1 and said.remedy


@pytest.mark.parametrize("packed", [bytes, zstd])
def test_a_line_may_end_anywhere(packed: type[bytes]) -> None:
    """Also just before, at and after the places where what is read at once ends."""
    for length in (1, 2**16 - 2, 2**16 - 1, 2**16, 2**16 + 1, 3 * 2**16):
        written = [b"{" + b"x" * length, b"y", b"", b"z" * 40_000]
        data = packed(b"\n".join(written) + b"\n")
        assert list(source.lines(io.BytesIO(data))) == written


def test_a_giant_line_is_refused_before_it_fills_the_memory() -> None:
    """A line without end, or a bomb of zeros, costs the line limit and no more."""
    zeros = zstandard.ZstdCompressor(level=19).compress(bytes(2**30))
    assert len(zeros) < 2**17
    header = PLAIN.splitlines(keepends=True)[0]
    for data in (zeros, zstd(header) + zeros):
        tracemalloc.start()
        try:
            said = refused(data)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert f"more than {source.MAX_LINE} bytes" in said.what
        assert peak < 6 * source.MAX_LINE


def test_memory_does_not_grow_with_the_length_of_a_trace() -> None:
    """A trace forty times as long needs no more memory to read."""

    def peak(steps: int) -> int:
        lines = documents(PLAIN)[:1]
        for step in range(1, steps + 1):
            lines.append({"ev": "schedule", "step": step, "ids": [], "tokens": []})
            lines.append({"ev": "output", "step": step, "ids": [], "counts": []})
            lines.append({"ev": "update", "step": step, "ids": [], "tokens": []})
        stream = io.BytesIO(unsealed(lines))
        tracemalloc.start()
        try:
            for _ in TraceReader(Path("trace"), stream=stream):
                pass
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(100)
    assert peak(8_000) < peak(200) + 2**19


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b'{"ev":"add","id":0,"prompt":3,"max_tokens":1,"chain":[[0,NaN]]}', "not JSON"),
        (b'{"ev":"add","id":0,"id":0,"prompt":3,"max_tokens":1}', '"id" is given twice'),
        (b'{"ev":"add","id":0,"prompt":3,"max_tokens":1,"color":1}', 'unknown key "color"'),
        (b'{"ev":"add","id":0,"prompt":3,"max_tokens":0}', "max_tokens"),
        (b'{"ev":"add","id":0,"prompt":3.5,"max_tokens":1}', "prompt"),
        (b'{"ev":"add","id":0,"prompt":3}', "max_tokens"),
        (b'{"ev":"add","id":0,"prompt":3,"max_tokens":1,"name":"\xff"}', "UTF-8"),
        (b'{"ev":"add","id":0,"prompt":3,"max_tokens":1,"x":"\xff"}', "UTF-8"),
        (b'{"ev":"add","id":0,"prompt":3,"max_tokens":1,"x":' + b"[" * 10**5, "nested"),
        (b'{"ev":"birth","id":0}', "'birth'"),
        (b'{"id":0}', "ev"),
        (b"", "empty line"),
        (b'{"ev":"add","id":0', "not JSON"),
        (b'{"ev":"schedule","step":1,"ids":[0],"tokens":[]}', "differ in length"),
        (b'{"ev":"add","id":0,"prompt":3,"max_tokens":1,"arrival":9e999}', "out of range"),
    ],
)
def test_damage_inside_a_line_is_named_with_its_place(line: bytes, words: str) -> None:
    """Syntax and schema: the line, a column, what is wrong, what to do."""
    first = unsealed(documents(PLAIN)[:1])
    said = refused(first + line + b"\n")
    assert words in said.what and said.line == 2 and said.column >= 1 and said.remedy
    assert said.exit_code == 4 and str(said).startswith("trace: line 2 column ")


def test_columns_point_at_the_fault() -> None:
    """For syntax the column is exact, for schema it is the key."""
    first = unsealed(documents(PLAIN)[:1])
    assert refused(first + b'{"ev":"pause",}\n').column == 15
    late = b'{"ev":"add","id":0,"prompt":3,"max_tokens":"x"}'
    assert refused(first + late + b"\n").column == late.index(b'"max_tokens"') + 1


@pytest.mark.parametrize(("version", "words"), [("2.0", "version 2.0"), ("one", "no version")])
def test_another_major_version_is_refused_by_name(version: str, words: str) -> None:
    """What this reader cannot know is not guessed at."""
    lines = documents(PLAIN)
    lines[0] = {"ev": "header", "format": "nullblock-trace", "version": version, "news": 1}
    assert words in refused(unsealed(lines)).what


def test_a_later_minor_version_is_read_as_far_as_it_is_known() -> None:
    """Unknown fields are passed over, unknown kinds are reported as such."""
    lines = documents(PLAIN)
    lines[0]["version"] = "1.9"
    lines[1]["mood"] = {"good": [1, {}]}
    lines.insert(2, {"ev": "weather", "sun": True})
    found = read(unsealed(lines))
    assert found[2].kind == "weather"
    assert found[1] == read(PLAIN)[1]


def test_a_folder_of_parts_is_one_recording(tmp_path: Path) -> None:
    """Parts are read in order, each packed as it likes; a missing or foreign one is named."""
    lines = documents(PLAIN)
    lines[0]["recording"] = "ours"
    third = len(lines) // 3
    part = {"ev": "part", "recording": "ours"}
    first, second = lines[:third], [part | {"number": 2}, *lines[third : 2 * third]]
    last = [part | {"number": 3}, *lines[2 * third :]]
    (tmp_path / "0001.jsonl.gz").write_bytes(gzipped(unsealed(first)))
    (tmp_path / "0002.jsonl").write_bytes(unsealed(second))
    (tmp_path / "0003.jsonl.zst").write_bytes(zstd(unsealed(last)))
    (tmp_path / "notes.txt").write_text("not a part")
    found = [located.record for located in TraceReader(tmp_path)]
    assert [r for r in found[1:] if type(r).__name__ != "Part"] == read(PLAIN)[1:-1]

    (tmp_path / "0002.jsonl").write_bytes(unsealed([part | {"number": 2, "recording": "x"}]))
    with pytest.raises(Malformed, match=r"0002.jsonl: line 1 .*recording x"):
        list(TraceReader(tmp_path))
    (tmp_path / "0002.jsonl").write_bytes(unsealed(second[1:]))
    with pytest.raises(Malformed, match="part record belongs"):
        list(TraceReader(tmp_path))
    (tmp_path / "0002.jsonl").unlink()
    with pytest.raises(Malformed, match="part 0002 of 0003 is missing"):
        list(TraceReader(tmp_path))
    with pytest.raises(Malformed, match="no parts"):
        list(TraceReader((tmp_path / "empty").mkdir() or tmp_path / "empty"))


def test_reading_on_after_a_verdict_finds_a_broken_stream() -> None:
    """A wrong decision inside a stream that turns out to be damaged is no wrong decision."""
    half = len(PLAIN) // 2
    data = bytearray(zstd(PLAIN[:half]) + zstd(PLAIN[half:]))
    data[-1] ^= 1
    reader = TraceReader(Path("trace"), stream=io.BytesIO(bytes(data)))
    iterator = iter(reader)
    next(iterator)
    with pytest.raises(Malformed, match="zstd stream is damaged"):
        reader.drain()


@pytest.mark.parametrize("packed", [gzipped, zstd])
def test_whoever_skims_takes_no_line_apart(packed: Callable[[bytes], bytes]) -> None:
    """A few kilobytes may be millions of lines: none is handed out, and a last one without its
    end is found all the same.
    """
    whole = PLAIN + b"\n" * 2**20

    def skimmed(data: bytes) -> list[bytes]:
        return list(source.lines(io.BytesIO(packed(data)), lambda: True))

    assert skimmed(whole) == []
    with pytest.raises(Cut) as cut:
        skimmed(whole + b"{")
    assert cut.value.line == whole.count(b"\n") + 1


def test_reading_on_skims() -> None:
    """Empty lines after a verdict are read over: nothing is said of them."""
    reader = TraceReader(Path("trace"), stream=io.BytesIO(PLAIN + b"\n" * 2**17))
    next(iter(reader))
    handed_out = 0
    lines = reader._lines

    def counted() -> Iterator[tuple[int, int, str, bytes]]:
        nonlocal handed_out
        for line in lines:
            handed_out += 1
            yield line

    reader._lines = counted()
    reader.drain()
    assert handed_out < 2**16 + len(PLAIN)
