"""Remote KV: loaded blocks are given back for somebody who lacks them."""

from nullblock.spec.fields import ANEW
from nullblock.spec.kernel import State, Value, require, rule
from nullblock.spec.reclaim import last_loaded, may_reclaim
from nullblock.spec.rules.loads import stop_loading
from nullblock.spec.rules.pool import set_out


@rule("REMOTE-46", "R")
def reclaim(s: State, r: Value) -> None:
    """Where slots are short, nobody else runs who could be preempted, and nothing is loaded or
    sent, whoever waits with loaded blocks gives them back, the last first, keeps its place, and
    computes them when it is its turn; who lacked the slots is tried again.

    Normative only: in vllm-0.22.1 they are kept, and those who lack them wait for ever (upstream
    45387).
    """
    require(s.leaving == 0, "nobody is half-way out")
    require(s.looking == 0, "no lookup is open")
    require(may_reclaim(s), "somebody lacks slots, and nobody else can be preempted")
    require(r == last_loaded(s), "it is the last of those who wait with loaded blocks")
    s.blocked = 0
    set_out(s, r, ANEW)
    stop_loading(s, r)
    s.k.note_reclaimed(s, r)
