"""Speculative decoding: drafts are proposed, granted, put in flight, rejected and taken.

The rules of the core call `grant_drafts`, `launch_drafts` and `lose_drafts` where a request is
scheduled, put in flight, and preempted; all else about drafts is here and in
`nullblock.spec.drafts`.
"""

from nullblock.spec.drafts import (
    drafts_granted,
    may_propose,
    may_take,
    placeholders,
    remembers_chunks,
)
from nullblock.spec.fields import CONTINUE, IDLE, UPDATE
from nullblock.spec.flight import counts_outputs, owes_token
from nullblock.spec.kernel import State, Value, both, either, ensure, ite, neg, require, rule
from nullblock.spec.later import is_stale
from nullblock.spec.rules.later import land
from nullblock.spec.state import check_stop


def grant_drafts(s: State, r: Value) -> None:
    """The asking request is granted drafts, and has none left."""
    s.drafted[r] = drafts_granted(s, r)
    s.spec[r] = 0


def launch_drafts(s: State, r: Value, i: Value, place: Value) -> None:
    """The drafts of entry i, at this place among r's outputs, are in flight; scheduling ahead r
    has new ones.
    """
    n = s.ndraft[i]
    if counts_outputs(s):
        s.pd[r] += n
        s.flown[r] += n
        s.cum[r, place] = s.flown[r]
    if s.k.asynchronous:
        s.spec[r] = s.k.num_spec


def mark_chunk(s: State, r: Value, is_chunk: Value) -> None:
    """What vLLM remembers of a request's last step."""
    if remembers_chunks(s):
        s.chunk[r] = is_chunk


def lose_drafts(s: State, r: Value) -> None:
    """A request that is preempted loses its drafts; outputs in flight are of an earlier run."""
    s.spec[r] = 0
    s.old[r] = ite(s.k.num_spec > 0, s.ph[r], 0)


def drop_drafts(s: State, r: Value) -> None:
    """No drafts are in flight any more that r is to take."""
    s.pd[r] = 0
    s.old[r] = 0
    s.landed[r] = s.flown[r]


def settle_run(s: State, r: Value) -> None:
    """An output of r is settled: if it was of an earlier run, there is one fewer."""
    s.old[r] -= ite(s.old[r] > 0, 1, 0)


def forgive_drafts(s: State, r: Value) -> None:
    """No verdict is heard of the drafts of the entry that is settled, which is not applied."""
    s.pd[r] -= s.ndraft[s.cur]
    s.landed[r] += s.ndraft[s.cur]
    settle_run(s, r)


def forget_drafts(s: State, r: Value) -> None:
    """Of a request that is gone no drafts are left."""
    s.spec[r] = 0
    drop_drafts(s, r)
    s.chunk[r] = 0


@rule("DRAFT-7", "RI")
def propose(s: State, r: Value, n: Value) -> None:
    """The drafts proposed for a request replace those it had; the next step may verify them.

    Fewer than num_spec_tokens where what proposes them finds no more, or a grammar refuses some.
    Source: Scheduler.update_draft_token_ids.
    """
    require(either(s.phase == IDLE, s.phase == UPDATE), "between steps, or once its tokens came")
    require(both(s.leaving == 0, s.open == 0), "nobody is half-way")
    require(may_propose(s, r), "it may have drafts")
    require(n >= 0, "there are some, or none")
    if s.k.sem.drafts_for_running_only:
        require(n <= s.k.num_spec, "no more than there may be")
        s.spec[r] = n
    else:
        s.spec[r] = ite(s.chunk[r] == 1, 0, n)


@rule("DRAFT-8", "RI")
def reject_drafts(s: State, r: Value, n: Value) -> None:
    """The drafts with which the model does not agree are rejected: what was computed of them in
    this run of the request counts no more, and they are no longer in flight.

    Source: Scheduler.update_from_output. In vllm-0.22.1 an earlier run's rejections lower the
    counters too, wherever these are not zero.
    """
    require(s.phase == UPDATE, "an output is being applied")
    require(s.leaving == 0, "nobody is half-way out")
    require(either(s.open == 0, r == s.taker), "nobody else has a new token")
    require(s.cur < s.upto, "a request of the step is left")
    require(r == s.frame[s.cur], "it is the next one")
    require(owes_token(s, s.cur), "it owes a token")
    if s.k.sem.rejections_keep_to_their_run:
        require(s.drop[r] == 0, "which is not to be dropped")
    require(s.ndraft[s.cur] > 0, "drafts of it are in flight")
    require(both(0 <= n, n <= s.ndraft[s.cur]), "the model agrees with no more than there are")
    rejected = s.ndraft[s.cur] - n
    s.ndraft[s.cur] = n
    if neg(is_stale(s, r)):
        take_back(s, r, rejected)


def take_back(s: State, r: Value, rejected: Value) -> None:
    """What was computed of rejected drafts counts no more."""
    if s.k.sem.rejections_keep_to_their_run:
        s.comp[r] -= ite(s.old[r] == 0, rejected, 0)
        s.slip[r] += rejected
        if counts_outputs(s):
            s.pd[r] -= rejected
            s.landed[r] += rejected
    else:
        s.comp[r] -= ite(s.comp[r] > 0, rejected, 0)
        s.pd[r] -= ite(placeholders(s, r) > 0, rejected, 0)
        s.slip[r] += ite(s.since[r] <= s.cur, rejected, 0)


@rule("DRAFT-9", "R")
def take_draft(s: State, r: Value) -> None:
    """A draft with which the model agrees is a token, taken before those behind it.

    Source: Scheduler._update_request_with_output.
    """
    require(s.phase == UPDATE, "an output is being applied")
    require(s.leaving == 0, "nobody is half-way out")
    require(may_take(s, r), "the token before is settled")
    require(s.cur < s.upto, "a request of the step is left")
    require(r == s.frame[s.cur], "it is the next one")
    require(owes_token(s, s.cur), "it owes a token")
    require(s.drop[r] == 0, "which is not to be dropped")
    require(s.ndraft[s.cur] > 0, "a draft of it is left")
    if neg(is_stale(s, r)):
        if s.k.asynchronous:
            ensure(
                placeholders(s, r) > 0, "a request takes no more tokens than are in flight for it"
            )
        if counts_outputs(s):
            s.pd[r] -= 1
            s.landed[r] += 1
    s.ndraft[s.cur] -= 1
    s.ntok[r] += 1
    s.open = 1
    s.taker = r
    s.k.on_token(s, r)


@rule("DRAFT-19", "R")
def read_on(s: State, r: Value) -> None:
    """A request that does not stop on a draft takes what is behind it in the same output.

    Source: Scheduler._update_request_with_output.
    """
    require(s.phase == UPDATE, "an output is being applied")
    require(both(s.open == 1, r == s.taker), "it has a new token")
    require(s.cur < s.upto, "the output is not settled")
    require(r == s.frame[s.cur], "it is the next one")
    require(owes_token(s, s.cur), "more of it is to come")
    require(check_stop(s, r) == CONTINUE, "it does not stop")
    s.open = 2


@rule("DRAFT-10", "R")
def cut_off(s: State, r: Value) -> None:
    """A request that stops on a draft takes nothing of what is behind it in the same output: that
    counts as rejected.

    Source: Scheduler._update_request_with_output. vllm-0.22.1 leaves the counters of a request
    that has ended as they are.
    """
    require(s.phase == UPDATE, "an output is being applied")
    require(both(s.open == 1, r == s.taker), "it has a new token")
    require(s.cur < s.upto, "the output is not settled")
    require(r == s.frame[s.cur], "it is the next one")
    require(owes_token(s, s.cur), "it owes a token")
    require(s.drop[r] == 0, "which is not to be dropped")
    require(check_stop(s, r) != CONTINUE, "it stops")
    if s.k.sem.rejections_keep_to_their_run:
        require(s.k.num_spec > 0, "there are drafts")
        require(s.ndraft[s.cur] == 0, "the drafts behind are rejected")
        if neg(is_stale(s, r)):
            s.comp[r] -= ite(s.old[r] == 0, 1, 0)
            s.slip[r] += 1
            settle_run(s, r)
            if counts_outputs(s):
                s.ph[r] -= 1
                s.base[r] += 1
    else:
        s.ndraft[s.cur] = 0
    land(s)
    s.cur += 1
