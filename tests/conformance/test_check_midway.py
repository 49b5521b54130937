"""A recording need not begin at the beginning: the checker goes on from a recorded state.

The recordings are made by processes of the real vLLM (`record_process.py`).
"""

import gzip
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nullblock.conformance.checker import Verdict, check, report
from nullblock.conformance.trace.writer import reseal

pytestmark = pytest.mark.oracle
BOTH = pytest.mark.parametrize("asynchronous", [False, True])
DRAFTS = pytest.mark.parametrize("drafts", [0, 2])
Lines = list[dict[str, Any]]


@pytest.fixture
def record(oracle_python: Path, tmp_path: Path) -> Callable[..., Path]:
    """Runs a process of `record_process.py` to its end; the folder with its traces."""

    def run(how: str, config: dict[str, Any], **environment: str) -> Path:
        variables = {"NULLBLOCK_TRACE": str(tmp_path), "NULLBLOCK_TRACE_FLUSH_SECONDS": "0.05"}
        named = {n: v for n, v in (variables | environment).items() if v}
        process = Path(__file__).with_name("record_process.py")
        done = subprocess.run(
            [oracle_python, "-B", process, how, tmp_path, json.dumps(config)],
            env={**os.environ, "PYTHONHASHSEED": "0", "VLLM_LOGGING_LEVEL": "WARNING", **named},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return tmp_path

    return run


@pytest.fixture
def late(record: Any) -> Lines:
    """A recording that began with four requests running and a step in flight, unsealed."""
    path = record("starts_late", {"async_scheduling": True}, NULLBLOCK_TRACE="") / "late.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines[0]["sealed"] = False
    return lines[:-1]


def judged(lines: Lines, folder: Path) -> Verdict:
    """The verdict on these lines."""
    path = folder / "lines.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return check(path)


def test_only_steps_that_were_judged_are_counted(late: Lines, tmp_path: Path) -> None:
    """A verdict on a recording that began in the middle counts its own steps, and says where it
    begins, in words and as JSON.
    """
    own = sum(line["ev"].startswith("schedule") for line in late)
    begins = next(line["step"] for line in late if line["ev"] == "state")
    verdict = judged(late, tmp_path)
    assert (verdict.verdict, verdict.steps, verdict.began_after) == ("CONFORMS", own, begins)
    assert report.document(verdict)["began_after"] == begins > 0
    assert report.rests_on(verdict).startswith(f"{own} steps, ")
    assert report.rests_on(verdict).endswith(f", from step {begins + 1} of the recording on")


@BOTH
@DRAFTS
def test_it_goes_on_from_the_state_at_the_start(
    record: Any, asynchronous: bool, drafts: int
) -> None:
    """A recording that began in the middle, with a step in flight, CONFORMS, drafts or not."""
    config = {"async_scheduling": asynchronous, "num_spec_tokens": drafts}
    folder = record("starts_late", config, NULLBLOCK_TRACE="")
    verdict = check(folder / "late.jsonl")
    assert (verdict.verdict, verdict.missing) == ("CONFORMS", [])
    assert verdict.decisions > 100


@BOTH
@DRAFTS
def test_each_part_is_judged_by_itself(record: Any, asynchronous: bool, drafts: int) -> None:
    """The whole recording and every part of it CONFORM, KV events included."""
    config = {"async_scheduling": asynchronous, "kv_events": True}
    config |= {"num_spec_tokens": drafts, "spec_method": "eagle"}
    (folder,) = record("ends", config, NULLBLOCK_TRACE_PART_MB="0.004").iterdir()
    parts = sorted(folder.iterdir())
    assert len(parts) > 1
    assert [check(path).verdict for path in (folder, *parts)] == ["CONFORMS"] * (len(parts) + 1)
    parts[0].unlink()
    assert check(folder).verdict == "CONFORMS"


@BOTH
@DRAFTS
def test_what_is_lost_is_told(
    record: Any, tmp_path: Path, asynchronous: bool, drafts: int
) -> None:
    """After a gap all is explained again, and the verdict says what is missing."""
    record(
        "writes_slowly",
        {"async_scheduling": asynchronous, "num_spec_tokens": drafts},
        NULLBLOCK_TRACE=str(tmp_path / "slow.jsonl"),
        NULLBLOCK_TRACE_QUEUE_MB="0.02",
    )
    verdict = check(tmp_path / "slow.jsonl")
    assert verdict.verdict == "INCONCLUSIVE" and verdict.first is None
    assert len(verdict.missing) == 1 and "records that the recorder lost" in verdict.missing[0]
    assert verdict.decisions > (200 if drafts else 300)


def test_without_a_state_nothing_is_judged(late: Lines, tmp_path: Path) -> None:
    """An unknown start that no record tells is INCONCLUSIVE, whatever follows."""
    verdict = judged([late[0], {"ev": "pause", "pause_state": "PAUSED_NEW"}], tmp_path)
    assert verdict.verdict == "INCONCLUSIVE" and verdict.decisions == 0
    assert "the state in which the recording began" in verdict.missing[0]


def test_what_came_before_the_state_is_counted(late: Lines, tmp_path: Path) -> None:
    """Records before the state are passed over, and the verdict says how many."""
    at = next(i for i, line in enumerate(late) if line["ev"] == "state")
    pause = {"ev": "pause", "pause_state": "UNPAUSED"}
    verdict = judged([*late[:at], pause, pause, *late[at:]], tmp_path)
    assert verdict.verdict == "INCONCLUSIVE" and "2 records before" in verdict.missing[0]


def incomplete(name: str) -> Callable[[dict[str, Any]], None]:
    """Leave a part of the state out."""
    return lambda state: state.pop(name)


def a_block_twice(state: dict[str, Any]) -> None:
    """A block that is held stands in the free queue as well."""
    state["free_queue"].append(state["requests"][0]["blocks"][0][0])


def a_reference_more(state: dict[str, Any]) -> None:
    """A block has a reference that no table accounts for."""
    state["ref_cnt"][0][1] += 1


def nobody_runs(state: dict[str, Any]) -> None:
    """A request that is running is not in the list."""
    state["running"].pop()


def too_much_computed(state: dict[str, Any]) -> None:
    """More is computed than there are tokens."""
    state["requests"][0]["computed"] += 9


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (a_block_twice, "POOL-3"),
        (a_reference_more, "POOL-2"),
        (nobody_runs, "RUN-19"),
        (too_much_computed, "RUN-29"),
    ],
)
def test_a_state_that_cannot_be_is_a_finding(
    late: Lines, tmp_path: Path, change: Any, rule: str
) -> None:
    """The engine's own account of itself breaks an invariant."""
    change(next(line for line in late if line["ev"] == "state"))
    verdict = judged(late, tmp_path)
    assert verdict.verdict == "VIOLATION" and verdict.first is not None
    assert verdict.first.rule == rule


@pytest.mark.parametrize("name", ["free_queue", "ref_cnt", "previous", "pause_state"])
def test_an_incomplete_state_is_named(late: Lines, tmp_path: Path, name: str) -> None:
    """What the rules need and the state does not tell makes the trace INCONCLUSIVE, by name."""
    incomplete(name)(next(line for line in late if line["ev"] == "state"))
    verdict = judged(late, tmp_path)
    assert verdict.verdict == "INCONCLUSIVE" and f"`{name}`" in verdict.missing[0]


def test_a_wrong_decision_after_it_is_found(late: Lines, tmp_path: Path) -> None:
    """Going on from a state does not mean believing what follows."""
    at = next(i for i, line in enumerate(late) if line["ev"] == "schedule")
    late[at]["tokens"][0] += 1
    verdict = judged(late[: at + 1], tmp_path)
    assert verdict.verdict == "VIOLATION" and verdict.first is not None
    assert verdict.first.rule == "RUN-2"


def test_parts_that_repeat_the_state_are_compared(record: Any) -> None:
    """Where the state is known already, what a part says of it has to be the same."""
    (folder,) = record("ends", {}, NULLBLOCK_TRACE_PART_MB="0.004").iterdir()
    second = sorted(folder.iterdir())[1]
    lines = gzip.decompress(second.read_bytes()).decode().splitlines()
    state = json.loads(lines[1])
    for field, value in (("finished", [0]), ("previous", []), ("pause_state", "PAUSED_NEW")):
        changed = [lines[0], json.dumps(state | {field: value}), *lines[2:-1]]
        second.write_bytes(gzip.compress("".join(f"{x}\n" for x in changed).encode()))
        verdict = check(folder)
        assert verdict.verdict == "VIOLATION" and verdict.first is not None, field
        assert verdict.first.rule in ("OUT-6", "OUT-3", "LIFE-7")


def test_what_ties_parts_together(record: Any) -> None:
    """A part's number, and that it goes on in another: altered, the recording is MALFORMED."""
    (folder,) = record("ends", {}, NULLBLOCK_TRACE_PART_MB="0.004").iterdir()
    second, last = sorted(folder.iterdir())[1], sorted(folder.iterdir())[-1]
    for path, at, field, value in ((second, 0, "part", 7), (last, -1, "continued", True)):
        whole = path.read_bytes()
        lines = [json.loads(line) for line in gzip.decompress(whole).splitlines()]
        lines[at][field] = value
        path.write_bytes(gzip.compress(b"".join(json.dumps(x).encode() + b"\n" for x in lines)))
        verdict = check(folder)
        path.write_bytes(whole)
        assert verdict.verdict == "MALFORMED", (field, verdict)


def test_a_last_part_that_is_lost_is_missed(record: Any, tmp_path: Path) -> None:
    """As one in the middle is, however few are left; what is left can be sealed anew, and a part
    that is given by itself says enough.
    """
    (folder,) = record("ends", {}, NULLBLOCK_TRACE_PART_MB="0.004").iterdir()
    first, *rest = sorted(folder.iterdir())
    for last in reversed(rest):
        number = int(last.name.partition(".")[0])
        last.unlink()
        verdict = check(folder)
        assert verdict.verdict == "MALFORMED" and verdict.first is not None
        assert verdict.first.what == f"the recording goes on in part {number}, which is missing"
        assert verdict.first.expected.startswith("add it; if it is gone, nullblock trace --reseal")
    assert check(first).verdict == "CONFORMS"
    reseal(folder, tmp_path / "resealed.jsonl")
    assert check(tmp_path / "resealed.jsonl").verdict == "CONFORMS"
