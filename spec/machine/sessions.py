"""What a session is sent, and what becomes of it where it stops."""

from nullblock.spec.fields import RUNNING
from nullblock.spec.kernel import State, Value, neg
from nullblock.spec.machine.blocks import free
from nullblock.spec.machine.encoder import let_inputs_go
from nullblock.spec.machine.remote import part
from nullblock.spec.machine.waiting import order_queues
from nullblock.spec.rules.queues import abort_waiting, forget
from nullblock.spec.rules.remote import quit_for_good
from nullblock.spec.rules.sessions import (
    end_running_turn,
    end_waiting_turn,
    forget_table,
    leave_queue,
    refuse_chunk,
    send_chunk,
    send_end,
    take_chunk,
)
from nullblock.spec.sessions import awaits_input, holds_while_waiting
from nullblock.spec.state import index_of
from nullblock.spec.turns import can_take, is_refused


def end_turn(s: State, r: Value) -> None:
    """A session stops and goes on: it waits, with its next chunk or for it (SESS-6, SESS-7)."""
    if s.k.several:
        for t in s.k.tables(r):
            if s.told[t] != 0:
                forget_table(s, t)
    if s.stage[r] == RUNNING:
        end_running_turn(s, index_of(s, r))
    else:
        end_waiting_turn(s, r)


def refuse_next(s: State, r: Value, why: Value) -> None:
    """A request that stops may be a session whose next chunk cannot be served (SESS-15)."""
    if is_refused(s, r, why):
        refuse_chunk(s, r)


def leave_with_blocks(s: State, r: Value) -> None:
    """A session that waits is gone, and gives its blocks back (SESS-14)."""
    leave_queue(s, r)
    let_inputs_go(s, r)
    free(s, r)
    forget(s, r)


def leave(s: State, r: Value) -> None:
    """A session that waits is gone, with blocks or without; a connector may keep them."""
    if s.k.connector:
        quit_for_good(s, r)
        let_inputs_go(s, r)
        part(s, r)
    elif holds_while_waiting(s, r):
        leave_with_blocks(s, r)
    else:
        let_inputs_go(s, r)
        abort_waiting(s, r)


def send(s: State, r: Value) -> Value:
    """A chunk arrives for session r: it takes it at once, or later, or ends for it. Returns
    whether the chunk was refused (SESS-11, SESS-13, SESS-15).
    """
    if s.ended[r] != 0:
        return False
    if neg(awaits_input(s, r)):
        send_chunk(s, r)
        return False
    if can_take(s, r):
        take_chunk(s, r)
        return False
    refuse_chunk(s, r)
    leave(s, r)
    return True


def end(s: State, r: Value) -> None:
    """The end of session r arrives: it is gone at once, or when it has taken its chunks
    (SESS-12).
    """
    if awaits_input(s, r):
        leave(s, r)
        order_queues(s)
    else:
        send_end(s, r)
