"""Reading workloads: three formats, and a clear line for whatever is none of them."""

import gzip
import itertools
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import workload_files
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from workload_files import packed_row, write

from nullblock.conformance.workloads.content import Content, Numbers
from nullblock.conformance.workloads.errors import WorkloadError
from nullblock.conformance.workloads.formats import Format, open_workload
from nullblock.conformance.workloads.session import Session, Turn


def read(path: Path, **options: int) -> list[Session]:
    """All sessions of a file."""
    return list(open_workload(path, **options).sessions)


def turns(path: Path, **options: int) -> list[Turn]:
    """All turns of a file."""
    return [turn for session in read(path, **options) for turn in session.turns]


def test_the_first_line_tells_the_format(tmp_path: Path) -> None:
    """Each format is known without being named."""
    found = {
        name: open_workload(write(tmp_path / name, text())).format
        for name, text in workload_files.FILES.items()
    }
    assert found == {
        "mooncake": Format.mooncake,
        "azure": Format.azure,
        "packed": Format.weka,
        "published": Format.weka,
    }


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress])
def test_compressed_files_are_read_by_content(tmp_path: Path, pack: object) -> None:
    """Plain, gzip and zstd give the same, whatever the file is called; so do two frames."""
    text = workload_files.mooncake().encode()
    plain = tmp_path / "plain"
    plain.write_bytes(text)
    half = text.index(b"\n") + 1
    packed = tmp_path / "packed.txt"
    packed.write_bytes(pack(text[:half]) + pack(text[half:]))  # type: ignore[operator]
    assert read(packed) == read(plain)


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress])
def test_damage_is_named_with_its_line(tmp_path: Path, pack: object) -> None:
    """A compressed file that was cut or changed is one clear line, never a stack trace."""
    whole = pack(workload_files.mooncake(200).encode())  # type: ignore[operator]
    cut, changed = tmp_path / "cut", tmp_path / "changed"
    cut.write_bytes(whole[: len(whole) // 2])
    changed.write_bytes(whole[:60] + bytes([whole[60] ^ 255]) + whole[61:])
    with pytest.raises(WorkloadError, match=r"cut: line \d+: the \w+ stream is (cut|damaged)"):
        read(cut)
    with pytest.raises(WorkloadError, match=r"changed: line \d+: "):
        read(changed)


def test_a_folder_of_several_formats_is_refused(tmp_path: Path) -> None:
    """At once, and not when the first file is played: a limit may end the replay before."""
    write(tmp_path / "a.jsonl", workload_files.FILES["mooncake"]())
    write(tmp_path / "b.csv", workload_files.FILES["azure"]())
    with pytest.raises(WorkloadError, match="azure file in a folder that begins with a mooncake"):
        open_workload(tmp_path)


def test_a_folder_is_its_files_in_order(tmp_path: Path) -> None:
    """Sessions of several files follow one another, and an error names the file."""
    one, two = workload_files.weka_published().splitlines()
    write(tmp_path / "b.json", two)
    write(tmp_path / "a.json", one)
    write(tmp_path / "notes.txt", "nothing")
    whole = write(tmp_path / "whole.jsonl", f"{one}\n{two}\n")
    expected = read(whole)
    whole.unlink()
    assert read(tmp_path) == expected
    write(tmp_path / "c.json", "{")
    with pytest.raises(WorkloadError, match=r"c\.json: line 1: not JSON"):
        read(tmp_path)


def test_mooncake_prompts_share_what_their_ids_share(tmp_path: Path) -> None:
    """Synthetic tokens agree as far as the hash ids do, and differ right after."""
    rows = turns(write(tmp_path / "t", workload_files.mooncake()))
    for a, b in itertools.combinations(rows[:12], 2):
        ids = [list(Numbers(turn.content.runs)) for turn in (a, b)]
        common = len(_common(*ids)) * 512
        assert len(_common(a.content.tokens(), b.content.tokens())) == common


def _common(a: list[int], b: list[int]) -> list[int]:
    return [x for x, _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(a, b))]  # noqa: B905


def test_both_spellings_of_weka_are_one_workload(tmp_path: Path) -> None:
    """Packed and published files give the same turns: lengths, waits, and what is shared."""
    packed = read(write(tmp_path / "p", workload_files.weka_packed()))
    published = read(write(tmp_path / "q", workload_files.weka_published()))
    assert packed == published


def test_whom_a_request_waits_for(tmp_path: Path) -> None:
    """A request waits for the one before of its agent, for its parent, and for the last one of
    each other agent that had ended when it was sent."""
    first, second = read(write(tmp_path / "p", workload_files.weka_packed()))
    assert [turn.after for turn in first.turns] == [(), (0,), (0, 1), (0, 2)]
    # At 9 s the sub-agent's last answer is 4 s old, but thinking took 2 s.
    assert [turn.delay for turn in first.turns] == [0.0, 1.0, 1.0, 2.0]
    assert [turn.after for turn in second.turns] == [(), (0,)]


def test_sessions_share_a_prefix_only_if_they_are_told_to(tmp_path: Path) -> None:
    """Ids are a session's own; --shared-prefix gives every first prompt the same beginning."""
    path = write(tmp_path / "p", workload_files.weka_packed())
    apart, alike = turns(path), turns(path, shared_prefix=128)
    for rows, common in ((apart, 0), (alike, 128)):
        assert len(_common(rows[0].content.tokens(), rows[4].content.tokens())) == common
    # The second request continues the first one, so its prefix is the same as before.
    assert len(_common(alike[0].content.tokens(), alike[3].content.tokens())) == 640


def test_azure_tells_lengths_only(tmp_path: Path) -> None:
    """Times count from the first row, lengths are those of the row, and no prompt is alike."""
    path = write(
        tmp_path / "t",
        '"TIMESTAMP","GeneratedTokens","ContextTokens"\r\n'
        "2024-05-10 00:00:00.009930+00:00,15,100\r\n2024-05-10 00:00:01.0099300+00:00,3,90",
    )
    sessions = read(path)
    assert [session.at for session in sessions] == [0.0, 1.0]
    rows = [session.turns[0] for session in sessions]
    assert [(turn.content.length, turn.output_length) for turn in rows] == [(100, 15), (90, 3)]
    assert not set(rows[0].content.tokens()) & set(rows[1].content.tokens())


@pytest.mark.parametrize("name", list(workload_files.FILES))
def test_a_scale_divides_lengths_and_keeps_what_is_shared(tmp_path: Path, name: str) -> None:
    """Lengths are divided and rounded up; common prefixes shrink by the same factor."""
    path = write(tmp_path / "t", workload_files.FILES[name]())
    plain, small = turns(path), turns(path, scale=4)
    for a, b in zip(plain, small, strict=True):
        assert b.content.length == -(-a.content.length // 4)
        assert b.output_length == -(-a.output_length // 4)
        assert len(b.content.tokens()) == b.content.length
    for (a, b), (c, d) in zip(
        itertools.combinations(plain[:8], 2), itertools.combinations(small[:8], 2), strict=True
    ):
        common = len(_common(a.content.tokens(), b.content.tokens()))
        assert len(_common(c.content.tokens(), d.content.tokens())) == common // 4


def mooncake_row(timestamp: str, length: int, ids: str) -> str:
    """A row with anything in it."""
    return (
        f'{{"timestamp": {timestamp}, "input_length": {length}, "output_length": 1, '
        f'"hash_ids": {ids}}}'
    )


BAD_MOONCAKE = {
    "not JSON": "{",
    "a list": "[1]",
    "no ids": '{"timestamp": 0, "input_length": 5, "output_length": 1}',
    "a time that is none": mooncake_row("NaN", 5, "[1]"),
    "too few ids": mooncake_row("9e9", 513, "[1]"),
    "an id too large": mooncake_row("9e9", 5, "[1e30]"),
    "a length below 0": mooncake_row("9e9", -5, "[]"),
    "an id with two beginnings": mooncake_row("9e9", 1024, "[7, 0]"),
    "a row before its time": mooncake_row("-1", 5, "[0]"),
    "deep nesting": "[" * 100_000,
}


@pytest.mark.parametrize("row", BAD_MOONCAKE.values(), ids=BAD_MOONCAKE)
def test_a_bad_row_of_mooncake_is_named(tmp_path: Path, row: str) -> None:
    """Each kind of damage gets a line with its place and a remedy."""
    path = write(tmp_path / "t", workload_files.mooncake(3) + row + "\n")
    _refused(path, 4)


BAD_WEKA: dict[str, object] = {
    "too few fields": [1, 2],
    "a parent that comes later": packed_row((1, 0, 40.0), 640, 2, 3),
    "more in common than there is": packed_row((1, 0, 40.0), 1280, 0, 15),
    "blocks that do not fit": [*packed_row((1, 0, 40.0), 640, 0, 3)[:5], 6400]
    + packed_row((1, 0, 40.0), 640, 0, 3)[6:],
    "a time before": packed_row((1, 0, 3.0), 640, -1, 0),
    "a session again": packed_row((0, 0, 99.0), 640, -1, 0),
    "a time that is none": packed_row((1, 0, 40.0), 640, -1, 0, api="soon"),
    "an object": {},
}


@pytest.mark.parametrize("row", BAD_WEKA.values(), ids=BAD_WEKA)
def test_a_bad_row_of_weka_is_named(tmp_path: Path, row: object) -> None:
    """Each kind of damage gets a line with its place and a remedy."""
    path = write(tmp_path / "t", workload_files.weka_packed() + json.dumps(row) + "\n")
    _refused(path, 7)


@pytest.mark.parametrize(
    "row", ["2023-11-16 18:17:03,1", "yesterday,1,1", "2030-01-01 00:00:00,-1,5", "2001-01-01,1,1"]
)
def test_a_bad_row_of_azure_is_named(tmp_path: Path, row: str) -> None:
    """Each kind of damage gets a line with its place and a remedy."""
    _refused(write(tmp_path / "t", workload_files.azure(3) + row + "\n"), 5)


def _refused(path: Path, line: int) -> None:
    with pytest.raises(WorkloadError) as caught:
        read(path)
    error = caught.value
    assert error.place == f"line {line}" and error.file == str(path)
    assert error.what and error.remedy and "\n" not in str(error)


@pytest.mark.parametrize("data", [b"", b"\n\n", b"PK\x03\x04junk", b"hello\n", b"\xff\xfe{\x00"])
def test_what_is_no_workload_is_refused(tmp_path: Path, data: bytes) -> None:
    """An empty file and a foreign one get one line."""
    path = tmp_path / "t"
    path.write_bytes(data)
    with pytest.raises(WorkloadError):
        read(path)


@given(
    unit=st.sampled_from([1, 2, 16, 64, 512, 3]),
    block=st.sampled_from([1, 3, 16, 32, 48, 1024]),
    ids=st.lists(st.integers(0, 30), min_size=1, max_size=12),
    tail=st.integers(0, 511),
)
def test_chain_numbers_are_equal_where_prefixes_are(
    unit: int, block: int, ids: list[int], tail: int
) -> None:
    """Two prompts of one tree have equal numbers for a block exactly where their tokens agree up
    to its end, whatever the sizes of units and blocks."""
    # Ids of one tree: an id stands for its place's whole past.
    path = list(itertools.accumulate(ids, lambda node, id: node * 31 + id + 1, initial=1))[1:]
    path = [node % 2**40 for node in path]
    whole = Content(len(path) * unit, unit, tuple((node, 1) for node in path))
    short = Content(max(1, whole.length - tail % unit), unit, whole.runs)
    other = Content(whole.length, unit, tuple((n, 1) for n in [*path[:-1], 2**40 - 1]))
    for one in (short, other):
        numbers, theirs = list(one.numbers(block)), list(whole.numbers(block))
        assert len(numbers) == one.length // block
        common = len(_common(one.tokens(), whole.tokens()))
        for place, number in enumerate(numbers):
            assert (number == theirs[place]) == ((place + 1) * block <= common)
        assert len(set(numbers)) == len(numbers)


@given(data=st.data())
def test_damaged_files_never_end_in_anything_but_one_line(data: st.DataObject) -> None:
    """Bytes changed, cut out or put in at random: a file is read, or refused in one line."""
    name = data.draw(st.sampled_from(list(workload_files.FILES)))
    text = bytearray(workload_files.FILES[name]().encode())
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(text)))
        gone = data.draw(st.integers(0, 3))
        text[at : at + gone] = data.draw(
            st.one_of(st.binary(max_size=3), st.sampled_from([b"-", b"9" * 30, b"null", b"[["]))
        )
    if data.draw(st.booleans()):
        packed = bytearray(gzip.compress(bytes(text)))
        packed[data.draw(st.integers(0, len(packed) - 1))] ^= 1 << data.draw(st.integers(0, 7))
        text = packed
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "w"
        path.write_bytes(text)
        try:
            for session in open_workload(path).sessions:
                assert all(len(t.content.numbers(16)) >= 0 for t in session.turns)
        except WorkloadError as error:
            assert "\n" not in str(error) and str(path) in str(error)


SHARED = Path(__file__).resolve().parents[2].parent / "shared" / "traces"


@pytest.mark.parametrize(
    ("name", "requests", "tokens"),
    [
        ("mooncake_conversation.jsonl.gz", 12_031, 144_793_823),
        ("azure2023_code.csv.gz", 8_819, 18_059_974),
        ("weka_claude_code_agentic.jsonl.gz", 49_334, 6_037_445_403),
    ],
)
def test_the_real_traces(name: str, requests: int, tokens: int) -> None:
    """Where the published traces are at hand, every row of them is read."""
    path = SHARED / name
    if not path.exists():
        pytest.skip("the published traces are not here")
    contents: Iterator[Content] = (
        turn.content for session in open_workload(path).sessions for turn in session.turns
    )
    lengths = [content.length for content in contents]
    assert (len(lengths), sum(lengths)) == (requests, tokens)
