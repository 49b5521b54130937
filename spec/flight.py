"""The readings of steps in flight: whose an output is, and what is known while some are."""

from nullblock.spec import later
from nullblock.spec.catalogue import clause
from nullblock.spec.drafts import placeholders
from nullblock.spec.fields import RUNNING, TOKEN, UPDATE
from nullblock.spec.kernel import State, Value, both, either, ite, neg
from nullblock.spec.remote import goes_on, lacks_blocks


@clause("UPD-16")
def answers(s: State, i: Value) -> Value:
    """An output belongs to the request that was scheduled, and to nobody once that has ended.

    Source: Scheduler.update_from_output. In vllm-0.22.1 the request is found again by its id, even
    if it is a later one.
    """
    r = s.frame[i]
    if s.k.sem.frames_match_request:
        return both(goes_on(s, r), s.arr[r] == s.born[i])
    return goes_on(s, r)


def concerns(s: State, i: Value) -> Value:
    """Whether the output of entry i concerns the request that it belongs to: not if it is
    worthless, or if that lacks blocks.
    """
    r = s.frame[i]
    return both(answers(s, i), neg(either(later.is_worthless(s, r), lacks_blocks(s, r))))


def owes_token(s: State, i: Value) -> Value:
    """Whether a request gets a token, to take or to drop, from entry i."""
    return both(concerns(s, i), s.due[i] == TOKEN)


def is_silent(s: State, r: Value) -> Value:
    """Whether the step returns without the token that the entry at hand owes r."""
    return s.k.says_nothing(s, r) if s.k.silences else False


@clause("UPD-17")
def counts_outputs(s: State) -> Value:
    """The tokens in flight of a request are counted, so that none is computed and sampled twice.

    Source: AsyncScheduler._update_after_schedule. In vllm-0.22.1 synchronous scheduling does not
    count them: a request preempted and resumed with its output in flight samples it again.
    """
    if later.makes_no_tokens(s):
        return False
    return either(s.k.asynchronous, s.k.sem.outputs_owed_once)


def in_flight(s: State) -> Value:
    """Steps in flight."""
    return s.steps - s.oldest


def begins(s: State, n: Value) -> Value:
    """The first entry of step n in flight, while no output is being applied."""
    return ite(n == s.oldest, s.cur, s.fend[n - 1])


def computed_for_sure(s: State, r: Value) -> Value:
    """Tokens of r that are computed and known."""
    return s.comp[r] - placeholders(s, r)


def caches_what_is_known(s: State, r: Value) -> Value:
    """Whether blocks of r are cached when their last token becomes known, not when it is
    scheduled (HASH-20).
    """
    return both(s.k.asynchronous, s.k.caching, s.stage[r] == RUNNING)


def room_grows(s: State, r: Value) -> Value:
    """Whether r gives room back that it may not have (ENC-54)."""
    if not s.k.encoder_decoder:
        return False
    return both(neg(s.k.sem.item_room_returns_once), s.k.num_items(r) > 0)


def has_answer(s: State, r: Value) -> Value:
    """Whether the output that is applied next is one of r, that has computed something."""
    return both(
        both(s.phase == UPDATE, s.cur < s.upto, r == s.frame[s.cur]),
        both(concerns(s, s.cur), s.comp[r] > 0),
    )
