"""Traces of models with layers or inputs of their own kind: encoder-decoder models with
cross-attention, sinks, encoder connectors. Recorded from the real vLLM in random configurations,
judged, and caught where something is altered.
"""

import copy
import io
import itertools
import json
import math
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from altered import changed, is_known, judge
from bases import FOUND, KEPT, Lines, as_recorded, begun_later, scenarios, whole
from fuzz import models
from fuzz.families import FAMILIES
from fuzz.lockstep import features
from fuzz.traced import from_a_front_end
from record_again import decided_otherwise, record_all
from traces import trace_of

from nullblock.conformance.checker import check, fast
from nullblock.conformance.engine import Feature
from nullblock.conformance.errors import InputError
from nullblock.conformance.scenario import from_dict
from nullblock.conformance.trace import header as headers
from nullblock.conformance.trace.header import TraceConfig

Document = dict[str, Any]
DRAWN = ("core", "drafts", "hybrid", "waits", "sessions")
MARKS: dict[str, Callable[[Document, random.Random], bool]] = {
    "across": models.across,
    "sinks": models.sinks,
    "external": models.external,
}
MANY, SIZE = 6, 14
NAMED = (
    "raised",
    "where vLLM raises",
    "of a later chunk",
    "drafts that nobody configured",
    "decisions: there are none",
    "beside a vector",
    "what the encoder connector answered when",
)
"""What random scenarios have that vLLM raises at, or that nobody has shown."""


def drawn(mark: str, family: str) -> dict[str, Document]:
    """Random scenarios of a family on such a model, by name."""
    told = features(("spec",)) - {Feature.kv_connector}
    found: dict[str, Document] = {}
    for key in itertools.count():
        document = from_a_front_end(FAMILIES[family].make(f"{mark} {key}", SIZE, told))
        if not MARKS[mark](document, random.Random(f"{mark} {family} {key}")):
            continue
        try:
            from_dict(document)
        except InputError:
            continue
        found[f"{mark} {family} {len(found)}"] = document
        if len(found) == MANY:
            return found
    raise AssertionError


@pytest.fixture(scope="module")
def recorded(oracle_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with every drawn scenario, run plain and recorded on the real engine."""
    folder = tmp_path_factory.mktemp("across")
    for mark in MARKS:
        every = {name: one for f in DRAWN for name, one in drawn(mark, f).items()}
        record_all(oracle_python, every, folder)
    return folder


@pytest.mark.oracle
@pytest.mark.parametrize("mark", MARKS)
def test_what_the_real_engine_does_conforms(recorded: Path, mark: str) -> None:
    """In step and ahead, with drafts, several groups, adapters, grammars and sessions."""
    said: Counter[str] = Counter()
    for name in (name for family in DRAWN for name in drawn(mark, family)):
        verdict = check(recorded / f"{name}.jsonl", deep=False)
        assert is_known(verdict, NAMED), (name, verdict)
        said[verdict.verdict] += 1
    assert said["CONFORMS"] > 3 * MANY * len(DRAWN) // 4


@pytest.mark.oracle
@pytest.mark.parametrize("mark", MARKS)
def test_judging_begins_at_any_state(recorded: Path, mark: str) -> None:
    """Cut before a state the recording is judged from there."""
    said: Counter[str] = Counter()
    for name in (name for family in DRAWN for name in drawn(mark, family)):
        path = recorded / f"{name}.jsonl"
        states = [x for x in whole(path) if x["ev"] == "state"]
        for number in range(0, len(states), 4):
            verdict = judge(begun_later(path, number))
            assert is_known(verdict, NAMED) or "earlier owner" in verdict.missing[0], (
                name,
                verdict,
            )
            said[verdict.verdict] += 1
    assert said["CONFORMS"] > 2 * MANY


@pytest.mark.oracle
def test_recording_changes_no_decision(recorded: Path) -> None:
    """The lines of the driver are those of the plain engine."""
    assert decided_otherwise(recorded) == []


OF = {"across": "encoder-decoder", "sinks": "sinks", "external": "external"}
"""The kept recording of each."""
RULES = {
    "across": ("ENC-12", "ENC-15", "ENC-52", "ENC-54", "PREEMPT-2", "PREEMPT-4", "LIFE-4"),
    "sinks": ("HASH-12", "HASH-13", "GROUP-6", "GROUP-7", "PREEMPT-2", "POOL-10"),
    "external": ("ENC-12", "ENC-15", "ENC-17", "ENC-19", "PREEMPT-2", "LIFE-4"),
}
"""What it exercises."""
WORDS = {
    "across": ("is_encoder_decoder", "cross_attention"),
    "sinks": ("sink_len", "sink_full_attention"),
    "external": ("ec_connector", "item_answers", "connector_items", "at_connector"),
}
"""What its header has in the last version of the format."""


@pytest.mark.parametrize("mark", MARKS)
def test_kept_recordings_are_of_what_they_are_called(mark: str) -> None:
    """The rules decide in them, with the state compared after every third step."""
    verdict = check(KEPT / f"{OF[mark]}.jsonl", deep=False)
    assert verdict.verdict == "CONFORMS" and set(RULES[mark]) <= verdict.rules.keys()
    text = (KEPT / f"{OF[mark]}.jsonl").read_text()
    assert all(f'"{word}"' in text for word in WORDS[mark])


@pytest.mark.parametrize("mark", MARKS)
def test_the_version_and_the_features_are_those_of_the_words(mark: str) -> None:
    """The least version that has the words, and those of sessions, which may come any time; and
    each feature by name: an earlier reader, which passes over words, knows that it does not know.
    """
    header = as_recorded()[OF[mark]][0]
    config = msgspec.convert(header["config"], TraceConfig)
    assert headers.least_version(config) == "1.6"
    assert header["version"] == max("1.6", headers.sessions_since(config))
    assert sorted(header["features"]) == sorted(headers.features_of(config))


@pytest.mark.parametrize("engine", ["spec", "reference"])
@pytest.mark.parametrize("mark", MARKS)
def test_our_engines_conform(mark: str, engine: str) -> None:
    """Under each profile that follows such models a trace of a scenario tells of them."""
    for profile in ("vllm-0.22.1", "normative"):
        data = trace_of(scenarios()[OF[mark]], engine, profile)
        assert json.loads(data.splitlines()[0])["version"] == "1.6"
        verdict = check(Path("t"), stream=io.BytesIO(data), deep=False)
        assert verdict.verdict == "CONFORMS", (profile, verdict.first, verdict.missing)


@pytest.mark.parametrize("after", [0, math.inf], ids=["erased", "as it is"])
@pytest.mark.parametrize("mark", MARKS)
def test_either_form_of_the_text_says_the_same(
    mark: str, after: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is right is explained, and the last block that is given is caught if it is another."""
    monkeypatch.setattr(fast, "AFTER", after)
    lines = copy.deepcopy(as_recorded()[OF[mark]])
    assert judge(lines).verdict == "CONFORMS"
    at = max(i for i, line in enumerate(lines) if line.get("new"))
    lines[at]["new"][-1]["blocks"][-1][-1] += 1
    first = judge(lines).first
    assert first is not None and (first.rule, first.line) == ("POOL-10", at + 1)


@pytest.mark.parametrize("seats", [2**16, 2**40])
def test_any_number_of_requests_may_run(seats: int) -> None:
    """However the running list is kept, whoever is aborted is found in it."""
    assert judge(changed("encoder-decoder", max_num_seqs=seats)).verdict == "CONFORMS"


ENCODER = scenarios()["encoder-decoder"]["config"]["encoder"]
PLAIN = {n: size for n, size in ENCODER.items() if n[:3] in ("max", "enc") and "per" not in n}
DECODER = PLAIN | {"is_encoder_decoder": True}
CROSS = {"cross_attention": True}


def test_who_hides_an_encoder_decoder_model_is_caught() -> None:
    """Without cross-attention a request has no blocks for its items; and of another model nothing
    is forgotten as soon as it is computed.
    """
    lines = changed("encoder-decoder", groups=[{}, {}])
    first = judge(lines).first
    new = next(i for i, line in enumerate(lines, start=1) if line.get("new"))
    assert first is not None and (first.rule, first.line) == ("POOL-10", new)
    alone = [line for line in changed("encoder-decoder", encoder=PLAIN) if line["ev"] != "state"]
    alone[0]["config"]["groups"] = [{}, {}]
    assert judge(alone).verdict == "VIOLATION"


def test_blocks_for_items_come_with_the_first_step_and_stay() -> None:
    """A state in which a request that runs has others is no state to go on from."""
    lines = begun_later(KEPT / "encoder-decoder.jsonl", 0)
    assert judge(lines).verdict == "CONFORMS"
    request = next(q for q in lines[1]["requests"] if q.get("items") and q["blocks"][1])
    block = request["blocks"][1].pop()
    lines[1]["ref_cnt"] = [pair for pair in lines[1]["ref_cnt"] if pair[0] != block]
    lines[1]["free_queue"].append(block)
    first = judge(lines).first
    assert first is not None and (first.rule, first.line) == ("GROUP-50", 2)


REFUSED: dict[str, tuple[Lines, str]] = {
    "cross-attention of another model": (
        changed("encoder-decoder", encoder=PLAIN),
        "cross-attention beside encoder inputs of another model",
    ),
    "prefixes of cross-attention": (
        changed("encoder-decoder", enable_prefix_caching=True),
        "cross-attention with prefix caching, where vLLM raises",
    ),
    "a connector": (
        changed("remote", encoder=DECODER),
        "an encoder-decoder model with a KV connector, where vLLM raises",
    ),
    "a connector beside cross-attention": (
        changed("remote", groups=[{}, {"cross_attention": True}]),
        "cross-attention with a KV connector, which vLLM refuses",
    ),
    "an encoder connector and cross-attention": (
        changed("encoder-decoder", encoder=DECODER | {"ec_connector": True}),
        "cross-attention beside an encoder connector",
    ),
    "sinks in a later line": (changed("sinks"), "sinks, in a line after vllm-0.22.1"),
    "sinks and other places for freed blocks": (
        changed("sinks", groups=[{"sink_len": 8}]),
        "sinks with freed_unhashed_first",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_nobody_has_shown_is_refused_by_name(name: str) -> None:
    """INCONCLUSIVE, and why."""
    (header, *_), words = copy.deepcopy(REFUSED[name])
    if "later line" in name:
        header["spec"] = "vllm-0.32.0"
    elif name.startswith("an encoder connector"):
        header["spec"] = "normative"
    elif "freed" in name:
        header["spec"] += ", freed_unhashed_first=true"
    verdict = judge([header])
    assert (verdict.verdict, words in verdict.missing) == ("INCONCLUSIVE", True), verdict.missing


@pytest.mark.parametrize(
    "item",
    [{"offset": 1}, {"length": 0}, {"is_embed": [[0, 2]]}],
    ids=lambda item: next(iter(item)),
)
def test_items_that_no_front_end_makes_are_named(item: Document) -> None:
    """They are whole, and stand at the beginning."""
    lines = copy.deepcopy(as_recorded()["encoder-decoder"])
    next(line for line in lines if line.get("items"))["items"][0] |= item
    assert judge(lines).verdict != "INCONCLUSIVE"  # the rules follow vllm-0.22.1 there
    lines[0]["spec"] = "vllm-0.32.0"
    verdict = judge(lines)
    words = "an encoder-decoder model's input that is not whole, or not at the beginning,"
    assert verdict.verdict == "INCONCLUSIVE" and f"{words} of request 0" in verdict.missing


@pytest.mark.parametrize("beyond", [[[0, 99]], [[0, 1], [2, 10**12]]])
def test_no_more_tokens_stand_for_an_embedding_than_an_item_has(beyond: Document) -> None:
    """That is damage, whatever follows from the others."""
    lines = copy.deepcopy(as_recorded()["encoder-decoder"])
    at = next(n for n, line in enumerate(lines) if line.get("items"))
    lines[at]["items"][0]["is_embed"] = beyond
    verdict = judge(lines)
    assert verdict.verdict == "MALFORMED" and verdict.first is not None
    assert verdict.first.line == at + 1 and verdict.first.what.startswith("is_embed of item")


def test_blocks_of_sinks_are_nobodys() -> None:
    """Who hides them is caught by the first block that is given; and no request has one of them,
    in a step or in a state to go on from.
    """
    lines = [line for line in changed("sinks", groups=[{}, {"sliding_window": 7}])]
    first = judge(lines).first
    new = next(i for i, line in enumerate(lines) if line.get("new"))
    assert first is not None and (first.rule, first.line) == ("POOL-10", new + 1)
    lines = changed("sinks")
    lines[new]["new"][0]["blocks"][0][0] = 2
    first = judge(lines).first
    assert first is not None and (first.rule, first.line) == ("POOL-10", new + 1)
    lines = begun_later(KEPT / "sinks.jsonl", 0)
    assert judge(lines).verdict == "CONFORMS"
    lines[1]["free_queue"].append(2)
    verdict = judge(lines)
    words = "block 2, in a pool of 14 beside sinks"
    assert (verdict.verdict, verdict.missing) == ("INCONCLUSIVE", [words])


@pytest.mark.parametrize("groups", [[{"sink_len": 6}], [{"sink_len": 8, "sliding_window": 4}]])
def test_there_are_no_such_sinks(groups: list[Document]) -> None:
    """They are whole blocks, fewer than the pool has, and of full attention."""
    assert judge(changed("sinks", groups=groups)).verdict == "MALFORMED"
    assert judge(changed("sinks", num_blocks=2)).verdict == "MALFORMED"


def test_who_keeps_blocks_for_items_needs_room_for_the_rest() -> None:
    """GROUP-3: a session that waits and keeps the blocks of its items is not let in for them."""
    document = json.loads(FOUND.read_text())["session-keeps-blocks-for-items"]
    data = trace_of(document, "reference")
    verdict = check(Path("t"), stream=io.BytesIO(data), deep=False)
    assert verdict.verdict == "CONFORMS", verdict.first
