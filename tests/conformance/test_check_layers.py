"""Traces of groups whose blocks are not all of one size, and of Mamba layers."""

import copy
import io
import json
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from altered import judge
from bases import KEPT, Lines, begun_later
from bases import whole as sealed
from record_again import record_all
from traces import documents, trace_of

from nullblock.conformance.adapters.vllm import groups
from nullblock.conformance.adapters.vllm.groups import Taken
from nullblock.conformance.checker.check import check
from nullblock.conformance.checker.drafts import may_be_ahead
from nullblock.conformance.checker.unknown import NotRecorded
from nullblock.conformance.lines.example import VECTORS
from nullblock.conformance.trace.reader import TraceReader
from nullblock.conformance.trace.records import Header

ADDS = [
    {"op": "add", "id": id, "prompt": {"range": [0, 21]}, "max_tokens": n}
    for id, n in (("a", 14), ("b", 9), ("c", 6))
]
STATES: dict[str, Any] = {"type": "mamba", "block_size": 64}
UNCACHED = {
    "config": {
        **{"block_size": 4, "num_blocks": 26, "max_num_batched_tokens": 16, "max_model_len": 64},
        **{"enable_prefix_caching": False, "groups": [{"type": "full"}, STATES]},
    },
    "events": [*ADDS, {"op": "run"}],
}
"""What vLLM makes of a hybrid model without prefix caching: a state of a request is one block."""
SINK = {"type": "sink", "sink_len": 4}


def whole(path: Path) -> Lines:
    """A recording to alter."""
    lines = sealed(path)
    del lines[0]["config_sha256"]
    return lines


def header(path: Path) -> Header:
    """The first record of a file."""
    first = next(iter(TraceReader(path))).record
    assert isinstance(first, Header)
    return first


@pytest.mark.oracle
@pytest.mark.parametrize("line", ["vllm-0.22.1", "vllm-0.32.0"])
def test_a_hybrid_model_without_prefix_caching_is_judged(
    line: str, pythons: dict[str, Path], tmp_path: Path
) -> None:
    """Each group has blocks of its own size, in the recorder's header and in that of ours."""
    record_all(pythons[line], {"uncached": UNCACHED}, tmp_path)
    path = tmp_path / "uncached.jsonl"
    verdict = check(path, deep=False)
    assert (verdict.verdict, verdict.profile, verdict.missing) == ("CONFORMS", line, [])
    told = json.loads(path.open().readline())["config"]
    assert (told["block_size"], told["groups"]) == (4, [{}, {"mamba": "none", "block_size": 64}])
    ours = documents(trace_of(UNCACHED, "reference", line))[0]["config"]
    assert ours == told
    lines = whole(path)
    lines[0]["config"]["groups"][1]["block_size"] = 32
    first = judge(lines).first
    assert first is not None and first.rule == "POOL-10"


@pytest.mark.oracle
def test_sinks_beside_full_attention_are_judged(oracle_python: Path, tmp_path: Path) -> None:
    """The header says how long they are."""
    config = UNCACHED["config"] | {"groups": [{"type": "full"}, SINK]}  # type: ignore[operator]
    record_all(oracle_python, {"sink": UNCACHED | {"config": config}}, tmp_path)
    assert check(tmp_path / "sink.jsonl", deep=False).verdict == "CONFORMS"
    assert [g.sink_len for g in header(tmp_path / "sink.jsonl").config.groups] == [0, 4]


class HiddenStateCacheSpec:
    """Layers of a kind that a trace has no words for."""


def test_what_a_trace_has_no_words_for_is_named() -> None:
    """No group is told then; a reader names the feature that says why."""
    made = [SimpleNamespace(kv_cache_spec=HiddenStateCacheSpec())]
    scheduler = SimpleNamespace(kv_cache_config=SimpleNamespace(kv_cache_groups=made))
    assert groups.constants(scheduler) is None
    lines = sealed(KEPT / "sinks.jsonl")
    lines[0]["features"] = ["kv_cache_spec:HiddenStateCacheSpec"]
    del lines[0]["config_sha256"]
    missing = judge(lines).missing
    assert missing == ["the feature kv_cache_spec:HiddenStateCacheSpec"]


SIZES = {
    "larger ones known by two hashes": [{"type": "full", "block_size": 8}, {"type": "mamba"}],
    "a hash of less than any": [{"type": "full"}, {"type": "sliding_window", "sliding_window": 5}],
}


@pytest.mark.parametrize("engine", ["spec", "reference"])
@pytest.mark.parametrize("name", SIZES)
def test_a_block_is_known_by_its_last_chain_number(name: str, engine: str) -> None:
    """Chain numbers are for what one hash covers; events name blocks by the last one in them."""
    covered = 4 if SIZES[name][1]["type"] == "mamba" else 2
    config = {"block_size": 4, "num_blocks": 60, "kv_events": True, "hash_block_size": covered}
    document = {
        "config": config | {"groups": SIZES[name]},
        "events": [ADDS[0], {"op": "run"}, ADDS[1], {"op": "run"}],
    }
    lines = documents(trace_of(document, engine))
    assert lines[0]["config"]["block_size"] == covered
    add = next(line for line in lines if line["ev"] == "add")
    assert add["chain"] == [[0, 21 // covered]]
    stored = [e for line in lines for e in line.get("events", ()) if e["t"] == "stored"]
    size, front = SIZES[name][0].get("block_size", 4), stored[0]["chain"][0]
    assert front[0] == size // covered - 1 and stored[0]["tokens"] % size == 0
    verdict = check(Path("t"), stream=io.BytesIO(trace_of(document, engine)), deep=False)
    assert (verdict.verdict, verdict.missing) == ("CONFORMS", [])


def test_what_says_states_within_steps_is_as_new_as_its_word() -> None:
    """The version of the format that a trace says, whoever writes it."""
    given = json.loads((VECTORS / "aligned-state-within-a-step.json").read_text())
    for line, version in (("vllm-0.32.0", "1.8"), ("vllm-0.22.1", "1.5")):
        header = json.loads(trace_of(given, semantics=line).partition(b"\n")[0])
        assert header["version"] == version


WRONG = {
    "a size of the only group": ({"groups": [{"block_size": 8, "sliding_window": 9}]}, "only"),
    "blocks that end within": ({"groups": [{"block_size": 6}, {"sliding_window": 9}]}, "within"),
    "two kinds": ({"groups": [{"mamba": "all", "sliding_window": 9}]}, "one of them"),
    "no states": ({"groups": [{"num_speculative_blocks": 1}]}, "no Mamba"),
    "no ends of steps": (
        {"groups": [{"mamba": "all", "prefill_checkpoint_alignment": 1}]},
        "within steps",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_groups_that_cannot_be_are_damage(name: str) -> None:
    """A header with such groups is MALFORMED."""
    config, words = WRONG[name]
    lines = whole(KEPT / "windows.jsonl")
    lines[0]["config"] |= config
    verdict = judge(lines)
    assert verdict.verdict == "MALFORMED" and verdict.first is not None
    assert words in verdict.first.what


def begun(name: str) -> Lines:
    """A recording that begins with its first state."""
    lines = begun_later(KEPT / f"{name}.jsonl", 0)
    del lines[0]["config_sha256"]
    return lines


def held(lines: Lines) -> dict[str, Any]:
    """A request of it that runs."""
    request: dict[str, Any] = next(q for q in lines[1]["requests"] if q["status"] == "RUNNING")
    return request


def test_tables_of_unlike_sizes_are_for_the_same_tokens() -> None:
    """GROUP-16, GROUP-18: what no two tables of a request can be."""
    lines = begun("sizes")
    assert judge(lines).verdict == "CONFORMS"
    longer = copy.deepcopy(lines)
    held(longer)["blocks"][1].append(longer[1]["free_queue"].pop(0))
    longer[1]["ref_cnt"].append([held(longer)["blocks"][1][-1], 1])
    more = copy.deepcopy(lines)
    held(more)["num_cached"][1] -= 1
    for altered, rule in ((longer, "GROUP-16"), (more, "GROUP-18")):
        first = judge(altered).first
        assert first is not None and (first.rule, first.line) == (rule, 2), first


def test_the_last_state_is_held() -> None:
    """GROUP-33: no null block stands where the state is that a step ended with."""
    lines = begun("states")
    blocks = held(lines)["blocks"][0]
    gone, blocks[-1] = blocks[-1], 0
    lines[1]["ref_cnt"] = [pair for pair in lines[1]["ref_cnt"] if pair[0] != gone]
    lines[1]["free_queue"].append(gone)
    first = judge(lines).first
    assert first is not None and (first.rule, first.line) == ("GROUP-33", 2)


@pytest.mark.parametrize("name", ["states", "sizes"])
def test_judging_begins_at_every_state(name: str) -> None:
    """Of a recording with such groups."""
    path = KEPT / f"{name}.jsonl"
    for number in range(sum('"ev":"state"' in line for line in path.open())):
        assert judge(begun_later(path, number)).verdict == "CONFORMS", number


def test_a_state_that_does_not_tell_where_states_stood_is_not_enough() -> None:
    """In the mode align what goes back next depends on it."""
    lines = begun("states")
    for request in lines[1]["requests"]:
        request.pop("states_before")
    verdict = judge(lines)
    assert verdict.verdict == "INCONCLUSIVE"
    assert verdict.missing == ["`states_before` of request 0"]


def test_blocks_are_not_told_to_be_zeroed_where_no_block_is_told() -> None:
    """Nothing is concluded from that they are not."""
    lines = whole(KEPT / "uncached.jsonl")
    assert any(line.get("zeroed") for line in lines)
    lines = [line for line in lines if line["ev"] != "state"]
    for line in lines:
        line.pop("zeroed", None)
    first = judge(lines).first
    assert first is not None and first.rule == "GROUP-26"
    lines[0]["block_ids"] = "absent"
    assert judge(lines).verdict == "CONFORMS"


def test_no_more_blocks_count_as_taken_than_were() -> None:
    """Chain numbers are forgotten by that count: hits are nobody's, and tables of states at ends
    of steps have null blocks, and blocks that were there.
    """
    specs = [
        SimpleNamespace(block_size=8),
        SimpleNamespace(block_size=4, mamba_cache_mode="all"),
        SimpleNamespace(block_size=4, mamba_cache_mode="align"),
    ]
    groups = [SimpleNamespace(kv_cache_spec=spec) for spec in specs]
    tables = SimpleNamespace(single_type_managers=specs)
    scheduler = SimpleNamespace(
        kv_cache_config=SimpleNamespace(kv_cache_groups=groups),
        kv_cache_manager=SimpleNamespace(coordinator=tables),
    )
    taken = Taken(scheduler)
    table = [[1, 2, 3], [0, 4, 5, 6, 7], [0, 0, 8, 9]]
    assert taken.of_growth(table) - taken.hits(9) == (3 - 1) + (5 - 2)
    assert not taken.counts_all


@pytest.mark.parametrize("line", ["vllm-0.22.1", "vllm-0.32.0"])
def test_a_prompt_beyond_its_limit_on_mamba_layers_is_named(line: str) -> None:
    """Where the later line raises when it notes its states; in the line before it is judged."""
    group = {"type": "mamba", "mamba_cache_mode": "all"}
    config = {"block_size": 1, "num_blocks": 8, "max_model_len": 1, "groups": [group]}
    add = {"op": "add", "id": "a", "prompt": {"range": [0, 2]}, "max_tokens": 1}
    data = trace_of({"config": config, "events": [add, {"op": "step"}]}, "reference", line)
    verdict = check(Path("t"), stream=io.BytesIO(data), deep=False)
    if line == "vllm-0.22.1":
        assert verdict.verdict == "CONFORMS"
    else:
        assert verdict.verdict == "INCONCLUSIVE"
        assert "a prompt longer than max_model_len beside Mamba layers" in verdict.missing[0]


@pytest.mark.parametrize(("place", "rule"), [(0, "HASH-10"), (1, "POOL-10")])
def test_a_hit_has_as_many_blocks_of_a_table_as_fit(place: int, rule: str) -> None:
    """Of eight tokens one block of eight, and what is behind it is new."""
    lines = whole(KEPT / "sizes.jsonl")
    new = next(n for line in lines for n in line.get("new", ()) if n["computed"] == 8)
    new["blocks"][0][place] += 20
    first = judge(lines).first
    assert first is not None and first.rule == rule


BESIDE = {
    "states": {"type": "mamba", "mamba_cache_mode": "all"},
    "a window that drops one, too": {"type": "sliding_window", "sliding_window": 5, "eagle": True},
}


@pytest.mark.parametrize("name", BESIDE)
def test_a_hit_that_lacks_as_much_as_a_hit_may_end_with_hides_a_method(name: str) -> None:
    """Of blocks of several sizes: an EAGLE-like method's, which the header does not tell of."""
    groups = [{"type": "full", "block_size": 8, "eagle": True}, BESIDE[name]]
    config = {"block_size": 4, "num_blocks": 60, "num_spec_tokens": 2, "groups": groups}
    document = {
        "config": config,
        "events": [ADDS[0], {"op": "run"}, ADDS[1], {"op": "run"}],
    }
    lines = documents(trace_of(document))
    for group in lines[0]["config"]["groups"]:
        group.pop("eagle", None)
    lines[0]["features"].remove("eagle_group")
    del lines[0]["config_sha256"], lines[0]["sealed"]
    verdict = judge([line for line in lines if line["ev"] != "end"])
    assert verdict.verdict == "INCONCLUSIVE"
    assert "whether drafts are of an EAGLE-like method" in verdict.missing[0]


@pytest.mark.parametrize("places", [1, 0])
def test_what_was_computed_for_nobody_has_a_block_of_some_size(places: int) -> None:
    """UPD-60: where no table has room for it no step has returned without a token."""
    s: Any = SimpleNamespace(comp={0: 12}, tlen={"small": 2, "large": places})
    s.cur = s.nframe = 0
    s.k = SimpleNamespace(
        **{"tables": lambda r: ["small", "large"], "size_of": {"small": 4, "large": 16}.get},
        **{"drafts": True, "threshold": 0, "budget": 8},
        sem=SimpleNamespace(silence_starts_over=False, lone_prefill_uncut=False),
    )
    with pytest.raises(NotRecorded) if places else nullcontext():
        may_be_ahead(s, 0, 2)
