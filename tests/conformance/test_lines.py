"""The lines of rules: each switch has an example, and the later release prints what is recorded.

RUN-40, RUN-41, RUN-42, RUN-43, WAIT-30, WAIT-31 and UPD-40 are what a later line does besides;
their examples are among these.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fuzz.lockstep import ENGINES, difference, lines_of
from golden_lines import recorded
from oracle.client import Oracle
from record_again import record_all

from nullblock.conformance.checker.check import check
from nullblock.conformance.cli import main
from nullblock.conformance.engine import CORE_FEATURES, Feature
from nullblock.conformance.engines import make_engine
from nullblock.conformance.errors import ScenarioError
from nullblock.conformance.lines.example import SECOND, VECTORS
from nullblock.conformance.lines.examples import EXAMPLES
from nullblock.conformance.lines.page import PAGE, between, document, markdown, value
from nullblock.conformance.scenario import from_dict
from nullblock.conformance.scope import used
from nullblock.spec.profiles import NORMATIVE, PROFILES, VLLM_0_22_1, VLLM_0_32_0
from nullblock.spec.switches import switches

SCENARIOS = sorted(path.stem for path in SECOND.glob("*.jsonl"))


def scenario(name: str) -> dict[str, Any]:
    """A golden scenario."""
    loaded: dict[str, Any] = json.loads((VECTORS / f"{name}.json").read_text())
    return loaded


JUDGED = CORE_FEATURES | {
    *(Feature.drafts, Feature.silence, Feature.windows, Feature.hybrid, Feature.encoder_inputs),
    *(Feature.lora_cap, Feature.structured_output, Feature.clients, Feature.counts),
    *(Feature.kv_connector, Feature.streaming, Feature.pooling, Feature.prompt_embeds),
    *(Feature.v2_model_runner, Feature.mamba, Feature.aligned_mamba, Feature.repetition),
    *(Feature.block_sizes, Feature.cross_attention, Feature.encoder_decoder),
}
"""What traces of a later line are judged with; who is told, and how many, they leave out."""
NOT_JUDGED = {"adapter-zero-takes-a-place", "drafts-counted-by-place"}
NOT_JUDGED |= {"states-beyond-their-places"}
"""What no front end lets pass, an adapter and a prompt, and an update that raises."""


def is_judged(name: str) -> bool:
    """Whether a recording of it is judged."""
    return {
        feature for feature, _ in used(from_dict(scenario(name)))
    } <= JUDGED and name not in NOT_JUDGED


def expected(name: str) -> list[str]:
    """What vLLM 0.32.0 prints for it."""
    return (SECOND / f"{name}.jsonl").read_text().splitlines()


def test_every_switch_has_an_example() -> None:
    """And a reason for its normative value, upstream's place, and no example is for nothing."""
    assert list(EXAMPLES) == list(switches(NORMATIVE))
    followed = {e.scenario for s, e in EXAMPLES.items() if value("vllm-0.32.0", s) is not None}
    assert followed <= set(SCENARIOS)
    assert all(e.why.endswith(".") and e.upstream for e in EXAMPLES.values())


@pytest.mark.parametrize("switch", EXAMPLES)
def test_an_example_shows_its_switch(switch: str) -> None:
    """In some line, with this switch flipped and no other, the specification prints another
    decision.
    """
    document = scenario(EXAMPLES[switch].scenario)
    for line, semantics in PROFILES.items():
        if value(line, switch) is None:
            continue
        flipped = replace(semantics, **{switch: not getattr(semantics, switch)})
        ours, other = (lines_of("spec", document, each) for each in (semantics, flipped))
        if difference(ours, other, bytewise=False):
            return
    pytest.fail(f"{EXAMPLES[switch].scenario} is the same without {switch}")


@pytest.mark.oracle
@pytest.mark.parametrize("name", SCENARIOS)
def test_the_later_release_prints_the_recorded_lines(
    name: str, oracle_0_32: Oracle, request: pytest.FixtureRequest
) -> None:
    """The recording is up to date; ``--rewrite`` makes it so."""
    lines = recorded(oracle_0_32.lines(scenario(name)))
    if request.config.getoption("--rewrite"):
        (SECOND / f"{name}.jsonl").write_text("".join(f"{line}\n" for line in lines))
    assert expected(name) == lines


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", SCENARIOS)
def test_our_engines_print_what_the_later_release_prints(name: str, engine: str) -> None:
    """Up to the spelling of hashes: an adapter's path is hashed too, and scenarios have none."""
    lines = lines_of(engine, scenario(name), VLLM_0_32_0)
    assert difference(expected(name), lines, bytewise=False) == ""


@pytest.mark.parametrize("switch", between("normative", "vllm-0.32.0"))
def test_the_recordings_tell_the_lines_apart(switch: str) -> None:
    """With a switch of the later line as in the normative one, some recording is missed: planted
    so, a defect of the profile is seen without the real engine.
    """
    mutant = replace(VLLM_0_32_0, **{switch: getattr(NORMATIVE, switch)})
    missed = (
        difference(expected(name), lines_of("spec", scenario(name), mutant), bytewise=False)
        for name in sorted(SCENARIOS, key=lambda n: n != EXAMPLES[switch].scenario)
    )
    assert any(missed)


@pytest.mark.oracle
def test_recordings_of_the_later_release_conform_to_its_line(
    oracle_0_32_python: Path, tmp_path: Path
) -> None:
    """The recorder runs in it and changes nothing; the header names the profile by which the
    checker judges; and by the other line's rules the same recordings do not conform.
    """
    record_all(oracle_0_32_python, {name: scenario(name) for name in SCENARIOS}, tmp_path)
    for name in SCENARIOS:
        verdict = check(tmp_path / f"{name}.jsonl", None)
        judged = "CONFORMS" if is_judged(name) else "INCONCLUSIVE"
        assert (verdict.verdict, verdict.profile) == (judged, "vllm-0.32.0"), name
        plain, recorded = (tmp_path / f"{name}.{kind}" for kind in ("plain", "recorded"))
        left, right = (lines.read_text().splitlines() for lines in (plain, recorded))
        assert difference(left, right, bytewise=True) == "", name
    others = {check(tmp_path / f"{name}.jsonl", VLLM_0_22_1).verdict for name in SCENARIOS}
    assert "VIOLATION" in others


@pytest.mark.parametrize("name", ["spec", "reference"])
def test_no_watermark_is_below_0_where_there_is_one(name: str) -> None:
    """vLLM 0.32.0 asserts it when it is built; 0.22.1 has no watermark and takes any."""
    config = from_dict({"config": {"watermark": -0.5}, "events": []}).config
    make_engine(name, config, PROFILES["vllm-0.22.1"])
    with pytest.raises(ScenarioError, match=r"a watermark of -0\.5"):
        make_engine(name, config, PROFILES["vllm-0.32.0"])


def test_the_page_is_current() -> None:
    """It is what the command prints."""
    assert PAGE.read_text() == markdown(), "nullblock lines --markdown says other"


def test_the_command_prints_page_and_document(capsys: pytest.CaptureFixture[str]) -> None:
    """As Markdown, for programs, and for people."""
    assert main(["lines", "--markdown"]) == 0
    assert capsys.readouterr().out == PAGE.read_text()
    assert main(["lines", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == document()
    assert main(["lines"]) == 0
    assert "resumes_await_output" in capsys.readouterr().out
