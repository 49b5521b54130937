"""The engine on a device prints what the others print, with the kernels and with their twins."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from device_audit import device_lines
from fuzz import lockstep
from oracle.client import Oracle
from where import KERNELS_ON

from nullblock.conformance.cli import main
from nullblock.conformance.engine import ALL_FEATURES
from nullblock.conformance.engines import features_of
from nullblock.conformance.errors import OutOfScope
from nullblock.conformance.lockstep import generator
from nullblock.impl.known import KNOWN
from nullblock.spec.profiles import NORMATIVE, PROFILES, VLLM_0_22_1, Semantics

VECTORS = Path(__file__).parents[3] / "conformance" / "vectors"
INDEX: list[str] = sorted(json.loads((VECTORS / "index.json").read_text()))
PRESSING: dict[str, dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "data" / "pressing.json").read_text()
)
INTERPRETED = (
    "defect-output-of-an-earlier-owner",
    "defect-victim-before-the-index",
    "duplicate-hashes-keep-their-order",
    "ends-in-their-order",
    "evicting-named-blocks",
    "min-tokens-hold-back-every-stop",
    "output-for-a-preempted-request",
    "several-victims-keep-their-order",
)
"""Vectors that the interpreter plays too: of every kernel something, and few steps."""
TOO_LONG = "defect-longer-prompt-schedules-less-than-nothing"
"""Refused on a device where vLLM 0.22.1 goes on: the only one."""
SCENARIOS = range(10)
SYNCHRONOUS = [d for d in PRESSING.values() if not d["config"].get("async_scheduling")]


@cache
def made(number: int) -> dict[str, Any]:
    """A random scenario that asks for nothing that the engine does not do."""
    return generator.seeded(f"device:{number}", features=features_of("impl", "twins"))


def parts(document: dict[str, Any], semantics: Semantics, device: str) -> str:
    """Where the engine on a device parts from the reference, or its own state from what has to be
    true; empty: nowhere. Raises OutOfScope.
    """
    try:
        printed = device_lines(document, semantics, device)
    except AssertionError as error:
        return f"audit: {error}"
    raised = [line for line in printed if "device_audit.py:" in line]
    expected = expected_lines(json.dumps(document), semantics)
    return raised[0] if raised else lockstep.difference(expected, printed, bytewise=False)


@cache
def expected_lines(document: str, semantics: Semantics) -> list[str]:
    """What the reference prints."""
    return lockstep.lines_of("reference", json.loads(document), semantics)


def vector(name: str) -> dict[str, Any]:
    """The scenario of that name."""
    document: dict[str, Any] = json.loads((VECTORS / f"{name}.json").read_text())
    return document


@pytest.mark.parametrize("profile", KNOWN)
def test_twins_print_what_the_reference_prints_for_every_vector(profile: str) -> None:
    """Or refuse what a device does not do, by name; the state is audited at each line."""
    lacking, played = ALL_FEATURES - features_of("impl", "twins"), 0
    for document in (*PRESSING.values(), *map(vector, INDEX)):
        try:
            assert parts(document, PROFILES[profile], "twins") == ""
            played += 1
        except OutOfScope as refused:
            too_long = document == vector(TOO_LONG) and profile == "vllm-0.22.1"
            known = ("longer than max_model_len",) if too_long else tuple(lacking)
            assert any(what in str(refused) for what in known), refused
    assert played >= 57 + len(SYNCHRONOUS)


@pytest.mark.parametrize("name", INTERPRETED)
def test_kernels_print_what_the_reference_prints(name: str) -> None:
    """In Triton's interpreter, by the rules of vLLM 0.22.1, of which more is switched on."""
    assert parts(vector(name), VLLM_0_22_1, KERNELS_ON) == ""


def test_kernels_decide_what_no_vector_shows() -> None:
    """The same for a scenario made to be awkward, by the rules of the specification."""
    assert parts(PRESSING["several copies of one content"], NORMATIVE, KERNELS_ON) == ""


@pytest.mark.parametrize("semantics", [*KNOWN.values(), Semantics(freed_unhashed_first=True)])
def test_twins_print_what_the_reference_prints_for_random_scenarios(semantics: Semantics) -> None:
    """In each profile, and with the order in which later lines free blocks (POOL-12); those whose
    tokens do not fit 32 bits are refused.
    """
    played = 0
    for number in SCENARIOS:
        try:
            assert parts(made(number), semantics, "twins") == "", number
            played += 1
        except OutOfScope as error:
            assert "too large" in str(error)
    assert played >= 6


def test_traces_of_a_device_conform(tmp_path: Path, capsys: Any) -> None:
    """`nullblock check` explains every decision of `nullblock trace --engine impl --device`."""
    for number, document in enumerate(SYNCHRONOUS):
        source, trace = tmp_path / f"{number}.json", str(tmp_path / f"{number}.jsonl.zst")
        source.write_text(json.dumps(document))
        device, profile = KERNELS_ON if number == 2 else "twins", [*KNOWN][number % 2]
        options = ["--engine", "impl", "--device", device, "--profile", profile]
        assert main(["trace", str(source), "-o", trace, *options]) == 0
        assert main(["check", trace, "--profile", profile]) == 0
    assert capsys.readouterr().out.count("CONFORMS") == number + 1 == len(SYNCHRONOUS)


@pytest.mark.oracle
@pytest.mark.slow
def test_the_real_engine_prints_the_same(oracle: Oracle) -> None:
    """Beside vLLM 0.22.1 itself no random scenario shows a difference."""
    outcomes = [lockstep.run(made(number), ("impl:twins",), oracle) for number in range(60)]
    assert [outcome.differences for outcome in outcomes if outcome.differences] == []
    assert sum(not outcome.refused for outcome in outcomes) >= 40
