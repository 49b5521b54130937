"""Drafts: the reference beside the real vLLM 0.22.1, and defects that somebody has to notice."""

from typing import Any

import pytest
from fuzz import drafts, lockstep
from fuzz.drafts_reach import CASES, reached
from fuzz.golden import first_missed, using
from fuzz.source_defects import planted
from oracle.client import Oracle

from nullblock.conformance.engine import Feature
from nullblock.reference.kv_cache_coordinator import KVCacheCoordinator
from nullblock.reference.kv_cache_manager import KVCacheManager
from nullblock.reference.sched.drafts import Drafts
from nullblock.reference.sched.output_phase import OutputPhase
from nullblock.reference.sched.running_phase import RunningPhase
from nullblock.reference.sched.state import SchedulerState, Step
from nullblock.reference.sched.waiting_phase import WaitingPhase
from nullblock.reference.single_type_kv_cache_manager import FullAttentionManager
from nullblock.reference.spec_decode import SpecDecodingStats

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
    """Every decision, state and statistic, whatever is drafted, accepted, preempted or reset."""
    seen: set[str] = set()
    for number in SCENARIOS:
        document = drafts.seeded(f"drafts:{number}")
        outcome = lockstep.run(document, ("reference",), oracle)
        assert not outcome.differences and not outcome.refused, f"scenario {number}: {outcome}"
        seen |= reached(document)
    assert seen >= set(CASES) - SELDOM


def test_the_golden_scenarios_show_every_case() -> None:
    """Of what may happen to a draft."""
    seen = set().union(*(reached(document) for document, _ in GOLDEN.values()))
    assert seen == set(CASES)


def test_the_golden_scenarios_hold() -> None:
    """Without a defect nothing is noticed."""
    assert first_missed(GOLDEN) == ""


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
        "if self.async_scheduling:",
        "if False:",
    ),
    "drafts in flight are not owed": (Drafts, "_count_drafts", "+= len(drafts)", "+= 0"),
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
        "if structured is None or not",
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
    "padding is counted": (Drafts, "_observe_drafts", "num_drafts - num_invalid", "num_drafts"),
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
        "num_lookahead_tokens=self.num_lookahead_tokens",
        "num_lookahead_tokens=0",
    ),
    "slots in advance on admission": (
        WaitingPhase,
        "_admit_waiting",
        "if request.num_computed_tokens else 0",
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


@pytest.mark.parametrize("what", DEFECTS)
def test_a_defect_is_noticed(what: str) -> None:
    """By a golden scenario: a reference with one line that is wrong prints other lines."""
    with planted(*DEFECTS[what]):
        assert first_missed(GOLDEN)
