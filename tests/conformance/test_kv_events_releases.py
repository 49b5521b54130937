"""KV events release by release: the table of FORMAT.md, the real classes, and what comes later."""

import re
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest
from kv_event_files import DATA, FORMS, event_in, judged, recording, written

from nullblock.conformance.cli import main
from nullblock.conformance.kv_events.wire import REMOVED, STORED

encode = msgspec.msgpack.Encoder().encode
PAGE = Path(__file__).resolve().parents[2] / "conformance" / "kv_events" / "FORMAT.md"
STORE = ["BlockStored", [1, 2], None, [7, 8], 1, None, "GPU"]
REMOVE = ["BlockRemoved", [2], "GPU"]
CLASSES = """
import sys
sys.path[:0] = [sys.argv[1]]
import torchless; torchless.install()
import msgspec, vllm.distributed.kv_events as k
stored = k.BlockStored([1], None, [7], 1, None, "GPU", None)
for name in k.BlockStored.__struct_fields__:
    if getattr(stored, name) is None and name not in ("parent_block_hash", "medium"):
        values = {"extra_keys": [None], "lora_id": 3, "group_idx": 0}
        values["kv_cache_spec_kind"] = "full_attention"
        values["kv_cache_spec_sliding_window"] = 4
        setattr(stored, name, values.get(name, "x"))
events = [stored, k.BlockRemoved([1], "GPU", 0), k.AllBlocksCleared()]
sys.stdout.buffer.write(msgspec.msgpack.encode(k.KVEventBatch(1.5, events, 2)))
"""


def rows() -> dict[str, list[str]]:
    """The table's rows by their first release: fields of a store, of a removal, the form."""
    text = PAGE.read_text().partition("## Forms")[2].partition("\n## ")[0]
    found = {}
    for line in re.findall(r"^\| (\d.*) \|$", text, re.M):
        release, *cells = (cell.strip() for cell in line.split("|"))
        found[release.split(",")[0]] = cells
    return found


def test_the_table_is_what_is_read() -> None:
    """The page's field orders are those of the reader, and of the forms that tests write."""
    stored: list[str] = []
    removed: list[str] = []
    found = rows()
    assert set(FORMS) == set(found)
    for release, (store, remove, form) in found.items():
        stored += re.findall(r"`(\w+)`", store)
        removed += re.findall(r"`(\w+)`", remove)
        shape = FORMS[release]
        assert form.startswith("array" if shape and isinstance(shape[0], int) else "map")
        if form.startswith("array"):
            assert shape == (len(stored), len(removed)), release
    assert tuple(stored) == (*STORED, "locality", "ownership", "session_id")
    assert tuple(removed) == (*REMOVED, "locality", "ownership")


@pytest.mark.oracle
@pytest.mark.parametrize("release", ["0.22.1", "0.32.0"])
def test_the_real_classes_are_read(release: str, request: pytest.FixtureRequest) -> None:
    """A batch that the release itself encodes, every field told: all of it is read, and what is
    not judged is named.
    """
    fixture = "oracle_python" if release == "0.22.1" else "oracle_0_32_python"
    python = request.getfixturevalue(fixture)
    tests = Path(__file__).resolve().parents[1] / "oracle"
    done = subprocess.run([python, "-B", "-c", CLASSES, tests], capture_output=True, check=True)
    found = judged(done.stdout, from_start=True)
    assert found.verdict == "INCONCLUSIVE", found.first
    e = found.evidence
    assert (e.stored, e.removed, e.cleared, e.publishers, e.first_ts) == (1, 1, 1, 1, 1.5)
    later = {"BlockStored.locality", "BlockStored.ownership", "BlockStored.session_id"}
    assert set(e.fields) == (later if release == "0.32.0" else set())
    assert not e.unknown


@pytest.mark.parametrize("form", FORMS)
def test_more_fields_than_a_release_has(form: str) -> None:
    """Fields that a later release adds, at the end of an array or as names, change no verdict and
    are named.
    """
    batches = recording("full")
    bodies = []
    for batch in batches:
        events = [event_in(form, event) for event in batch["events"]]
        for event in events:
            if isinstance(event, list):
                missing = len(STORED if event[0] == "BlockStored" else REMOVED) + 1 - len(event)
                event += [*[None] * missing, "later"] if missing >= 0 else ["later"]
                if len(event) > 6 and event[0] == "BlockStored" and event[6] is None:
                    event[6] = "GPU"
                if event[0] == "BlockRemoved" and event[2] is None:
                    event[2] = "GPU"
            else:
                event["hash_algo"] = "x"
        bodies.append(encode([batch["ts"], events, batch["rank"], {"later": 1}]))
    found, plain = judged(b"".join(bodies)), judged(written(batches, form, "bare"))
    assert found.verdict == "INCONCLUSIVE", found.first
    assert found.evidence.blocks == plain.evidence.blocks
    named = (
        "BlockStored.hash_algo" if isinstance(events[0], dict) else f"BlockStored[{len(STORED)}]"
    )
    assert found.evidence.fields[named] == found.evidence.stored
    assert found.evidence.fields["batch[3]"] == len(batches)


@pytest.mark.parametrize("unknown", [["BlockMoved", [1], 3], {"type": "BlockMoved", "to": {}}])
def test_an_event_that_nobody_knows_is_named(unknown: Any) -> None:
    """It is INCONCLUSIVE by name; what depends on what is cached is not judged behind it, until
    the cache is emptied.
    """
    twice = [STORE, REMOVE, REMOVE]
    assert judged(encode([1.0, twice]), from_start=True).verdict == "VIOLATION"
    found = judged(encode([1.0, [STORE, REMOVE, unknown, REMOVE]]), from_start=True)
    assert found.verdict == "INCONCLUSIVE", found.first
    assert dict(found.evidence.unknown) == {"BlockMoved": 1}
    assert "'BlockMoved'" in found.missing[0] and "1 of them" in found.missing[0]
    behind = [STORE, unknown, ["AllBlocksCleared"], *twice]
    found = judged(encode([1.0, behind]), from_start=True)
    assert found.first is not None and found.first.rule == "EVENT-2"


def test_a_stream_of_unknown_events_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another engine's stream: names are kept apart up to a number, and none obeys a terminal."""
    path = tmp_path / "stream"
    path.write_bytes(encode([1.0, [[f"x{n}\x1b[2J\n"] for n in range(500)]]))
    assert main(["import", "kv-events", str(path)]) == 3
    out = capsys.readouterr().out
    assert "\x1b" not in out and "other events" in out and "nothing was stored" in out
    assert out.count("what events called") == 65


def test_a_capture_of_whole_messages() -> None:
    """Frames as they come from the socket: live, or from replay_endpoint with its empty frame,
    with a topic from 0.32 on; a replay's end is passed over.
    """
    payload = encode([1.0, [STORE], 0])
    number = (0).to_bytes(8, "big")
    ends = [b"", b"", b"\xff" * 8, b""], [b"", b"\xff" * 8, b""]
    for frames in ([b"kv", number, payload], [b"", b"kv", number, payload]):
        for end in ends:
            found = judged(encode(frames) + encode(end))
            assert found.verdict == "INCONCLUSIVE", found.first
            assert (found.evidence.batches, found.evidence.publishers) == (1, 1)
            assert "EVENT-1" in found.evidence.judged


def test_recordings_of_the_real_engine_have_no_unknown_events() -> None:
    """What is counted as unknown is not in any kept recording."""
    for path in DATA.glob("*.msgpack"):
        assert not judged(path.read_bytes()).evidence.unknown
