"""Encoder inputs, other kinds of requests, the output contract: the reference and vLLM 0.22.1."""

import hashlib
import json
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from fuzz import lockstep
from fuzz.encoder_reach import MUST_REACH, reached
from fuzz.encoder_scenarios import encoder_scenario, items_scenario
from fuzz.source_defects import planted
from oracle.client import Oracle

from nullblock.reference import block_pool, extra_keys, kv_cache_utils
from nullblock.reference.encoder_cache_manager import (
    EncoderCacheManager,
    EncoderDecoderCacheManager,
)
from nullblock.reference.kv_cache_manager import KVCacheManager
from nullblock.reference.sched.drafts import Drafts
from nullblock.reference.sched.encoder import EncoderInputs
from nullblock.reference.sched.finishing import Finishing
from nullblock.reference.sched.output_phase import OutputPhase
from nullblock.reference.sched.scheduler import Scheduler
from nullblock.reference.sched.state import SchedulerState
from nullblock.reference.sched.streaming import Streaming
from nullblock.reference.sched.structured_output import StructuredOutput
from nullblock.reference.sched.update_phase import UpdatePhase
from nullblock.reference.sched.waiting_phase import WaitingPhase
from nullblock.spec.profiles import PROFILES

RECORDED = Path(__file__).parent / "data" / "encoder_digests.json"
DIGESTS: list[str] = json.loads(RECORDED.read_text())
NUM_SEEDS, NUM_EVENTS = 140, 25
RARE = Path(__file__).parents[2] / "conformance/vectors/defect-encoder-budget-is-lost.json"
"""What random scenarios come to too seldom."""
WAITS = Path(__file__).parent / "data" / "encoder_waits.json"
"""Scenarios of ``fuzz.encoder_waits``, kept because they are made with the reference's help."""
FURTHER: list[dict[str, Any]] = [json.loads(RARE.read_text()), *json.loads(WAITS.read_text())]
"""They follow the seeds."""
NUM_SCENARIOS = NUM_SEEDS + len(FURTHER)
FRESH = range(10_000, 10_012)


@cache
def scenario(seed: int) -> dict[str, Any]:
    """A scenario that is short enough to be run often."""
    if seed >= NUM_SEEDS:
        return FURTHER[seed - NUM_SEEDS]
    return encoder_scenario(seed, NUM_EVENTS)


def digest(lines: list[str]) -> str:
    """A digest of the lines; of what an engine raised only that it was raised counts."""
    kept = [line if '"ev":"EXCEPTION"' not in line else "EXCEPTION" for line in lines[:-1]]
    return hashlib.sha256("\n".join(kept).encode()).hexdigest()[:16]


def ours(seed: int) -> str:
    """The digest of the reference's lines."""
    return digest(lockstep.lines_of("reference", scenario(seed)))


def first_that_differs() -> int | None:
    """The first seed whose lines are not the recorded ones."""
    return next((seed for seed, wanted in enumerate(DIGESTS) if ours(seed) != wanted), None)


def test_every_line_is_the_real_engines() -> None:
    """Decisions, encoder cache, pool and hashes are, byte for byte, what was recorded."""
    assert first_that_differs() is None
    assert len(DIGESTS) == NUM_SCENARIOS


@pytest.mark.oracle
def test_the_recording_is_the_real_engines(oracle: Oracle, request: pytest.FixtureRequest) -> None:
    """``--rewrite`` makes it so."""
    rewrite = request.config.getoption("--rewrite")
    seeds = range(0, NUM_SCENARIOS, 1 if rewrite else 10)
    found = [digest(oracle.lines(scenario(seed))) for seed in seeds]
    if rewrite:
        RECORDED.write_text(json.dumps(found, indent=0) + "\n")
    assert found == [json.loads(RECORDED.read_text())[seed] for seed in seeds]


@pytest.mark.oracle
@pytest.mark.parametrize("seed", FRESH)
def test_longer_scenarios_agree_with_the_live_engine(oracle: Oracle, seed: int) -> None:
    """No line differs, hashes included."""
    outcome = lockstep.run(encoder_scenario(seed), ("reference",), oracle)
    assert not outcome.differences and not outcome.refused, seed


@pytest.mark.parametrize("name", ["normative", "vllm-0.22.1"])
def test_the_specification_prints_the_same(name: str) -> None:
    """For scenarios with encoder inputs, and little that it does not have beside them; few are
    refused, by name.
    """
    taken = 0
    for seed in range(40):
        outcome = lockstep.run(items_scenario(seed), lockstep.ENGINES, None, PROFILES[name])
        assert not outcome.differences, (seed, outcome.differences)
        taken += not outcome.refused
    assert taken >= 30


def test_the_scenarios_reach_what_they_are_for() -> None:
    """Each corner, and most of them often."""
    counts = Counter(what for seed in range(NUM_SCENARIOS) for what in reached(scenario(seed)))
    missing = [what for what in MUST_REACH if not counts[what]]
    assert not missing, counts
    assert sum(counts[what] >= 8 for what in MUST_REACH) >= len(MUST_REACH) * 2 // 3, counts


DEFECTS: tuple[tuple[Any, str, str, str], ...] = (
    (EncoderCacheManager, "can_allocate", "last=False", "last=True"),
    (EncoderCacheManager, "can_allocate", "num_embeds += num_embeds_to_schedule", "pass"),
    (EncoderCacheManager, "can_allocate", "> encoder_compute", ">= encoder_compute"),
    (EncoderCacheManager, "can_allocate", "self.freed.append(identifier)", "pass"),
    (EncoderCacheManager, "check_and_update_cache", "self.num_freeable_slots -= ", ""),
    (EncoderCacheManager, "check_and_update_cache", "holders.add(request.request_id)", "pass"),
    (EncoderCacheManager, "free_encoder_input", ".discard(request.request_id)", ".clear()"),
    (
        EncoderCacheManager,
        "free",
        "self.get_cached_input_ids(request)",
        "sorted(self.get_cached_input_ids(request), reverse=True)",
    ),
    (EncoderCacheManager, "reset", "self.freeable.clear()", "pass"),
    (EncoderDecoderCacheManager, "free_encoder_input", "+=", "-="),
    (EncoderDecoderCacheManager, "get_freed_mm_hashes", "self.allocated, []", "[], []"),
    (EncoderDecoderCacheManager, "can_allocate", " + num_embeds_to_schedule", ""),
    (EncoderInputs, "_plan_items", "num_new_tokens + shift", "num_new_tokens"),
    (EncoderInputs, "_plan_items", "first != last", "True"),
    (EncoderInputs, "_is_behind", "end <= num", "end < num"),
    (EncoderInputs, "_is_behind", "num_computed_tokens > 0", "False"),
    (EncoderInputs, "_is_at_hand", "in plan.identifiers", "in ()"),
    (EncoderInputs, "_would_be_cut", "self.scheduler_config.disable_chunked_mm_input", "False"),
    (EncoderInputs, "_would_be_cut", "num_computed_tokens < start and ", ""),
    (EncoderInputs, "_tokens_before", " + plan.shift", ""),
    (EncoderInputs, "_plan_item", "plan.num_embeds += num_embeds", "pass"),
    (EncoderInputs, "_plan_item", "plan.loaded.append(index)", "plan.budget -= num_embeds"),
    (
        EncoderInputs,
        "_take_encoder_inputs",
        "step.encoder_budget = plan.budget",
        "step.encoder_budget -= sum(map(request.get_num_encoder_embeds, plan.inputs))",
    ),
    (EncoderInputs, "_free_encoder_inputs", "<= num_computed", "< num_computed"),
    (EncoderInputs, "_free_encoder_inputs", "done or ", ""),
    (EncoderInputs, "reset_encoder_cache", "self.encoder_cache_manager.reset()", "pass"),
    (EncoderInputs, "_withdraw_encoder_inputs", "step.encoder_budget += victim.", "victim."),
    (EncoderInputs, "_withdraw_encoder_inputs", "encoder_inputs.pop", "encoder_inputs.get"),
    (WaitingPhase, "_admit_waiting", "self.encoder_cache_manager.free(request)", "pass"),
    (SchedulerState, "_preempt_request", "self.encoder_cache_manager.free(request)", "pass"),
    (Finishing, "_free_request", "self.encoder_cache_manager.free(request)", "pass"),
    (extra_keys, "_items_in", "offset - start", "offset"),
    (extra_keys, "_items_in", "start < after", "start <= after"),
    (extra_keys, "_items_in", "end < after", "True"),
    (kv_cache_utils, "differ_by_block", "bool(request.mm_features) or ", ""),
    (extra_keys, "_embeds_digest", "request.prompt_embeds[start:end]", "request.prompt_embeds"),
    (kv_cache_utils, "get_request_block_hasher", "-1 if start > 0", "0 if start > 0"),
    (block_pool.BlockPool, "_extra_keys", "index * size", "(index + 1) * size"),
)
"""Of encoder inputs and hashes: where, the text, and what stands in its place."""

WAITING_DEFECTS: tuple[tuple[Any, str, str, str], ...] = (
    (WaitingPhase, "_admit_waiting", "request.mm_features and not", "request.mm_features or not"),
    (Streaming, "_update_request_as_session", " + len(tokens)", ""),
    (
        Streaming,
        "_update_request_as_session",
        "session.mm_features.extend(update.mm_features)",
        "pass",
    ),
    (Drafts, "_allowed", "structured.grammar.validate_tokens(token_ids)", "token_ids"),
    (Drafts, "update_draft_token_ids", " or request.is_finished()", ""),
    (Drafts, "update_draft_token_ids_in_output", "num_invalid[request_id] = missing", "pass"),
    (StructuredOutput, "_note_structured_output", "output_requests = True", "output_requests = 0"),
    (StructuredOutput, "_note_structured_output", "output_tokens = True", "output_tokens = False"),
)
"""Of encoder inputs of those that wait, and of drafts that a grammar rejects."""

CONTRACT_DEFECTS: tuple[tuple[Any, str, str, str], ...] = (
    (OutputPhase, "_make_scheduler_output", "new, resumed = new + resumed, []", "pass"),
    (OutputPhase, "_make_scheduler_output", "clear()", "copy()"),
    (OutputPhase, "_new_request_data", "request._all_token_ids if", "None if"),
    (OutputPhase, "_make_cached_request_data", "not in previous", "in previous"),
    (OutputPhase, "_make_cached_request_data", "[*running_reqs, *resumed_reqs]", "resumed_reqs"),
    (OutputPhase, "_make_cached_request_data", "None if blocks is none else ", ""),
    (OutputPhase, "_num_output_tokens", " + request.num_output_placeholders", ""),
    (OutputPhase, "_scheduled_token_ids", "not self.use_pp or self.async", "self.async"),
    (OutputPhase, "_scheduled_token_ids", " or self.async_scheduling", ""),
    (OutputPhase, "_num_common_prefix_blocks", "not self.running", "True"),
    (OutputPhase, "_update_after_schedule", "self.finished_req_ids = set()", "pass"),
    (KVCacheManager, "get_computed_blocks", "request.skip_reading_prefix_cache", "False"),
    (Finishing, "_free_request", "[request.client_index]", "[0]"),
    (Finishing, "_free_request", "self.finished_req_ids.add(request_id)", "pass"),
    (UpdatePhase, "_by_client", "client.finished_requests = finished", "pass"),
    (UpdatePhase, "_by_client", "self.finished_req_ids_dict.clear()", "pass"),
    (UpdatePhase, "_take_sampled", "request.pooling_params is not None", "False"),
    (UpdatePhase, "_take_sampled", "outputs[request.client_index]", "outputs[0]"),
    (UpdatePhase, "_take_sampled", "token_ids or pooled is not None", "token_ids"),
    (Scheduler, "has_finished_requests", "self.finished_req_ids or ", ""),
    (Scheduler, "get_num_unfinished_requests", "return len(self.running)\n", "return 0\n"),
    (Scheduler, "get_num_unfinished_requests", "(self.running) + num_w", "(()) + num_w"),
    (Scheduler, "get_request_counts", "len(self.running), len", "len(self.waiting), len"),
)
"""Of what the engine tells the outside."""


@pytest.mark.parametrize(
    ("owner", "name", "old", "new"),
    [*DEFECTS, *WAITING_DEFECTS, *CONTRACT_DEFECTS],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_planted_defect_is_noticed(owner: Any, name: str, old: str, new: str) -> None:
    """Some recorded line is another one: what was changed is decided by the comparison."""
    with planted(owner, name, old, new):
        assert first_that_differs() is not None
