"""Traces of what the specification has beside its core: windows and chunks, several KV cache
groups, capped adapters and grammars, encoder inputs, streaming sessions, KV connectors. Recorded
from the real vLLM in random configurations, and made by engines of ours.
"""

import copy
import io
import itertools
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from altered import judge
from bases import FEATURES, Lines, as_recorded, bases, begun_later, scenarios
from fuzz.families import FAMILIES
from fuzz.traced import from_a_front_end
from record_again import record_all
from traces import trace_of, unsealed

from nullblock.conformance.adapters.spec_constants import FEATURES as OF_SPEC
from nullblock.conformance.checker import Verdict, check
from nullblock.conformance.engine import Feature
from nullblock.conformance.groups import drop_hits, has
from nullblock.conformance.scenario import from_dict
from nullblock.conformance.trace.reader import TraceReader
from nullblock.conformance.trace.records import State
from nullblock.spec.profiles import NORMATIVE

VECTORS = Path(__file__).parents[2] / "conformance" / "vectors"
DRAWN = ("windows", "hybrid", "mamba", "waits", "items", "sessions", "remote", "contract")
TRACED = OF_SPEC - {Feature.streaming}
"""Features that traces have beside one another. Of the others a scenario may have, a trace is
refused by name; sessions have a family of their own.
"""
MANY, SIZE = 12, 14
NOT_FROM_A_FRONT_END = (
    "adapter_below_1",
    "raised",
    "where vLLM raises",
    "beside a cap on adapters",
    "a cap on adapters beside",
    "of a later chunk",
    "is queued 2 times",
    "tokens beside a KV connector",
    "has ended and is tried again",
)
"""What random scenarios have that vLLM's front end refuses, that its scheduler raises at, or that
nobody has shown.
"""
EXERCISED = {
    "windows": {"GROUP-4", "GROUP-5", "GROUP-6", "GROUP-7"},
    "hybrid": {"GROUP-4", "GROUP-5", "GROUP-6", "GROUP-7", "PREEMPT-2"},
    "mamba": {"GROUP-4", "GROUP-6", "GROUP-30", "GROUP-31", "GROUP-32"},
    "waits": {"WAIT-43", "WAIT-44", "WAIT-45"},
    "remote": {
        *("REMOTE-12", "REMOTE-13", "REMOTE-15", "REMOTE-18", "REMOTE-19", "REMOTE-21"),
        *("REMOTE-23", "REMOTE-24", "REMOTE-25", "REMOTE-26", "REMOTE-27", "REMOTE-29"),
    },
    "items": {"ENC-7", "ENC-8", "ENC-9", "ENC-10", "ENC-12", "ENC-14", "ENC-15"},
    "sessions": {"SESS-6", "SESS-11", "SESS-12", "SESS-13"},
    "contract": {"UPD-51"},
}
"""Rules that the drawn scenarios of a family exercise."""


def drawn(family: str) -> dict[str, dict[str, Any]]:
    """Random scenarios of a family that traces have words for, by name; adapters have numbers that
    a front end lets pass.
    """
    keys = (f"traces {n}" for n in itertools.count())
    features = TRACED if family == "remote" else TRACED - {Feature.kv_connector}
    told = filter(is_told, (FAMILIES[family].make(key, SIZE, features) for key in keys))
    taken = map(from_a_front_end, itertools.islice(told, MANY))
    return {f"{family} {n}": document for n, document in enumerate(taken)}


def is_told(document: dict[str, Any]) -> bool:
    """Whether chunks have no EAGLE-like method, and drafts are told of: of others
    a trace is refused by name.
    """
    config = from_dict(document).config
    marked = drop_hits(config) and has(config, "chunked_local")
    drafts = any(event["op"] == "draft" for event in document["events"])
    untold = drafts and not config.num_spec_tokens
    return not (marked or untold)


@pytest.fixture(scope="module")
def recorded(oracle_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with every drawn scenario, run plain and recorded on the real engine."""
    folder = tmp_path_factory.mktemp("features")
    every = {name: made for family in DRAWN for name, made in drawn(family).items()}
    record_all(oracle_python, every, folder)
    return folder


def is_known(verdict: Verdict) -> bool:
    """Whether a verdict is CONFORMS, or names what no server does."""
    named = any(words in missing for words in NOT_FROM_A_FRONT_END for missing in verdict.missing)
    named |= verdict.missing == ["decisions: there are none in the trace"]
    return verdict.verdict == "CONFORMS" or (verdict.verdict == "INCONCLUSIVE" and named)


@pytest.mark.oracle
@pytest.mark.parametrize("family", DRAWN)
def test_what_the_real_engine_does_conforms(recorded: Path, family: str) -> None:
    """In random configurations, scheduled in step and ahead, states and KV events included."""
    said: Counter[str] = Counter()
    fired: set[str] = set()
    for name in drawn(family):
        verdict = check(recorded / f"{name}.jsonl", deep=False)
        assert is_known(verdict), (name, verdict)
        said[verdict.verdict] += 1
        fired |= verdict.rules.keys()
    assert said["CONFORMS"] > MANY // 2
    assert fired >= EXERCISED[family]


@pytest.mark.oracle
@pytest.mark.parametrize("family", DRAWN)
def test_judging_begins_at_any_state(recorded: Path, family: str) -> None:
    """Cut before a state the recording is judged from there."""
    said: Counter[str] = Counter()
    for name in drawn(family):
        path = recorded / f"{name}.jsonl"
        states = sum(isinstance(located.record, State) for located in TraceReader(path))
        for number in range(0, states, 5):
            verdict = judge(begun_later(path, number))
            assert is_known(verdict) or "earlier owner" in verdict.missing[0], (name, number)
            said[verdict.verdict] += 1
    assert said["CONFORMS"] > MANY // 2


@pytest.mark.oracle
def test_recording_changes_no_decision(recorded: Path) -> None:
    """The lines of the driver are those of the plain engine."""
    for name in (name for family in DRAWN for name in drawn(family)):
        plain, taped = (
            [json.loads(line) for line in (recorded / f"{name}.{kind}").read_text().splitlines()]
            for kind in ("plain", "recorded")
        )
        for lines in (plain, taped):
            lines.pop()  # the digest: where an exception passed the recorder's frames are, too
            lines[-1].pop("where", None)
        assert plain == taped, name


@pytest.mark.parametrize("engine", ["spec", "reference"])
@pytest.mark.parametrize("name", FEATURES)
def test_our_engines_conform(name: str, engine: str) -> None:
    """Under both profiles."""
    for profile in ("vllm-0.22.1", "normative"):
        data = trace_of(scenarios()[name], engine, profile)
        assert check(Path("t"), stream=io.BytesIO(data), deep=False).verdict == "CONFORMS"


FULL, WINDOW = {"type": "full"}, {"type": "sliding_window", "sliding_window": 5}


@pytest.mark.parametrize("engine", ["spec", "reference"])
@pytest.mark.parametrize("caching", [False, True])
@pytest.mark.parametrize("groups", [[WINDOW], [FULL, WINDOW]], ids=["one", "several"])
def test_a_trace_tells_the_blocks_that_groups_have(
    groups: list[dict[str, Any]], caching: bool, engine: str
) -> None:
    """Groups may have blocks of another size than the configuration's."""
    size = {"block_size": 4 if caching and len(groups) == 1 else 8}
    adds = [{"op": "add", "id": id, "prompt": {"range": [0, 29]}, "max_tokens": 9} for id in "abc"]
    document = {
        "config": {"block_size": 4, "num_blocks": 40, "enable_prefix_caching": caching}
        | {"groups": [group | size for group in groups]},
        "events": [*adds[:2], {"op": "run"}, adds[2], {"op": "run"}],
    }
    data = trace_of(document, engine, "vllm-0.22.1")
    assert check(Path("t"), stream=io.BytesIO(data), deep=False).verdict == "CONFORMS"


@pytest.mark.parametrize("engine", ["spec", "reference"])
def test_a_trace_tells_the_order_of_evictions(engine: str) -> None:
    """Events tell of blocks in the order in which the engine evicted them."""
    document = {
        "config": {"block_size": 2, "num_blocks": 20, "kv_events": True},
        "events": [
            {"op": "add", "id": "a", "prompt": {"range": [0, 28]}, "max_tokens": 2},
            {"op": "run"},
            {"op": "evict_blocks", "ids": [8, 1]},  # as a set of numbers has them
            {"op": "add", "id": "b", "prompt": {"range": [20, 24]}, "max_tokens": 2},
            {"op": "run"},
        ],
    }
    data = trace_of(document, engine, "vllm-0.22.1")
    assert check(Path("t"), stream=io.BytesIO(data), deep=False).verdict == "CONFORMS"


def golden(name: str, engine: str) -> Verdict:
    """The verdict on a trace of a golden scenario."""
    document = json.loads((VECTORS / f"{name}.json").read_text())
    data = trace_of(document, engine, "vllm-0.22.1")
    return check(Path("t"), stream=io.BytesIO(data), deep=False)


@pytest.mark.parametrize("engine", ["spec", "reference"])
def test_a_trace_says_what_an_encoder_connector_loads(engine: str) -> None:
    """And the rules explain it."""
    verdict = golden("encoder-connector-loads", engine)
    assert verdict.verdict == "CONFORMS" and verdict.rules["ENC-19"] > 0


@pytest.mark.parametrize("engine", ["spec", "reference"])
def test_a_request_that_ended_while_it_was_passed_over_still_waits(engine: str) -> None:
    """In vllm-0.22.1 it stays in the skipped queue, long after workers were told of its end."""
    assert golden("defect-ended-request-waits-for-a-place", engine).verdict == "CONFORMS"


@pytest.mark.parametrize("engine", ["spec", "reference"])
def test_chunks_that_end_within_a_block_are_judged(engine: str) -> None:
    """GROUP-61: beside full attention, by the rules of the line; whoever asks for normative hears
    that a block with tokens that the next one sees is not there.
    """
    name = "defect-chunk-that-nobody-looked-for"
    assert golden(name, engine).verdict == "CONFORMS"
    document = json.loads((VECTORS / f"{name}.json").read_text())
    data = trace_of(document, engine, "vllm-0.22.1")
    judged = check(Path("t"), NORMATIVE, stream=io.BytesIO(data), deep=False)
    assert judged.verdict == "VIOLATION"


def changed(name: str, **config: Any) -> Lines:
    """A base with other constants."""
    lines = bases()[name]
    lines[0]["config"] |= config
    return lines


def of_request(name: str, **fields: Any) -> Lines:
    """A base whose first request has other fields."""
    lines = bases()[name]
    next(line for line in lines if line["ev"] == "add").update(fields)
    return lines


def of_line(name: str, spec: str) -> Lines:
    """A base of another line."""
    header, *rest = bases()[name]
    return [header | {"spec": spec}, *rest]


def of_states(name: str, spec: str) -> Lines:
    """The same with Mamba layers."""
    lines = of_line(name, spec)
    return [lines[0] | {"config": lines[0]["config"] | {"groups": [{"mamba": "all"}]}}, *lines[1:]]


def with_answer(at: int, **fields: Any) -> Lines:
    """A base with a connector that answers otherwise at first."""
    lines = bases()["remote"]
    first = next(line for line in lines if line["ev"] == "matched")
    first["answers"][at].update(fields)
    return lines


GRAMMAR = {"features": ["structured_output"]}
TOGETHER: dict[str, tuple[Lines, str]] = {
    "EAGLE beside several groups": (
        changed("hybrid", num_spec_tokens=1, spec_method="eagle"),
        "an EAGLE-like method with chunked local attention",
    ),
    "states and other places for freed blocks": (
        of_line("states", "vllm-0.22.1, freed_unhashed_first=true"),
        "several KV cache groups, or one of layers that see a part of the past",
    ),
    "equal groups": (changed("hybrid", groups=[{}, {}]), "several KV cache groups of one kind"),
    "a grammar and drafts": (of_request("drafted", **GRAMMAR), "the feature structured_output"),
    "items without an encoder": (
        of_request("busy", items=[{"item": 1, "offset": 0, "length": 2}]),
        "the encoder inputs of request 0",
    ),
    "a connector and other places for freed blocks": (
        of_line("remote", "vllm-0.22.1, freed_unhashed_first=true"),
        "a KV connector with freed_unhashed_first",
    ),
    "a prompt that is too long for a load": (
        changed("remote", max_model_len=12),
        "a prompt of 13 tokens beside a KV connector",
    ),
    "a load within the step of all there is": (
        with_answer(1, tokens=12),
        "12 tokens beyond 0 of request 1, which has 12",
    ),
    "a load of more than there is": (
        with_answer(0, tokens=14),
        "14 tokens beyond 0 of request 0, which has 13",
    ),
    "a connector that nobody configured": (
        [*bases()["busy"][:-1], {"ev": "transfers"}],
        "a KV connector that nobody configured",
    ),
}


@pytest.mark.parametrize("name", TOGETHER)
def test_what_nobody_has_shown_is_refused_by_name(name: str) -> None:
    """Features together of which no lockstep speaks: INCONCLUSIVE, and which they are."""
    lines, words = TOGETHER[name]
    if lines[0]["config"].get("num_spec_tokens"):
        lines[0]["observed"] = lines[0]["observed"] | {"draft": "complete"}
    verdict = check(Path("t"), stream=io.BytesIO(unsealed(copy.deepcopy(lines))), deep=False)
    assert verdict.verdict == "INCONCLUSIVE", verdict.first
    assert words in "\n".join(verdict.missing)


@pytest.mark.parametrize("profile", ["vllm-0.22.1", "normative", "vllm-0.32.0"])
def test_a_grammar_sees_drafts_that_are_taken_as_a_whole(profile: str) -> None:
    """It rejects one in the middle of an output: the request ends; told otherwise it is caught."""
    add = {"op": "add", "prompt": {"range": [0, 5]}, "max_tokens": 9}
    rejects = {"grammar": {"reject_at": 3}}
    document = {
        "config": {"block_size": 4, "num_blocks": 20, "num_spec_tokens": 2, "accept": "all"},
        "events": [add | {"id": "a"} | rejects, add | {"id": "b"}, {"op": "run"}],
    }
    data = trace_of(document, "reference", profile)
    lines = [json.loads(line) for line in data.splitlines()]
    output = next(line for line in lines if line.get("rejected"))
    assert check(Path("t"), stream=io.BytesIO(data), deep=False).verdict == "CONFORMS"
    output["rejected"] = []
    lines[0].pop("sealed"), lines[0].pop("config_sha256")
    verdict = check(Path("t"), stream=io.BytesIO(unsealed(lines[:-1])), deep=False)
    assert verdict.first is not None and verdict.first.rule in ("UPD-4", "UPD-54")


@pytest.mark.parametrize("name", FEATURES)
def test_a_reader_of_an_earlier_version_is_not_wrong(name: str) -> None:
    """It passes over constants that it does not know, and knows that something is on: each trace
    names it as 1.1 would have.
    """
    lines = as_recorded()[name]
    named = [*lines[0].get("features", ()), *(f for x in lines for f in x.get("features", ()))]
    config = lines[0]["config"]
    words = set(config).union(config.get("encoder", ()), *config.get("groups", ()))
    new = {"use_v2_model_runner", "mamba_split", "mla", "mamba"} & words
    latest = {"is_encoder_decoder", "cross_attention", "sink_len", "ec_connector"} & words
    of_words = "1.6" if latest else "1.5" if new else "1.4"
    # Sessions may come any time, and chunks with encoder inputs where there is an encoder.
    assert named and lines[0]["version"] == ("1.7" if "encoder" in config else of_words)


def test_an_event_that_leaves_something_out_is_told_as_far_as_it_goes() -> None:
    """A wrong event that does not say of which kind its layers are can be told as JSON, and the
    rules' own event beside it says no more than it does.
    """
    lines = copy.deepcopy(as_recorded()["hybrid"])
    events = (e for line in lines for e in line.get("events", ()) if e["t"] == "stored")
    event = next(e for e in events if "kind" in e)
    event["tokens"] += 1
    for name in ("kind", "window"):
        event.pop(name, None)
    first = check(Path("t"), stream=io.BytesIO(unsealed(lines)), deep=False).first
    assert first is not None and first.rule == "OUT-8"
    assert len(first.expected) == len(first.actual) == 5
    json.dumps([first.expected, first.actual])


def test_memory_is_that_of_what_is_kept() -> None:
    """Tables, items and adapters of those who are gone are forgotten."""
    for name in ("hybrid", "items"):
        data = trace_of(long(scenarios()[name]))
        verdict = check(Path("t"), stream=io.BytesIO(data), deep=False)
        assert verdict.verdict == "CONFORMS" and verdict.replay is not None
        k, s = verdict.replay.k, verdict.replay.s
        assert not k.chains and not k.nulls and not s.tab
        assert len(s.kept) <= 3 and len(s.users) <= 3


def long(document: dict[str, Any]) -> dict[str, Any]:
    """A scenario several times over, each time with other prompts and items."""
    events: list[Any] = []
    for turn in range(6):
        text = json.dumps(document["events"]).replace('"id": "', f'"id": "{turn}')
        for event in json.loads(text.replace('"hash": "', f'"hash": "{turn}')):
            if event["op"] == "add":
                event["prompt"]["range"] = [n + 1000 * turn for n in event["prompt"]["range"]]
            events.append(event)
        events.append({"op": "run"})
    return {"config": document["config"], "events": [*events, {"op": "step", "n": 2}]}
