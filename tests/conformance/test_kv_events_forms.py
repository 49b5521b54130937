"""KV events are read in every form in which vLLM's releases and their subscribers write them."""

import gzip
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zstandard
from kv_event_files import FORMS, FRAMINGS, altered, at, judged, places, recording, written

ALL: dict[str, Any] = {"num_blocks": 12, "no_connector": True, "full_attention": True}


def lean(name: str = "full") -> dict[str, int]:
    """What is counted of a recording whatever its form."""
    e = judged(recording(name)).evidence
    return {"events": e.events, "blocks": e.blocks, "removed": e.removed, "tokens": e.tokens}


@pytest.mark.parametrize("framing", FRAMINGS)
@pytest.mark.parametrize("form", FORMS)
def test_every_form_says_the_same(form: str, framing: str) -> None:
    """Each release's form, each way of writing batches down: one verdict, one count."""
    data = written(recording("full"), form, framing)
    found = judged(data, **ALL, from_start=True)
    assert found.verdict == "INCONCLUSIVE", found.first
    e = found.evidence
    assert {
        "events": e.events,
        "blocks": e.blocks,
        "removed": e.removed,
        "tokens": e.tokens,
    } == lean()
    assert ("EVENT-1" in e.judged) == (framing not in ("bare", "json array"))
    assert {f"EVENT-{n}" for n in (2, 3, 4, 5, 6, 7, 8, 9, 10, 12)} <= set(e.judged)


@pytest.mark.parametrize("framing", FRAMINGS)
@pytest.mark.parametrize("form", FORMS)
def test_every_form_can_be_refuted(form: str, framing: str) -> None:
    """A removal that is told twice is a violation in every form."""
    batches = altered(recording("full"))
    i, j = places(batches, "BlockRemoved")[-1]
    batches[i]["events"].insert(j, at(batches, (i, j)))
    found = judged(written(batches, form, framing), **ALL, from_start=True)
    assert found.first is not None and found.first.rule == "EVENT-2", found.first


@pytest.mark.parametrize("form", FORMS)
def test_what_a_form_leaves_open_is_said(form: str) -> None:
    """Without --full-attention parents are judged where a release tells the kind of attention and
    announces whole blocks only."""
    found = judged(written(recording("full"), form), num_blocks=12)
    told = form == "0.22.1"
    assert ("EVENT-3" in found.evidence.judged) == (form not in ("0.24.0", "0.32.0"))
    assert ("EVENT-4" in found.evidence.judged) == told
    assert any("--full-attention" in line for line in found.missing) == (not told)
    assert "EVENT-12" in found.evidence.judged


def test_fields_of_later_releases_are_counted() -> None:
    """More fields at the end of an array, and unknown names in a map, are passed over."""
    batches = recording("full")
    found = judged(written(batches, "0.32.0"))
    assert found.evidence.fields["BlockStored.session_id"] == found.evidence.stored
    body = [1.0, [["BlockStored", [1], None, [7], 1, *[None] * 7, "more", 2]], 0, "later"]
    body[1][0][6] = "GPU"
    found = judged(msgspec.msgpack.encode(body))
    assert found.verdict == "INCONCLUSIVE"
    assert dict(found.evidence.fields) == {
        "batch[3]": 1,
        "BlockStored[11]": 1,
        "BlockStored[12]": 1,
    }


def test_names_of_unknown_fields_do_not_fill_the_memory() -> None:
    """Only so many names are kept apart."""
    events = [{"type": "AllBlocksCleared", f"x{n}\n": n} for n in range(1000)]
    fields = judged(msgspec.msgpack.encode([1.0, events])).evidence.fields
    assert len(fields) == 65 and fields["other fields"] == 936
    assert not any("\n" in name for name in fields)


def test_hashes_are_numbers_bytes_or_strings() -> None:
    """However a hash is spelled, only its identity counts."""
    for one, two in ((1, 2**64 - 1), (-(2**63), 0), (b"\x00", b"\xff" * 36), ("a", "b")):
        events = [
            ["BlockStored", [one, two], None, [1, 2], 1, None, "GPU"],
            ["BlockRemoved", [two], "GPU"],
            ["BlockRemoved", [one], "GPU"],
        ]
        found = judged(msgspec.msgpack.encode([1, events]), from_start=True, full_attention=True)
        assert found.verdict == "INCONCLUSIVE" and found.evidence.cached == 0


def test_other_media_are_counted_and_not_judged() -> None:
    """A connector's blocks are none of the pool's, whatever it says of them; a release that has
    no media means the pool."""
    foreign = ["BlockStored", [5], 77, None, 0, None, "CPU"]
    unnamed = ["BlockStored", [5], 77, [], 0, None, None]
    gone = ["BlockRemoved", [9, 10], "cpu"]
    found = judged(msgspec.msgpack.encode([1.0, [foreign, unnamed, gone]]), from_start=True)
    assert found.verdict == "INCONCLUSIVE" and found.evidence.events == 0
    assert dict(found.evidence.media) == {"CPU": 1, "(none)": 1, "cpu": 1}
    old = msgspec.msgpack.encode([1.0, [["BlockRemoved", [9]]]])
    assert judged(old, from_start=True).verdict == "VIOLATION"


def test_compressed_files_are_read() -> None:
    """Gzip and zstd, in several members and frames, by their first bytes."""
    data = written(recording("full"))
    cut = len(data) // 2
    zstd = zstandard.ZstdCompressor().compress
    for packed in (
        gzip.compress(data),
        gzip.compress(data[:cut]) + gzip.compress(data[cut:]),
        zstd(data),
        zstd(data[:cut]) + zstd(data[cut:]),
    ):
        assert judged(packed).evidence.batches == len(recording("full"))


def test_ways_of_writing_may_change_within_a_file() -> None:
    """Messages with a topic, with a number alone, and the end of a replay, as they come."""
    batches = recording("full")
    end = msgspec.msgpack.encode([b"", b"\xff" * 8, b""])
    data = written(batches[:3], framing="numbered") + end
    # Without a topic: the topic tells publishers apart.
    for batch in batches[3:]:
        data += written([batch], framing="numbered")
    found = judged(data)
    assert found.evidence.batches == len(batches) and found.verdict == "INCONCLUSIVE"


def test_a_format_can_be_forced() -> None:
    """``--format`` says how batches stand in the file, right or wrong."""
    data = written(recording("full"), framing="prefixed")
    assert judged(data, format="prefixed").verdict == "INCONCLUSIVE"
    assert judged(data, format="msgpack").verdict == "MALFORMED"
    assert judged(data, format="jsonl").verdict == "MALFORMED"


def test_lines_of_nullblock_run_are_read() -> None:
    """A header begins a new engine and tells the size of its pool; lines without events pass."""
    stored = {"t": "BlockStored", "block_hashes": ["ab"], "parent_block_hash": None}
    stored |= {"token_ids": [1], "block_size": 1, "lora_id": None, "medium": "GPU"}
    header = {"ev": "header", "config": {"num_blocks": 2}}
    update = {"ev": "update", "step": 1, "kv_events": [stored]}
    text = "".join(json.dumps(x) + "\n" for x in (header, {"ev": "schedule"}, update) * 2)
    found = judged(text.encode())
    assert found.verdict == "INCONCLUSIVE" and found.evidence.judged["EVENT-3"] == 2
    assert (found.evidence.restarts, found.evidence.batches) == (1, 2)
    twice = "".join(json.dumps(x) + "\n" for x in (header, update, update))
    found = judged(twice.encode())
    assert found.first is not None and found.first.rule == "EVENT-3"
    assert found.first.place == "line 3"


BAD: list[tuple[bytes, str, str]] = [
    (b"", "byte 1", "the file is empty"),
    (b"BZh91AY", "byte 1", "this is bzip2"),
    (b"hello\n", "byte 1", "neither MessagePack nor JSON lines"),
    (b"\x91\xc1", "byte 1", "0xc1 begins no MessagePack value"),
    (b"\x00\x00\x00\x00", "byte 1", "a batch of no bytes"),
    (b"\x01\x00\x00\x01", "byte 1", "a batch of more than 16777216 bytes"),
    (b"\x00\x00\x00\x05\x91", "byte 1", "cut: 1 of 5 bytes of a batch"),
    (b"\x00\x00\x00\x02\x90\x90", "byte 1", "not one MessagePack value"),
    (b"\x91" * 40 + b"\x90", "byte 1", "nested too deeply"),
    (b"\x93\x01\xdd\xff\xff\xff\xff\x00", "byte 1", "cut: 8 bytes of a batch"),
    (b"{}\n", "line 1", "no batch of KV events: ts is missing"),
    (b"[1]\n", "line 1", "no batch of KV events: events is missing"),
    (b"[1, 2]\n", "line 1", "no batch of KV events: events: no list"),
    (b'["x", []]\n', "line 1", "no batch of KV events: ts: no time in seconds"),
    (b"[1, []]\n\n[1, []]\n", "line 2", "an empty line"),
    (b"[1, []]\n[1, [\n", "line 2", "not JSON: input data was truncated"),
    (b"[1, []]\n[1, []]", "line 2", "the last line has no end: the file was cut"),
    (b"7\n", "byte 1", "neither MessagePack nor JSON lines"),
    (b' "x"\n', "line 1", "neither a batch nor a line of nullblock run"),
    (b"[1, [[]]]\n", "line 1, event 1 of the batch", "no event: neither [name"),
    (b'[1, [["BlockRemoved"]]]\n', "line 1, event 1 of the batch", "block_hashes is missing"),
    (b'[1, [["BlockRemoved", [true]]]]\n', "line 1, event 1 of the batch", "a truth value"),
    (b'[1, [["BlockRemoved", [""]]]]\n', "line 1, event 1 of the batch", "a string, where a hash"),
    (b'{"seq": -1, "ts": 1, "events": []}\n', "line 1", "no sequence number"),
    (b'{"seq": 1, "ts": 1, "events": []}\n[1, []]\n', "line 2", "some batches have a number"),
]
"""Files that cannot be read: the place, and what is said."""


@pytest.mark.parametrize(("data", "place", "what"), BAD)
def test_what_cannot_be_read_is_malformed(data: bytes, place: str, what: str) -> None:
    """One line names the place and what is wrong, and there is a remedy."""
    found = judged(data)
    assert found.verdict == "MALFORMED" and found.first is not None
    assert found.first.place == place
    assert what in found.first.what
    assert all(found.first.next) and found.first.rule is None


def test_mixed_numbers_are_of_one_publisher(tmp_path: Path) -> None:
    """Two ranks in one file are two caches; one of them may begin in the middle."""
    batches = recording("full")
    other = altered(batches)
    for batch in other:
        batch["rank"] = 1
    both = [batch for pair in zip(batches, other, strict=True) for batch in pair]
    found = judged(both, num_blocks=12)
    assert found.verdict == "INCONCLUSIVE" and found.evidence.publishers == 2
    assert found.evidence.blocks == 2 * judged(batches).evidence.blocks
