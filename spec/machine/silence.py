"""What becomes of a request whose step returns without the token that it owes."""

from nullblock.spec.fields import RUNNING
from nullblock.spec.flight import is_silent
from nullblock.spec.kernel import State, Value, both, either
from nullblock.spec.machine.blocks import free, withdraw
from nullblock.spec.machine.encoder import let_inputs_go, let_passed_go
from nullblock.spec.rules.queues import requeue
from nullblock.spec.rules.silence import get_nothing, start_anew
from nullblock.spec.state import index_of


def returns_without(s: State, r: Value) -> Value:
    """Whether the output at hand, which owes r a token, has none, and that says anything: one
    that was to be dropped is dropped, in vllm-0.22.1 it stays to be.
    """
    matters = either(not s.k.sem.silence_starts_over, s.drop[r] == 0)
    return both(is_silent(s, r), matters)


def go_without(s: State, r: Value) -> None:
    """r, whose output says nothing, starts over if it runs (UPD-60, UPD-61)."""
    if both(s.k.sem.silence_starts_over, s.stage[r] == RUNNING):
        start_anew(s, index_of(s, r))
        withdraw(s, r)
        let_inputs_go(s, r)
        free(s, r)
        requeue(s, r)
    else:
        let_passed_go(s, r)
        get_nothing(s, r)
