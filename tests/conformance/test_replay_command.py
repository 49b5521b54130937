"""``nullblock replay``: output, files, exit codes, the page, and one line for each mistake."""

import json
import re
import signal
import subprocess
import sys
import time
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import workload_files
from workload_files import write

from nullblock.conformance import cli
from nullblock.conformance.trace.reader import TraceReader

SMALL = "vllm-sync,num_blocks=400,max_num_batched_tokens=512,max_num_seqs=8"
SMALLER = "vllm-sync,num_blocks=300,max_num_seqs=4"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with workloads."""
    write(tmp_path / "talk.jsonl", workload_files.mooncake(60))
    write(tmp_path / "agents.jsonl", workload_files.weka_packed())
    write(tmp_path / "bad.jsonl", workload_files.mooncake(2) + "{}\n")
    write(tmp_path / "code.csv", workload_files.azure())
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(capfd: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Exit code, output and errors of ``nullblock replay``."""
    code = cli.main(["replay", *arguments])
    out, err = capfd.readouterr()
    return code, out, err


def test_figures_for_people(capfd: pytest.CaptureFixture[str]) -> None:
    """The table names what was asked for, what to mind, and the command that does it again."""
    code, out, err = run(capfd, "talk.jsonl", "--config", SMALL, "--limit", "9")
    assert (code, err) == (0, "")
    for word in ("9 arrived, 9 finished", "hit rate, tokens", "time to first token", "12 ms + 40"):
        assert word in out
    assert out.splitlines()[-1] == (
        f"nullblock replay talk.jsonl --engine reference --config {SMALL} --profile normative "
        "--limit 9"
    )


def test_the_command_makes_the_same_again(capfd: pytest.CaptureFixture[str]) -> None:
    """The command in the figures gives the same figures."""
    arguments = ["agents.jsonl", "--config", SMALL, "--engine", "spec", "--engine", "reference"]
    arguments += ["--speed", "0.5", "--users", "1", "--max-think", "1.5", "--shared-prefix", "128"]
    arguments += ["--scale-lengths", "2", "--ends-by", "eos", "--step-ms", "3", "--token-us", "7"]
    arguments += ["--set", "withdraw_uncaches=false", "--seconds", "50", "--session-gap", "0.1"]
    code, out, err = run(capfd, *arguments, "--json")
    assert (code, err) == (0, "")
    said = json.loads(out)
    words = said["command"].split()
    code, again, err = run(capfd, *words[2:], "--json")
    assert (code, err) == (0, "")
    assert without_wall(json.loads(again)) == without_wall(said)
    steps = said["runs"][0]["steps"]
    assert said["agreement"] == [f"spec and reference decided the same in all {steps:,} steps"]
    spec, reference = said["runs"]
    assert spec["tokens"] == reference["tokens"] and spec["pace"]["users"] == 1


def without_wall(said: dict[str, object]) -> dict[str, object]:
    """Figures without what differs from run to run."""
    for one in said["runs"]:  # type: ignore[attr-defined]
        del one["wall"]
    return said


def test_a_folder_gets_everything(capfd: pytest.CaptureFixture[str], folder: Path) -> None:
    """-o makes a folder with a trace a run, the figures, and the page; check finds no fault."""
    code, _, err = run(capfd, "talk.jsonl", "--config", SMALL, "--config", SMALLER, "-o", "out")
    assert (code, err) == (0, "")
    names = sorted(path.name for path in (folder / "out").iterdir())
    assert names[2:] == ["figures.json", "page.html"] and len(names) == 4
    said = json.loads((folder / "out" / "figures.json").read_text())
    assert [Path(one["trace"]).name for one in said["runs"]] == names[:2]
    for name in names[:2]:
        assert cli.main(["check", str(folder / "out" / name)]) == 0
    capfd.readouterr()


def test_one_trace_by_name(capfd: pytest.CaptureFixture[str], folder: Path) -> None:
    """--trace writes the trace of one run there; it tells no prompt and no time of anybody's."""
    code, _, _ = run(capfd, "code.csv", "--config", SMALL, "--trace", "t.jsonl.gz")
    assert code == 0
    kinds = {type(located.record).__name__ for located in TraceReader(folder / "t.jsonl.gz")}
    assert kinds == {"Header", "Add", "Schedule", "Output", "Update", "End"}


def test_engines_that_differ_are_told(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where two engines do not decide the same, the result says so."""
    from nullblock.conformance.adapters import replay_reference

    class Late(replay_reference._Hasher):
        """Never finds a prefix."""

        def __call__(self, request: Any) -> list[Any]:
            return [hash[::-1] + bytes([self.number]) for hash in super().__call__(request)]

    monkeypatch.setattr(replay_reference, "_Hasher", Late)
    both = ("--engine", "spec", "--engine", "reference")
    code, out, _ = run(capfd, "talk.jsonl", *both, "--config", SMALL, "--page", "p.html")
    assert code == 0 and "spec and reference decided differently" in out
    assert "decided differently" in Path("p.html").read_text()


def test_the_page_names_every_engine(capfd: pytest.CaptureFixture[str], folder: Path) -> None:
    """Each engine of this project that took part is named there, and they decide the same."""
    engines = {"spec": "specification", "reference": "reference engine", "impl": "fast engine"}
    asked = [word for name in engines for word in ("--engine", name)]
    code, out, _ = run(capfd, "talk.jsonl", *asked, "--config", SMALL, "--page", "p.html")
    assert code == 0 and "decided the same" in out
    text = Path("p.html").read_text()
    assert [name for name in engines.values() if name not in text] == []


class Page(HTMLParser):
    """What a page consists of; complains about tags that do not match."""

    VOID = frozenset({"meta", "path", "line", "circle", "input", "br"})

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """An element begins."""
        self.found.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """An element without content."""
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        """An element ends."""
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Text."""
        self.words.append(data)


@pytest.mark.parametrize("configs", [(SMALL,), (SMALL, SMALLER), (SMALL, SMALLER, "num_blocks=2")])
def test_the_page_is_whole_and_needs_nothing_else(
    capfd: pytest.CaptureFixture[str], folder: Path, configs: tuple[str, ...]
) -> None:
    """One well-formed file with five titled plots a run, axes named, nothing from elsewhere."""
    options = [word for config in configs for word in ("--config", config)]
    code, _, err = run(capfd, "talk.jsonl", *options, "--page", "p.html")
    assert (code, err) == (0, "")
    text = (folder / "p.html").read_text()
    page = Page(text)
    tags = [tag for tag, _ in page.found]
    assert tags.count("svg") == 5 * len(configs)
    assert tags.count("figure") == 5 * len(configs)
    assert tags.count("title") == 1 + tags.count("svg")
    assert not {"link", "img", "iframe", "object"} & set(tags)
    assert not [a for _, a in page.found if {"src", "href", "xlink:href"} & a.keys()]
    assert not re.search(r"url\(|@import|https?://|NaN|Infinity|\bnan\b|\binf\b", text)
    words = " ".join(page.words)
    for label in (
        *("time on the clock, ", "requests", "blocks", "tokens a step", "% of prompt tokens"),
        *("seconds on the clock, logarithmic", "What happened", "Configuration"),
        *("budget", "preemptions", "prefers-color-scheme: dark"),
        *configs[1:],
    ):
        assert label in words
    assert f"nullblock replay talk.jsonl --engine reference --config {configs[0]}" in words


def test_names_cannot_break_the_page(capfd: pytest.CaptureFixture[str], folder: Path) -> None:
    """What a file is called is text on the page, whatever it looks like."""
    name = "<script>alert(1)<!--&.jsonl"
    write(folder / name, workload_files.mooncake(3))
    code, _, _ = run(capfd, name, "--config", SMALL, "--page", "p.html")
    assert code == 0
    text = (folder / "p.html").read_text()
    assert "<script>alert" not in text and "&lt;script&gt;alert(1)" in text
    Page(text)


MISTAKES: dict[str, tuple[int, list[str], str]] = {
    "no such file": (2, ["none.jsonl"], "none.jsonl"),
    "damage": (4, ["bad.jsonl"], "bad.jsonl: line 3: timestamp is missing"),
    "another format": (4, ["code.csv", "--format", "weka"], "code.csv: line 1"),
    "no vLLM named": (2, ["talk.jsonl", "--engine", "vllm"], "--python"),
    "no vLLM there": (
        3,
        ["talk.jsonl", "--engine", "vllm", "--python", sys.executable],
        "No module named 'vllm'",
    ),
    "no interpreter": (
        3,
        ["talk.jsonl", "--engine", "vllm", "--python", "none"],
        "none: No such file",
    ),
    "a wrong key": (4, ["talk.jsonl", "--config", "num_block=3"], "did you mean 'num_blocks'?"),
    "a wrong scale": (2, ["talk.jsonl", "--scale-lengths", "3"], "--scale-lengths"),
    "out of scope": (3, ["talk.jsonl", "--config", "num_spec_tokens=2"], "which of them a model"),
    "a folder that is none": (2, ["talk.jsonl", "--page", "none/p.html"], "no such folder"),
    "two traces in one": (
        2,
        ["talk.jsonl", "--config", SMALL, "--config", SMALLER, "--trace", "t.jsonl"],
        "--trace",
    ),
    "the workload as output": (2, ["talk.jsonl", "--trace", "talk.jsonl"], "is also an input"),
}


@pytest.mark.parametrize(("code", "arguments", "says"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_one_line(
    capfd: pytest.CaptureFixture[str], code: int, arguments: list[str], says: str
) -> None:
    """Each mistake gives its exit code and one line with the place, and no output."""
    found, out, err = run(capfd, *arguments)
    assert (found, out) == (code, "")
    assert says in err and len(err.splitlines()) == 1


def test_damage_leaves_no_half_written_files(
    capfd: pytest.CaptureFixture[str], folder: Path
) -> None:
    """Where the workload turns out to be damaged, no trace and no page appears."""
    code, _, _ = run(capfd, "bad.jsonl", "--trace", "t.jsonl.zst", "--page", "p.html")
    assert code == 4
    assert sorted(path.name for path in folder.iterdir()) == [
        *("agents.jsonl", "bad.jsonl", "code.csv", "talk.jsonl")
    ]


def test_an_engine_that_never_serves_is_told(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A replay that cannot go on says so and gives 1, with the figures so far."""
    monkeypatch.setattr("nullblock.conformance.replaying.configuration.room", lambda config: 10**6)
    arguments = ("--profile", "vllm-0.22.1", "--config", "vllm-sync,num_blocks=50")
    code, out, _ = run(capfd, "talk.jsonl", *arguments, "--page", "p.html")
    assert code == 1 and "stuck: " in out and "never served" in out
    assert "did not end well" in Path("p.html").read_text()


def test_ctrl_c_gives_what_there_is(folder: Path) -> None:
    """An interrupted replay writes its figures and a trace that conforms, and gives 130."""
    write(folder / "long.jsonl", workload_files.mooncake(20_000))
    command = [sys.executable, "-m", "nullblock.conformance.start", "replay", "long.jsonl"]
    command = [str(Path(sys.executable).with_name("nullblock")), *command[3:]]
    process = subprocess.Popen(
        [*command, "--config", SMALL, "-o", "out"], stdout=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 60
    while not list((folder / "out").glob(".*")) and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(1.0)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "interrupted" in out
    said = json.loads((folder / "out" / "figures.json").read_text())
    assert said["runs"][0]["end"] == "interrupted" and said["runs"][0]["steps"] > 0
    assert cli.main(["check", str(folder / "out" / "trace.jsonl.zst")]) == 0
