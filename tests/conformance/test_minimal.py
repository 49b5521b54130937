"""The minimal scenario: it runs, it shows the same fault, and where there is none it is said."""

import io
import json
from collections import deque
from pathlib import Path
from typing import Any

import pytest
from alterations import ALTERATIONS, DRAFT_ALTERATIONS
from bases import bases
from fields import alterations
from msgspec import UNSET
from msgspec.structs import replace
from traces import BUSY, documents, trace_of, unsealed
from violations import altered, drafted, recorded

from nullblock.conformance import bundled, driver, scenario
from nullblock.conformance.checker import Verdict, check
from nullblock.conformance.checker.decisions import Mismatch
from nullblock.conformance.cli import main
from nullblock.conformance.compare import first_difference
from nullblock.conformance.engines import make_engine
from nullblock.conformance.minimal.ask import ask
from nullblock.conformance.minimal.document import Builder, Selection
from nullblock.conformance.minimal.fault import Same
from nullblock.conformance.minimal.history import read
from nullblock.conformance.trace.configured import configured
from nullblock.conformance.trace.reader import TraceReader
from nullblock.conformance.trace.records import Add, Record, Schedule, Update
from nullblock.conformance.trace.tape import Tape
from nullblock.spec.profiles import PROFILES, VLLM_0_22_1


def found(path: Path) -> tuple[Verdict, dict[str, Any]]:
    """The verdict on a trace, and its minimal scenario."""
    verdict = check(path, deep=False)
    answer = ask(verdict, path)
    assert answer is not None and answer.document is not None, answer
    return verdict, answer.document


def last_decision(document: dict[str, Any], engine: str = "spec") -> dict[str, Any]:
    """What an engine decides at the end of a scenario."""
    lines = list(run(document, engine))
    decision: dict[str, Any] = json.loads(lines[-2])
    return decision


def run(document: dict[str, Any], engine: str) -> list[str]:
    """The lines of a scenario."""
    taken = scenario.from_dict(document)
    return list(driver.run(taken, make_engine(engine, taken.config, VLLM_0_22_1)))


SOME = {
    "a decode gets a token too many": lambda d: list(d["num_scheduled_tokens"].values()),
    "a hit is lost": lambda d: [new["computed"] for new in d["new"]],
    "nobody is preempted": lambda d: d["preempted"],
    "an end is missed": lambda d: [o["finish"] for o in d["outputs"]],
    "nobody is aborted": lambda d: d["aborted"],
}
"""What the rules decide at the end, which the recorded decision is not."""
DECIDED: dict[str, Any] = {
    "a decode gets a token too many": 1,
    "a hit is lost": 128,
    "nobody is preempted": "r52",
    "an end is missed": "stop",
    "nobody is aborted": "r52",
}


@pytest.mark.parametrize("name", SOME)
def test_the_scenario_ends_where_the_rules_decide_otherwise(name: str, tmp_path: Path) -> None:
    """Its last decision is the rules' own, on the specification and on the reference alike, and it
    takes a few requests and steps of hundreds.
    """
    path, _ = altered(tmp_path, name)
    _, document = found(path)
    assert DECIDED[name] in SOME[name](last_decision(document))
    assert first_difference(run(document, "spec"), run(document, "reference")) is None
    adds = [e for e in document["events"] if e["op"] == "add"]
    assert len(adds) <= 4, document
    assert sum(e.get("n", 1) for e in document["events"] if e["op"] == "step") <= 16


LATE = {"nobody is resumed", "nobody is preempted", "another is preempted", "nobody is aborted"}
"""Hundreds of steps into the recording."""


@pytest.mark.parametrize("name", sorted({*ALTERATIONS, *DRAFT_ALTERATIONS} - LATE))
def test_every_kind_of_fault_gets_a_scenario(name: str, tmp_path: Path) -> None:
    """Whatever is altered, a scenario shows the same first mismatch; run on the unaltered decision
    it shows none.
    """
    path, line = altered(tmp_path, name)
    verdict, document = found(path)
    first = verdict.first
    assert first is not None and first.mismatch is not None and first.line == line
    kinds = [json.loads(text)["ev"] for text in run(document, "spec")]
    assert "EXCEPTION" not in kinds
    history = read(path, first.line, first.file, first.step)
    names = Builder(history).names
    kept = [life for life in history.lives if names[life.number] in str(document["events"])]
    assert len(kept) <= 10
    told = Mismatch(first.mismatch.rule, "something else", *([None] * 2))
    everything = Selection(tuple(history.events))
    same = Same(history, first.mismatch, VLLM_0_22_1)
    other = Same(history, told, VLLM_0_22_1)
    whole = Builder(history).build(everything)
    assert same.shown(whole, everything, names)
    assert not other.shown(whole, everything, names)


OF_STATE = {"running": 1, "waiting": 1, "step": 0, "free_queue": 0, "requests.computed": 1}
"""Observations of a whole state, and how many requests it takes to show that one is wrong."""


@pytest.mark.parametrize("name", OF_STATE)
def test_a_wrong_observation_gets_a_scenario(name: str, tmp_path: Path) -> None:
    """A recorded state that the rules do not have is shown by the state in which they end."""
    lines = bases()["crowded"]
    *_, (at, told) = alterations(lines, ("state", *name.split(".")))
    path = tmp_path / "trace"
    path.write_bytes(unsealed(told[: at + 1]))
    verdict, document = found(path)
    assert verdict.first is not None and verdict.first.line == at + 1
    assert sum(e["op"] == "add" for e in document["events"]) == OF_STATE[name]
    assert "EXCEPTION" not in "\n".join(run(document, "spec"))


def test_which_block_carries_what_gets_none_of_the_trace(tmp_path: Path) -> None:
    """Chain numbers are the recorder's own, so that no scenario can bring them about; where none
    can be planted either, since blocks are renamed, it is said.
    """
    *_, (at, told) = alterations(bases()["crowded"], ("state", "chains"))
    told[0]["block_ids"] = "opaque"
    path = tmp_path / "trace"
    path.write_bytes(unsealed(told[: at + 1]))
    answer = ask(check(path, deep=False), path)
    assert answer is not None and answer.document is None
    assert "which block carries which hash" in answer.note


def decisions(records: list[Record]) -> list[Record]:
    """What an engine decided."""
    return [r for r in records if isinstance(r, (Schedule, Update))]


@pytest.mark.parametrize(
    "lines",
    [
        documents(trace_of(BUSY)),
        recorded(bundled.TRACE, 120),
        recorded(bundled.CROWDED, 120),
        drafted(),
    ],
    ids=["busy", "mooncake", "crowded", "drafted"],
)
def test_the_whole_history_comes_to_the_recorded_decisions(
    lines: list[dict[str, Any]], tmp_path: Path
) -> None:
    """Prompts that realise the chain numbers, and a model that ends requests where they ended,
    lead the rules to every decision of the trace, block ids included.
    """
    path = tmp_path / "trace"
    path.write_bytes(unsealed(lines))
    records = [located.record for located in TraceReader(path)]
    last = next(i for i in range(len(records) - 1, 0, -1) if isinstance(records[i], Schedule))
    history = read(path, last + 1, str(path), 0)
    builder = Builder(history)
    taken = scenario.from_dict(builder.build(Selection(tuple(history.events))))
    made: list[Record] = []
    tape = Tape(
        make_engine("spec", taken.config, VLLM_0_22_1), taken, made.append, tagged_keys=False
    )
    tape.numbers.update({builder.names[life.number]: life.number for life in history.lives})
    deque(driver.run(taken, tape, dump="none"), maxlen=0)
    expected = decisions(records[: last + 1])  # type: ignore[arg-type]
    assert len(expected) > 40
    for ours, theirs in zip(decisions(made), expected, strict=True):
        assert replace(ours, state=UNSET) == replace(theirs, state=UNSET)  # type: ignore[type-var]
    chains = [r.chain for r in records[:last] if isinstance(r, Add)]
    assert [r.chain for r in made if isinstance(r, Add)] == chains


def test_the_command_writes_it_and_run_runs_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--scenario FILE` writes what `nullblock run FILE` takes, and the verdict says how far the
    search came.
    """
    path, _ = altered(tmp_path, "a hit is longer")
    target = tmp_path / "fault.json"
    assert main(["check", "--scenario", str(target), str(path)]) == 1
    assert "4 requests and 1 step before the decision" in capsys.readouterr().out
    assert main(["run", "--profile", "vllm-0.22.1", "--dump", "none", str(target)]) == 0
    out = capsys.readouterr().out.splitlines()
    assert json.loads(out[-2])["new"][0]["computed"] == 128
    assert main(["check", "--json", "--scenario", str(target), str(path)]) == 1
    told = json.loads(capsys.readouterr().out)["scenario"]
    assert told["document"] == json.loads(target.read_text())
    assert "nothing more can be left out" in told["note"]


def test_without_a_violation_nothing_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The file does not appear, and one line says why."""
    (tmp_path / "good").write_bytes(trace_of(BUSY))
    target = tmp_path / "fault.json"
    assert main(["check", "--scenario", str(target), str(tmp_path / "good")]) == 0
    assert not target.exists()
    assert "is not written: nothing is violated" in capsys.readouterr().err


def test_a_stream_is_read_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """From standard input there is a verdict and no scenario, and it says why."""
    path, _ = altered(tmp_path, "a hit is longer")

    class Standard:
        buffer = io.BytesIO(path.read_bytes())

    monkeypatch.setattr("sys.stdin", Standard)
    target = tmp_path / "fault.json"
    assert main(["check", "--scenario", str(target), "-"]) == 1
    assert "save it to a file" in capsys.readouterr().err


def test_what_cannot_be_rebuilt_is_said(tmp_path: Path) -> None:
    """Evicted blocks whose ids are renamed cannot be named to an engine."""
    lines = documents(trace_of(BUSY))
    lines[0]["block_ids"] = "opaque"
    lines[-2]["tokens"] = [n + 1 for n in lines[-2]["tokens"]]
    path = tmp_path / "trace"
    path.write_bytes(unsealed(lines))
    verdict = check(path)
    assert verdict.verdict == "VIOLATION"
    answer = ask(verdict, path)
    assert answer is not None and answer.document is None
    assert "blocks were evicted whose ids" in answer.note


def test_equal_prompts_with_equal_outputs(tmp_path: Path) -> None:
    """Where equal prompts had equal outputs, as with a deterministic model, the model of the
    scenario samples one token always.
    """
    twins = {
        "config": {"block_size": 2, "num_blocks": 40, "vocab": 1},
        "events": [
            {"op": "add", "id": "a", "prompt": [5, 5, 5], "max_tokens": 9},
            {"op": "step", "n": 6},
            {"op": "add", "id": "b", "prompt": [5, 5, 5, 0, 0, 0, 0, 9], "max_tokens": 9},
            {"op": "step"},
        ],
    }
    lines = documents(trace_of(twins))
    hit = next(x for x in lines if x["ev"] == "schedule" and x.get("new") and x["step"] > 1)
    assert hit["new"][0]["computed"] == 6
    hit["new"][0]["computed"] = 4
    path = tmp_path / "trace"
    path.write_bytes(unsealed(lines))
    _, document = found(path)
    assert last_decision(document)["new"][0]["computed"] == 6


FULL, WINDOW = {"type": "full"}, {"type": "sliding_window", "sliding_window": 5}
MAMBA = {"type": "mamba"}
CONFIGS: dict[str, tuple[str, dict[str, Any]]] = {
    "layers of an EAGLE-like method": (
        "vllm-0.22.1",
        {"groups": [FULL | {"eagle": True}, WINDOW]},
    ),
    "a window under such a method": ("vllm-0.22.1", {"groups": [WINDOW | {"eagle": True}]}),
    "steps in flight of a gate": (
        "vllm-0.32.0",
        {"groups": [WINDOW], "async_scheduling": True, "queue_depth": 3},
    ),
    "what a gate reckons with": (
        "vllm-0.22.1",
        {"groups": [WINDOW], "max_num_scheduled_tokens": 9},
    ),
    "states at ends of steps": (
        "vllm-0.22.1",
        {"groups": [MAMBA | {"mamba_cache_mode": "align", "num_speculative_blocks": 1}, FULL]},
    ),
    "states within steps": (
        "vllm-0.32.0",
        {
            "groups": [
                MAMBA | {"mamba_cache_mode": "align", "prefill_checkpoint_alignment": 8},
                FULL,
            ]
        },
    ),
    "states in one group": ("vllm-0.22.1", {"groups": [MAMBA | {"mamba_cache_mode": "all"}]}),
    "blocks of several sizes": (
        "vllm-0.22.1",
        {"groups": [FULL | {"block_size": 12}, MAMBA, WINDOW | {"block_size": 8}]},
    ),
    "several hashes a block": ("vllm-0.22.1", {"groups": [FULL, WINDOW], "hash_block_size": 2}),
    "one block for all states": (
        "vllm-0.22.1",
        {"groups": [FULL, MAMBA | {"block_size": 64}], "enable_prefix_caching": False},
    ),
    "sinks": ("vllm-0.22.1", {"groups": [FULL, {"type": "sink", "sink_len": 8}]}),
    "cross-attention without inputs": (
        "vllm-0.22.1",
        {"groups": [{"type": "cross_attention"}, FULL], "enable_prefix_caching": False},
    ),
}


@pytest.mark.parametrize("name", CONFIGS)
def test_a_scenario_has_the_constants_of_the_trace(name: str, tmp_path: Path) -> None:
    """A trace of the scenario that is made has the header's constants."""
    line, config = CONFIGS[name]
    document = {
        "config": {"block_size": 4, "num_blocks": 12, "max_num_batched_tokens": 16} | config,
        "events": [
            {"op": "add", "id": "a", "prompt": {"range": [0, 9]}, "max_tokens": 2},
            {"op": "schedule"},
        ],
    }
    path = tmp_path / "trace"
    path.write_bytes(trace_of(document, "reference", line))
    at = next(
        i for i, record in enumerate(TraceReader(path)) if isinstance(record.record, Schedule)
    )
    history = read(path, at + 1, str(path), 0)
    taken = scenario.from_dict(Builder(history).build(Selection(tuple(history.events))))
    assert configured(taken.config, PROFILES[line]) == history.header.config
