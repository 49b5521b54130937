"""The command line where streams fail: pipes, full disks, closed or narrow terminals."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from traces import BUSY, trace_of

from nullblock.conformance.cli import PIPE_CLOSED, STOPPED

CALL = "import sys; from nullblock.conformance.cli import main; sys.exit(main())"
FULL = Path("/dev/full")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A scenario and a trace, in the current folder."""
    (tmp_path / "s.json").write_text(json.dumps(BUSY))
    (tmp_path / "t.jsonl").write_bytes(trace_of(BUSY))
    (tmp_path / "bad.json").write_text("{")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str, **options: Any) -> subprocess.CompletedProcess[bytes]:
    """One command line, to its end."""
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    command = [sys.executable, "-c", CALL, *arguments]
    return subprocess.run(command, timeout=60, check=False, **options)


EVERY = ("check t.jsonl", "check --json t.jsonl", "run s.json", "rules", "schema", "--help")
EACH = pytest.mark.parametrize("line", EVERY)


@EACH
def test_nobody_reads_on(folder: Path, line: str) -> None:
    """A closed pipe is no verdict: its own exit code, and nothing said."""
    reading, writing = os.pipe()
    os.close(reading)
    done = run(*line.split(), stdout=writing)
    os.close(writing)
    assert (done.returncode, done.stderr) == (PIPE_CLOSED, b"")


@pytest.mark.skipif(not FULL.exists(), reason="this system has no full device")
@EACH
def test_a_full_disk(folder: Path, line: str) -> None:
    """One line, and an exit code that means nothing else."""
    with FULL.open("wb") as full:
        done = run(*line.split(), stdout=full)
    assert done.returncode == STOPPED
    assert done.stderr == b"nullblock: stopped: No space left on device\n"


def test_closed_streams(folder: Path) -> None:
    """Without standard output, or standard error, a command does its work."""
    for line, code in (("check t.jsonl", 0), ("run bad.json", 4)):
        for closed in (">&-", "2>&-", "<&-"):
            command = f'"{sys.executable}" -c "{CALL}" {line} {closed}'
            done = subprocess.run(["sh", "-c", command], capture_output=True, check=False)
            assert done.returncode == code, (line, closed, done)
            assert b"Traceback" not in done.stderr
            assert done.stdout == b"" or closed != ">&-"


def test_a_terminal_that_cannot_show_a_character(folder: Path) -> None:
    """The character is replaced."""
    done = run("check", "t.jsonl", env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0 and b"CONFORMS" in done.stdout


@pytest.mark.parametrize("command", ["run", "check"])
def test_a_pipe_is_read_like_a_file(folder: Path, command: str) -> None:
    """A named pipe, or what `<(...)` makes, is read once and whole."""
    pipe, source = folder / "pipe", folder / ("s.json" if command == "run" else "t.jsonl")
    os.mkfifo(pipe)
    feeder = threading.Thread(target=lambda: pipe.write_bytes(source.read_bytes()))
    feeder.start()
    done = run(command, "--json", str(pipe))
    feeder.join()
    assert done.returncode == 0
    assert done.stdout


@pytest.mark.parametrize("command", ["run", "trace"])
def test_a_pipe_is_written_like_a_file(folder: Path, command: str) -> None:
    """`-o /dev/stdout` goes where standard output goes."""
    done = run(command, "s.json", "-o", "/dev/stdout")
    assert done.returncode == 0
    assert all(json.loads(line) for line in done.stdout.splitlines())


@pytest.mark.parametrize("command", ["run", "check"])
def test_standard_input_is_read_once(folder: Path, command: str) -> None:
    """Naming it twice is a mistake; so is a file without a name."""
    done = run(command, "-", "-", input=b"")
    assert done.returncode == 2 and b"can be read once" in done.stderr
    done = run(command, "")
    assert done.returncode == 2 and b"is empty" in done.stderr


def test_a_file_is_not_replaced_by_nothing(folder: Path) -> None:
    """Where no scenario could run, the old output stays."""
    (folder / "out").write_text("precious")
    assert run("run", "bad.json", "-o", "out").returncode == 4
    assert (folder / "out").read_text() == "precious"
    assert run("run", "bad.json", "s.json", "-o", "out").returncode == 4
    assert (folder / "out").read_text().count("\n") > 5


@pytest.mark.parametrize(
    "line",
    ["run s.json -o s.json", "trace s.json -o ./s.json", "check t.jsonl --junit t.jsonl"],
)
def test_an_input_is_not_overwritten(folder: Path, line: str) -> None:
    """The same file on both sides is a mistake that is noticed before it is one."""
    before = (folder / "s.json").read_bytes(), (folder / "t.jsonl").read_bytes()
    done = run(*line.split())
    assert done.returncode == 2 and b"is also an input" in done.stderr
    assert before == ((folder / "s.json").read_bytes(), (folder / "t.jsonl").read_bytes())


def test_a_report_that_cannot_be_written_is_said_first(folder: Path) -> None:
    """Before any verdict, with the name of the option."""
    done = run("check", "t.jsonl", "--junit", "nowhere/report.xml")
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"--junit: nowhere/report.xml: there is no such folder" in done.stderr


@pytest.mark.parametrize("field", ["priority", "max_tokens"])
def test_a_number_that_no_trace_holds_is_refused(folder: Path, field: str) -> None:
    """The greatest that a trace holds runs; one more is refused, and nothing is written."""
    for number, code in ((2**63 - 1, 0), (2**63, 4)):
        add = {"op": "add", "id": "a", "prompt": [1], "max_tokens": 3, field: number}
        (folder / "big.json").write_text(json.dumps({"events": [add, {"op": "step"}]}))
        for command in (("run", "big.json"), ("trace", "big.json", "-o", "big.jsonl")):
            (folder / "big.jsonl").unlink(missing_ok=True)
            done = run(*command, "--profile", "vllm-0.22.1")
            assert done.returncode == code, done.stderr
            assert (b"events[0]." + field.encode() in done.stderr) == (code == 4)
    assert not (folder / "big.jsonl").exists()


def test_a_trace_sealed_anew_keeps_its_decisions(folder: Path) -> None:
    """Options that would decide otherwise are refused with --reseal."""
    done = run("trace", "t.jsonl", "-o", "u.jsonl", "--reseal", "--profile", "vllm-0.22.1")
    assert done.returncode == 2 and not (folder / "u.jsonl").exists()
    assert run("trace", "t.jsonl", "-o", "u.jsonl", "--reseal").returncode == 0
    assert run("check", "u.jsonl").returncode == 0
