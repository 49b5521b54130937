"""A step that returns without the token that it owes a request."""

from nullblock.spec.encoder import has_let_go
from nullblock.spec.fields import BACK, RUNNING, UPDATE
from nullblock.spec.flight import counts_outputs, owes_token
from nullblock.spec.kernel import State, Value, both, require, rule
from nullblock.spec.rules.drafts import drop_drafts
from nullblock.spec.rules.later import land
from nullblock.spec.rules.loads import arrive
from nullblock.spec.rules.queues import leave_running


def _settle_nothing(s: State, r: Value) -> None:
    """The entry at hand is settled, and owes r nothing; what else is in flight for r will be
    dropped.
    """
    land(s)
    s.ndraft[s.cur] = 0
    s.cur += 1
    if s.k.sem.silence_starts_over:
        if counts_outputs(s):
            s.base[r] += 1
            s.drop[r] += s.ph[r] - 1
            s.ph[r] = 0
            drop_drafts(s, r)


@rule("UPD-60", "R")
def get_nothing(s: State, r: Value) -> None:
    """A request that does not run takes nothing from a step that returns without its token, and
    what else is in flight for it is dropped.

    Source: our decision. vllm-0.22.1 leaves everything of whoever gets nothing as it is: the token
    and its drafts stay computed, and scheduling ahead in flight, for ever (upstream 42722).
    """
    require(s.phase == UPDATE, "an output is being applied")
    require(s.leaving == 0, "nobody is half-way out")
    require(s.open == 0, "the request before is settled")
    require(s.cur < s.upto, "a request of the step is left")
    require(r == s.frame[s.cur], "it is the next one")
    require(owes_token(s, s.cur), "it is owed a token")
    require(s.k.silences, "which the step may lack")
    if s.k.encodes:
        require(has_let_go(s, r), "it refers to no item that it has passed")
    if s.k.sem.silence_starts_over:
        require(s.drop[r] == 0, "which is not to be dropped")
        require(s.stage[r] != RUNNING, "it does not run")
    arrive(s)
    _settle_nothing(s, r)


@rule("UPD-61", "I")
def start_anew(s: State, i: Value) -> None:
    """A running request whose step returns without its token gives its blocks back and waits for
    its turn again, and what else is in flight for it, computed behind a token that nobody knows,
    is dropped.

    Normative only, see UPD-60. It goes on with what is cached. Source: our decision.
    """
    require(s.phase == UPDATE, "an output is being applied")
    require(s.leaving == 0, "nobody is half-way out")
    require(s.open == 0, "the request before is settled")
    require(s.cur < s.upto, "a request of the step is left")
    require(both(0 <= i, i < s.nr), "the index is in range")
    require(s.run[i] == s.frame[s.cur], "it is the next one")
    require(owes_token(s, s.cur), "it is owed a token")
    require(s.drop[s.run[i]] == 0, "which is not to be dropped")
    require(s.k.sem.silence_starts_over, "it starts over")
    require(s.k.silences, "the step may lack it")
    r = s.run[i]
    _settle_nothing(s, r)
    s.prev = s.k.remove(s.prev, r)
    leave_running(s, i, BACK)
