"""Spec and reference beside the real vLLM 0.32.0, for scenarios that nobody chose."""

import json
import random
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from fuzz import vectors
from fuzz.families import FAMILIES
from fuzz.lockstep import ENGINES, difference, features, lines_of
from fuzz.second_line import made, paced
from oracle.client import Oracle

from nullblock.conformance.engine import Feature
from nullblock.conformance.engines import make_engine
from nullblock.conformance.errors import OutOfScope
from nullblock.conformance.lines.examples import EXAMPLES
from nullblock.conformance.lines.extent import extent
from nullblock.conformance.lines.page import between
from nullblock.conformance.scenario import from_dict
from nullblock.reference.request import Request
from nullblock.reference.sched import later
from nullblock.spec.profiles import NORMATIVE, VLLM_0_32_0

OF = {
    "drafts": Feature.drafts,
    "waits": Feature.lora_cap,
    "items": Feature.encoder_inputs,
    "windows": Feature.windows,
    "hybrid": Feature.hybrid,
    "sizes": Feature.block_sizes,
    "contract": Feature.v2_model_runner,
    "sessions": Feature.streaming,
    "remote": Feature.kv_connector,
    "cross": Feature.cross_attention,
    "mamba": Feature.aligned_mamba,
    "vectors": Feature.pooling,
}
"""The families beside the line's own, and the feature that each is about."""
BESIDE = (
    "sessions-priority",
    "sessions-items",
    "sessions-remote",
    "encoder-waits",
    "models-waits",
    "later-states",
    "anywhere",
)
"""Families of several features."""
ALIGNED = {"type": "mamba", "mamba_cache_mode": "align"}
LOADS = {"matched": {"a": 1}}
"""A connector."""
SEEDS = [
    *(("later", f"second {n}") for n in range(24)),
    *((family, f"second {n}") for family in OF for n in range(12)),
    *((family, f"second {n}") for family in BESIDE for n in range(6)),
]


def drawn(family: str, seed: str) -> dict[str, Any]:
    """The scenario of a seed, of what our engines follow the line in."""
    return FAMILIES[family].make(seed, 30, extent(features(ENGINES), VLLM_0_32_0))


def check_alike(documents: Iterable[dict[str, Any]], real: Oracle) -> None:
    """Of the first of some scenarios that both engines take, they print what vLLM does."""
    for document in documents:
        with suppress(OutOfScope):
            ours = {e: lines_of(e, document, VLLM_0_32_0) for e in ENGINES}
            break
    else:
        raise AssertionError("all of them are refused")
    theirs = real.lines(document)
    parts = {e: difference(theirs, lines, bytewise=False) for e, lines in ours.items()}
    assert parts == dict.fromkeys(ENGINES, "")


@pytest.mark.oracle
@pytest.mark.parametrize(("family", "seed"), SEEDS)
def test_no_random_scenario_shows_a_difference(
    family: str, seed: str, oracle_0_32: Oracle
) -> None:
    """Decision for decision, with the whole state after each, up to the spelling of hashes."""
    check_alike((drawn(family, f"{seed}.{n}") for n in range(6)), oracle_0_32)


@pytest.mark.oracle
@pytest.mark.parametrize("family", [*OF, *BESIDE])
def test_nor_does_one_whose_tokens_a_pipeline_paces(family: str, oracle_0_32: Oracle) -> None:
    """Whatever else a scenario has (RUN-43)."""
    for number in range(3):
        dice = random.Random(f"paced {family} {number}")
        seeds = (f"paced {number}.{n}" for n in range(6))
        check_alike((paced(drawn(family, seed), dice) for seed in seeds), oracle_0_32)


RARE = {"withdraw_uncaches", "rejections_keep_to_their_run", "encoder_budget_comes_back"}
RARE |= {"caps_count_flight", "narrow_windows_uncached", "prompt_ends_cached"}
RARE |= {"loaded_blocks_come_back", "windows_zeroed", "gate_asks_behind_hits"}
RARE |= {"chunks_asked_again", "states_noted_by_place"}
RARE |= {"blocks_before_items", "long_tables_stay", "states_shorten_quietly"}
"""Too rare by chance: golden scenarios show them."""
UNDER_PRIORITY = {"chunks_reorder": "sessions-priority"}
"""Switches that a policy is needed for, beside their feature; and the family that has both."""


@pytest.mark.parametrize("switch", sorted({*between("normative", "vllm-0.32.0")} - RARE))
def test_every_switch_is_reached(switch: str) -> None:
    """Set as in the normative line, it makes some of the scenarios come out otherwise."""
    mutant = replace(VLLM_0_32_0, **{switch: getattr(NORMATIVE, switch)})
    about = {feature: family for family, feature in OF.items()}
    about |= {Feature.block_sizes: "hybrid", Feature.silence: "drafts"}
    about[Feature.encoder_decoder] = "cross"
    family = UNDER_PRIORITY.get(switch) or about.get(EXAMPLES[switch].feature, "later")
    assert any(_parts(drawn(family, f"reach {n}"), mutant) for n in range(130))


def _parts(document: dict[str, Any], mutant: Any) -> str:
    """Where they part; nowhere if the specification does not take the scenario."""
    try:
        ours, other = (lines_of("spec", document, each) for each in (VLLM_0_32_0, mutant))
    except OutOfScope:
        return ""
    return difference(ours, other, bytewise=False)


def test_models_that_make_vectors_reach_what_they_are_for() -> None:
    """Among it prompts as long as may be, in one step and in several."""
    seen: set[str] = set()
    for number in range(40):
        document = drawn("vectors", f"reach {number}")
        with suppress(OutOfScope):
            seen |= vectors.reached(document, lines_of("reference", document, VLLM_0_32_0))
    assert seen == vectors.MUST_REACH


@pytest.mark.oracle
def test_the_release_lets_an_adapter_lose_its_place(oracle_0_32: Oracle) -> None:
    """WAIT-41: another takes the place of one whose request has its output in flight, and the
    step that computes both raises.
    """
    a = {"op": "add", "id": "a", "prompt": [1, 2], "lora": "A", "lora_id": 1}
    b = {"op": "add", "id": "b", "prompt": [1, 2], "lora": "B", "lora_id": 2}
    halves = [{"op": "schedule"}] * 2 + [{"op": "update"}] * 2
    document = {"config": {"max_loras": 1}, "events": [a, b, *halves, {"op": "step"}]}
    lines = [json.loads(line) for line in oracle_0_32.lines(document)]
    assert any(line["ev"] == "EXCEPTION" for line in lines)
    assert not VLLM_0_32_0.adapters_keep_places


def _never_stale(request: Request, num_tokens: int) -> bool:
    request.num_in_flight_tokens -= num_tokens
    return False


def _lands_twice(request: Request, num_tokens: int) -> bool:
    request.num_in_flight_tokens -= 2 * num_tokens
    was_stale = request.num_stale_output_tokens > 0
    request.num_stale_output_tokens -= num_tokens * was_stale
    return was_stale


def _forgets_what_is_dropped(request: Request, drop_stale_output: bool) -> None:
    request.drop_stale_output = drop_stale_output
    request.num_stale_output_tokens = request.num_in_flight_tokens
    request.num_output_placeholders = 0


def _keeps_placeholders(request: Request, drop_stale_output: bool) -> None:
    before = request.num_output_placeholders
    OUTDATE(request, drop_stale_output)
    request.num_output_placeholders = before


def _adds_up(request: Request, drop_stale_output: bool) -> None:
    before = request.num_stale_output_tokens
    OUTDATE(request, drop_stale_output)
    request.num_stale_output_tokens += before


def _never_owed(request: Request) -> bool:
    return False


def _owed_though_dropped(request: Request) -> bool:
    return request.num_stale_output_tokens != 0


OUTDATE = later.outdate
DEFECTS: tuple[tuple[str, Callable[..., Any]], ...] = (
    ("land", _never_stale),
    ("land", _lands_twice),
    ("outdate", _forgets_what_is_dropped),
    ("outdate", _keeps_placeholders),
    ("outdate", _adds_up),
    ("is_owed_output", _never_owed),
    ("is_owed_output", _owed_though_dropped),
    ("take_off", lambda requests, scheduled: None),
)


@pytest.mark.parametrize(("name", "defect"), DEFECTS, ids=lambda d: getattr(d, "__name__", d))
def test_a_defect_of_the_later_line_is_noticed(
    name: str, defect: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted in the reference, it parts from the specification in some scenario."""
    monkeypatch.setattr(later, name, defect)
    assert any(
        difference(
            lines_of("spec", document, VLLM_0_32_0),
            lines_of("reference", document, VLLM_0_32_0),
            bytewise=False,
        )
        for document in (made(f"defect {n}") for n in range(150))
    )


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("config", "feature"),
    [
        ({"groups": [{"type": "sink", "sink_len": 16}]}, "attention sinks"),
        (
            {"connector": LOADS, "encoder": {"is_encoder_decoder": True}},
            "an encoder-decoder model",
        ),
        ({"groups": [ALIGNED, {"type": "mamba"}]}, "the Mamba mode align beside another"),
        ({"groups": [{"type": "full", "block_size": 8}, {"type": "mamba"}]}, "another size"),
        (
            {"connector": LOADS, "groups": [{"type": "full"}, {"type": "mamba"}]},
            "the blocks of one group, beside Mamba layers",
        ),
    ],
)
def test_what_the_line_does_not_cover_is_refused_by_name(
    config: dict[str, Any], feature: str, engine: str
) -> None:
    """Those are followed in 0.22.1, and not as this release does them."""
    taken = from_dict({"config": config, "events": []})
    with pytest.raises(OutOfScope, match=feature):
        make_engine(engine, taken.config, VLLM_0_32_0)


def test_the_fast_engine_refuses_the_line() -> None:
    """By the name of a switch that it does not know, before any decision."""
    pytest.importorskip("numpy")
    taken = from_dict({"config": {}, "events": []})
    with pytest.raises(OutOfScope, match=r"the switch \w+=\w+ is not known"):
        make_engine("impl", taken.config, VLLM_0_32_0)
