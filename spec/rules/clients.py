"""Several clients: whose ends are theirs to hear of.

The rules of the core call `note_end` and `forget_told` where a request is gone, and where an
update ends; what is told is a reading in `nullblock.spec.machine.output`.
"""

from nullblock.spec.kernel import State, Value


def note_end(s: State, r: Value) -> None:
    """The client of a request that is gone has to be told."""
    if s.k.tells_ends:
        client = s.k.client(r)
        if s.k.card(s.ends[client]) == 0:
            s.ends[client] = s.k.empty("R")
        s.ends[client] = s.k.add(s.ends[client], r)


def forget_told(s: State) -> None:
    """With an update every client has been told."""
    if s.k.tells_ends:
        s.ends = s.k.blank("ends")
