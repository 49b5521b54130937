"""Scenario files: what is read, and what a stranger is told about the rest."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nullblock.conformance import scenario, scope
from nullblock.conformance.errors import InputError, OutOfScope, ScenarioError
from nullblock.conformance.scenario_format import Add

ADD: dict[str, Any] = {"op": "add", "id": "a", "prompt": [1, 2, 3]}
EVENT_KEYS = ["prompt", "max_tokens", "arrival", "stop", "eos", "eos_at", "lora", "priority"]


def refused(document: Any) -> InputError:
    """The answer to a document, or to the bytes of one, that may not be read."""
    data = document if isinstance(document, bytes) else json.dumps(document).encode()
    with pytest.raises(InputError) as caught:
        scenario.parse(data, "s.json")
    return caught.value


def events(*written: Any) -> dict[str, Any]:
    """A document with these events and the default configuration."""
    return {"events": list(written)}


def prompt(written: Any) -> dict[str, Any]:
    """A document that adds one request with this prompt."""
    return events(ADD | {"prompt": written})


def test_defaults_are_those_of_the_format() -> None:
    """A scenario without a configuration gets the format's defaults, and the header shows them."""
    written = scenario.from_dict(events()).written_config
    assert written["block_size"] == 16
    assert written["groups"] == [{"type": "full"}]
    assert written["hash_seed"] == "0"
    assert written["connector"] is None
    assert len(written) == 29


def test_the_header_shows_the_configuration_as_it_was_written() -> None:
    """What a scenario writes is shown as written, not as it was decoded."""
    config = {"groups": [{"type": "full", "block_size": 4}], "block_size": 4, "watermark": 0.5}
    taken = scenario.from_dict({"config": config, "events": [], "requests": {"a": 1}})
    assert taken.written_config["groups"] == [{"type": "full", "block_size": 4}]
    assert taken.ignored == ["watermark", "requests"]


@pytest.mark.parametrize(
    ("written", "tokens"),
    [
        ([], []),
        ([5, -6], [5, -6]),
        ({"fill": 7, "n": 3}, [7, 7, 7]),
        ({"fill": 7, "n": 0}, []),
        ({"range": [2, 5]}, [2, 3, 4]),
        ({"range": [2, 2]}, []),
        ({"concat": [[1], {"concat": [{"range": [0, 2]}]}, {"fill": 9, "n": 1}]}, [1, 0, 1, 9]),
    ],
)
def test_prompts_are_written_out(written: Any, tokens: list[int]) -> None:
    """Each short form stands for the list of tokens that the format says."""
    (added,) = scenario.from_dict(prompt(written)).events
    assert isinstance(added, Add)
    assert added.prompt.tokens() == tokens
    assert len(added.prompt) == len(tokens)


@pytest.mark.parametrize(
    ("document", "place", "says"),
    [
        ({}, "", "'events' is missing"),
        ([], "", "expected `object`, got `array`"),
        (events() | {"event": []}, "", "did you mean 'events'?"),
        ({"events": None}, "events", "expected `array`, got `null`"),
        (events(3), "events[0]", "expected `object`, got `int`"),
        (events(ADD, {"op": "stop"}), "events[1].op", "unknown op 'stop'; did you mean 'step'?"),
        (events({"op": ["add"]}), "events[0].op", "unknown op"),
        (events({"n": 1}), "events[0]", "'op' is missing"),
        (events({"op": "add", "id": "a"}), "events[0]", "'prompt' is missing"),
        (events(ADD | {"max_token": 1}), "events[0]", "did you mean 'max_tokens'?"),
        (events(ADD | {"id": 5}), "events[0].id", "expected `str`, got `int`"),
        (events(ADD | {"max_tokens": True}), "events[0].max_tokens", "`int`, got `bool`"),
        (events(ADD | {"max_tokens": 2.0}), "events[0].max_tokens", "`int`, got `float`"),
        (events(ADD | {"max_tokens": None}), "events[0].max_tokens", "`int`, got `null`"),
        (events(ADD | {"stop": [1, "x"]}), "events[0].stop[1]", "`int`, got `str`"),
        (events(ADD | {"eos_at": 1}), "events[0].eos_at", 'add "eos"'),
        (events({"op": "step", "n": -1}), "events[0].n", "got -1"),
        (events({"op": "step", "n": 10**7}), "events[0].n", "<= 1000000"),
        (events({"op": "abort"}), "events[0]", "'ids' is missing"),
        (events({"op": "abort", "ids": "a"}), "events[0].ids", "got `str`"),
        (events({"op": "abort", "ids": None, "status": "DONE"}), "events[0].status", "write one"),
        (events({"op": "pause", "state": "OFF"}), "events[0].state", "write one of UNPAUSED"),
        (events({"op": "evict_blocks", "ids": [-1]}), "events[0].ids[0]", ">= 0, got -1"),
        (prompt("abc"), "events[0].prompt", "got `str`"),
        (prompt([1, True]), "events[0].prompt[1]", "got `bool`"),
        (prompt({"range": [5]}), "events[0].prompt.range", "write [lo, hi]"),
        (prompt({"range": [5, 2]}), "events[0].prompt.range", "smaller bound first"),
        (prompt({"fill": 1, "n": -1}), "events[0].prompt.n", "at least 0"),
        (prompt({"fill": 1}), "events[0].prompt", "not a prompt"),
        (prompt({"range": [0, 1], "fill": 1}), "events[0].prompt", "not a prompt"),
        (
            prompt({"concat": [[1], {"range": [0, "x"]}]}),
            "events[0].prompt.concat[1].range[1]",
            "",
        ),
        (prompt({"range": [0, 2**62]}), "events[0].prompt.range", "at most 4194304"),
        (prompt({"fill": 0, "n": 2**40}), "events[0].prompt.n", "at most 4194304"),
        (prompt({"concat": [{"fill": 0, "n": 2**21}] * 3}), "events[0].prompt", "at most 4194304"),
        (events(*[ADD | {"prompt": {"fill": 0, "n": 2**22}}] * 5), "events[4].prompt", "together"),
    ],
)
def test_wrong_content_is_named_with_its_place(document: Any, place: str, says: str) -> None:
    """Wrong content is refused with exit code 4, its place and what to do about it."""
    error = refused(document)
    assert isinstance(error, ScenarioError)
    assert error.exit_code == 4
    assert error.place == place
    assert says in str(error)
    assert str(error).startswith("s.json: ")
    assert "\n" not in str(error)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("block_size", 0),
        ("block_size", -4),
        ("block_size", "4"),
        ("num_blocks", 0),
        ("num_blocks", 2**20 + 1),
        ("max_num_batched_tokens", 0),
        ("max_num_scheduled_tokens", -1),
        ("max_num_seqs", 0),
        ("max_model_len", 0),
        ("policy", "sjf"),
        ("policy", "FCFS"),
        ("enable_prefix_caching", 1),
        ("hash_algo", "md5"),
        ("hash_seed", None),
        ("hash_seed", "\0"),
        ("groups", []),
        ("groups", [{"type": "full", "block_size": 8}]),
        ("groups", [{"type": "fool"}]),
        ("groups", [{"type": "full", "window": 8}]),
        ("groups", [{"type": "full"}] * 2),
        ("groups", [{"type": "sliding_window"}]),
        ("groups", [{"type": "chunked_local"}, {"type": "full"}]),
        ("groups", [{"type": "sink"}]),
        ("groups", [{"type": "sink", "sink_len": 5}]),
        ("groups", [{"type": "sink", "sink_len": 16 * 64}]),
        ("groups", [{"type": "mamba", "mamba_cache_mode": "some"}]),
        ("groups", [{"type": "full"}, {"type": "mamba", "block_size": 8}]),
        ("accept", "some"),
        ("vocab", 0),
        ("seed", 1.5),
        ("connector", {"matches": {}}),
        ("blocksize", 4),
    ],
)
def test_impossible_configurations_are_content_errors(key: str, value: Any) -> None:
    """A configuration that no engine can be built with is refused with exit code 4."""
    error = refused({"config": {key: value}, "events": []})
    assert error.exit_code == 4
    assert error.place.startswith("config")


@pytest.mark.parametrize(
    "config",
    [
        {"num_blocks": 1},
        {"max_num_seqs": 1, "max_model_len": 1},
        {"block_size": 1000, "max_model_len": 3},
        {"long_prefill_token_threshold": -1},
        {"max_num_scheduled_tokens": 0},
        {"max_num_scheduled_tokens": 1000, "long_prefill_token_threshold": 500},
        {"enable_chunked_prefill": False},
        {"queue_depth": -1},
        {"hash_block_size": 7},
        {"hash_seed": 12},
        {"connector": {}},
        {"max_loras": 0},
    ],
)
def test_what_the_real_engine_can_be_built_with_is_read(config: dict[str, Any]) -> None:
    """Odd but possible configurations run: the real engine takes each of these."""
    assert scenario.from_dict({"config": config, "events": []}).config is not None


@pytest.mark.parametrize("algorithm", ["xxhash", "xxhash_cbor"])
def test_what_cannot_be_had_here_is_named(algorithm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the package, its hashes are refused with exit code 3, their name and their place."""
    monkeypatch.setattr(scope, "find_spec", lambda name: None)
    error = refused({"config": {"hash_algo": algorithm}, "events": []})
    assert isinstance(error, OutOfScope)
    assert (error.exit_code, error.place) == (3, "config.hash_algo")
    assert algorithm in error.what


def test_wrong_content_is_worse_than_a_feature_out_of_scope() -> None:
    """A file with both kinds of trouble is judged by the worse one."""
    document = {"config": {"hash_algo": "xxhash"}, "events": [{"op": "stop"}]}
    assert refused(document).exit_code == 4


@pytest.mark.parametrize(
    ("data", "place", "says"),
    [
        (b"", "line 1 column 1", "the file is empty"),
        (b'{"events":[\n{"op" "add"}]}', "line 2 column 7", "not JSON"),
        (b'{"events":[]} x', "line 1 column 15", "not JSON"),
        (b'\xef\xbb\xbf{"events":[]}', "line 1 column 1", "byte order mark"),
        (b'{"events":[],\n"a":"\xff"}', "line 2", "save it as UTF-8"),
        ('{"events":[]}'.encode("utf-16"), "line 1", "not UTF-8"),
        (b'{"events":[],"events":[]}', "", "given twice"),
        (b'{"events":[{"op":"step","n":1,"n":2}]}', "events[0]", '"n" is given twice'),
        (b'{"events":[{"op":"step","n":NaN}]}', "events[0].n", "NaN is not JSON"),
        (b'{"config":{"watermark":-Infinity},"events":[]}', "config.watermark", "finite"),
        (b'{"config":{"watermark":1e999},"events":[]}', "config.watermark", "finite"),
        (b'{"events":[{"op":"step","n":9223372036854775808}]}', "events[0].n", "64 bits"),
        (b'{"config":{"seed":' + b"9" * 5000 + b'},"events":[]}', "config.seed", "64 bits"),
        (b'{"events":[{"op":"add","id":"\\ud800","prompt":[]}]}', "events[0].id", "surrogate"),
        (b'{"events":[],"\\udfff":1}', '"\\udfff"', "surrogate"),
        (b"[" * 100 + b"]" * 100, "[0]" * 64, "at most 64 levels"),
        (b"[" * 1_000_000, "", "at most 64 levels"),
        (b'{"a":' * 1_000_000, "", "at most 64 levels"),
        (b" " * (32 * 2**20 + 1), "", "split it"),
    ],
)
def test_what_is_no_strict_json_is_refused(data: bytes, place: str, says: str) -> None:
    """Bytes that are not strict JSON are refused with the line, or the path, where they stray."""
    error = refused(data)
    assert (error.exit_code, error.place) == (4, place)
    assert says in str(error)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.sampled_from(EVENT_KEYS), JSON)
def test_any_value_gets_an_answer(key: str, value: Any) -> None:
    """Whatever stands in an event, the scenario is read or refused in one line, never a crash."""
    try:
        scenario.from_dict(events(ADD | {"eos": 1} | {key: value}))
    except InputError as error:
        assert error.place.startswith("events[0]")
        assert str(error).count("\n") == 0


@given(JSON)
def test_any_document_gets_an_answer(document: Any) -> None:
    """Whatever the document is, it is read or refused, never a crash."""
    for written in (document, {"config": document, "events": []}, {"events": document}):
        try:
            scenario.parse(json.dumps(written).encode(), "s.json")
        except InputError as error:
            assert error.file == "s.json"


@given(st.binary(max_size=60))
def test_any_bytes_get_an_answer(data: bytes) -> None:
    """Whatever a file holds, it is read or refused, never a crash."""
    with pytest.raises(ScenarioError):
        scenario.parse(data, "s.json")


def test_load_reads_a_file_and_names_it(tmp_path: Path) -> None:
    """``load`` reads the file of that path, and errors carry its name."""
    path = tmp_path / "s.json"
    path.write_text(json.dumps(events(ADD)))
    assert len(scenario.load(path).events) == 1
    path.write_text("{}")
    with pytest.raises(ScenarioError, match="s.json: 'events' is missing"):
        scenario.load(path)
