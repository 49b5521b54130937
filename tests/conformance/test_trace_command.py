"""``nullblock trace``, as it is used."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from traces import BUSY, read, trace_of

from nullblock.conformance.cli import main
from nullblock.conformance.trace.reader import TraceReader
from nullblock.conformance.trace.records import Add, Error, Finish, Header, Output, Update
from nullblock.conformance.trace.writer import write_trace


def written(tmp_path: Path, document: dict[str, Any], *options: str) -> tuple[int, Path]:
    """Exit code and trace of a scenario."""
    source, target = tmp_path / "s.json", tmp_path / "t.jsonl.zst"
    source.write_text(json.dumps(document))
    return main(["trace", str(source), "-o", str(target), *options]), target


@pytest.mark.parametrize("engine", ["spec", "reference"])
def test_a_scenario_becomes_a_trace(tmp_path: Path, engine: str) -> None:
    """Both engines' traces are read, and hold the same inputs and decisions."""
    code, target = written(tmp_path, BUSY, "--engine", engine, "--profile", "vllm-0.22.1")
    assert code == 0
    found = [located.record for located in TraceReader(target)]
    assert isinstance(found[0], Header) and found[0].engine.name == f"nullblock.{engine}"
    assert found[0].spec == "vllm-0.22.1"
    assert found[1:-1] == read(trace_of(BUSY))[1:-1]


def test_names_are_told_only_on_request(tmp_path: Path) -> None:
    """Request ids are in the trace with --names, and not without."""
    for options, names in (((), {None}), (("--names",), {"a", "b", "c"})):
        _, target = written(tmp_path, BUSY, *options)
        adds = [r.record for r in TraceReader(target) if isinstance(r.record, Add)]
        assert {add.name or None for add in adds} == names


def test_a_rejection_is_a_decision_with_its_reason(tmp_path: Path) -> None:
    """What normative refuses is in the next update, and why."""
    document = {
        "config": {"block_size": 4, "num_blocks": 4},
        "events": [
            {"op": "add", "id": "long", "prompt": {"fill": 1, "n": 50}},
            {"op": "step"},
        ],
    }
    _, target = written(tmp_path, document)
    (update,) = [r.record for r in TraceReader(target) if isinstance(r.record, Update)]
    (end,) = update.finish
    assert isinstance(end, Finish) and (end.id, end.reason) == (0, "rejected")
    assert "pool has 3" in str(end.why)


def test_tokens_that_end_a_request_are_told_apart(tmp_path: Path) -> None:
    """An eos, a stop id, and what is both: eos comes first."""
    document = {
        "config": {"block_size": 4, "vocab": 1},
        "events": [
            {"op": "add", "id": "e", "prompt": [1], "eos": 0, "min_tokens": 2, "max_tokens": 5},
            {"op": "add", "id": "s", "prompt": [1], "stop": [0]},
            {"op": "add", "id": "b", "prompt": [1], "stop": [0], "eos": 0},
            {"op": "step"},
        ],
    }
    _, target = written(tmp_path, document)
    (output,) = [r.record for r in TraceReader(target) if isinstance(r.record, Output)]
    assert (output.eos, output.stop) == ([(0, 0), (2, 0)], [(1, 0)])


def test_keys_that_a_profile_confuses_are_equal_chains(tmp_path: Path) -> None:
    """Adapter X and salt X are two prefixes, but one for an engine that does not tag them."""
    document = {
        "config": {"block_size": 2},
        "events": [
            {"op": "add", "id": "a", "prompt": [1, 2, 3, 4], "lora": "X"},
            {"op": "add", "id": "b", "prompt": [1, 2, 3, 4], "salt": "X"},
        ],
    }
    chains = {}
    for name in ("normative", "vllm-0.22.1"):
        _, target = written(tmp_path, document, "--profile", name)
        adds = [r.record for r in TraceReader(target) if isinstance(r.record, Add)]
        chains[name] = [add.chain for add in adds]
    assert chains["normative"] == [[(0, 2)], [(2, 2)]]
    assert chains["vllm-0.22.1"] == [[(0, 2)], [(0, 1), (2, 1)]]


def test_what_an_engine_raises_is_recorded(tmp_path: Path) -> None:
    """An exception is a record, and the trace is whole."""
    document = {
        "events": [{"op": "add", "id": "a", "prompt": [1], "max_tokens": 1, "min_tokens": 3}]
    }
    code, target = written(tmp_path, document)
    found = [located.record for located in TraceReader(target)]
    assert code == 0 and found[1] == Error(during="add", type="ValueError")


def test_wrong_input_leaves_no_trace(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Exit codes 2, 3 and 4, one line each, and nothing is written."""
    add = {"op": "add", "id": "a", "prompt": [1]}
    bad = [
        ({"events": [{"op": "dance"}]}, (), 4),
        ({"config": {"include_finished_set": True}, "events": []}, (), 3),
        ({"events": [add, add]}, (), 4),
        ({"events": []}, ("--profile", "nobody"), 2),
        ({"events": []}, ("--reseal",), 4),
    ]
    for document, options, expected in bad:
        code, target = written(tmp_path, document, *options)
        said = capfd.readouterr().err
        assert code == expected and not target.exists()
        assert said.count("\n") == 1 and "Traceback" not in said
    assert main(["trace", str(tmp_path / "none.json"), "-o", str(tmp_path / "t")]) == 2
    (tmp_path / "s.json").write_text('{"events": []}')
    assert main(["trace", str(tmp_path / "s.json"), "-o", str(tmp_path / "no" / "t")]) == 2
    assert capfd.readouterr().err.count("\n") == 2


def test_a_changed_trace_is_sealed_anew(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """--reseal writes a trace whose digests fit, and says how many records it has."""
    old, new = tmp_path / "old.jsonl", tmp_path / "new.jsonl.gz"
    old.write_bytes(trace_of(BUSY).replace(b'"num_running":1', b'"num_running":2'))
    assert main(["trace", "--reseal", str(old), "-o", str(new), "--json"]) == 0
    found = [located.record for located in TraceReader(new)]
    assert json.loads(capfd.readouterr().out) == {"trace": str(new), "records": len(found)}


CHOICES: dict[str, Any] = {
    "config": {"block_size": 4, "num_blocks": 5, "policy": "priority"},
    "events": [
        {"op": "add", "id": id, "prompt": {"fill": n, "n": 9}, "priority": rank, **limits}
        for n, (id, rank, limits) in enumerate(
            [
                ("last", 2**53 + 1, {"max_tokens": 2**63 - 1}),
                ("middle", 2**53, {"max_tokens": 2**54 + 1, "min_tokens": 2**54 + 1}),
                ("latest", 2**63 - 1, {"max_tokens": 3}),
                ("first", -(2**63), {"max_tokens": 3}),
            ]
        )
    ]
    + [{"op": "step"}] * 8,
}
"""Numbers that users choose freely, of which a floating-point one keeps no order."""


def test_what_users_choose_has_64_bits(tmp_path: Path) -> None:
    """Priorities and limits that no floating-point number holds come back as they were, the trace
    conforms, and who comes before whom is told apart to the last bit.
    """
    code, target = written(tmp_path, CHOICES, "--profile", "vllm-0.22.1")
    assert code == 0 and main(["check", str(target)]) == 0
    adds = [r.record for r in TraceReader(target) if isinstance(r.record, Add)]
    assert [a.priority for a in adds] == [2**53 + 1, 2**53, 2**63 - 1, -(2**63)]
    assert [a.max_tokens for a in adds] == [2**63 - 1, 2**54 + 1, 3, 3]
    assert adds[1].min_tokens == 2**54 + 1
    records = read(target.read_bytes())
    swapped = [
        msgspec.structs.replace(r, priority=2**53 + 1 - (r.priority - 2**53))
        if isinstance(r, Add) and r.priority >> 1 == 2**52
        else r
        for r in records
    ]
    write_trace(target, swapped)
    assert main(["check", str(target)]) == 1


WIDE = {"type": "sliding_window", "sliding_window": 2**60}


@pytest.mark.parametrize(
    ("place", "config", "value"),
    [
        ("max_num_seqs", {"max_num_seqs": 2**53 + 1}, 2**53 + 1),
        ("max_model_len", {"max_model_len": 2**60}, 2**60),
        ("groups[0].sliding_window", {"groups": [WIDE]}, 2**60),
    ],
)
def test_what_no_trace_can_hold_is_refused(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], place: str, config: Any, value: int
) -> None:
    """A constant beyond what the format has is refused with its place, and no trace is written."""
    document = {"config": CHOICES["config"] | config, "events": CHOICES["events"][:1]}
    code, target = written(tmp_path, document)
    assert code == 4 and not target.exists()
    assert f"config.{place}: {value} does not fit a trace" in capfd.readouterr().err
