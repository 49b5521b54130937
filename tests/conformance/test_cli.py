"""The command line: output, exit codes, and one clear line for each mistake."""

import importlib.util
import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from nullblock.conformance import cli, scope

ADD: dict[str, Any] = {"op": "add", "id": "a", "prompt": {"range": [0, 9]}, "max_tokens": 3}
DOCUMENTS: dict[str, Any] = {
    "good.json": {"events": [ADD, {"op": "run"}]},
    "raises.json": {"events": [ADD | {"max_tokens": 0}]},
    "wrong.json": {"events": [{"op": "stop"}]},
    "midway.json": {"events": [ADD, {"op": "step"}, ADD]},
    "scope.json": {"config": {"hash_algo": "xxhash"}, "events": []},
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with the scenarios above, and no xxhash package: so one is out of scope."""
    monkeypatch.setattr(scope, "find_spec", lambda name: None)
    for name, document in DOCUMENTS.items():
        (tmp_path / name).write_text(json.dumps(document))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(capfd: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, list[str], list[str]]:
    """Exit code, output lines and error lines of ``nullblock run`` on the reference."""
    code = cli.main(["run", "--engine", "reference", *arguments])
    out, err = capfd.readouterr()
    return code, out.splitlines(), err.splitlines()


def test_run_prints_lines(capfd: pytest.CaptureFixture[str]) -> None:
    """A scenario prints header, lines and trailer on standard output, and nothing on the other."""
    code, out, err = run(capfd, "good.json")
    assert (code, err) == (0, [])
    assert [json.loads(line)["ev"] for line in (out[0], out[-1])] == ["header", "trailer"]


@pytest.mark.parametrize("engine", ["spec", "reference"])
def test_every_engine_runs(capfd: pytest.CaptureFixture[str], engine: str) -> None:
    """Each engine on offer runs, and what it raises is a line and no error."""
    code, out, err = run(capfd, "good.json", "raises.json", "--engine", engine)
    assert (code, err) == (0, [])
    assert sum('"EXCEPTION"' in line for line in out) == 1


@pytest.mark.parametrize(
    ("names", "code"),
    [
        (["good.json"], 0),
        (["good.json", "raises.json"], 0),
        (["scope.json", "good.json"], 3),
        (["scope.json"], 3),
        (["scope.json", "wrong.json", "good.json"], 4),
        (["wrong.json", "scope.json"], 4),
        (["midway.json"], 4),
    ],
)
def test_the_worst_file_decides_the_exit_code(
    capfd: pytest.CaptureFixture[str], names: list[str], code: int
) -> None:
    """4 is worse than 3 is worse than 0; an exception of the engine is 0; good files still run."""
    found, out, err = run(capfd, *names)
    ran = [name for name in names if name in ("good.json", "raises.json")]
    assert found == code
    assert sum('"header"' in line for line in out) == len(ran)
    assert [line.partition(":")[0] for line in err] == [n for n in names if n not in ran]


def test_errors_can_be_json(capfd: pytest.CaptureFixture[str]) -> None:
    """With --json an error is one JSON object on standard error."""
    _, _, (line,) = run(capfd, "midway.json", "--json")
    error = json.loads(line)
    assert (error["file"], error["place"]) == ("midway.json", "events[2].id")
    assert (error["exit_code"], error["kind"]) == (4, "scenario")


def test_an_error_stays_one_line(capfd: pytest.CaptureFixture[str], folder: Path) -> None:
    """Whatever a file is called and holds, its error is one line."""
    (folder / "two\nlines.json").write_text('{"events": [{"op": "a\\nb"}]}')
    assert len(run(capfd, "two\nlines.json")[2]) == 1


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "Missing command"),
        (["walk"], "No such command 'walk'"),
        (["run"], "Missing argument"),
        (["run", "good.json", "--engine", "gpu"], "'gpu' is not one of"),
        (["run", "good.json", "--profile", "latest"], "no profile 'latest'"),
        (["run", "good.json", "--set", "speed=1"], "'speed=1' is not SWITCH=true"),
        (["run", "good.json", "--dump", "all"], "'all' is not one of"),
        (["run", "missing.json"], "missing.json: No such file"),
        (["run", "good.json", "."], ".: Is a directory"),
        (["run", "good.json", "-o", "missing/out"], "missing/out: there is no such folder"),
        (["run", "--fast", "good.json"], "--fast"),
    ],
)
def test_a_mistake_on_the_command_line_is_one_line(
    capfd: pytest.CaptureFixture[str], arguments: list[str], says: str
) -> None:
    """Exit code 2, nothing on standard output, one line on standard error."""
    assert cli.main(arguments) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert says in err


def test_output_goes_to_a_file(capfd: pytest.CaptureFixture[str], folder: Path) -> None:
    """With -o the same lines stand in the file and nothing is printed."""
    _, printed, _ = run(capfd, "good.json")
    assert run(capfd, "good.json", "-o", "out.jsonl") == (0, [], [])
    assert (folder / "out.jsonl").read_text().splitlines() == printed


def test_the_header_names_the_rules(capfd: pytest.CaptureFixture[str]) -> None:
    """The header says which line of rules decided, and which switches were changed."""
    named = [
        json.loads(run(capfd, "good.json", *options)[1][0])["vllm"]
        for options in (
            [],
            ["--profile", "vllm-0.22.1"],
            ["--set", "withdraw_uncaches=false"],
        )
    ]
    assert named == ["normative", "0.22.1", "normative, withdraw_uncaches=false"]


def test_commands_are_listed_and_have_help(capfd: pytest.CaptureFixture[str]) -> None:
    """Every command that is there is shown by --help, and --help of each works."""
    assert cli.main(["--help"]) == 0
    listed = capfd.readouterr().out
    found = [name for name in cli.COMMANDS if importlib.util.find_spec(cli.module_of(name))]
    assert "run" in found
    for name in found:
        assert name in listed
        assert cli.main([name, "--help"]) == 0


def test_version(capfd: pytest.CaptureFixture[str]) -> None:
    """--version prints name and version."""
    assert cli.main(["--version"]) == 0
    assert capfd.readouterr().out.startswith("nullblock 0.")


def nullblock(*arguments: str, **options: Any) -> subprocess.Popen[str]:
    """The command in a process of its own, which Ctrl-C reaches.

    A test run in the background ignores Ctrl-C, and its children would inherit that.
    """
    call = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "from nullblock.conformance.cli import main; sys.exit(main())"
    )
    return subprocess.Popen(
        [sys.executable, "-c", call, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def test_standard_input_is_read() -> None:
    """The name - stands for standard input, also in errors."""
    text = json.dumps(DOCUMENTS["good.json"])
    out, err = nullblock("run", "--engine", "reference", "-").communicate(text, timeout=60)
    assert out.count('"ev":"header"') == 1
    assert err == ""
    assert nullblock("run", "-").communicate("{", timeout=60)[1].startswith("-: line 1")


def test_run_does_not_import_the_prover() -> None:
    """``nullblock run`` starts without the modules that only other commands need."""
    call = (
        "import sys; from nullblock.conformance.cli import main;"
        "main(['run', '--engine', 'reference', 'good.json', '-o', 'out']);"
        "print(sorted({'z3', 'hypothesis', 'zstandard', 'torch'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", call], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "[]", done.stderr


@pytest.mark.parametrize(
    ("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 128 + signal.SIGTERM)]
)
def test_an_interrupted_run_ends_quietly(folder: Path, sent: signal.Signals, code: int) -> None:
    """Ctrl-C (or a termination) gives its exit code, no message and no half-written file."""
    endless = {"events": [ADD, {"op": "step", "n": 10**6}]}
    (folder / "endless.json").write_text(json.dumps(endless))
    before = set(folder.iterdir())
    process = nullblock(
        "run", "--engine", "reference", "--profile", "vllm-0.22.1", "endless.json", "-o", "out"
    )
    while set(folder.iterdir()) == before and process.poll() is None:
        time.sleep(0.05)
    process.send_signal(sent)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (code, "", "")
    assert set(folder.iterdir()) == before


def test_a_reader_that_leaves_is_no_error(folder: Path) -> None:
    """A closed pipe ends the command without a message."""
    many = {"events": [ADD | {"max_tokens": 2000}, {"op": "step", "n": 500}]}
    (folder / "many.json").write_text(json.dumps(many))
    process = nullblock("run", "--engine", "reference", "many.json")
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == ""
    assert process.wait(timeout=60) == 141
