"""Requests that want a vector: how they take it."""

from nullblock.spec.encoder import has_let_go
from nullblock.spec.fields import CHUNK, UPDATE
from nullblock.spec.flight import counts_outputs, owes_token
from nullblock.spec.kernel import State, Value, ensure, ite, require, rule
from nullblock.spec.pooling import last_owed, pools
from nullblock.spec.rules.later import land


def give_vector_up(s: State, r: Value) -> None:
    """The vector in flight that r counts is none: what it was made of is not there. One that was
    in flight when a reset preempted r is as good as ever (UPD-51).
    """
    if s.ph[r] > 0:
        s.due[last_owed(s, r)] = CHUNK
        s.ph[r] = 0


@rule("UPD-51", "R")
def take_vector(s: State, r: Value) -> None:
    """A request that wants a vector takes the one that a step has made of its prompt, in the place
    of a token, even if a reset has preempted it meanwhile.

    Source: Scheduler.update_from_output. A token that was in flight then is dropped (UPD-18):
    AsyncScheduler._update_request_with_output does it, which only tokens are given to.
    """
    require(s.phase == UPDATE, "an output is being applied")
    require(s.leaving == 0, "nobody is half-way out")
    require(s.open == 0, "the request before is settled")
    require(s.cur < s.upto, "a request of the step is left")
    require(r == s.frame[s.cur], "it is the next one")
    require(owes_token(s, s.cur), "a step has computed all of its prompt")
    require(pools(s, r), "it wants a vector")
    if s.k.encodes:
        require(has_let_go(s, r), "it refers to no item that it has passed")
    ensure(s.grant[s.cur] > 0, "a scheduled request computed at least one token")
    if counts_outputs(s):
        dropped = ite(s.drop[r] > 0, 1, 0)
        s.drop[r] -= dropped
        s.ph[r] -= 1 - dropped
        s.base[r] += 1
    land(s)
    s.cur += 1
    s.open = 1
    s.taker = r
