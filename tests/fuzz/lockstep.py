"""One scenario on several engines: where their lines part."""

import json
from dataclasses import dataclass
from functools import reduce
from typing import Any

from oracle.client import Oracle, OracleError

from nullblock.conformance import driver, scenario
from nullblock.conformance.compare import first_difference
from nullblock.conformance.engine import ALL_FEATURES, Feature
from nullblock.conformance.engines import features_of, make_engine
from nullblock.conformance.errors import InputError
from nullblock.spec.profiles import VLLM_0_22_1, VLLM_0_32_0, Semantics

Scenario = dict[str, Any]
ENGINES = ("spec", "reference")
EXACT = frozenset({"reference"})
"""Engines whose hashes equal those of vLLM 0.22.1 byte for byte."""
RELEASED = (VLLM_0_22_1, VLLM_0_32_0)
"""Profiles that a real engine can be had for."""
NOT_COMPARED_BYTEWISE = ("header", "trailer", "EXCEPTION")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the engines did with a scenario."""

    real: list[str]
    """The real engine's lines; empty if there is no real engine here or it gave none."""
    ours: dict[str, list[str]]
    """Lines by engine."""
    differences: dict[str, str]
    """By engine, what differs first from the real engine, or without one from the first engine."""
    refused: str = ""
    """Which of ours take no such scenario, and why; the others are compared all the same."""

    @property
    def lines(self) -> list[str]:
        """The real engine's lines, or without one those of the first of ours."""
        return self.real or next(iter(self.ours.values()), [])

    @property
    def num_steps(self) -> int:
        """Steps that every engine took: none, where one of them refused."""
        return 0 if self.refused else sum('"ev":"schedule"' in line for line in self.lines)

    @property
    def has_raised(self) -> bool:
        """Whether an exception ended the run."""
        return any('"ev":"EXCEPTION"' in line for line in self.lines[-2:])


def split(engine: str) -> tuple[str, str]:
    """An engine and its device: `impl:twins` is `--engine impl --device twins`."""
    name, _, device = engine.partition(":")
    return name, device or "cpu"


def features(engines: tuple[str, ...]) -> frozenset[Feature]:
    """What all of those engines do: scenarios for them ask for nothing else."""
    found = (features_of(*split(engine)) for engine in engines)
    return reduce(frozenset.intersection, found, ALL_FEATURES)


def lines_of(engine: str, document: Scenario, semantics: Semantics = VLLM_0_22_1) -> list[str]:
    """What an engine of ours prints. Raises ``InputError``."""
    taken = scenario.from_dict(document)
    name, device = split(engine)
    return list(driver.run(taken, make_engine(name, taken.config, semantics, device)))


def run(
    document: Scenario,
    engines: tuple[str, ...],
    oracle: Oracle | None,
    semantics: Semantics = VLLM_0_22_1,
) -> Outcome:
    """Run a scenario everywhere; the real engine works while ours do.

    With other semantics than the real engine's there is none to compare with.
    """
    assert oracle is None or semantics in RELEASED
    if oracle is not None:
        oracle.ask(document)
    ours: dict[str, list[str]] = {}
    refusals, crashed = dict[str, str](), dict[str, str]()
    for engine in engines:
        try:
            ours[engine] = lines_of(engine, document, semantics)
        except InputError as error:
            refusals[engine] = f"{engine}: {error}"
        except Exception as error:  # outside of what the driver takes for the engine's own
            crashed[engine] = f"{type(error).__name__}: {error}"
    refused = "; ".join(refusals.values())
    real: list[str] = []
    if oracle is not None:
        try:
            real = oracle.answer()
        except OracleError as error:
            taking = (e for e in engines if e not in refusals)
            return Outcome([], ours, dict.fromkeys(taking, str(error)), refused)
    expected = real or next(iter(ours.values()), [])
    exact = EXACT if real and semantics == VLLM_0_22_1 else frozenset[str]()
    found = {e: difference(expected, lines, bytewise=e in exact) for e, lines in ours.items()}
    return Outcome(real, ours, {e: d for e, d in found.items() if d} | crashed, refused)


def difference(expected: list[str], lines: list[str], *, bytewise: bool) -> str:
    """What differs first; the expected side is the left. Empty: nothing.

    With ``bytewise`` lines that are equal up to the spelling of hashes have to be equal.
    """
    found = first_difference(expected, lines)
    if found is not None:
        return str(found)
    return _bytewise(expected, lines) if bytewise else ""


def _bytewise(expected: list[str], lines: list[str]) -> str:
    """The first line that is not the same; lines of the driver's own do not count."""
    for number, (left, right) in enumerate(zip(expected, lines, strict=False), start=1):
        kind = json.loads(left)["ev"]
        if kind == "EXCEPTION":
            return ""
        if kind not in NOT_COMPARED_BYTEWISE and left != right:
            return f"line {number} ({kind}): the same up to the spelling of hashes, not in bytes"
    return ""
