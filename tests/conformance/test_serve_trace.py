"""`nullblock serve-trace`: what goes in, what comes out, what is refused, and what check says."""

import json
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch

from nullblock.conformance.cli import main
from nullblock.impl.decoder import Shape, random_weights
from nullblock.impl.decoder.unpaged import generate

VECTORS = Path(__file__).parents[2] / "conformance" / "vectors"


@pytest.fixture(autouse=True)
def few_threads() -> Iterator[None]:
    """The command settles for one thread; whoever comes next has as many as before."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def served(capsys: Any, *options: str) -> tuple[int, dict[str, Any]]:
    """Exit code, and what --json says."""
    code = main(["serve-trace", "--json", *options])
    said: dict[str, Any] = json.loads(capsys.readouterr().out)
    return code, said


def refused(capsys: Any, *options: str) -> tuple[int, str]:
    """Exit code, and the one line."""
    code = main(["serve-trace", *options])
    printed = capsys.readouterr()
    (line,) = printed.err.splitlines()
    assert not printed.out
    return code, line


PRESSING = "num_blocks=24,max_num_batched_tokens=12,policy=priority"
AHEAD = "num_blocks=20,async_scheduling=true,queue_depth=3"


@pytest.mark.parametrize("profile", ["normative", "vllm-0.22.1"])
@pytest.mark.parametrize("config", ["block_size=16,num_blocks=8", PRESSING, AHEAD])
def test_what_it_serves_is_right_and_conforms(
    capsys: Any, tmp_path: Path, profile: str, config: str
) -> None:
    """Tokens are those without a cache, and check explains every decision; chunks, hits and
    preemptions are among them.
    """
    trace, scenario = str(tmp_path / "t.jsonl.zst"), str(tmp_path / "s.json")
    options = ["--profile", profile, "--requests", "10", "--config", config]
    code, said = served(capsys, *options, "--verify", "-o", trace, "--scenario", scenario)
    assert code == 0 and said["verdicts"] == {"right": 10} and not said["unfinished"]
    assert said["hit_tokens"] and (config != PRESSING or said["preemptions"] and said["chunks"])
    assert main(["check", trace, "--profile", profile]) == 0
    assert main(["run", scenario, "--engine", "impl", "--profile", profile]) == 0
    capsys.readouterr()
    again = served(capsys, scenario, "--profile", profile)[1]
    assert [one["tokens"] for one in again["requests"]] == [
        one["tokens"] for one in said["requests"]
    ]


def test_the_device_engine_serves_too(capsys: Any, tmp_path: Path) -> None:
    """With its kernels' twins: the same tokens, and a trace that conforms."""
    trace, options = str(tmp_path / "t.jsonl"), ["--requests", "5", "--verify"]
    code, said = served(capsys, *options, "--device", "twins", "-o", trace)
    assert code == 0 and said["requests"] == served(capsys, *options)[1]["requests"]
    assert main(["check", trace]) == 0


def test_text_goes_in_and_comes_out(capsys: Any) -> None:
    """Bytes are tokens; --stream prints each as it comes; the table has them all."""
    text = ["The null block", "The null block is number 0"]
    options = [f"--text={line}" for line in text] + ["--output-tokens", "3"]
    code, said = served(capsys, *options)
    right = [generate(random_weights(Shape(), 0), list(t.encode()), 3)[0] for t in text]
    assert code == 0 and [one["tokens"] for one in said["requests"]] == right
    assert said["requests"][1]["hit_tokens"] == 12
    assert main(["serve-trace", *options, "--stream", "--verify"]) == 0
    printed = capsys.readouterr().out.splitlines()
    streamed = [int(line.split()[3]) for line in printed if line.startswith("step")]
    assert sorted(streamed) == sorted(right[0] + right[1])
    assert "all 2 requests have the tokens of the decoder without a cache" in "\n".join(printed)


def test_departures_of_vllm_change_tokens(capsys: Any, tmp_path: Path) -> None:
    """A block cached and never computed is read (PREEMPT-3), a token goes to a later owner of the
    id (UPD-16): with the rules of 0.22.1, whose traces conform to them; not with the normative.
    """
    trace = str(tmp_path / "t.jsonl")
    stays = [str(VECTORS / "defect-withdrawn-hashes-stay.json"), "--verify"]
    owner = [str(VECTORS / "defect-output-of-an-earlier-owner.json"), "--verify"]
    old = ["--profile", "vllm-0.22.1"]
    code, said = served(capsys, *stays, *old, "-o", trace)
    assert code == 1 and said["raised"].startswith("UnwrittenRead: request 'other'")
    assert main(["check", trace, *old]) == 0
    assert main(["check", trace, "--profile", "normative"]) == 1
    capsys.readouterr()
    code, said = served(capsys, *owner, *old)
    assert code == 1 and said["verdicts"] == {"right": 1, "wrong": 1}
    for scenario in (stays, owner):
        code, said = served(capsys, *scenario)
        assert code == 0 and set(said["verdicts"]) == {"right"}


def test_whoever_is_not_served_is_counted(capsys: Any) -> None:
    """In vllm-0.22.1 a request that outgrows the pool waits for ever; normative refuses it."""
    options = ["--requests", "2", "--config", "num_blocks=3", "--shared-prefix", "0"]
    code, said = served(capsys, *options, "--verify")
    assert code == 0 and said["requests"][0]["finish"] == "rejected"
    assert "blocks" in said["requests"][0]["why"]
    text = ["--text=abcdefgh", "--output-tokens=8", "--config=num_blocks=3"]
    code, said = served(capsys, *text, "--profile", "vllm-0.22.1")
    assert code == 1 and said["unfinished"] == 1


def test_a_token_that_float32_does_not_decide_is_inconclusive(
    capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit code 3, and the token is named."""
    monkeypatch.setattr(import_module("nullblock.impl.decoder.criterion"), "MARGIN", 1.0)
    assert main(["serve-trace", "--requests", "3", "--verify"]) == 3
    assert "UNDECIDED: the first logit is only" in capsys.readouterr().out


def test_what_it_does_without_is_refused_by_name(capsys: Any, tmp_path: Path) -> None:
    """One line with the place and the remedy, and the exit code of its kind."""
    source = tmp_path / "s.json"

    def scenario(**added: Any) -> str:
        add = {"op": "add", "id": "a", "prompt": [1, 2], "max_tokens": 2, **added}
        source.write_text(json.dumps({"events": [add, {"op": "run"}]}))
        return str(source)

    cases: list[tuple[list[str], int, str]] = [
        ([scenario(), "--requests", "3"], 2, "a scenario says itself"),
        (["--text", "a", "--requests", "3"], 2, "with --text nothing is drawn"),
        (["--prompt-tokens", "9:3"], 2, "'9:3' is neither"),
        ([str(tmp_path / "none.json")], 2, "No such file"),
        (["--config", "num_block=3"], 4, "did you mean 'num_blocks'"),
        (["--config", "kv_events=true"], 3, "the KV event stream"),
        (["--config", "block_size=3"], 3, "powers of two"),
        (["--config", "block_size=1024,num_blocks=1000000"], 3, "bytes for the small model"),
    ]
    for options, code, said in cases:
        assert refused(capsys, *options)[0] == code
        assert said in refused(capsys, *options)[1]
    for added, code, said in (
        ({"lora": "x"}, 3, "events[0].lora: the small model has no adapters"),
        ({"eos": 3, "eos_at": 1}, 3, "events[0].eos_at: "),
        ({"prompt": [-1]}, 4, "events[0].prompt: a token below 0"),
        ({"prompt": [70000]}, 3, "a vocabulary of 70001 tokens"),
    ):
        found, line = refused(capsys, scenario(**added))  # type: ignore[arg-type]
        assert (found, said in line) == (code, True), line


def test_without_torch_it_says_so(capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line with the remedy, exit code 3."""
    monkeypatch.setitem(sys.modules, "torch", None)
    code, line = refused(capsys)
    assert code == 3 and "needs torch; pip install 'nullblock[gpu]'" in line
