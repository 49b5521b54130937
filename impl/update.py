"""`update_from_output()`: sampled tokens come back, requests stop."""

import itertools

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nullblock.impl.arrays import Ints, Part, Tokens
from nullblock.impl.requests import NO_EOS, Request
from nullblock.impl.state import State
from nullblock.impl.step import InFlight, Outputs
from nullblock.spec.fields import CONTINUE, LENGTH, STOPPED, STOPPED_BY_ID

Codes = NDArray[np.int8]
Taken = tuple[list[str], Tokens, Codes]
"""Who took a token, which one, and how they stop."""
_NONE: Tokens = np.empty(0, np.int64)
_NO_CODES: Codes = np.empty(0, np.int8)


def update_from_output(state: State, sampled: ArrayLike) -> Outputs:
    """Take in one token for each request of the oldest step in flight, in its order; what is given
    for a chunk is ignored (UPD-2, UPD-3).

    The outputs may refer to the array of tokens instead of copying it. Raises IndexError if no
    step is in flight, ValueError for another number of tokens.
    """
    step = state.step
    if step is None:
        raise IndexError("no step is in flight")
    tokens: Tokens = np.asarray(sampled, np.int64)
    if tokens.shape != (len(step.ids),):
        raise ValueError(f"{tokens.shape} tokens for {len(step.ids)} scheduled requests")
    oldest = state.in_flight.popleft()
    if len(step.ids):
        least = int(step.num_scheduled_tokens.min())
        assert least > 0, f"{least} tokens were scheduled"
    taken = _all_at_once(state, oldest, tokens) or _as_they_stand(state, oldest, tokens)
    rejected, state.rejected = state.rejected, []
    return Outputs(*taken, rejected)


def _all_at_once(state: State, oldest: InFlight, sampled: Tokens) -> Taken | None:
    """Everybody takes a token, if nobody has left the list since."""
    running, step, places = state.running, oldest.step, oldest.places
    if running.departures != oldest.departures:
        return None
    if step.samples.all():
        return step.ids.copy(), sampled, _take_all(state, places, sampled)
    some = step.samples.nonzero()[0]
    ids, tokens = [step.ids[i] for i in some.tolist()], sampled[some]
    return ids, tokens, _take_all(state, np.arange(running.count)[places][some], tokens)


def _as_they_stand(state: State, oldest: InFlight, sampled: Tokens) -> Taken:
    """Who has run ever since takes a token with the neighbours of whom that is true too; all
    others, one after another, are looked for.

    Outputs come in the order of their steps: what is to be discarded is of an earlier stay.
    """
    running, step = state.running, oldest.step
    some = step.samples.nonzero()[0]
    rows = step.rows[some]
    stayed = running.visit[rows] == oldest.visits[some]
    ids, tokens, why = list[str](), list[Tokens](), list[Codes]()
    bounds = (np.flatnonzero(stayed[1:] != stayed[:-1]) + 1).tolist()
    for start, stop in itertools.pairwise([0, *bounds, len(some)]):
        part = some[start:stop]
        if start == stop:
            continue
        if stayed[start]:
            ids += [step.ids[i] for i in part.tolist()]
            tokens.append(sampled[part])
            why.append(_take_all(state, running.place[step.rows[part]], sampled[part]))
            continue
        for i in part.tolist():
            token = sampled[i : i + 1]
            code = _take_by_id(state, oldest, i, int(token[0]))
            if code is not None:
                ids.append(step.ids[i])
                tokens.append(token)
                why.append(np.array([code], np.int8))
    return ids, np.concatenate([_NONE, *tokens]), np.concatenate([_NO_CODES, *why])


def _take_all(state: State, places: Part, sampled: Tokens) -> Codes:
    """All these running requests take a token each; how they stop."""
    running = state.running
    if state.config.async_scheduling:
        assert (running.placeholders[places] > 0).all(), "a request owes no token"
    at = running.num_tokens[places]
    if len(at):
        running.make_room(int(at.max()) + 1)
    running.tokens[running.row[places], at] = sampled
    running.num_tokens[places] += 1
    if state.counts_outputs:
        running.placeholders[places] -= 1
    why = _why_all(state, places, sampled)
    if state.config.async_scheduling and state.config.enable_prefix_caching:
        _publish_known(state, places)
    if why.any():
        gone: list[int] = np.arange(running.count)[places][why != CONTINUE].tolist()
        for place in gone:
            state.forget(state.leave(place))
        running.remove(gone)
    return why


def _publish_known(state: State, places: Part) -> None:
    """Scheduling ahead, cache the blocks of these whose tokens are known by now (HASH-20)."""
    running = state.running
    full = running.num_computed[places] - running.placeholders[places]
    full //= state.config.block_size
    fills = (full > running.num_cached[places]).nonzero()[0]
    if len(fills):
        state.publish(np.arange(running.count)[places][fills], full[fills])


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
    some = has_stop.nonzero()[0]
    stops = state.running.stops[state.running.row[places][some]]
    why[some[(stops == sampled[some, None]).any(axis=1)]] = STOPPED_BY_ID


def _take_by_id(state: State, oldest: InFlight, i: int, token: int) -> int | None:
    """The i-th of a step takes its token, wherever it is by now; how it stops. None: there is
    nobody to take it, or it is discarded.
    """
    request = state.requests.get(oldest.step.ids[i])
    # vLLM 0.22.1 finds whoever has the id now (UPD-16).
    if request is None or (
        state.semantics.frames_match_request and request is not oldest.requests[i]
    ):
        return None
    running = state.running
    if request.is_running:
        place = running.index(request)
        if running.discarded[place]:
            running.discarded[place] -= 1
            return None
        return int(_take_all(state, slice(place, place + 1), np.array([token], np.int64))[0])
    if request.num_discarded:
        request.num_discarded -= 1
        return None
    return _take_waiting(state, request, token)


def _take_waiting(state: State, request: Request, token: int) -> int:
    """A request that waits takes a token; how it stops."""
    if state.config.async_scheduling:
        assert request.num_output_placeholders > 0, f"{request.id!r} owes no token"
    request.tokens = np.append(request.tokens, np.int64(token))
    if state.counts_outputs:
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
