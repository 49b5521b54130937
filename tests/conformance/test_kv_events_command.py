"""``nullblock import kv-events`` as a shell sees it."""

import io
import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
from kv_event_files import judged, recording, written

from nullblock.conformance.cli import main
from nullblock.conformance.kv_events.report import junit
from nullblock.spec.kv_events import NEVER_TOLD

FORMAT = Path(__file__).parents[2] / "conformance" / "kv_events" / "FORMAT.md"
STRANGER = {"type": "BlockRemoved", "block_hashes": [4711], "medium": "GPU", "group_idx": 0}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """One file of each verdict."""
    whole = recording("full")
    (tmp_path / "open").write_bytes(written(whole))
    whole[3]["events"].insert(0, STRANGER)
    (tmp_path / "wrong").write_bytes(written(whole))
    (tmp_path / "broken").write_bytes(written(whole[:3])[:-1])
    return tmp_path


@pytest.mark.parametrize(
    ("names", "code"),
    [
        (["open"], 3),
        (["wrong"], 1),
        (["broken"], 4),
        (["open", "broken"], 4),
        (["broken", "wrong", "open"], 1),
    ],
)
def test_the_worst_verdict_is_the_exit_code(folder: Path, names: list[str], code: int) -> None:
    """1 before 4 before 3; 0 is never given."""
    assert main(["import", "kv-events", *(str(folder / name) for name in names)]) == code


def test_the_screen_tells_what_it_rests_on(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Counts, laws, what would let more be judged, and what no stream tells."""
    main(["import", "kv-events", str(folder / "open")])
    out = " ".join(capsys.readouterr().out.split())
    for words in (
        "INCONCLUSIVE",
        "16 batches of 1 publisher, 29 events: 17 stored, 11 removed, 1 cleared",
        "26 blocks stored in 1 group over 104 tokens, 21 of them with new content",
        "at most 11 blocks cached at once; 4 at the end",
        "1 block stored while the same content was cached: up to 2 copies",
        "judged: EVENT-1 16, EVENT-2 11, EVENT-4 13",
        "not known: EVENT-3: how many blocks the pool has (--num-blocks)",
        *NEVER_TOLD,
    ):
        assert words in out


def test_a_violation_is_told_to_a_person(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Place, event, law, what is known, and what to do next."""
    main(["import", "kv-events", str(folder / "wrong"), "--num-blocks", "12"])
    out = capsys.readouterr().out
    for words in (
        "VIOLATION",
        "BlockRemoved 4711 (group 0); in batch 4 (number 3) of topic 'kv', rank 0",
        "the law says: a hash that is cached",
        "nullblock rules EVENT-2",
        "4711 (group 0): never stored",
        "of 11 blocks are cached then",
        "next: ",
    ):
        assert words in out


def test_json_has_all_of_it(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One object for one file, a list for several."""
    assert main(["import", "kv-events", "--json", str(folder / "wrong")]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["verdict"] == "VIOLATION" and found["stream"].endswith("wrong")
    first = found["first"]
    assert (first["rule"], first["batch"], first["seq"]) == ("EVENT-2", 4, 3)
    assert first["place"].startswith("byte ") and "EVENT-2" in first["story"]
    main(["import", "kv-events", "--json", str(folder / "open"), str(folder / "broken")])
    opened, broken = json.loads(capsys.readouterr().out)
    assert opened["first"] is None and opened["evidence"]["judged"]["EVENT-1"] == 16
    assert opened["evidence"]["peak_cached"] == 11 and opened["missing"]
    assert broken["verdict"] == "MALFORMED" and broken["first"]["rule"] is None


def test_junit_says_the_same(folder: Path, tmp_path: Path) -> None:
    """VIOLATION fails, MALFORMED errs, INCONCLUSIVE is skipped."""
    report = tmp_path / "report.xml"
    names = [str(folder / name) for name in ("wrong", "broken", "open")]
    assert main(["import", "kv-events", *names, "--junit", str(report)]) == 1
    (suite,) = ElementTree.parse(report).getroot()
    assert [suite.get(k) for k in ("tests", "failures", "errors", "skipped")] == list("3111")
    assert [case[0].tag for case in suite] == ["failure", "error", "skipped"]
    assert "EVENT-2" in (suite[0][0].text or "")
    message = str(suite[0][0].get("message"))
    assert message.startswith("byte ") and "BlockRemoved" in message
    assert "the law says" in message and "(EVENT-2)" in message
    assert str(suite[1][0].get("message")).startswith("byte ")
    odd = judged(b"\x92\x01\x91\x92\xacBlockRemoved\x91\xa3\x00\x1b\xff")
    assert ElementTree.fromstring(junit([odd]))


def test_standard_input_and_options(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """``-`` is standard input; options say what is known of the engine and of the file."""
    for options, code, rule in (
        ([], 3, None),
        (["--num-blocks", "11"], 1, "EVENT-3"),
        (["--format", "jsonl"], 4, None),
        (["--num-blocks", "12", "--no-connector", "--full-attention", "--from-start"], 3, None),
    ):
        data = io.BytesIO((folder / "open").read_bytes())
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(data))
        assert main(["import", "kv-events", "-", "--json", *options]) == code
        first = json.loads(capsys.readouterr().out)["first"]
        assert (first and first["rule"]) == rule


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere"], "no such file"),
        (["."], "a folder"),
        (["-", "-"], "standard input can be read once"),
        ([""], "the name of a file is empty"),
        (["x", "--num-blocks", "0"], "--num-blocks"),
        (["x", "--format", "pickle"], "--format"),
        ([], "FILE"),
    ],
)
def test_mistakes_on_the_command_line(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line and exit code 2."""
    assert main(["import", "kv-events", *arguments]) == 2
    said = capsys.readouterr().err
    assert words in said and said.count("\n") == 1


def test_the_report_does_not_overwrite_an_input(folder: Path) -> None:
    """``--junit`` names no input."""
    name = str(folder / "open")
    assert main(["import", "kv-events", name, "--junit", name]) == 2


@pytest.fixture
def subscriber(tmp_path: Path) -> Path:
    """The program that FORMAT.md tells to write."""
    (code,) = re.findall(r"```python\n(.*?)```", FORMAT.read_text(), re.DOTALL)
    path = tmp_path / "subscribe.py"
    path.write_text(code)
    return path


PUBLISHER = """
import sys, time
sys.path.insert(0, sys.argv[1])
import torchless
torchless.install()
from vllm.distributed.kv_events import BlockStored, KVEventBatch, ZmqEventPublisher
publisher = ZmqEventPublisher(0, endpoint=sys.argv[2], replay_endpoint=sys.argv[3], topic="kv")
def publish(n):
    stored = BlockStored([n + 1], n or None, [n] * 4, 4, None, "GPU", None, [None], 0,
                         "full_attention")
    publisher.publish(KVEventBatch(ts=float(n), events=[stored]))
for n in range(5):
    publish(n)
print("ready", flush=True)
sys.stdin.readline()
for n in range(5, 10):
    publish(n)
sys.stdin.readline()
publisher.shutdown()
"""


@pytest.fixture
def endpoints(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Two short addresses for this machine alone."""
    folder = tmp_path_factory.mktemp("zmq")
    yield f"ipc://{folder}/a", f"ipc://{folder}/b"


@pytest.mark.oracle
def test_the_subscriber_records_the_real_publisher(
    subscriber: Path, endpoints: tuple[str, str], oracle_python: Path, tmp_path: Path
) -> None:
    """What the example of FORMAT.md writes from vLLM's own publisher, replay first, is judged
    from its start to its end without a gap."""
    pipe = subprocess.PIPE
    oracle_folder = Path(__file__).parents[1] / "oracle"
    recorded = tmp_path / "recorded"
    publisher = subprocess.Popen(
        [oracle_python, "-B", "-c", PUBLISHER, oracle_folder, *endpoints], stdin=pipe, stdout=pipe
    )
    assert publisher.stdin is not None and publisher.stdout is not None
    follower = None
    try:
        assert publisher.stdout.readline() == b"ready\n"
        follower = subprocess.Popen([oracle_python, "-B", subscriber, recorded, *endpoints])
        _wait_for(recorded, 5)
        publisher.stdin.write(b"go on\n")
        publisher.stdin.flush()
        _wait_for(recorded, 10)
    finally:
        for process in (publisher, follower):
            if process is not None:
                process.kill()
                process.communicate()
    found = judged(recorded.read_bytes(), no_connector=True)
    assert found.verdict == "INCONCLUSIVE", found.first
    assert (found.evidence.batches, found.evidence.judged["EVENT-1"]) == (10, 10)


def _wait_for(path: Path, batches: int) -> None:
    """Until a file has so many batches."""
    for _ in range(600):
        if path.exists() and judged(path.read_bytes()).evidence.batches >= batches:
            return
        time.sleep(0.05)
    pytest.fail(f"{batches} batches never came")
