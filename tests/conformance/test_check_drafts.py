"""Traces with speculative decoding, recorded from the real vLLM and made by engines of ours."""

import copy
import io
import json
import math
from pathlib import Path
from typing import Any

import pytest
from bases import Lines, bases, begun_later
from fuzz.drafts import seeded
from record_again import record, record_all
from traces import trace_of, unsealed

from nullblock.conformance import scenario, scope
from nullblock.conformance.checker import Verdict, check, fast
from nullblock.conformance.checker.drafts import WithDrafts
from nullblock.conformance.engine import CORE_FEATURES, Feature
from nullblock.conformance.errors import OutOfScope
from nullblock.conformance.trace.reader import TraceReader

HERE = Path(__file__).parent
WORDS = CORE_FEATURES | {Feature.drafts, Feature.silence}
SEEDS = range(40)


def serving(method: str, accept: Any, blocks: int, *, ahead: bool) -> dict[str, Any]:
    """A service under some load: prompts that share prefixes, ends by eos and by length."""
    config = {
        **{"block_size": 4, "num_blocks": blocks, "max_num_batched_tokens": 16, "vocab": 20},
        **{"num_spec_tokens": 3, "spec_method": method, "accept": accept, "kv_events": True},
        **{"async_scheduling": ahead, "max_model_len": 64, "scheduler_reserve_full_isl": False},
    }
    if accept == "hash" and not ahead:
        config["drafts"] = {"length": "hash"}
    events: list[dict[str, Any]] = [
        {
            "op": "add",
            "id": str(i),
            "prompt": {"range": [i % 2, 9 + i]},
            "max_tokens": 14,
            "eos": 3,
        }
        for i in range(8)
    ]
    if ahead:
        events.append({"op": "schedule"})
        events += [{"op": op} for op in ("schedule", "update") * 40]
        events.append({"op": "drain"})
    return {"config": config, "events": [*events, {"op": "run"}]}


SERVING = {
    f"{method}, {'ahead' if ahead else 'in step'}, {accept}, {blocks} blocks": serving(
        method, accept, blocks, ahead=ahead
    )
    for method, accept in (("ngram", "hash"), ("eagle", [2, 0, 1]), ("draft_model", "all"))
    for ahead in (False, True)
    for blocks in (14, 60)
}
SERVING["a step without a token"] = serving("draft_model", [2, None, 1], 60, ahead=True)


def drawn() -> dict[str, dict[str, Any]]:
    """Random scenarios with drafts, those that a trace has words for."""
    found = {}
    for seed in SEEDS:
        document = seeded(f"traces {seed}", 12, WORDS)
        taken = scenario.from_dict(document)
        try:
            scope.check_run(taken, "trace", WORDS)
        except OutOfScope:
            continue
        if taken.config.num_spec_tokens:
            found[f"drawn {seed}"] = document
    return found


@pytest.fixture(scope="module")
def recorded(oracle_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with every scenario, run plain and recorded on the real engine."""
    folder = tmp_path_factory.mktemp("drafts")
    (folder / "scenarios.json").write_text(json.dumps(SERVING | drawn()))
    record(oracle_python, folder / "scenarios.json", folder)
    return folder


def judge(data: bytes) -> Verdict:
    """The verdict on these bytes."""
    return check(Path("trace"), stream=io.BytesIO(data), deep=False)


@pytest.mark.oracle
def test_what_the_real_engine_does_with_drafts_conforms(recorded: Path) -> None:
    """Every service and every drawn scenario: drafts, their acceptance, states in between, KV
    events. Where the engine raises, what it was asked is not told.
    """
    steps = 0
    for name in SERVING | drawn():
        verdict = check(recorded / f"{name}.jsonl", deep=False)
        steps += verdict.steps
        raised = any("raised" in missing for missing in verdict.missing)
        assert verdict.verdict == "CONFORMS" or raised, (name, verdict)
        assert name not in SERVING or verdict.verdict == "CONFORMS"
    assert steps > 1000 and len(drawn()) > 20


@pytest.mark.oracle
def test_recording_drafts_changes_no_decision(recorded: Path) -> None:
    """The lines of the driver are those of the plain engine."""
    for name in SERVING:
        plain, taped = (
            [line for line in (recorded / f"{name}.{kind}").read_text().splitlines()][:-1]
            for kind in ("plain", "recorded")
        )
        assert plain == taped, name


@pytest.fixture(scope="module")
def in_large_blocks(oracle_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Lines:
    """Recorded on the real engine: more tokens fit into a block than a step can grant."""
    folder = tmp_path_factory.mktemp("blocks")
    config = {"block_size": 32, "max_num_batched_tokens": 8, "num_spec_tokens": 2}
    add = {"op": "add", "id": "a", "prompt": {"range": [0, 5]}, "max_tokens": 30}
    document = {"config": config, "events": [add, {"op": "step", "n": 4}]}
    record_all(oracle_python, {"blocks": document}, folder, "1")
    return begun_later(folder / "blocks.jsonl", 2)


@pytest.mark.oracle
@pytest.mark.parametrize(
    ("threshold", "more", "rule"),
    [(0, 0, None), (0, 7, None), (0, 8, "RUN-29"), (0, 20, "RUN-29")]
    + [(4, 3, None), (4, 4, "RUN-29")],
)
def test_no_more_is_ahead_than_a_step_grants(
    in_large_blocks: Lines, threshold: int, more: int, rule: str | None
) -> None:
    """In vllm-0.22.1 what a step without a token has computed stays computed: fewer tokens than
    its budget, or the threshold of long prefills. With more the state cannot be.
    """
    lines = copy.deepcopy(in_large_blocks)
    lines[0].pop("config_sha256")
    lines[0]["config"]["long_prefill_token_threshold"] = threshold
    (request,) = lines[1]["requests"]
    (step,) = lines[1]["in_flight"]
    if more:
        request["computed"] = request["tokens"] + dict(step["drafts"])[0] + more
    verdict = judge(unsealed(lines))
    if rule is not None:
        assert verdict.first is not None and verdict.first.rule == rule
        assert request["computed"] <= len(request["blocks"][0]) * 32
    else:
        assert verdict.verdict == ("INCONCLUSIVE" if more else "CONFORMS"), verdict
        assert all("returned without a token" in what for what in verdict.missing)


@pytest.mark.oracle
def test_nothing_is_ahead_without_a_block(in_large_blocks: Lines) -> None:
    """Nor is more computed than the blocks hold."""
    lines = copy.deepcopy(in_large_blocks)
    (request,) = lines[1]["requests"]
    lines[1]["in_flight"][0].pop("drafts")
    request["tokens"] = 30
    request["computed"] = 33
    verdict = judge(unsealed(lines))
    assert verdict.first is not None and verdict.first.rule == "RUN-29"


@pytest.mark.oracle
def test_every_form_is_written(recorded: Path) -> None:
    """Short forms and whole ones, ends among drafts, states with drafts in flight."""
    seen = set()
    for name in SERVING | drawn():
        for located in TraceReader(recorded / f"{name}.jsonl"):
            line = json.loads(_encode(located.written))
            seen |= {f"{line['ev']}.{key}" for key in line}
            for part in (*line.get("requests", ()), *(line.get("in_flight") or ())):
                seen |= {f"{line['ev']}.{key}" for key in part}
    assert seen >= {
        *("schedule.drafts", "schedule+.drafts", "schedule+.drafted", "output+.counts"),
        *("update+.cut", "draft.counts", "draft+.each", "draft+.counts"),
        *("schedule+.gets", "schedule+.given", "schedule+.blocks", "output+.fills"),
        *("state.drafts", "state.chunk", "state.placeholders"),
    }


def _encode(record: Any) -> bytes:
    import msgspec

    return msgspec.json.encode(record)


@pytest.mark.parametrize("after", [math.inf, 0], ids=["as it is", "erased"])
@pytest.mark.parametrize("engine", ["spec", "reference"])
@pytest.mark.parametrize("name", SERVING)
def test_our_engines_conform(
    name: str, engine: str, after: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under both profiles, in the form in which the text runs and in the erased one."""
    monkeypatch.setattr(fast, "AFTER", after)
    for profile in ("vllm-0.22.1", "normative"):
        assert judge(trace_of(SERVING[name], engine, profile)).verdict == "CONFORMS"


def test_the_rules_that_drafts_add_are_exercised() -> None:
    """A trace in step proposes, rejects, takes, and ends among drafts."""
    verdict = judge(unsealed(bases()["drafted"]))
    assert verdict.verdict == "CONFORMS"
    assert {"DRAFT-7", "DRAFT-8", "DRAFT-9", "DRAFT-10", "DRAFT-19"} <= set(verdict.rules)


@pytest.mark.parametrize("after", [math.inf, 0], ids=["as it is", "erased"])
def test_a_defect_of_the_checker_shows(after: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """If it heard of one draft fewer that is right, nothing with drafts would conform."""
    monkeypatch.setattr(fast, "AFTER", after)
    heard = WithDrafts.accepted
    monkeypatch.setattr(WithDrafts, "accepted", lambda k, s, r: max(heard(k, s, r) - 1, 0))
    for name in ("drafted", "drafted ahead"):
        assert judge(unsealed(bases()[name])).verdict != "CONFORMS"


def is_plain(lines: list[dict[str, Any]]) -> None:
    lines[0]["config"].pop("num_spec_tokens")
    lines[0]["config"]["eagle_group"] = True  # so that hits are what they were


def unheard(lines: list[dict[str, Any]]) -> None:
    lines[0]["observed"].pop("draft")


def too_many(lines: list[dict[str, Any]]) -> None:
    at = next(i for i, x in enumerate(lines) if x["ev"] == "output" and max(x["counts"]) > 1)
    lines[at]["counts"][0] += 9


def raised(lines: list[dict[str, Any]]) -> None:
    at = next(i for i, x in enumerate(lines) if x["ev"] == "output" and max(x["counts"]) > 1)
    lines[at:] = [{"ev": "error", "during": "update", "type": "AssertionError"}]


UNKNOWN = {
    "drafts that nobody configured": (is_plain, "`num_spec_tokens` is 0"),
    "drafts that were not recorded": (unheard, "all draft records (absent)"),
    "more tokens than drafts": (too_many, "tokens of request 0 mean, which had"),
    "an exception": (raised, "how many drafts were right when update raised AssertionError"),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_is_not_known_of_drafts_is_named(name: str) -> None:
    """INCONCLUSIVE, and what is missing."""
    change, words = UNKNOWN[name]
    lines = bases()["drafted"]
    change(lines)
    verdict = judge(unsealed(lines))
    assert verdict.verdict == "INCONCLUSIVE", verdict.first
    assert words in "\n".join(verdict.missing)


def test_a_version_without_drafts_is_said_where_there_are_none() -> None:
    """So that its readers read it; with drafts it is the version that has them."""
    for name, version in (("busy", "1.1"), ("drafted", "1.2"), ("drafted ahead", "1.2")):
        assert bases()[name][0]["version"] == version


def test_which_outputs_are_from_before_an_admission_is_not_known() -> None:
    """Where the rules tell runs of a request apart, a state that cannot makes the trace
    INCONCLUSIVE; where they do not, it is judged.
    """
    path = HERE / "data" / "midway" / "ahead-drafted.jsonl"
    assert check(path, deep=False).verdict == "CONFORMS"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines[0]["spec"] = "normative"
    verdict = judge(unsealed(lines))
    assert verdict.verdict == "INCONCLUSIVE"
    assert "from before its last admission" in verdict.missing[0]
