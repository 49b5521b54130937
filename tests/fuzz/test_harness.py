"""The fuzzer itself: what it generates, what it notices, what it prints."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fuzz import bulk, lockstep, reach
from fuzz.families import FAMILIES
from oracle.client import Oracle

from nullblock.conformance.errors import ScenarioError
from nullblock.conformance.lockstep.generator import seeded
from nullblock.conformance.lockstep.shrink import shrink
from nullblock.conformance.scenario import from_dict
from nullblock.conformance.scope import check_engine
from nullblock.reference.block_pool import BlockPool
from nullblock.reference.sched.request_queue import FCFSRequestQueue
from nullblock.reference.sched.running_phase import RunningPhase
from nullblock.reference.single_type_kv_cache_manager import SingleTypeKVCacheManager
from nullblock.spec.profiles import PROFILES

BOTH = lockstep.features(lockstep.ENGINES)
SCENARIOS = [seeded(f"harness:{number}", features=BOTH) for number in range(60)]
AHEAD = [seeded(f"harness:{number}") for number in range(60)]


def test_a_seed_names_one_scenario() -> None:
    """The same seed gives the same scenario, another one gives another."""
    assert seeded("5:1") == seeded("5:1")
    assert seeded("5:1") != seeded("5:2")


def test_every_scenario_is_in_scope() -> None:
    """The strict reader takes what is generated: nothing is wasted on refused scenarios."""
    for scenario in SCENARIOS + AHEAD:
        from_dict(scenario)


def test_no_feature_is_asked_for_that_is_not_allowed() -> None:
    """Scenarios made for an engine that does the least run on it, to the end."""
    for number in range(60):
        scenario = seeded(f"harness:{number}", features=frozenset())
        taken = from_dict(scenario)
        check_engine(taken.config, "fake", frozenset())
        in_flight = 0
        for event in scenario["events"]:
            in_flight += (event["op"] == "schedule") - (event["op"] == "update")
            in_flight = 0 if event["op"] == "drain" else max(0, in_flight)
            assert in_flight <= 1 and (in_flight == 0 or event["op"] not in ("step", "run"))


def _free_forward(free: Callable[..., None]) -> Callable[..., None]:
    """Whole tables are released from their first block."""

    def patched(self: BlockPool, ordered_blocks: Any) -> None:
        free(self, reversed(list(ordered_blocks)))

    return patched


def _back_of_the_queue(prepend: Callable[..., None]) -> Callable[..., None]:
    """A preempted request waits behind everybody."""

    def patched(self: FCFSRequestQueue, request: Any) -> None:
        self.append(request)

    return patched


def _no_clamp(tokens: Callable[..., int]) -> Callable[..., int]:
    """One token more than the budget allows a prefill."""

    def patched(self: RunningPhase, request: Any, token_budget: int) -> int:
        lacking: int = request.num_tokens - request.num_computed_tokens
        return min(tokens(self, request, token_budget + 1), lacking)

    return patched


def _uncached(cache: Callable[..., None]) -> Callable[..., None]:
    """The last full block of a request is not entered in the prefix cache."""

    def patched(self: Any, request: Any, num_tokens: int) -> None:
        cache(self, request, num_tokens - 1)

    return patched


DEFECTS = [
    pytest.param(BlockPool, "free_blocks", _free_forward, id="free forward"),
    pytest.param(FCFSRequestQueue, "prepend_request", _back_of_the_queue, id="resume last"),
    pytest.param(RunningPhase, "_num_running_tokens", _no_clamp, id="budget off by one"),
    pytest.param(SingleTypeKVCacheManager, "cache_blocks", _uncached, id="cached too late"),
]


@pytest.mark.parametrize(("owner", "name", "defect"), DEFECTS)
def test_a_defect_in_the_reference_is_noticed(
    owner: type, name: str, defect: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lockstep with the specification finds each of these within a few scenarios."""
    monkeypatch.setattr(owner, name, defect(getattr(owner, name)))
    outcomes = (lockstep.run(scenario, lockstep.ENGINES, None) for scenario in SCENARIOS)
    assert any("reference" in outcome.differences for outcome in outcomes)


def test_who_does_not_refuse_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """What one of our engines refuses the others are compared for, and only they."""
    real = lockstep.lines_of
    base = SCENARIOS[0]

    def lines_of(engine: str, document: Any, semantics: Any = None) -> list[str]:
        if engine == "spec":
            raise ScenarioError("out of scope", "leave it out", "config")
        return real("reference", document)[: None if engine == "reference" else 2]

    monkeypatch.setattr(lockstep, "lines_of", lines_of)
    outcome = lockstep.run(base, ("spec", "reference", "impl"), None)
    assert outcome.refused.startswith("spec: ") and outcome.ours.keys() == {"reference", "impl"}
    assert outcome.differences.keys() == {"impl"} and not outcome.num_steps
    assert not lockstep.run(base, ("spec",), None).differences


def test_a_difference_in_bytes_alone_is_noticed_where_it_is_asked_for() -> None:
    """A hash that is spelled differently throughout counts where hashes are real."""
    lines = lockstep.lines_of("reference", SCENARIOS[0])
    states = [json.loads(line).get("state") or {} for line in lines]
    hashes = {hash for state in states for hash in state.get("cached_map", {})}
    assert hashes, "the scenario caches something"
    spelled = [line.replace(min(hashes), "0123456789ab:0") for line in lines]
    assert lockstep.difference(lines, spelled, bytewise=False) == ""
    assert "not in bytes" in lockstep.difference(lines, spelled, bytewise=True)


def test_an_engine_that_stops_early_is_noticed() -> None:
    """Fewer lines, and an exception on one side only, are differences."""
    lines = lockstep.lines_of("spec", SCENARIOS[0])
    raised = [*lines[:3], json.dumps({"ev": "EXCEPTION"}), lines[-1]]
    assert lockstep.difference(lines, lines[:-2], bytewise=False)
    assert lockstep.difference(lines, raised, bytewise=False)


def test_shrinking_keeps_what_it_was_asked_to_keep() -> None:
    """The result still holds, and nothing can be left out of it any more."""

    def two_arrivals_then_a_reset(scenario: lockstep.Scenario) -> bool:
        ops = [event["op"] for event in scenario["events"]]
        return ops.count("add") >= 2 and "reset_prefix_cache" in ops

    start = next(s for s in SCENARIOS if two_arrivals_then_a_reset(s))
    small = shrink(start, two_arrivals_then_a_reset)
    assert sorted(event["op"] for event in small["events"]) == ["add", "add", "reset_prefix_cache"]
    assert small["config"] == {}
    from_dict(small)


def test_watching_leaves_the_reference_as_it_was() -> None:
    """After measuring what a scenario reaches, the reference's methods are its own again."""
    before = {name: getattr(RunningPhase, name) for name in ("_pop_victim", "_preempt_for")}
    reach.reached(SCENARIOS[0])
    assert {name: getattr(RunningPhase, name) for name in before} == before


@pytest.mark.oracle
def test_a_difference_is_shrunk_kept_and_replayable(
    oracle: Oracle,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A run over a defect ends with a small scenario file and the line that replays it."""
    monkeypatch.setattr(bulk, "FOUND", tmp_path)
    monkeypatch.setattr(bulk, "MOST_DIFFERENCES", 1)
    original = BlockPool.free_blocks
    monkeypatch.setattr(BlockPool, "free_blocks", _free_forward(original))
    run = bulk.Bulk(oracle, ("reference",), seed=3, size=10)
    run.run(steps=5000)
    (path,) = tmp_path.iterdir()
    printed = capsys.readouterr().out
    assert "real engine and reference: line" in printed and f"--replay {path}" in printed
    assert bulk.replay(path, ("reference",), oracle) == 1
    assert len(json.loads(path.read_text())["events"]) <= 4
    monkeypatch.setattr(BlockPool, "free_blocks", original)
    assert bulk.replay(path, ("reference",), oracle) == 0


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("name", FAMILIES)
def test_no_family_runs_without_an_engine(
    name: str, profile: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever is asked for runs on some engine of ours, which does what the family needs, or ends
    with 2 and says what none does.
    """
    parser = bulk.parser("", 1)
    options = parser.parse_args(["--family", name, "--profile", profile])
    try:
        ((family, engines),) = bulk.runs(options, parser)
    except SystemExit as ended:
        assert ended.code == 2 and "no engine does" in capsys.readouterr().err
        assert profile == "vllm-0.32.0"
    else:
        assert engines and not bulk.lacking(family, engines, PROFILES[profile])
