"""`update_from_output()`: tokens come back, requests stop."""

from nullblock.spec.kernel import State, Value, both, loop
from nullblock.spec.machine.blocks import free
from nullblock.spec.rules.queues import finish, finish_waiting, forget
from nullblock.spec.rules.steps import begin_update, end_update, go_on, pass_over, take_token
from nullblock.spec.state import (
    CONTINUE,
    HANDED,
    MOVED,
    RUNNING,
    TOKEN,
    check_stop,
    index_of,
    live,
)

UPDATE_LOOP = HANDED | MOVED | {"ntok", "comp", "due", "cur", "finished", "open", "taker"}


def settle(s: State, r: Value) -> None:
    """Apply the next output of the frame to r, and let r go if it stops."""
    if not both(live(s, r), s.due[r] == TOKEN):
        pass_over(s)
        return
    take_token(s, r)
    why = check_stop(s, r)
    s.k.note(s, r, why)
    if why == CONTINUE:
        go_on(s, r)
    elif s.stage[r] == RUNNING:
        finish(s, index_of(s, r))
        free(s, r)
        forget(s, r)
    else:
        finish_waiting(s, r)


def update_from_output(s: State) -> None:
    """Apply the output of the step in flight, request by request in schedule order (UPD-2 to
    UPD-10).
    """
    begin_update(s)
    for _ in loop(
        s,
        until=lambda: s.cur >= s.nframe,
        decreases=lambda: s.nframe - s.cur,
        changes=UPDATE_LOOP,
        keep=lambda: both(s.leaving == 0, s.open == 0),
    ):
        settle(s, s.frame[s.cur])
    end_update(s)
