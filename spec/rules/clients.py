"""Several clients: whose ends are theirs to hear of.

The rules of the core call `note_end` where a request is gone; what is told is a reading in
`nullblock.spec.machine.output`.
"""

from nullblock.spec.fields import IDLE
from nullblock.spec.kernel import State, Value, require, rule


def note_end(s: State, r: Value) -> None:
    """The client of a request that is gone has to be told."""
    if s.k.tells_ends:
        client = s.k.client(r)
        if s.k.card(s.ends[client]) == 0:
            s.ends[client] = s.k.empty("R")
        s.ends[client] = s.k.add(s.ends[client], r)


@rule("UPD-53")
def tell_ends(s: State) -> None:
    """With an update, whatever ended in it, every client has been told.

    Source: Scheduler.update_from_output: finished_req_ids_dict.
    """
    require(s.phase == IDLE, "the update is over")
    require(s.leaving == 0, "nobody is half-way out")
    s.ends = s.k.blank("ends")
