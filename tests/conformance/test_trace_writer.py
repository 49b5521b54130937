"""Writing traces: whole or not at all, sealed, the same bytes for the same records."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from traces import BUSY, documents, gzipped, read, refused, trace_of, unsealed, zstd

from nullblock.conformance.trace.errors import Malformed
from nullblock.conformance.trace.reader import TraceReader
from nullblock.conformance.trace.records import End, Record, Schedule
from nullblock.conformance.trace.writer import reseal, write_trace

PLAIN = trace_of(BUSY)


def records() -> list[Record]:
    """The records of the sample, without its end."""
    return [record for record in read(PLAIN) if not isinstance(record, End)]


@pytest.mark.parametrize("name", ["t.jsonl", "t.jsonl.gz", "t.jsonl.zst"])
def test_what_is_written_is_read(tmp_path: Path, name: str) -> None:
    """Records survive the way through a file; the same records make the same bytes."""
    for path in (tmp_path / name, tmp_path / f"again-{name}"):
        write_trace(path, records())
        assert [located.record for located in TraceReader(path)] == read(PLAIN)
    assert (tmp_path / name).read_bytes() == (tmp_path / f"again-{name}").read_bytes()


def test_nothing_is_left_of_a_trace_that_fails(tmp_path: Path) -> None:
    """An exception half-way leaves the old file, and no other."""
    path = tmp_path / "t.jsonl.zst"
    path.write_text("old")

    def failing() -> Iterator[Record]:
        yield from records()[:5]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_trace(path, failing())
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_the_seal_is_broken_by_any_change_and_made_again(tmp_path: Path) -> None:
    """A decision changed on purpose is damage until the trace is sealed anew, then a decision."""
    changed = PLAIN.replace(b'"num_running":1', b'"num_running":3', 1)
    assert changed != PLAIN
    said = refused(changed)
    assert "digest" in said.what and "--reseal" in said.remedy
    old, new = tmp_path / "old.jsonl", tmp_path / "new.jsonl"
    old.write_bytes(changed)
    reseal(old, new)
    found = [located.record for located in TraceReader(new)]
    assert found[:-1] == read(changed, lax=True)[:-1] and found != read(PLAIN)


def test_a_configuration_does_not_change_unnoticed(tmp_path: Path) -> None:
    """Its digest in the header is checked on the first line."""
    changed = PLAIN.replace(b'"num_blocks":12', b'"num_blocks":13', 1)
    said = refused(changed)
    assert said.line == 1 and "configuration" in said.what
    path = tmp_path / "t.jsonl"
    path.write_bytes(changed)
    reseal(path, path)
    assert next(iter(TraceReader(path))).record.config.num_blocks == 13  # type: ignore[union-attr]


@pytest.mark.parametrize("packed", [bytes, gzipped, zstd])
def test_a_cut_trace_can_be_sealed_where_it_was_cut(packed: type[bytes], tmp_path: Path) -> None:
    """What is left of a recording that broke off is a trace again."""
    lines = PLAIN.splitlines(keepends=True)
    whole, rest = b"".join(lines[:15]), b"".join(lines[15:])
    cut = packed(whole) + packed(rest)[:-20] if packed is not bytes else whole + lines[15][:-3]
    path = tmp_path / "t"
    path.write_bytes(cut)
    reseal(path, tmp_path / "new.jsonl")
    found = [located.record for located in TraceReader(tmp_path / "new.jsonl")]
    assert found[:15] == read(PLAIN)[:15] and len(found) >= 16


def test_damage_is_not_sealed_away(tmp_path: Path) -> None:
    """Records in an impossible order stay impossible; nothing is written."""
    lines = documents(PLAIN)
    del lines[next(i for i, line in enumerate(lines) if line["ev"] == "schedule")]
    path = tmp_path / "t.jsonl"
    path.write_bytes(unsealed(lines))
    with pytest.raises(Malformed):
        reseal(path, tmp_path / "new.jsonl")
    assert not (tmp_path / "new.jsonl").exists()


def test_counts_in_the_end_record_are_checked() -> None:
    """Steps and records that are not there are missed, digest or not."""
    for field in ("steps", "records"):
        lines = documents(PLAIN)
        end = lines.pop()
        del end["sha256"]
        body = unsealed(lines)
        end[field] += 1
        steps = sum(isinstance(record, Schedule) for record in read(body))
        assert steps == documents(PLAIN)[-1]["steps"]
        said = refused(body + str(end).replace("'", '"').encode() + b"\n")
        assert f"counts {end[field]}" in said.what
