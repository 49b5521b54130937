"""Traces of servers with the second model runner, and with latent attention (MLA): recorded from
the real engines in random configurations, judged, and caught where something is altered.
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
from bases import KEPT, Lines, as_recorded, begun_later, scenarios, whole
from fuzz import second_line
from fuzz.families import FAMILIES
from fuzz.lockstep import features
from fuzz.traced import from_a_front_end
from record_again import decided_otherwise, record_all
from traces import trace_of

from nullblock.conformance import groups as kinds
from nullblock.conformance.checker import check, fast
from nullblock.conformance.checker.page.steps import chart
from nullblock.conformance.engine import Feature
from nullblock.conformance.lines.extent import extent
from nullblock.conformance.scenario import from_dict
from nullblock.conformance.scope import used
from nullblock.conformance.trace import header as headers
from nullblock.conformance.trace.header import CacheGroup, TraceConfig
from nullblock.spec.profiles import PROFILES

Document = dict[str, Any]
DRAWN = ("core", "drafts", "windows", "hybrid", "waits", "items", "sessions", "remote")
LINES = ("vllm-0.22.1", "vllm-0.32.0")
UNTOLD = {
    *(Feature.pooling, Feature.prompt_embeds, Feature.counts, Feature.clients),
    *(Feature.block_sizes, Feature.mamba, Feature.aligned_mamba, Feature.sinks),
    *(Feature.cross_attention, Feature.unchecked_input),
}
"""What traces have no words for."""
MANY, SIZE = 5, 14
NAMED = (
    "raised",
    "of a later chunk",
    "decisions: there are none",
)
"""What random scenarios have that vLLM raises at, or that nobody has shown."""
LEFT_OUT = (
    *("earlier owner", "in_flight_of_another", "stale output", "step in flight", "leaves room"),
    *("which step may run request", "is queued 2 times"),
)
"""What a state does not tell from which judging would begin."""


def second(document: Document, number: int) -> bool:
    """Workers run the second model runner."""
    document["config"]["use_v2_model_runner"] = True
    return True


def latent(document: Document, number: int) -> bool:
    """All groups that may be are latent attention; in every other scenario all that see as much as
    the first of them.
    """
    made = document["config"].setdefault("groups", [{"type": "full"}])
    may = [group for group in made if group["type"] != "chunked_local"]
    for group in may:
        seen = group.get("sliding_window")
        if number % 2 or seen == may[0].get("sliding_window"):
            group["mla"] = True
    return bool(may)


def paced(document: Document, number: int) -> bool:
    """They do, scheduled ahead beside a pipeline."""
    document |= second_line.paced(document, random.Random(number))
    return True


MARKS: dict[str, Callable[[Document, int], bool]] = {
    **{"second": second, "paced": paced},
    "latent": latent,
}


def drawn(line: str, mark: str, family: str) -> dict[str, Document]:
    """Random scenarios of a family that traces have words for, marked, by name."""
    told = extent(features(("spec",)), PROFILES[line]) - UNTOLD
    found = {}
    for key in itertools.count():
        document = from_a_front_end(FAMILIES[family].make(f"runner {key}", SIZE, told))
        if is_told(document, told) and MARKS[mark](document, len(found)):
            found[f"{line} {mark} {family} {len(found)}"] = document
        if len(found) == MANY:
            return found
    raise AssertionError


def is_told(document: Document, told: frozenset[Feature]) -> bool:
    """Whether traces have words for a scenario."""
    taken = from_dict(document)
    config = taken.config
    proposes = "drafts" in document["config"] or any(
        event["op"] == "draft" for event in document["events"]
    )
    refused = kinds.are_mixed(config) or config.max_num_scheduled_tokens == 0
    refused |= kinds.drop_hits(config) and kinds.has(config, "chunked_local")
    refused |= proposes and not config.num_spec_tokens
    return not refused and {feature for feature, _ in used(taken)} <= told


@pytest.fixture(scope="module")
def recorded(pythons: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with every drawn scenario, run plain and recorded on the real engines."""
    folder = tmp_path_factory.mktemp("runner")
    for line, mark in itertools.product(LINES, MARKS):
        every = {name: one for f in DRAWN for name, one in drawn(line, mark, f).items()}
        record_all(pythons[line], every, folder)
    return folder


@pytest.mark.oracle
@pytest.mark.parametrize("mark", MARKS)
@pytest.mark.parametrize("line", LINES)
def test_what_the_real_engine_does_conforms(recorded: Path, line: str, mark: str) -> None:
    """In step and ahead, with drafts, pipelines, windows, groups, adapters, grammars, encoder
    inputs, sessions and connectors.
    """
    said: Counter[str] = Counter()
    text = ""
    for name in (name for family in DRAWN for name in drawn(line, mark, family)):
        verdict = check(recorded / f"{name}.jsonl", deep=False)
        assert is_known(verdict, NAMED) and verdict.profile == line, (name, verdict)
        said[verdict.verdict] += 1
        text += (recorded / f"{name}.jsonl").read_text()
    assert said["CONFORMS"] > 3 * MANY * len(DRAWN) // 4
    if mark != "latent":
        assert '"prefill"' in text and '"preempted"' in text and '"drafts"' in text
    else:
        assert '"kind":"mla_attention"' in text and '"kind":"sliding_window_mla"' in text


@pytest.mark.oracle
@pytest.mark.parametrize("mark", MARKS)
@pytest.mark.parametrize("line", LINES)
def test_judging_begins_at_any_state(recorded: Path, line: str, mark: str) -> None:
    """Cut before a state the recording is judged from there. 0.32.0 does not know who was in the
    step before where the second model runner is, and nothing depends on it.
    """
    said: Counter[str] = Counter()
    for name in (name for family in DRAWN for name in drawn(line, mark, family)):
        path = recorded / f"{name}.jsonl"
        states = [x for x in whole(path) if x["ev"] == "state"]
        forgotten = line == "vllm-0.32.0" and mark != "latent"
        assert all(("previous" not in state) == forgotten for state in states)
        for number in range(0, len(states), 6):
            verdict = judge(begun_later(path, number))
            missing = verdict.missing[0] if verdict.missing else ""
            assert is_known(verdict, NAMED) or any(w in missing for w in LEFT_OUT), (
                name,
                number,
                verdict,
            )
            said[verdict.verdict] += 1
    assert said["CONFORMS"] > MANY * len(DRAWN) // 2


@pytest.mark.oracle
def test_recording_changes_no_decision(recorded: Path) -> None:
    """The lines of the driver are those of the plain engine."""
    assert decided_otherwise(recorded) == []


def test_who_hides_the_runner_is_caught() -> None:
    """Where somebody is resumed: to the first model runner that is nobody new."""
    lines = changed("second-runner", use_v2_model_runner=False)
    for line in lines:
        for new in line.get("new", ()):
            new.pop("prefill", None)
    first = judge(lines).first
    assert first is not None and first.rule == "WAIT-9"
    resumed = next(i for i, x in enumerate(lines, start=1) if x.get("resumed") or _again(lines, x))
    assert first.line == resumed
    sent = judge(changed("second-runner", use_v2_model_runner=False)).first
    assert sent is not None and (sent.rule, sent.actual) == ("OUT-17", 13)


def _again(lines: Lines, line: dict[str, Any]) -> bool:
    """Whether somebody is new in a line who was new before."""
    before = itertools.takewhile(lambda other: other is not line, lines)
    known = {new["id"] for other in before for new in other.get("new", ())}
    return any(new["id"] in known for new in line.get("new", ()))


def test_resumed_requests_are_behind_new_ones() -> None:
    """In another order they are caught, by the rule that says so."""
    lines = copy.deepcopy(as_recorded()["resumed-in-flight"])
    line = next(x for x in lines if len(x.get("new", ())) > 1 and _again(lines, x))
    line["new"].reverse()
    first = judge(lines).first
    assert first is not None and (first.rule, first.what) == ("OUT-16", "who is new")


def test_a_page_shows_who_is_resumed() -> None:
    """Though workers are told that it is new."""
    verdict = check(KEPT / "resumed-in-flight.jsonl", window=200)
    cells = chart(verdict).cells[6].values()
    assert [what for what, _ in cells if what in "nr"] == ["n", "r"]


@pytest.mark.parametrize("after", [0, math.inf], ids=["erased", "as it is"])
def test_either_form_of_the_text_says_the_same(
    after: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is sent of who is new is compared in both, and explained."""
    monkeypatch.setattr(fast, "AFTER", after)
    for name in ("second-runner", "resumed-in-flight"):
        lines = copy.deepcopy(as_recorded()[name])
        assert judge(lines).verdict == "CONFORMS"
        at = max(i for i, x in enumerate(lines) if x.get("new") and _again(lines, x))
        lines[at]["new"][-1]["prefill"] += 1
        first = judge(lines).first
        assert first is not None and (first.rule, first.line) == ("OUT-17", at + 1)


@pytest.mark.parametrize("name", ["latent", "latent-alone"])
def test_who_hides_latent_attention_is_caught_by_its_events(name: str) -> None:
    """Nothing else depends on it; without events nothing does."""
    told = as_recorded()[name][0]["config"]["groups"]
    hidden = [{k: v for k, v in group.items() if k != "mla"} for group in told]
    lines = changed(name, groups=hidden)
    first = judge(lines).first
    assert first is not None and (first.rule, first.actual[5]) == ("OUT-8", "mla_attention")
    for line in lines:
        line.pop("events", None)
    assert judge(lines).verdict == "CONFORMS"


@pytest.mark.parametrize("engine", ["spec", "reference"])
@pytest.mark.parametrize("profile", ["normative", *LINES])
def test_our_engines_conform(profile: str, engine: str) -> None:
    """A trace of a scenario tells of the runner, in the version that has the words for it."""
    data = trace_of(scenarios()["second-runner"], engine, profile)
    header, *lines = map(json.loads, data.splitlines())
    assert (header["version"], header["features"]) == ("1.5", ["v2_model_runner"])
    assert any(new["prefill"] for line in lines for new in line.get("new", ()))
    verdict = check(Path("t"), stream=io.BytesIO(data), deep=False)
    assert verdict.verdict == "CONFORMS"


REFUSED = {
    "latent attention beside layers that see as much": (
        changed("latent", groups=[{"mla": True}, {}, {"sliding_window": 6}])[:1],
        "latent attention beside other layers that see as much, with prefix caching",
    ),
    "windows of one size": (
        changed("latent", groups=[{"sliding_window": 6}, {"sliding_window": 6, "mla": True}])[:1],
        "latent attention beside other layers that see as much, with prefix caching",
    ),
    "a kind of its own": (
        changed("latent-alone", groups=[])[:1],
        "the feature kv_cache_spec:MLAAttentionSpec",
    ),
    "the runner without a word": (
        changed("second-runner", use_v2_model_runner=False)[:1],
        "the feature v2_model_runner",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_nobody_has_shown_is_refused_by_name(name: str) -> None:
    """INCONCLUSIVE, and why."""
    (header,), words = copy.deepcopy(REFUSED[name])
    if words.startswith("the feature "):
        header["features"] = [words.removeprefix("the feature ")]
    verdict = judge([header])
    assert (verdict.verdict, verdict.missing[0]) == ("INCONCLUSIVE", words)


def test_without_prefix_caching_kinds_do_not_matter() -> None:
    """Nothing is looked up: the header is judged."""
    groups = [{"mla": True}, {}]
    lines = changed("latent", groups=groups, enable_prefix_caching=False)[:1]
    assert judge(lines).missing == ["decisions: there are none in the trace"]


def test_there_is_no_latent_attention_in_chunks() -> None:
    """Such a header is damage."""
    lines = changed("latent", groups=[{"mla": True, "attention_chunk_size": 8}])
    assert judge(lines).verdict == "MALFORMED"


@pytest.mark.oracle
@pytest.mark.parametrize("line", LINES)
def test_groups_of_one_size_that_are_looked_up_apart_are_named(
    line: str, pythons: dict[str, Path], tmp_path: Path
) -> None:
    """Layers of one kind that differ in what no word is for are two kinds to vLLM."""
    window = {"type": "sliding_window", "sliding_window": 6}
    layers = [{"type": "full"}, window, window | {"head_size": 2}]
    adds = [{"op": "add", "id": id, "prompt": {"range": [0, 19]}, "max_tokens": 4} for id in "ab"]
    events = [adds[0], {"op": "run"}, adds[1], {"op": "run"}]
    config = {"block_size": 4, "groups": layers}
    asked = {
        "cached": {"config": config, "events": events},
        "uncached": {"config": config | {"enable_prefix_caching": False}, "events": events},
    }
    record_all(pythons[line], asked, tmp_path, "0")
    told = check(tmp_path / "cached.jsonl")
    assert (told.verdict, told.missing) == ("INCONCLUSIVE", ["the feature equal_groups_apart"])
    assert check(tmp_path / "uncached.jsonl").verdict == "CONFORMS"


def test_kept_recordings_are_of_what_they_are_called() -> None:
    """Somebody is resumed, with an output in flight or none; events name all kinds of layers."""
    for name in ("second-runner", "resumed-in-flight", "latent", "latent-alone"):
        assert judge(as_recorded()[name]).verdict == "CONFORMS"
    for name in ("second-runner", "resumed-in-flight"):
        assert any(_again(as_recorded()[name], line) for line in as_recorded()[name])
    text = (KEPT / "latent.jsonl").read_text()
    for kind in ("mla_attention", "sliding_window_mla", "sliding_window"):
        assert f'"kind":"{kind}"' in text


@pytest.mark.parametrize("name", ["second-runner", "latent", "latent-alone"])
def test_the_version_and_the_features_are_those_of_the_words(name: str) -> None:
    """Of what the constants say: the least version that has them, and each feature by name."""
    header = as_recorded()[name][0]
    config = msgspec.convert(header["config"], TraceConfig)
    assert header["version"] == headers.least_version(config) == "1.5"
    assert sorted(header["features"]) == sorted(headers.features_of(config))
    plain = msgspec.structs.replace(config, groups=[], use_v2_model_runner=False)
    assert (headers.least_version(plain), headers.features_of(plain)) == ("1.1", [])
    several = msgspec.structs.replace(plain, groups=[CacheGroup(), CacheGroup(sliding_window=5)])
    assert headers.least_version(several) == "1.3"
    assert headers.features_of(several) == ["kv_cache_groups", "kv_cache_spec:SlidingWindowSpec"]
