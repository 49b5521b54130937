"""Damaged files of KV events: no crash, no hang, no verdict that the damage does not warrant."""

import gzip
import random
import tracemalloc

import pytest
import zstandard
from kv_event_files import FRAMINGS, judged, recording, written

from nullblock.conformance.kv_events import frames as frames_module

BATCHES = recording("full")
FILES = {framing: written(BATCHES, framing=framing) for framing in FRAMINGS}
FILES["maps"] = written(BATCHES, "0.32.0")
FILES["gzip"] = gzip.compress(FILES["message"], mtime=0)
FILES["zstd"] = zstandard.ZstdCompressor(write_checksum=True).compress(FILES["message"])


@pytest.mark.parametrize("name", FILES)
def test_a_cut_file_is_never_a_violation(name: str) -> None:
    """Cut after any byte: what is there is true, so it is INCONCLUSIVE at the end of a batch and
    MALFORMED elsewhere."""
    data = FILES[name]
    step = 3 if name == "maps" else 1
    verdicts = [judged(data[:n], num_blocks=12).verdict for n in range(0, len(data), step)]
    assert set(verdicts) == ({"MALFORMED"} if name in ("gzip", "zstd") else {*verdicts})
    assert "VIOLATION" not in verdicts
    if name not in ("gzip", "zstd", "maps"):
        assert verdicts.count("INCONCLUSIVE") == len(BATCHES) - 1


@pytest.mark.parametrize("name", FILES)
def test_flipped_bits_do_no_harm(name: str) -> None:
    """Bits are flipped, bytes replaced, removed and repeated: some verdict, and no crash."""
    draw = random.Random(f"kv events {name}")
    seen = set()
    for _ in range(700):
        data = bytearray(FILES[name])
        for _ in range(draw.randint(1, 4)):
            at = draw.randrange(len(data))
            match draw.randrange(4):
                case 0:
                    data[at] ^= 1 << draw.randrange(8)
                case 1:
                    data[at] = draw.randrange(256)
                case 2:
                    del data[at : at + draw.randint(1, 9)]
                case _:
                    data[at:at] = data[at : at + draw.randint(1, 40)]
            if not data:
                data = bytearray(b"\x90")
        found = judged(bytes(data), num_blocks=12)
        seen.add(found.verdict)
        assert (found.first is None) == (found.verdict == "INCONCLUSIVE")
        if name in ("gzip", "zstd") and bytes(data) != FILES[name]:
            assert found.verdict != "VIOLATION" or found.first is not None
    assert "MALFORMED" in seen and seen <= {"MALFORMED", "VIOLATION", "INCONCLUSIVE"}


def test_noise_is_malformed() -> None:
    """Thousands of files of random bytes, whatever they begin with."""
    draw = random.Random("noise")
    heads = (b"", b"{", b"[", b"\x93", b"\xdc", b"\x00\x00", b"\x1f\x8b", b"\x28\xb5\x2f\xfd")
    for number in range(4000):
        data = heads[number % len(heads)] + draw.randbytes(draw.randint(0, 60))
        assert judged(data).verdict == "MALFORMED" or b"\x90" in data


@pytest.mark.parametrize("depth", [10, 31, 32, 33, 1000, 200_000])
def test_nests_are_bounded(depth: int) -> None:
    """Deep nests are refused, in MessagePack as in JSON, inside of extra keys too."""
    nest = b"\x91" * depth + b"\x90"
    stored = b"\x99\xabBlockStored\x91\x01\xc0\x91\x07\x01\xc0\xa3GPU\xc0\x91"
    for data in (nest, b"\x92\x01\x91" + stored + nest, b"[" * depth + b"]" * depth + b"\n"):
        found = judged(data)
        assert found.verdict in ("MALFORMED", "INCONCLUSIVE")
        if depth > 33:
            assert found.verdict == "MALFORMED"


@pytest.mark.parametrize(
    "data",
    [
        b"\xdd\xff\xff\xff\xff",
        b"\xdf\xff\xff\xff\xff" + b"\x00" * 50,
        b"\xc6\xff\xff\xff\xff" + b"\x00" * 50,
        b"\x92\x01\xdd\x7f\xff\xff\xff" + b"\x90" * 50,
        b"\x93\xa0\x00\xc6\x7f\xff\xff\xff" + b"\x00" * 50,
        b"\xdd\x00\x0f\xff\xff" * 30 + b"\x00" * 99,
        b"\x00\xff\xff\xff" + b"\x90" * 60,
    ],
)
def test_giant_lengths_cost_nothing(data: bytes) -> None:
    """A length is a claim: no memory is taken for what is not there."""
    tracemalloc.start()
    try:
        assert judged(data).verdict == "MALFORMED"
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2**22


def test_bombs_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A compressed file that goes on for ever is refused once a batch is too long."""
    monkeypatch.setattr(frames_module, "MAX_BATCH", 2**16)
    long_line = b"[" + b" " * 2**20
    for data in (long_line, b"\xdd\x7f\xff\xff\xff" + b"\x01" * 2**20):
        for packed in (gzip.compress(data), zstandard.ZstdCompressor().compress(data)):
            tracemalloc.start()
            try:
                found = judged(packed)
                _, peak = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
            assert found.verdict == "MALFORMED" and found.first is not None
            assert "a batch of more than" in found.first.what
            assert peak < 2**22


def test_memory_does_not_grow_with_the_file() -> None:
    """A stream ten times as long takes the memory of what is cached, and no more."""

    def peak(rounds: int) -> int:
        hashes = range(rounds * 200)
        lines = [
            f'[1.0,[["BlockStored",[{h}],null,[{h}],1,null,"GPU"],["BlockRemoved",[{h}],"GPU"]]]\n'
            for h in hashes
        ]
        data = "".join(lines).encode()
        tracemalloc.start()
        try:
            found = judged(data)
            return tracemalloc.get_traced_memory()[1] - len(data)
        finally:
            tracemalloc.stop()
            assert found.verdict == "INCONCLUSIVE" and found.evidence.peak_cached == 1

    # What was removed is remembered by its hash, up to a limit.
    assert peak(20) < peak(2) + 20 * 200 * 300
