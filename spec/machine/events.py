"""What may happen between steps: arrivals, aborts, resets."""

from nullblock.spec.catalogue import clause
from nullblock.spec.fields import HANDED, MOVED, PAUSED_ALL, RUNNING, UNPAUSED
from nullblock.spec.hybrid import are_held
from nullblock.spec.kernel import State, Value, either, ite, loop, neg
from nullblock.spec.later import num_with_work
from nullblock.spec.machine.blocks import free, withdraw
from nullblock.spec.machine.encoder import let_inputs_go
from nullblock.spec.machine.remote import part
from nullblock.spec.machine.sessions import leave_with_blocks
from nullblock.spec.remote import keeps_blocks
from nullblock.spec.rules.encoder import wipe_embeddings
from nullblock.spec.rules.pool import evict_block, wipe
from nullblock.spec.rules.queues import (
    abort_running,
    abort_waiting,
    add_request,
    begin_reset,
    end_reset,
    preempt_for_reset,
    reject,
    requeue,
    set_pause,
)
from nullblock.spec.rules.remote import quit_for_good
from nullblock.spec.rules.waiting import come
from nullblock.spec.sessions import awaits_grammar, holds_while_waiting, num_waiting
from nullblock.spec.state import index_of, live, servable

RESET_LOOP = HANDED | MOVED | {"comp", "ph", "pd", "drop", "old", "landed"}


def add(s: State, r: Value) -> Value:
    """A request arrives: it waits, or is refused. Returns whether it waits (LIFE-1, LIFE-2)."""
    if s.k.sem.reject_unservable and neg(servable(s, r)):
        reject(s, r)
        return False
    add_request(s, r)
    return True


def abort(s: State, r: Value) -> Value:
    """Abort r wherever it stands; when all who are aborted at once have left, `order_queues`
    follows. Returns False, and changes nothing, for an id that is not in use (LIFE-4, LIFE-5).
    """
    if not live(s, r):
        return False
    if s.stage[r] == RUNNING:
        abort_running(s, index_of(s, r))
        let_inputs_go(s, r)
        part(s, r)
    elif s.k.connector:
        quit_for_good(s, r)
        let_inputs_go(s, r)
        part(s, r)
    elif holds_while_waiting(s, r):
        leave_with_blocks(s, r)
    else:
        let_inputs_go(s, r)
        abort_waiting(s, r)
    return True


def compiled(s: State, r: Value) -> Value:
    """The grammar of r is compiled. Returns False, and changes nothing, where nobody awaits that
    (WAIT-43).
    """
    if not awaits_grammar(s, r):
        return False
    come(s, r)
    return True


def reset_prefix_cache(s: State, reset_running: bool) -> Value:
    """Forget every hash, if no block is held; with `reset_running` preempt everybody first.
    Returns whether it was done.
    """
    if reset_running:
        begin_reset(s)
        for _ in loop(
            s,
            until=lambda: s.nr == 0,
            decreases=lambda: s.nr,
            changes=RESET_LOOP,
            keep=lambda: s.leaving == 0,
        ):
            v = s.run[s.nr - 1]
            preempt_for_reset(s)
            withdraw(s, v)
            let_inputs_go(s, v)
            free(s, v)
            requeue(s, v)
        end_reset(s)
    return may_wipe(s)


@clause("LIFE-10")
def may_wipe(s: State) -> Value:
    """A reset without leave to touch running requests fails, and changes nothing, while any block
    is held.

    Source: BlockPool.reset_prefix_cache.
    """
    if are_held(s):
        return False
    wipe(s)
    return True


def reset_encoder_cache(s: State) -> None:
    """Forget all embeddings (ENC-15)."""
    wipe_embeddings(s)


def evict_blocks(s: State, blocks: list[Value]) -> None:
    """Remove the hashes of the named blocks (HASH-13)."""
    for b in blocks:
        evict_block(s, b)


def pause(s: State, state: Value) -> None:
    """Set the pause state (LIFE-7)."""
    set_pause(s, state)


@clause("LIFE-16")
def unfinished(s: State) -> Value:
    """There is work for a step while requests run or wait; paused, those that wait do not count,
    and paused altogether nobody does.

    Source: Scheduler.get_num_unfinished_requests, has_unfinished_requests.
    """
    return num_unfinished(s) > 0


def num_unfinished(s: State) -> Value:
    """How many requests there is work for (LIFE-16)."""
    if s.k.sem.holders_wait_apart:
        return num_with_work(s)
    waiting = ite(s.pause == UNPAUSED, num_waiting(s), 0)
    return ite(s.pause == PAUSED_ALL, 0, s.nr + waiting)


@clause("LIFE-18")
def has_news(s: State) -> Value:
    """There is something to tell while a request has ended that no step has reported, or was
    refused and no update has said so; and while blocks of one are kept.

    A step is then made though there is no work, so that workers let go of what they keep. Source:
    Scheduler.has_finished_requests.
    """
    return either(s.k.card(s.finished) > 0, s.nrej > 0, keeps_blocks(s))
