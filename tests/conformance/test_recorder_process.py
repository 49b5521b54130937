"""The recorder in a process of the real vLLM that comes to a good or a bad end."""

import base64
import hashlib
import json
import os
import signal
import subprocess
import zlib
from pathlib import Path
from typing import Any

import pytest
from record_secrets import encodings

from nullblock.conformance.trace import source
from nullblock.conformance.trace.errors import Cut
from nullblock.conformance.trace.reader import TraceReader
from nullblock.conformance.trace.records import End, Error, Gap, Header, Part, Schedule, State

pytestmark = pytest.mark.oracle

HERE = Path(__file__).parent
EVERYTHING = {
    **{"max_loras": 2, "encoder": {"max_tokens_per_item": 4}},
    "groups": [{"type": "full"}, {"type": "sliding_window", "sliding_window": 6}],
}
"""All that traces have words for since 1.3, together: a recorder writes it, whoever judges it."""
BOTH = pytest.mark.parametrize("asynchronous", [False, True])


@pytest.fixture
def serve(oracle_python: Path, tmp_path: Path) -> Any:
    """Runs the process to its end; its folder is made beforehand."""

    def run(
        how: str, config: dict[str, Any] | None = None, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        folder = tmp_path / "traces"
        folder.mkdir(exist_ok=True)
        variables = {
            "NULLBLOCK_TRACE": str(folder),
            "NULLBLOCK_TRACE_FLUSH_SECONDS": "0.05",
            **environment,
        }
        named = {n: v for n, v in variables.items() if v}
        return subprocess.run(
            [
                oracle_python,
                "-B",
                HERE / "record_process.py",
                how,
                folder,
                json.dumps(config or {}),
            ],
            env={**os.environ, "PYTHONHASHSEED": "0", "VLLM_LOGGING_LEVEL": "WARNING", **named},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return run


def warnings(done: subprocess.CompletedProcess[str], words: str = "serving goes on") -> int:
    """How often the recorder said that; vLLM decides where it goes."""
    return (done.stdout + done.stderr).count(words)


def lax(path: Path) -> list[Any]:
    """What can be read of a recording that may be cut."""
    return [located.record for located in TraceReader(path, lax=True)]


def whole(path: Path) -> list[Any]:
    """The records of a sealed recording."""
    return [located.record for located in TraceReader(path)]


def steps(records: list[Any]) -> int:
    """How many steps are told."""
    return sum(isinstance(record, Schedule) for record in records)


@BOTH
@pytest.mark.parametrize("how", ["ends", "just_returns", "terminated"])
def test_an_orderly_end_seals_the_recording(
    serve: Any, tmp_path: Path, how: str, asynchronous: bool
) -> None:
    """A shutdown, the end of the program, SIGTERM: every step is there, and the seal fits."""
    done = serve(how, {"async_scheduling": asynchronous})
    assert done.returncode == 0, done.stderr
    records = whole(tmp_path / "traces")
    assert steps(records) == 100 and isinstance(records[-1], End)
    assert records[0].config.async_scheduling is asynchronous and records[0].features == []


@pytest.mark.parametrize(("how", "status"), [("killed", -signal.SIGKILL), ("exits", 3)])
def test_a_killed_process_leaves_what_was_flushed(
    serve: Any, tmp_path: Path, how: str, status: int
) -> None:
    """SIGKILL and os._exit: every step up to the last flush can be read, and the cut is told."""
    done = serve(how)
    assert done.returncode == status, done.stderr
    assert steps(lax(tmp_path / "traces")) == 100
    with pytest.raises(Cut):
        whole(tmp_path / "traces")


def test_what_the_scheduler_raises_is_recorded(serve: Any, tmp_path: Path) -> None:
    """The exception passes, and the recording ends with it, sealed."""
    done = serve("raises")
    assert done.returncode == 1 and "AssertionError" in done.stderr
    assert isinstance(whole(tmp_path / "traces")[-2], Error)


def test_a_folder_that_disappears_costs_a_warning(serve: Any) -> None:
    """Serving goes on, recording does not."""
    done = serve("loses_its_folder")
    assert (done.returncode, done.stdout[-6:]) == (0, "False\n"), done.stderr
    assert warnings(done) == 1


def test_a_full_disk_costs_a_warning(serve: Any, tmp_path: Path) -> None:
    """Serving goes on; what was written whole can be read."""
    done = serve("fills_the_disk")
    assert (done.returncode, done.stdout[-6:]) == (0, "False\n"), done.stderr
    assert warnings(done) == 1 and "Errno 27" in done.stdout + done.stderr
    assert steps(lax(tmp_path / "traces")) > 100


@pytest.mark.parametrize("where", ["/dev/null/traces", "/proc/traces", "/no/such/folder/t.jsonl"])
def test_a_place_that_cannot_be_written_costs_a_warning(serve: Any, where: str) -> None:
    """Nothing is recorded, and nobody served notices."""
    done = serve("ends", NULLBLOCK_TRACE=where)
    assert done.returncode == 0, done.stderr
    assert warnings(done) == 1


def test_ranks_and_restarts_share_a_folder(serve: Any, tmp_path: Path) -> None:
    """Each recording has a folder of its own, and its header tells the rank."""
    for rank in ("0", "1", "1"):
        serve("ends", RANK=rank)
    found = source.recordings(tmp_path / "traces")
    assert [path.name for path in found] == ["rank0-run1", "rank1-run1", "rank1-run2"]
    assert [whole(path)[0].data_parallel_rank for path in found] == [0, 1, 1]


@BOTH
def test_a_recording_can_begin_in_the_middle(
    serve: Any, tmp_path: Path, asynchronous: bool
) -> None:
    """It says so, and its first record is the state, with the steps in flight."""
    done = serve("starts_late", {"async_scheduling": asynchronous}, NULLBLOCK_TRACE="")
    assert done.returncode == 0, done.stderr
    header, state, *_ = records = whole(tmp_path / "traces" / "late.jsonl")
    assert isinstance(header, Header) and header.start == "unknown"
    assert isinstance(state, State) and len(state.requests) == 4
    assert [len(step.ids) for step in state.in_flight or ()] == [4] * asynchronous
    for request in state.requests:
        assert request.prompt == 9 and request.max_tokens == 40
        full = sum(many for _, many in request.chain or ())
        assert full == request.tokens // 4
        assert request.placeholders == asynchronous
    assert steps(records) >= 58


@BOTH
def test_every_part_is_a_trace(serve: Any, tmp_path: Path, asynchronous: bool) -> None:
    """A recording in parts reads as one, and each part by itself, from its first state."""
    done = serve("ends", {"async_scheduling": asynchronous}, NULLBLOCK_TRACE_PART_MB="0.004")
    assert done.returncode == 0, done.stderr
    assert steps(whole(tmp_path / "traces")) == 100
    (folder,) = source.recordings(tmp_path / "traces")
    parts = [whole(path) for path in sorted(folder.iterdir())]
    assert len(parts) > 1 and sum(map(steps, parts)) == 100
    assert all(isinstance(part[1], State) for part in parts[1:])
    assert sum(isinstance(r, Part) for r in whole(folder)) == len(parts) - 1


def test_old_parts_go(serve: Any, tmp_path: Path) -> None:
    """With as many parts as are kept the recording can still be read, from an unknown start."""
    few = {"num_blocks": 60}
    serve("ends", few, NULLBLOCK_TRACE_PART_MB="0.002", NULLBLOCK_TRACE_KEEP="2")
    records = whole(tmp_path / "traces")
    assert records[0].start == "unknown" and records[0].part > 1
    assert 0 < steps(records) < 100


@BOTH
def test_what_the_disk_could_not_take_is_told(
    serve: Any, tmp_path: Path, asynchronous: bool
) -> None:
    """A gap counts what is missing, and the state is next; then the recording goes on."""
    done = serve(
        "writes_slowly",
        {"async_scheduling": asynchronous},
        NULLBLOCK_TRACE=str(tmp_path / "traces" / "slow.jsonl"),
        NULLBLOCK_TRACE_QUEUE_MB="0.02",
    )
    assert done.returncode == 0, done.stderr
    records = whole(tmp_path / "traces" / "slow.jsonl")
    (place,) = (i for i, record in enumerate(records) if isinstance(record, Gap))
    assert records[place].records > 100 and isinstance(records[place + 1], State)
    assert steps(records[place:]) >= 45 and steps(records) < 450
    assert warnings(done, "too slow") == 1


@BOTH
@pytest.mark.parametrize("more", [{}, EVERYTHING], ids=["plain", "everything"])
def test_no_secret_is_in_the_bytes(
    serve: Any, tmp_path: Path, asynchronous: bool, more: dict[str, Any]
) -> None:
    """Tokens, ids, salts, adapters, images, grammars and hashes appear in no usual form."""
    config = {"async_scheduling": asynchronous, "kv_events": True, "policy": "priority", **more}
    done = serve(
        "keeps_secrets",
        config,
        NULLBLOCK_TRACE_STATE_EVERY="5",
        NULLBLOCK_TRACE=str(tmp_path / "traces" / "t.jsonl.gz"),
    )
    assert done.returncode == 0, done.stderr
    path = tmp_path / "traces" / "t.jsonl.gz"
    assert steps(whole(path)) > 50
    content = zlib.decompress(path.read_bytes(), wbits=31)
    # The digests in header and end are of the trace itself.
    for digest in (hashlib.sha256, hashlib.md5):
        assert digest(content).digest() not in content
    for form in encodings(json.loads((tmp_path / "traces" / "hashes.json").read_text())):
        assert form not in content, form
    assert b'"eos"' in content and b'"stop"' in content and b'"stored"' in content
    assert b'"chunk"' in content and b'"taken"' in content and b'"session_end"' in content
    if more:
        told = (b'"items"', b'"adapter"', b'"compiled"', b'"encoder_inputs"', b'"chain_groups"')
        assert all(name in content for name in told)


def test_the_search_for_secrets_finds_them(tmp_path: Path) -> None:
    """It would: each form of each secret is one that a careless recorder might write."""
    forms = encodings(["ab" * 32])
    for written in (
        b'"request-id-of-mallory-0"',
        b"[1234567, 1234578]",
        base64.b64encode(b"salt-of-mallory"),
        hashlib.sha256(b"adapter-of-mallory").hexdigest().encode(),
        b"ab" * 32,
    ):
        assert any(form in written for form in forms), written
