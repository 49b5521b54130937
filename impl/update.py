"""`update_from_output()`: sampled tokens come back, requests stop."""

import numpy as np

from nullblock.impl.requests import NO_EOS, Request, Tokens
from nullblock.impl.scheduler import Scheduler
from nullblock.impl.step import (
    CONTINUE,
    LENGTH,
    STOPPED,
    STOPPED_BY_ID,
    Codes,
    Ints,
    Outputs,
    Step,
)


def update_from_output(engine: Scheduler, sampled: Tokens) -> Outputs:
    """Take in one token for each scheduled request; those of chunks are ignored (UPD-2, UPD-3).

    Raises IndexError if no step is in flight.
    """
    step, engine.step = engine.step, None
    if step is None:
        raise IndexError("no step is in flight")
    if len(step.ids):
        least = int(step.num_scheduled_tokens.min())
        assert least > 0, f"{least} tokens were scheduled"
    rejected, engine.rejected = engine.rejected, []
    if step.requests is not None:
        return _one_by_one(engine, step, step.requests, sampled, rejected)
    if step.samples.all():
        return _all_at_once(engine, step.ids, step.seats, sampled, rejected)
    some = step.samples.nonzero()[0]
    ids = [step.ids[i] for i in some.tolist()]
    return _all_at_once(engine, ids, step.seats[some], sampled[some], rejected)


def _all_at_once(
    engine: Scheduler,
    ids: list[str],
    who: Ints,
    sampled: Tokens,
    rejected: list[tuple[str, str]],
) -> Outputs:
    """All who get a token are in their seats."""
    seats = engine.seats
    at = seats.num_tokens[who]
    if len(at):
        seats.room(int(at.max()) + 1)
    seats.tokens[who, at] = sampled
    at += 1
    seats.num_tokens[who] = at
    if engine.semantics.outputs_owed_once:
        seats.placeholders[who] -= 1
    if engine.config.enable_prefix_caching:
        for seat in who[at % engine.config.block_size == 0].tolist():
            _extend(engine, seat)
    why = _why_all(engine, who, at, sampled)
    ends = why.nonzero()[0].tolist()
    if ends:
        stay = np.ones(len(seats.requests), np.bool_)
        for seat in who[ends].tolist():
            stay[seat] = False
            engine.forget(engine.release(seat))
        seats.keep(stay[seats.taken])
        engine.list_changed()
    return Outputs(ids, sampled, why, rejected)


def _extend(engine: Scheduler, seat: int) -> None:
    """Name the block that a seat's request has filled."""
    request = engine.seats.requests[seat]
    assert request is not None
    engine.extend_chains(request, engine.seats.tokens[seat, : engine.seats.num_tokens[seat]])


def _why_all(engine: Scheduler, who: Ints, at: Ints, sampled: Tokens) -> Codes:
    """How each of these stops, if it does (UPD-4)."""
    seats = engine.seats
    why = np.zeros(len(who), np.int8)
    at_limit = at >= seats.limit[who]
    stopped = sampled == seats.eos[who]
    by_id = [
        i
        for i in seats.has_stop[who].nonzero()[0].tolist()
        if not stopped[i] and int(sampled[i]) in _stop_ids(engine, int(who[i]))
    ]
    if not (at_limit.any() or stopped.any() or by_id):
        return why
    why[at_limit] = LENGTH
    why[by_id] = STOPPED_BY_ID
    why[stopped] = STOPPED
    below = at < seats.at_least[who]
    if below.any():
        early = at_limit & engine.semantics.length_before_min_tokens
        why[below] = np.where(early[below], LENGTH, CONTINUE)
    return why


def _stop_ids(engine: Scheduler, seat: int) -> frozenset[int]:
    request = engine.seats.requests[seat]
    assert request is not None
    return request.stop


def _one_by_one(
    engine: Scheduler,
    step: Step,
    scheduled: list[Request],
    sampled: Tokens,
    rejected: list[tuple[str, str]],
) -> Outputs:
    """Somebody left the running list while the step was in flight."""
    ids, tokens, why = list[str](), list[int](), list[int]()
    for i in step.samples.nonzero()[0].tolist():
        request = engine.requests.get(step.ids[i])
        if request is None:
            continue
        # vLLM 0.22.1 finds whoever has the id now.
        if engine.semantics.frames_match_request and request is not scheduled[i]:
            continue
        token = int(sampled[i])
        ids.append(request.id)
        tokens.append(token)
        why.append(_take(engine, request, token))
    return Outputs(ids, np.array(tokens, np.int64), np.array(why, np.int8), rejected)


def _take(engine: Scheduler, request: Request, token: int) -> int:
    """One request takes a token, wherever it is; how it stops."""
    if request.seat is not None:
        one = np.array([request.seat]), np.array([token], np.int64)
        return int(_all_at_once(engine, [request.id], *one, []).why[0])
    request.tokens = np.append(request.tokens, np.int64(token))
    if engine.semantics.outputs_owed_once:
        request.num_output_placeholders -= 1
    engine.extend_chains(request, request.tokens)
    why = _why(engine, request, token)
    if why != CONTINUE:
        engine.waiting.remove(request)
        engine.forget(request)
    return why


def _why(engine: Scheduler, request: Request, token: int) -> int:
    """How a request that waits stops, if it does (UPD-4)."""
    output = request.num_tokens - request.num_prompt_tokens
    at_limit = request.num_tokens >= engine.config.max_model_len or output >= request.max_tokens
    if output < request.min_tokens:
        early = engine.semantics.length_before_min_tokens and at_limit
        return LENGTH if early else CONTINUE
    if request.eos != NO_EOS and token == request.eos:
        return STOPPED
    if token in request.stop:
        return STOPPED_BY_ID
    return LENGTH if at_limit else CONTINUE
