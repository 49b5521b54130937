"""The recorder inside the real vLLM: it changes nothing, and writes what happened."""

import io
import json
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest
from record_again import DIGESTS, GOLDEN, digests, record
from traces import trace_of

from nullblock.conformance import scenario, scope
from nullblock.conformance.checker import check
from nullblock.conformance.engine import CORE_FEATURES, Feature
from nullblock.conformance.errors import OutOfScope
from nullblock.conformance.trace.reader import TraceReader
from nullblock.conformance.trace.records import End, Error, Header, State

pytestmark = pytest.mark.oracle

HERE = Path(__file__).parent
SCENARIOS: dict[str, dict[str, Any]] = json.loads(GOLDEN.read_text())


def in_scope(name: str) -> bool:
    """Whether a trace tells all that decided: nothing is on but what every engine does."""
    try:
        features = CORE_FEATURES | {Feature.drafts}
        scope.check_run(scenario.from_dict(SCENARIOS[name]), "trace", features)
    except OutOfScope:
        return False
    return True


IN_SCOPE = sorted(filter(in_scope, SCENARIOS))


@pytest.fixture(scope="module")
def recorded(oracle_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with every sample scenario, run plain and recorded."""
    folder = tmp_path_factory.mktemp("recorded")
    record(oracle_python, GOLDEN, folder)
    return folder


def test_recordings_come_out_the_same(recorded: Path) -> None:
    """Byte for byte, as their digests are kept: what is done to be quicker changes nothing."""
    assert digests(recorded) == json.loads(DIGESTS.read_text())
    assert digests(recorded).keys() == SCENARIOS.keys()


def decisions(lines: str) -> list[str]:
    """The driver's lines, without where an exception passed: the recorder's frames are there."""
    kept = [json.loads(line) for line in lines.splitlines() if '"trailer"' not in line]
    return [json.dumps({k: v for k, v in line.items() if k != "where"}) for line in kept]


def comparable(path: Path | None, data: bytes = b"") -> list[dict[str, Any]]:
    """What both recorders write: how ties are numbered, clocks start and
    exceptions are called is each one's own.
    """
    stream = None if path is not None else io.BytesIO(data)
    found = []
    for located in TraceReader(path or Path("trace"), stream=stream):
        record = msgspec.to_builtins(located.record)
        if isinstance(located.record, Header | End | State):
            continue
        for key in ("tie", "arrival"):
            record.pop(key, None)
        if isinstance(located.record, Error):
            del record["type"]
        for key in ("running", "waiting"):
            record.get("state", {}).pop(key, None)
        found.append(record)
    return found


def test_recording_changes_no_decision(recorded: Path) -> None:
    """Every scenario, all features of the engine included, prints the same lines recorded."""
    for name in SCENARIOS:
        plain, taped = (
            (recorded / f"{name}.{kind}").read_text() for kind in ("plain", "recorded")
        )
        assert decisions(plain) == decisions(taped), name


@pytest.mark.parametrize("engine", ["spec", "reference"])
def test_the_recording_is_that_of_our_engines(recorded: Path, engine: str) -> None:
    """In scope, inputs and decisions are those that our engines' own tape shows, one for one."""
    assert len(IN_SCOPE) > 20
    for name in IN_SCOPE:
        taped = trace_of(SCENARIOS[name], engine)
        assert comparable(recorded / f"{name}.jsonl") == comparable(None, taped), name


def test_every_recording_is_well_formed(recorded: Path) -> None:
    """Whatever feature is on, a recording reads to its seal."""
    for name in SCENARIOS:
        last = [located.record for located in TraceReader(recorded / f"{name}.jsonl")][-1]
        assert isinstance(last, End), name


def test_features_out_of_scope_are_named(recorded: Path) -> None:
    """A recording that no rule here covers says so in its header or at its request."""
    for name in SCENARIOS:
        records = [located.record for located in TraceReader(recorded / f"{name}.jsonl")]
        named = [feature for r in records for feature in getattr(r, "features", ())]
        unnamed = name in IN_SCOPE
        assert bool(named) != unnamed, name
        assert set(named) <= set(FEATURES), name


FEATURES = (
    "block_sizes",
    "kv_cache_groups",
    "kv_connector",
    "kv_cache_spec:ChunkedLocalAttentionSpec",
    "kv_cache_spec:MambaSpec",
    "kv_cache_spec:SinkFullAttentionSpec",
    "kv_cache_spec:SlidingWindowSpec",
    "hash_block_size",
    "eagle_group",
    "max_loras",
    "resumable",
    "v2_model_runner",
)


def test_the_states_are_the_engines(recorded: Path) -> None:
    """A full state has the queues, tables and counts that the driver saw at that moment."""
    lines = (recorded / "fcfs_preempt.recorded").read_text().splitlines()
    scheduled = {
        line["step"]: line["state"] for line in map(json.loads, lines) if line["ev"] == "schedule"
    }
    names: list[str] = []
    for event in SCENARIOS["fcfs_preempt"]["events"]:
        if event["op"] == "add":
            names.append(event["id"])
    states = [
        located.record
        for located in TraceReader(recorded / "fcfs_preempt.jsonl")
        if isinstance(located.record, State)
    ]
    assert len(states) > 3
    for state in states:
        seen = scheduled[state.step]
        assert [names[n] for n in state.running] == seen["running"]
        assert [names[n] for n in state.waiting] == seen["waiting"]
        assert state.free_queue == seen["free_queue"]
        assert {str(b): n for b, n in state.ref_cnt or ()} == seen["ref_cnt"]
        assert {str(b) for b, _ in state.chains or ()} == set(seen["block_hash"])
        tables = {names[r.id]: r.blocks for r in state.requests}
        assert tables == {id: r["blocks"] for id, r in seen["requests"].items()}


def test_the_recorder_needs_nothing_of_this_project(oracle_python: Path, tmp_path: Path) -> None:
    """Its folder alone, as a namespace, is enough beside vLLM: no module of ours comes along."""
    package = tmp_path / "nullblock" / "conformance" / "adapters" / "vllm"
    package.mkdir(parents=True)
    source = HERE.parents[1] / "conformance" / "adapters" / "vllm"
    for file in source.glob("*.py"):
        (package / file.name).write_bytes(file.read_bytes())
    program = (
        "import sys; sys.path[:0] = sys.argv[1:]; import torchless; torchless.install();"
        "from nullblock.conformance.adapters.vllm.recorder import RecordingScheduler;"
        "print(sorted(m for m in sys.modules if m.split('.')[0] in"
        " ('zstandard', 'typer', 'rich', 'z3')))"
    )
    done = subprocess.run(
        [oracle_python, "-B", "-c", program, tmp_path, HERE.parent / "oracle"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr


def test_what_a_new_owner_of_an_id_is_owed_is_told_right(
    oracle_python: Path, tmp_path: Path
) -> None:
    """In 0.22.1 it takes the output of the one before, and is then admitted with a token: a step
    that computes as many tokens as its prompt has leaves it one short.
    """
    add = {"op": "add", "id": "a", "prompt": [1, 2], "max_tokens": 9}
    events = [add, {"op": "schedule"}, {"op": "abort", "ids": ["a"]}]
    events += [add | {"prompt": [3, 4, 5, 6], "max_tokens": 4}, {"op": "update"}]
    events += [{"op": "schedule"}, {"op": "reset_prefix_cache"}, {"op": "run"}]
    config = {"block_size": 2, "num_blocks": 20, "max_num_batched_tokens": 4}
    asked = tmp_path / "asked.json"
    asked.write_text(json.dumps({"again": {"config": config, "events": events}}))
    record(oracle_python, asked, tmp_path, "1")
    verdict = check(tmp_path / "again.jsonl")
    assert (verdict.verdict, verdict.first) == ("CONFORMS", None)
