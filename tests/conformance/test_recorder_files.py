"""Where recordings go, what the environment may say, and a writer that cannot keep up."""

import errno
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from nullblock.conformance.adapters.vllm import files, settings
from nullblock.conformance.adapters.vllm.files import Files
from nullblock.conformance.adapters.vllm.sink import Sink
from nullblock.conformance.trace import source

LINE = b'{"ev":"pause","pause_state":"UNPAUSED"}\n'


def content(path: Path) -> list[bytes]:
    """The lines of a file, as the reader expands them."""
    with path.open("rb") as stream:
        return list(source.lines(stream))


@pytest.mark.parametrize("name", ["t.jsonl", "t.jsonl.gz", "t.jsonl.zst"])
def test_a_file_is_never_overwritten(tmp_path: Path, name: str) -> None:
    """A second recording of the same name goes beside the first; a rank is part of the name."""
    for _ in range(3):
        Files(str(tmp_path / name), rank=0, keep=0).file.close(continued=False)
    Files(str(tmp_path / name), rank=3, keep=0).file.close(continued=False)
    suffix = name.removeprefix("t")
    assert {p.name for p in tmp_path.iterdir()} == {
        f"t{n}{suffix}" for n in ("", "-2", "-3", "-rank3")
    }


def test_recordings_in_one_folder_have_a_folder_each(tmp_path: Path) -> None:
    """Ranks and restarts do not meet, and a reader finds them all."""
    for rank in (0, 1, 0):
        Files(str(tmp_path / "all"), rank, keep=0).file.close(continued=False)
    found = source.recordings(tmp_path / "all")
    assert [path.name for path in found] == ["rank0-run1", "rank0-run2", "rank1-run1"]


@pytest.mark.parametrize("ending", ["gz", "zst"])
def test_what_was_flushed_can_be_read(
    tmp_path: Path, ending: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before a file is closed its lines are there, up to the last write."""
    if ending == "gz":
        monkeypatch.setattr(files, "_zstandard", lambda: None)
    found = Files(str(tmp_path), 0, 0)
    assert found.file.path.suffix == f".{ending}"
    for many in (1, 5):
        found.file.write(LINE * many)
        lines: list[bytes] = []
        with found.file.path.open("rb") as stream, pytest.raises(source.Cut):
            for line in source.lines(stream):
                lines.append(line)
        assert len(lines) == found.file.records


def test_old_parts_are_removed(tmp_path: Path) -> None:
    """Of many parts as many are kept as asked for, the newest ones."""
    made = Files(str(tmp_path), 0, keep=3)
    for _ in range(6):
        made.file.write(LINE)
        made.next_part()
    made.file.close(continued=False)
    names = sorted(path.name.partition(".")[0] for path in made.path.iterdir())
    assert names == ["0005", "0006", "0007"]


class Slow(Files):
    """A disk that waits until it is told to go on."""

    def __init__(self, where: str) -> None:
        super().__init__(where, 0, 0)
        self.go_on = threading.Event()
        write = self.file.write

        def wait(lines: bytes) -> None:
            self.go_on.wait(10)
            write(lines)

        self.file.write = wait  # type: ignore[method-assign]


def test_a_slow_disk_bounds_the_queue_and_blocks_nobody(tmp_path: Path) -> None:
    """What does not fit is refused at once; what was taken is written."""
    disk = Slow(str(tmp_path / "t.jsonl"))
    sink = Sink(disk, limit=100 * len(LINE), flush_seconds=0.01, failed=print)
    taken = sum(sink.put(LINE) for _ in range(1000))
    assert 100 <= taken <= 101 and sink.waiting <= 100 * len(LINE)
    disk.go_on.set()
    assert sink.close()
    assert len(content(disk.path)) == taken + 1


def test_a_part_begins_with_its_header_whatever_room_there_is(tmp_path: Path) -> None:
    """What the queue has no room for is missing from a part, and never its header: without that a
    part is no trace.
    """
    made = Files(str(tmp_path), 0, 0)
    sink = Sink(made, limit=len(LINE), flush_seconds=60, failed=print)
    assert sink.put(LINE) and not sink.put(LINE)
    sink.next_part(LINE * 2)
    assert sink.waiting == 3 * len(LINE) and not sink.put(LINE)
    assert sink.close()
    found = [content(path) for path in sorted(made.path.iterdir())]
    assert [len(lines) for lines in found] == [1 + 1, 2 + 1]


def test_what_goes_wrong_in_the_writer_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk: the file ends after the last whole write, and nothing more is queued."""
    real, told = os.write, []
    sizes: list[int] = []

    def write(descriptor: int, data: Any) -> int:
        if len(sizes) == 2:
            real(descriptor, data[:7])
            raise OSError(errno.ENOSPC, "No space left on device")
        sizes.append(len(data))
        return real(descriptor, data)

    monkeypatch.setattr(os, "write", write)
    made = Files(str(tmp_path / "t.jsonl"), 0, 0)
    sink = Sink(made, limit=1000, flush_seconds=0.001, failed=told.append)
    for number in range(3):
        sink.put(LINE)
        for _ in range(10_000):
            # Taken off the queue is not written yet: two lines would go in one write.
            if len(sizes) > number or sink.error:
                break
            time.sleep(0.001)
    assert sink.close()  # what ended it is told last
    assert isinstance(sink.error, OSError) and told == [sink.error]
    assert made.path.read_bytes() == LINE * 2


def test_a_device_without_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system's own full disk: the writer ends with its error, whoever puts is never told."""
    opened = os.open

    def full(path: Any, flags: int, mode: int = 0o777) -> int:
        if Path(path).suffix != ".gz":
            return opened(path, flags, mode)
        return opened("/dev/full", os.O_WRONLY)

    monkeypatch.setattr(os, "open", full)
    told: list[BaseException] = []
    sink = Sink(Files(str(tmp_path / "t.jsonl.gz"), 0, 0), 1000, 0.001, told.append)
    assert sink.put(LINE)
    assert sink.close()
    (error,) = told
    assert isinstance(error, OSError) and error.errno == errno.ENOSPC and sink.error is error


def test_settings() -> None:
    """Each variable sets what it says; without the first one nothing is asked."""
    assert settings.from_environment({"NULLBLOCK_TRACE_KEEP": "2"}, pytest.fail) is None
    asked = settings.from_environment(
        {
            "NULLBLOCK_TRACE": "/traces",
            "NULLBLOCK_TRACE_PART_MB": "0.5",
            "NULLBLOCK_TRACE_KEEP": "2",
            "NULLBLOCK_TRACE_OBSERVE": "events,counts",
            "NULLBLOCK_TRACE_STATE_EVERY": "100",
            "NULLBLOCK_TRACE_NAMES": "1",
            "NULLBLOCK_TRACE_QUEUE_MB": "2",
            "NULLBLOCK_TRACE_FLUSH_SECONDS": "0.1",
        },
        pytest.fail,
    )
    assert asked == settings.Settings(
        "/traces", 2**19, 2, frozenset({"events", "counts"}), 100, True, 2**21, 0.1
    )


def test_the_process_number_stands_in_a_name() -> None:
    """``{pid}`` in the name of a trace becomes the number of the process, wherever it stands."""
    asked = settings.from_environment({"NULLBLOCK_TRACE": "/{pid}/t-{pid}.jsonl"}, pytest.fail)
    assert asked == settings.Settings(f"/{os.getpid()}/t-{os.getpid()}.jsonl")


def test_every_variable_is_documented() -> None:
    """The module says what each one does, and so does the page."""
    page = Path(files.__file__).with_name("RECORDING.md").read_text()
    for suffix in ("", *settings._VARIABLES):
        name = f"`{settings.VARIABLE}{suffix}`"
        assert name in page and f"`{name}`" in str(settings.__doc__)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("_PART_MB", "big"),
        ("_PART_MB", "0"),
        ("_PART_MB", "nan"),
        ("_PART_MB", "inf"),
        ("_KEEP", "-1"),
        ("_KEEP", "9" * 5000),
        ("_OBSERVE", "tokens"),
        ("_STATE_EVERY", "1.5"),
        ("_NAMES", "yes"),
        ("_QUEUE_MB", "1e99"),
        ("_FLUSH_SECONDS", "-2"),
        ("_PARTMB", "3"),
    ],
)
def test_bad_values_cost_a_warning(name: str, value: str) -> None:
    """Whatever a variable holds, the default is used and one line names it."""
    lines: list[str] = []
    found = settings.from_environment(
        {"NULLBLOCK_TRACE": "t", f"NULLBLOCK_TRACE{name}": value}, lines.append
    )
    assert found == settings.Settings("t")
    assert len(lines) == 1 and f"NULLBLOCK_TRACE{name}" in lines[0] and len(lines[0]) < 200
