"""Reading the workload that the bundled trace was recorded under."""

import gzip
import json
from pathlib import Path

import pytest

from nullblock.conformance.workloads.errors import WorkloadError
from nullblock.conformance.workloads.mooncake import read_mooncake

ROWS = [
    {"timestamp": 0, "input_length": 1500, "output_length": 7, "hash_ids": [0, 1, 2]},
    {"timestamp": 3000, "input_length": 1024, "output_length": 1, "hash_ids": [0, 5]},
]


def trace(path: Path, rows: list[dict[str, object]]) -> Path:
    """A file with these rows."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_equal_ids_are_equal_tokens_and_others_are_not(tmp_path: Path) -> None:
    """Prompts share what their ids share, no more, and have the length that is asked for."""
    first, second = read_mooncake(trace(tmp_path / "t", ROWS))
    a, b = first.prompt(), second.prompt()
    assert (len(a), len(b)) == (1500, 1024)
    assert a[:512] == b[:512] and not set(a[512:]) & set(b[512:])
    assert (first.arrival, second.arrival, first.output_length) == (0.0, 3.0, 7)


def test_a_scale_divides_inputs_and_keeps_what_is_shared(tmp_path: Path) -> None:
    """Lengths are divided and rounded up; an id stands for that many tokens less."""
    path = trace(tmp_path / "t", ROWS)
    path.write_bytes(gzip.compress(path.read_bytes()))
    first, second = read_mooncake(path, scale=4)
    assert (first.input_length, second.input_length, first.output_length) == (375, 256, 7)
    assert len(first.prompt()) == 375
    assert first.prompt()[:128] == second.prompt()[:128]
    with pytest.raises(ValueError, match="scale of 3"):
        list(read_mooncake(path, scale=3))


@pytest.mark.parametrize(
    "change",
    [{"hash_ids": [0]}, {"hash_ids": ["a", "b"]}, {"timestamp": "now"}, {"input_length": 9.5}],
)
def test_another_file_is_refused_by_line(tmp_path: Path, change: dict[str, object]) -> None:
    """What is not such a trace is named, with its line."""
    path = trace(tmp_path / "t", [ROWS[0], ROWS[1] | change])
    with pytest.raises(WorkloadError, match="line 2"):
        list(read_mooncake(path))
