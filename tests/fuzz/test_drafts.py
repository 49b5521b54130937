"""Drafts: the reference beside the real vLLM 0.22.1, and defects that somebody has to notice."""

import copy
from functools import cache
from typing import Any

import pytest
from fuzz import drafts, lockstep
from fuzz.drafts_reach import CASES, reached
from fuzz.golden import first_missed, using
from fuzz.source_defects import planted
from oracle.client import Oracle

from nullblock.conformance.engine import Feature
from nullblock.conformance.errors import InputError
from nullblock.conformance.lockstep.generator import Scenario
from nullblock.reference.kv_cache_coordinator import KVCacheCoordinator
from nullblock.reference.kv_cache_manager import KVCacheManager
from nullblock.reference.request import Request
from nullblock.reference.sched.drafts import Drafts
from nullblock.reference.sched.output_phase import OutputPhase
from nullblock.reference.sched.running_phase import RunningPhase
from nullblock.reference.sched.state import SchedulerState, Step
from nullblock.reference.sched.waiting_phase import WaitingPhase
from nullblock.reference.single_type_kv_cache_manager import FullAttentionManager
from nullblock.reference.spec_decode import SpecDecodingStats
from nullblock.spec.profiles import NORMATIVE

SCENARIOS = range(80)
SELDOM = {
    "withdrawn with drafts",
    "computed below 0",
    "placeholders below 0",
    "frame with drafts dropped",
}
"""What need not be met in so few random scenarios; golden ones show it."""


GOLDEN = using({Feature.drafts})


@pytest.mark.oracle
def test_random_scenarios_give_the_real_engines_lines(oracle: Oracle) -> None:
    """Every decision, state and statistic, whatever is drafted, accepted, preempted or reset; the
    specification's too, where it covers the scenario.
    """
    for number in SCENARIOS:
        document = drafts.seeded(f"drafts:{number}")
        outcome = lockstep.run(document, ("reference",), oracle)
        assert not outcome.differences and not outcome.refused, f"scenario {number}: {outcome}"
        try:
            rules = lockstep.lines_of("spec", document)
        except InputError:
            continue
        assert lockstep.difference(outcome.real, rules, bytewise=False) == "", number


def test_the_random_scenarios_meet_nearly_every_case() -> None:
    """Those that they are too few for, golden ones show."""
    seen = set().union(*(reached(drafts.seeded(f"drafts:{number}")) for number in SCENARIOS))
    assert seen >= set(CASES) - SELDOM


def test_the_golden_scenarios_show_every_case() -> None:
    """Of what may happen to a draft."""
    seen = set().union(*(reached(document) for document, _ in GOLDEN.values()))
    assert seen == set(CASES)


def test_the_golden_scenarios_hold() -> None:
    """Without a defect nothing is noticed."""
    assert first_missed(GOLDEN) == ""


STOPS_ON_AN_UNASKED_DRAFT: Scenario = {
    "config": {},
    "events": [
        {"op": "add", "id": "a", "prompt": [1], "max_tokens": 2},
        {"op": "schedule"},
        {"op": "draft", "tokens": {"a": [2, 2, 2]}},
        {"op": "schedule"},
        {"op": "drain"},
    ],
}
"""The request may have one more token after its first: it stops on a draft."""


@pytest.mark.oracle
def test_drafts_come_where_none_were_asked_for(oracle: Oracle) -> None:
    """Without speculative decoding vLLM takes drafts that it is told of, and stops within them."""
    outcome = lockstep.run(STOPS_ON_AN_UNASKED_DRAFT, lockstep.ENGINES, oracle)
    assert outcome.differences == {} and not outcome.refused
    assert '"finish":"length"' in outcome.real[-2]


DEFECTS: dict[str, tuple[Any, str, str, str]] = {
    "what is rejected stays computed": (
        Drafts,
        "_reject_drafts",
        "request.num_computed_tokens -= num_rejected",
        "pass",
    ),
    "what is rejected stays owed": (
        Drafts,
        "_reject_drafts",
        "request.num_output_placeholders -= num_rejected",
        "pass",
    ),
    "the token after the drafts counts as one": (
        Drafts,
        "_reject_drafts",
        "num_sampled - 1",
        "num_sampled",
    ),
    "rejected with nothing computed": (
        Drafts,
        "_reject_drafts",
        "if request.num_computed_tokens > 0:",
        "if True:",
    ),
    "rejected with nothing owed": (
        Drafts,
        "_reject_drafts",
        "if request.num_output_placeholders > 0:",
        "if True:",
    ),
    "drafts are scheduled twice": (
        Drafts,
        "_schedule_drafts",
        "request.spec_token_ids = []",
        "pass",
    ),
    "the last drafts are kept": (
        Drafts,
        "_schedule_drafts",
        "drafts[:num_drafts]",
        "drafts[-num_drafts:]",
    ),
    "drafts are not cut": (Drafts, "_schedule_drafts", "len(drafts) > num_drafts", "False"),
    "outputs in flight count as drafts": (
        Drafts,
        "_schedule_drafts",
        "if self.async_scheduling and not",
        "if False and not",
    ),
    "drafts in flight are not owed": (
        Drafts,
        "_count_drafts",
        "num_output_placeholders += len(drafts)",
        "num_output_placeholders += 0",
    ),
    "a chunk leaves room for drafts": (
        Drafts,
        "_count_drafts",
        "if not request.is_prefill_chunk:",
        "if True:",
    ),
    "a chunk takes drafts": (
        Drafts,
        "update_draft_token_ids",
        "[] if is_chunk else ",
        "",
    ),
    "a grammar is not asked about drafts": (
        Drafts,
        "_allowed",
        "if manager is None or not",
        "if True or not",
    ),
    "drafts filled in are not cut": (
        Drafts,
        "update_draft_token_ids_in_output",
        "del token_ids[num_scheduled:]",
        "pass",
    ),
    "drafts filled in are not padded": (
        Drafts,
        "update_draft_token_ids_in_output",
        "token_ids.extend([PADDING] * missing)",
        "pass",
    ),
    "padding is not told": (
        Drafts,
        "update_draft_token_ids_in_output",
        "num_invalid[request_id] = missing",
        "pass",
    ),
    "padding is counted": (
        Drafts,
        "make_spec_decoding_stats",
        "num_draft_tokens - num_invalid",
        "num_draft_tokens",
    ),
    "places are counted from the end": (
        SpecDecodingStats,
        "observe_draft",
        "range(num_accepted_tokens)",
        "range(self.num_spec_tokens - num_accepted_tokens, self.num_spec_tokens)",
    ),
    "no slots in advance": (
        RunningPhase,
        "_schedule_running",
        "0, None, lookahead",
        "0, None, 0",
    ),
    "no slots in advance after a preemption": (
        RunningPhase,
        "_preempt_for",
        "\n        new_blocks = self.kv_cache_manager.allocate_slots(\n"
        "            request, num_new_tokens, num_lookahead_tokens=self.num_lookahead_tokens",
        "\n        new_blocks = self.kv_cache_manager.allocate_slots(\n"
        "            request, num_new_tokens, num_lookahead_tokens=0",
    ),
    "slots in advance on admission": (
        WaitingPhase,
        "_num_slots_ahead",
        "if looks_ahead else 0",
        "if True else 0",
    ),
    "drafts are cached": (
        KVCacheManager,
        "allocate_slots",
        "min(scheduled, request.num_tokens)",
        "min(scheduled, request.num_tokens_with_spec)",
    ),
    "EAGLE keeps the last hit": (
        FullAttentionManager,
        "find_longest_cache_hit",
        "if use_eagle and num_hits:",
        "if False:",
    ),
    "EAGLE asks for no group": (
        KVCacheCoordinator,
        "__init__",
        "if use_eagle and not self.eagle_group_ids:",
        "if False:",
    ),
    "a withdrawn request's drafts stay": (
        Step,
        "withdraw",
        "self.spec_tokens.pop(request_id, None)",
        "pass",
    ),
    "a preempted request keeps its drafts": (
        SchedulerState,
        "_preempt_request",
        "request.spec_token_ids = []",
        "pass",
    ),
    "the drafts of a step are not told": (
        OutputPhase,
        "_make_scheduler_output",
        "=step.spec_tokens",
        "={}",
    ),
    "fewer owed than none are not counted": (
        RunningPhase,
        "_num_running_tokens",
        "and num_in_flight:",
        "and num_in_flight > 0:",
    ),
}


AGREED: dict[str, tuple[Any, str, str, str]] = {
    "an earlier run's rejections count": (
        Drafts,
        "_take_back",
        "num_earlier_outputs",
        "is_prefill_chunk",
    ),
    "drafts count as outputs to drop": (
        Request,
        "discard_outputs_in_flight",
        "num_outputs -= self.num_draft_placeholders",
        "pass",
    ),
    "drafts in flight are forgotten": (
        Drafts,
        "_reject_drafts",
        "request.num_draft_placeholders -= num_drafts",
        "pass",
    ),
    "who waits is given drafts": (
        Drafts,
        "_is_followed",
        "and request.num_computed_tokens + 1 == request.num_tokens",
        "",
    ),
    "scheduled ahead of an earlier run": (
        RunningPhase,
        "_num_running_tokens",
        "if not request.num_earlier_outputs:",
        "if True:",
    ),
    "scheduled back": (
        RunningPhase,
        "_num_running_tokens",
        "and self.semantics.never_scheduled_back",
        "and False",
    ),
}
"""Defects in what `normative` does otherwise than vLLM."""


@cache
def agreed() -> list[tuple[Scenario, list[str]]]:
    """Golden scenarios and a few others, and what the specification prints for them.

    Under `normative` a request is refused whose drafts might outgrow the pool, so that none is
    longer here than the pool.
    """
    found = []
    others = [drafts.seeded(f"agreed:{number}") for number in range(30)]
    for document in (*(copy.deepcopy(document) for document, _ in GOLDEN.values()), *others):
        config = document["config"]
        config.pop("groups", None)
        if None in list(config.get("accept", "")):
            continue  # a model that says nothing is beyond `normative`
        slots = (config.get("num_blocks", 64) - 1) * config.get("block_size", 16)
        config["max_model_len"] = min(config.get("max_model_len", 256), max(2, slots))
        try:
            found.append((document, lockstep.lines_of("spec", document, NORMATIVE)))
        except InputError:
            continue  # it uses what the rules do not cover
    return found


def disagreed() -> str:
    """Where spec and reference part first under `normative`."""
    for document, expected in agreed():
        lines = lockstep.lines_of("reference", document, NORMATIVE)
        if found := lockstep.difference(expected, lines, bytewise=False):
            return found
    return ""


def test_spec_and_reference_agree_on_what_ought_to_be() -> None:
    """Under `normative`, with requests that are preempted and reset with drafts in flight."""
    assert disagreed() == "" and len(agreed()) > 30


@pytest.mark.parametrize("what", AGREED)
def test_a_defect_under_normative_is_noticed(what: str) -> None:
    """Beside the specification, in a golden scenario."""
    with planted(*AGREED[what]):
        assert disagreed()


@pytest.mark.parametrize("what", DEFECTS)
def test_a_defect_is_noticed(what: str) -> None:
    """By a golden scenario: a reference with one line that is wrong prints other lines."""
    with planted(*DEFECTS[what]):
        assert first_missed(GOLDEN)
