"""`update_from_output()`: tokens come back, requests stop."""

from nullblock.spec.catalogue import clause
from nullblock.spec.kernel import State, Value, both, loop
from nullblock.spec.machine.blocks import free
from nullblock.spec.rules.queues import finish, finish_waiting, forget
from nullblock.spec.rules.steps import begin_update, end_update, pass_over, take_token
from nullblock.spec.state import HANDED, MOVED, RUNNING, TOKEN, live

CONTINUE, STOPPED, STOPPED_BY_ID, LENGTH = range(4)
EOS, STOP_ID, PLAIN = "eos", "stop", "plain"
UPDATE_LOOP = HANDED | MOVED | {"ntok", "comp", "due", "cur", "finished"}


@clause("UPD-4")
def check_stop(s: State, r: Value) -> Value:
    """A request stops on eos, then on a stop id, then at max_model_len or max_tokens; below min_tokens only the length limits count.

    Source: check_stop; SEMANTICS 4.4. In vllm-0.22.1 not even they count below min_tokens (upstream PR 51299).
    """
    at_limit = s.ntok[r] >= s.k.max_len or s.ntok[r] - s.k.prompt_len(r) >= s.k.max_tokens(r)
    if s.ntok[r] - s.k.prompt_len(r) < s.k.min_tokens(r):
        return LENGTH if s.k.sem.length_before_min_tokens and at_limit else CONTINUE
    kind = s.k.last_token(s, r)
    if kind == EOS:
        return STOPPED
    if kind == STOP_ID:
        return STOPPED_BY_ID
    return LENGTH if at_limit else CONTINUE


def settle(s: State, r: Value) -> None:
    """Apply the next output of the frame to r, and let r go if it stops."""
    if not both(live(s, r), s.due[r] == TOKEN):
        pass_over(s)
        return
    take_token(s, r)
    why = check_stop(s, r)
    s.k.note(s, r, why)
    if why == CONTINUE:
        return
    if s.stage[r] == RUNNING:
        finish(s, s.k.first("I", lambda i: both(0 <= i, i < s.nr, s.run[i] == r), lambda i: i, by=("run", r)))
        free(s, r)
        forget(s, r)
    else:
        finish_waiting(s, r)


def update_from_output(s: State) -> None:
    """Apply the output of the step in flight, request by request in schedule order (UPD-2 to UPD-10)."""
    begin_update(s)
    for _ in loop(
        s,
        until=lambda: s.cur >= s.nframe,
        decreases=lambda: s.nframe - s.cur,
        changes=UPDATE_LOOP,
        keep=lambda: s.leaving == 0,
    ):
        settle(s, s.frame[s.cur])
    end_update(s)
