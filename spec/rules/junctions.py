"""How far the kind of layers that is looked up first is hit by: noted where steps end there, in
lines after vllm-0.22.1 (GROUP-69). Elsewhere there is nothing here.
"""

from nullblock.spec.in_turn import first_hit, hits_nothing
from nullblock.spec.kernel import State, Value, both, neg


def _notes(s: State) -> Value:
    return s.k.split and s.k.sem.chunks_end_at_junctions


def note_junction(s: State, r: Value) -> None:
    """r is looked up, and the hit is known that all kinds agree on."""
    if _notes(s):
        s.junct[r] = 0
        if both(s.k.several, neg(hits_nothing(s, r))):
            n = first_hit(s, r)
            if n > s.span:
                s.junct[r] = n


def note_said(s: State, r: Value, n: Value) -> None:
    """The kinds of layers are asked in turn, and the first has said n."""
    if _notes(s):
        if s.tried == s.ntok[r] - 1:
            if s.kind == 0:
                s.junct[r] = n


def forget_agreed(s: State, r: Value) -> None:
    """All of them agree on what the first has said."""
    if _notes(s):
        if s.junct[r] <= s.span:
            s.junct[r] = 0


def leave_junction(s: State, r: Value) -> None:
    """Whoever has the id next is looked up anew."""
    if _notes(s):
        s.junct[r] = 0
