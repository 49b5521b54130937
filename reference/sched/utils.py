"""When a request stops, and taking requests out of a list."""

from collections.abc import Sequence
from typing import TypeVar

from nullblock.reference.request import Request, RequestStatus
from nullblock.reference.sampling_params import RepetitionDetectionParams
from nullblock.spec.profiles import VLLM_0_22_1, Semantics

T = TypeVar("T")


def remove_all(lst: list[T], items_to_remove: set[T]) -> list[T]:
    """``lst`` without those items: changed in place for one item, a new list for several."""
    if not items_to_remove:
        return lst
    if len(items_to_remove) == 1:
        (item,) = items_to_remove
        if item in lst:
            lst.remove(item)
        return lst
    return [item for item in lst if item not in items_to_remove]


def check_sequence_repetition(token_ids: Sequence[int], params: RepetitionDetectionParams) -> bool:
    """Whether the sequence ends with a pattern, repeated as often as the parameters say."""
    if params.max_pattern_size <= 0 or params.min_count < 2:
        return False
    for size in range(max(params.min_pattern_size, 1), params.max_pattern_size + 1):
        repeated = size * params.min_count
        if repeated > len(token_ids):
            return False
        tail = list(token_ids[-repeated:])
        if tail == tail[-size:] * params.min_count:
            return True
    return False


def check_stop(
    request: Request, max_model_len: int, *, semantics: Semantics = VLLM_0_22_1
) -> bool:
    """Whether the request ends with its last token; if so its status says how.

    The order is the rule: a token that is both eos and stop token ends it as eos, and one that
    also reaches the length limit as eos or stop token. ``stop_reason`` is the stop token; eos and
    length leave it None. A repetition comes last, and in no line below min_tokens.
    """
    params = request.sampling_params
    assert params is not None and not request.pooling_params, "a pooling request samples nothing"
    outputs = request._output_token_ids
    num_outputs = len(outputs)
    at_limit = num_outputs >= request.max_tokens or len(request._all_token_ids) >= max_model_len
    if num_outputs < params.min_tokens and semantics.min_tokens_hold_stops:
        # vLLM lets nothing end a request below min_tokens, so one that has no room left for them
        # never ends (upstream pull request 51299).
        if not (at_limit and semantics.length_before_min_tokens):
            return False
        request.status = RequestStatus.FINISHED_LENGTH_CAPPED
        return True
    token = outputs[-1]
    if token == params._eos_token_id:
        request.status = RequestStatus.FINISHED_STOPPED
        return True
    if params.stop_token_ids and token in params.stop_token_ids:
        request.status = RequestStatus.FINISHED_STOPPED
        request.stop_reason = token
        return True
    if at_limit:
        request.status = RequestStatus.FINISHED_LENGTH_CAPPED
        return True
    detection = params.repetition_detection
    if num_outputs < params.min_tokens or detection is None:
        return False
    if check_sequence_repetition(outputs, detection):
        request.status = RequestStatus.FINISHED_REPETITION
        request.stop_reason = "repetition_detected"
        return True
    return False
