"""`update_from_output()`: sampled tokens come back, requests stop."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nullblock.impl.arrays import Ints, Part, Tokens
from nullblock.impl.requests import NO_EOS, Request
from nullblock.impl.state import State
from nullblock.impl.step import Outputs, Step
from nullblock.spec.fields import CONTINUE, LENGTH, STOPPED, STOPPED_BY_ID

Codes = NDArray[np.int8]


def update_from_output(state: State, sampled: ArrayLike) -> Outputs:
    """Take in one token for each scheduled request, in the order of the step in flight; what is
    given for a chunk is ignored (UPD-2, UPD-3).

    The outputs may refer to the array of tokens instead of copying it. Raises IndexError if no
    step is in flight, ValueError for another number of tokens.
    """
    step = state.step
    if step is None:
        raise IndexError("no step is in flight")
    tokens: Tokens = np.asarray(sampled, np.int64)
    if tokens.shape != (len(step.ids),):
        raise ValueError(f"{tokens.shape} tokens for {len(step.ids)} scheduled requests")
    state.step = None
    if len(step.ids):
        least = int(step.num_scheduled_tokens.min())
        assert least > 0, f"{least} tokens were scheduled"
    if step.requests is not None:
        ids, tokens, why = _one_by_one(state, step, step.requests, tokens)
    elif step.samples.all():
        ids, why = step.ids.copy(), _take_all(state, step.places, tokens)
    else:
        some = step.samples.nonzero()[0]
        ids, tokens = [step.ids[i] for i in some.tolist()], tokens[some]
        why = _take_all(state, np.arange(state.running.count)[step.places][some], tokens)
    rejected, state.rejected = state.rejected, []
    return Outputs(ids, tokens, why, rejected)


def _take_all(state: State, places: Part, sampled: Tokens) -> Codes:
    """All these running requests take a token each; how they stop."""
    running = state.running
    at = running.num_tokens[places]
    if len(at):
        running.make_room(int(at.max()) + 1)
    running.tokens[running.row[places], at] = sampled
    running.num_tokens[places] += 1
    if state.semantics.outputs_owed_once:
        running.placeholders[places] -= 1
    why = _why_all(state, places, sampled)
    if why.any():
        gone: list[int] = np.arange(running.count)[places][why != CONTINUE].tolist()
        for place in gone:
            state.forget(state.leave(place))
        running.remove(gone)
    return why


def _why_all(state: State, places: Part, sampled: Tokens) -> Codes:
    """How each of these stops, if it does (UPD-4)."""
    running = state.running
    why = np.zeros(len(sampled), np.int8)
    num_tokens, has_stop = running.num_tokens[places], running.has_stop[places]
    at_limit = num_tokens >= running.limit[places]
    by_eos = sampled == running.eos[places]
    if has_stop.any():
        _stop_by_id(state, places, sampled, has_stop, why)
    if not (at_limit.any() or by_eos.any() or why.any()):
        return why
    why[at_limit & (why == CONTINUE)] = LENGTH
    why[by_eos] = STOPPED
    below = num_tokens < running.at_least[places]
    early = LENGTH if state.semantics.length_before_min_tokens else CONTINUE
    why[below & ~at_limit] = CONTINUE
    why[below & at_limit] = early
    return why


def _stop_by_id(state: State, places: Part, sampled: Tokens, has_stop: Ints, why: Codes) -> None:
    """Mark those that sampled one of their stop tokens."""
    standing: Ints = np.arange(state.running.count)[places]
    for i in has_stop.nonzero()[0].tolist():
        if int(sampled[i]) in state.running.requests[standing[i]].stop:
            why[i] = STOPPED_BY_ID


def _one_by_one(
    state: State, step: Step, scheduled: list[Request], sampled: Tokens
) -> tuple[list[str], Tokens, Codes]:
    """Somebody left the running list while the step was in flight."""
    ids, tokens, why = list[str](), list[int](), list[int]()
    for i in step.samples.nonzero()[0].tolist():
        request = state.requests.get(step.ids[i])
        if request is None:
            continue
        # vLLM 0.22.1 finds whoever has the id now (UPD-16).
        if state.semantics.frames_match_request and request is not scheduled[i]:
            continue
        token = int(sampled[i])
        ids.append(request.id)
        tokens.append(token)
        why.append(_take(state, request, token))
    return ids, np.array(tokens, np.int64), np.array(why, np.int8)


def _take(state: State, request: Request, token: int) -> int:
    """One request takes a token, wherever it is; how it stops."""
    if request.is_running:
        place = state.running.index(request)
        return int(_take_all(state, slice(place, place + 1), np.array([token], np.int64))[0])
    request.tokens = np.append(request.tokens, np.int64(token))
    if state.semantics.outputs_owed_once:
        request.num_output_placeholders -= 1
    why = _why(state, request, token)
    if why != CONTINUE:
        state.waiting.remove(request)
        state.forget(request)
    return why


def _why(state: State, request: Request, token: int) -> int:
    """How a request that waits stops, if it does (UPD-4)."""
    output = request.num_tokens - request.num_prompt_tokens
    at_limit = request.num_tokens >= state.config.max_model_len or output >= request.max_tokens
    if output < request.min_tokens:
        early = state.semantics.length_before_min_tokens and at_limit
        return LENGTH if early else CONTINUE
    if request.eos != NO_EOS and token == request.eos:
        return STOPPED
    if token in request.stop:
        return STOPPED_BY_ID
    return LENGTH if at_limit else CONTINUE
