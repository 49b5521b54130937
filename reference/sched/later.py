"""What lines after 0.22.1 do besides, for the profiles that have it.

From 0.32.0 on each request counts its tokens of the steps in flight. When it is preempted they
become stale: their output is still delivered, but as no placeholder, and only then is the request
resumed; or, after a reset, it is dropped and the request may be resumed at once.
"""

from typing import TYPE_CHECKING, Any

from nullblock.reference.mamba import MambaManager
from nullblock.reference.request import Request
from nullblock.reference.utils import cdiv
from nullblock.spec.profiles import Semantics

if TYPE_CHECKING:
    from nullblock.reference.sched.state import SchedulerState, Step

PADDING = -1
"""Stands for a draft that workers know, or for one that there is not."""


def take_off(requests: dict[str, Request], num_scheduled_tokens: dict[str, int]) -> None:
    """The tokens of a step are in flight."""
    for request_id, num_tokens in num_scheduled_tokens.items():
        requests[request_id].num_in_flight_tokens += num_tokens


def land(request: Request, num_tokens: int) -> bool:
    """A request's tokens of a step are in flight no longer; whether they were stale.

    The request may be a later owner of the id, whose numbers then go below zero.
    """
    request.num_in_flight_tokens -= num_tokens
    if request.num_stale_output_tokens <= 0:
        return False
    request.num_stale_output_tokens -= num_tokens
    assert request.num_stale_output_tokens >= 0, f"{request.request_id}: half a step is stale"
    return True


def outdate(request: Request, drop_stale_output: bool) -> None:
    """A request is preempted: what is in flight for it is stale, and stays dropped if it was."""
    is_dropping = request.drop_stale_output and request.num_stale_output_tokens > 0
    request.drop_stale_output = drop_stale_output or is_dropping
    request.num_stale_output_tokens = request.num_in_flight_tokens
    request.num_output_placeholders = request.num_draft_placeholders = 0
    request.num_earlier_outputs = 0


def is_owed_output(request: Request) -> bool:
    """Whether a request must not be resumed yet: output of its last run is to be delivered."""
    return request.num_stale_output_tokens != 0 and not request.drop_stale_output


def num_sampled_tokens(vllm_config: Any, semantics: Semantics) -> int:
    """Tokens that a step samples of a request that it computes to its end, and leaves room for:
    none where the model makes vectors alone.
    """
    kind = getattr(vllm_config.model_config, "runner_type", "generate")
    return 0 if kind == "pooling" and semantics.vectors_take_no_place else 1


def stages(vllm_config: Any, async_scheduling: bool, semantics: Semantics) -> int:
    """Steps from one token of a request to its next: as many as a pipeline has stages, where the
    second model runner is scheduled ahead, which passes sampled tokens on in a ring.
    """
    is_ahead = async_scheduling and vllm_config.use_v2_model_runner
    if not (is_ahead and semantics.pipeline_paces_tokens):
        return 1
    return int(vllm_config.parallel_config.pipeline_parallel_size)


def num_reckoned_with(vllm_config: Any, semantics: Semantics) -> int:
    """Tokens that a request may have in flight, as the gate for whole sequences takes it: those of
    a step, or of all steps that may be in flight at once.
    """
    if semantics.caps_count_flight:
        return int(vllm_config.max_in_flight_tokens)
    return int(vllm_config.scheduler_config.max_num_batched_tokens)


def draft_slots(speculative_config: Any, semantics: Semantics) -> int:
    """Places of the workers' buffers that drafting takes for each request of a step besides its
    tokens: one where a draft model makes them.
    """
    takes_some = speculative_config is not None and semantics.drafting_takes_slots
    return int(takes_some and bool(speculative_config.uses_draft_model()))


def num_padding(
    scheduler: "SchedulerState", request: Request, num_computed_tokens: int, step: "Step"
) -> int:
    """Placeholders for drafts with which a waiting request would be admitted.

    One that has a single token to compute gets as many as there may be, so that a step of nothing
    but decodes has equally many tokens of each.
    """
    num_drafts = scheduler.num_spec_tokens
    if not num_drafts or request.num_tokens - num_computed_tokens != 1 or step.has_prefill:
        return 0
    is_alone = not step.running and num_computed_tokens <= 0
    # The token that is sampled needs room as well.
    is_too_long = num_computed_tokens + 1 + num_drafts + 1 > scheduler.max_model_len
    return 0 if is_alone or is_too_long else num_drafts


def num_set_aside(scheduler: "SchedulerState") -> int:
    """Blocks that a load over several steps leaves free: what those lack who load or compute their
    prompts, and what one step with drafts may need.
    """
    if scheduler._filling is None:
        return 0
    num_drafts = 0
    if scheduler.num_spec_tokens:
        num_drafts = 1 + scheduler.num_spec_tokens + scheduler.num_lookahead_tokens
    managers = scheduler.kv_cache_manager.coordinator.single_type_managers
    num_blocks = sum(
        cdiv(num_drafts, manager.block_size)
        for manager in managers
        if not isinstance(manager, MambaManager)
    )
    for request in scheduler._filling:
        whole, request_id = min(request.num_tokens, scheduler.max_model_len), request.request_id
        slots, computed = whole + num_drafts, request.num_computed_tokens
        num_blocks += sum(
            manager.get_num_blocks_to_allocate(request_id, slots, (), computed, whole, True)
            for manager in managers
        )
    return num_blocks
