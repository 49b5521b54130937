"""The format's three descriptions agree: types, JSON Schema, page."""

import json
import re
from pathlib import Path

import jsonschema
import pytest
from traces import BUSY, documents, read, trace_of

from nullblock.conformance.cli import main
from nullblock.conformance.trace import records, schema
from nullblock.conformance.trace.decode import Decoder
from nullblock.conformance.trace.deltas import Delta

PAGE = Path(schema.__file__).parents[1] / "FORMAT.md"


def test_the_committed_schema_is_current() -> None:
    """``nullblock schema -o conformance/trace/trace.schema.json`` would change nothing."""
    assert schema.PATH.read_text() == schema.text()


def test_the_command_prints_the_schema(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """``nullblock schema`` prints it, or writes it to a file."""
    assert main(["schema"]) == 0
    assert capfd.readouterr().out == schema.text()
    assert main(["schema", "-o", str(tmp_path / "s.json")]) == 0
    assert (tmp_path / "s.json").read_text() == schema.text()


def test_the_schema_accepts_what_is_written_and_refuses_what_is_not() -> None:
    """Every line of a trace is valid, and a line with a wrong type or kind is not."""
    check = jsonschema.Draft202012Validator(schema.schema())
    lines = documents(trace_of(BUSY))
    for line in lines:
        check.validate(line)
    for change in ({"ev": "birth"}, {"id": -1}, {"prompt": "long"}, {"chain": [[0, 0]]}):
        assert not check.is_valid(lines[1] | change)


def test_every_record_and_field_is_on_the_page() -> None:
    """FORMAT.md names each kind of record and each of its fields."""
    page = PAGE.read_text()
    assert f"version {records.VERSION}" in page
    page = re.sub(r"```.*?```", "", page, flags=re.DOTALL)
    words = set(re.findall(r"[a-z_0-9]+", " ".join(re.findall(r"`([^`]*)`", page))))
    short = {str(k.__struct_config__.tag): k for k in Delta.__args__}
    for kind, record in (records.KINDS | short).items():
        assert f"`{kind}`" in page
        assert set(record.__struct_fields__) <= words, kind
    for part in (records.NewRequest, records.CachedRequests, records.PostState, records.Finish):
        assert set(part.__struct_fields__) <= words
    for part in (records.TraceConfig, records.RequestState, records.StepInFlight):
        assert set(part.__struct_fields__) <= words
    for part in (records.Stored, records.Removed, records.Observed):
        assert set(part.__struct_fields__) <= words


def test_the_example_on_the_page_is_a_trace() -> None:
    """It reads without a complaint, seal and all, and is what the reference decides."""
    example = PAGE.read_text().partition("```json\n")[2].partition("```")[0].encode()
    scenario = {
        "config": {"block_size": 4, "num_blocks": 6, "max_num_batched_tokens": 8},
        "events": [
            {"op": "add", "id": "a", "prompt": {"range": [0, 9]}, "max_tokens": 2},
            {"op": "add", "id": "b", "prompt": {"range": [0, 6]}, "max_tokens": 9},
            {"op": "step", "n": 3},
            {"op": "abort", "ids": ["b"]},
        ],
    }
    assert read(example)[1:-1] == read(trace_of(scenario))[1:-1]


def test_canonical_lines_are_recognised() -> None:
    """Lines as they are written decode without a second look: their encoding equals them."""
    decoder = Decoder()
    lines = trace_of(BUSY).splitlines()
    decoder.header(lines[0])
    for line in lines:
        assert decoder._encode(decoder.record(line)) == line


def test_numbers_are_whole_and_small_enough() -> None:
    """No integer in a trace is one that a reader of another language would round."""
    document = json.dumps(schema.schema())
    assert '"type": "integer"}' not in document
