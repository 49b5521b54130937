"""What an output does to the drafts of a request, before its sampled token is taken."""

from nullblock.spec.drafts import may_propose, may_take
from nullblock.spec.fields import CONTINUE
from nullblock.spec.flight import is_silent
from nullblock.spec.kernel import State, Value, both, either, loop, neg
from nullblock.spec.rules.drafts import cut_off, propose, read_on, reject_drafts, take_draft
from nullblock.spec.state import check_stop

DRAFTS_LOOP = frozenset({"spec", "ndraft", "pd", "old", "chunk", "landed", "slip"})


def verify(s: State, r: Value) -> None:
    """Reject the drafts of the next entry with which the model does not agree (DRAFT-8)."""
    if s.ndraft[s.cur] > 0:
        reject_drafts(s, r, s.k.accepted(s, r))


def verify_anyhow(s: State, r: Value) -> None:
    """In vllm-0.22.1 the rejections of an output that is dropped count all the same."""
    if both(not s.k.sem.rejections_keep_to_their_run, neg(is_silent(s, r))):
        verify(s, r)


def take_drafts(s: State, r: Value) -> None:
    """Take the drafts that are left, one by one; a request that stops takes no more (DRAFT-9,
    DRAFT-10).
    """
    i = s.cur
    for _ in loop(
        s,
        until=lambda: s.ndraft[i] <= 0,
        decreases=lambda: s.ndraft[i],
        changes=frozenset(
            {"ntok", "comp", "ph", "pd", "old", "ndraft", "landed", "slip", "base", "cur"}
            | {"open", "taker"}
        ),
        keep=lambda: either(
            both(s.open != 1, may_take(s, r), s.cur == i),
            both(s.open == 1, s.taker == r, s.cur == i + 1, s.ndraft[i] == 0),
        ),
    ):
        take_draft(s, r)
        if check_stop(s, r) == CONTINUE:
            read_on(s, r)
        else:
            reject_rest(s, r)
            cut_off(s, r)


def reject_rest(s: State, r: Value) -> None:
    """A request stops on a draft: those behind it are rejected. vllm-0.22.1 leaves the counters of
    a request that has ended as they are.
    """
    if s.k.sem.rejections_keep_to_their_run:
        if s.ndraft[s.cur] > 0:
            reject_drafts(s, r, 0)


def hear(s: State, r: Value) -> None:
    """Take the drafts that are proposed with the tokens that have just come (DRAFT-7)."""
    n = s.k.proposed(s, r)
    if n > 0:
        offer(s, r, n)


def offer(s: State, r: Value, n: Value) -> Value:
    """Drafts arrive for r: it has them, or nobody takes them. Returns whether it has (DRAFT-7)."""
    if not may_propose(s, r):
        return False
    propose(s, r, n)
    return True
