"""What rules of the core do besides where there are Mamba layers."""

from nullblock.spec.groups import is_null
from nullblock.spec.kernel import State, Value, both, neg
from nullblock.spec.loaded import stays_unzeroed
from nullblock.spec.mamba import is_mamba


def note_state(s: State, t: Value, i: Value) -> None:
    """Block i of table t is cached in the open step (GROUP-25)."""
    if s.k.mamba:
        if both(is_mamba(s, t), i < s.tlen[t], neg(is_null(s, t, i))):
            s.anew[s.tab[t, i]] = 1


def forget_states(s: State) -> None:
    """The step that computes them is decided."""
    if s.k.mamba:
        s.anew = s.k.blank("anew")


def note_taken(s: State, t: Value, b: Value) -> None:
    """Block b is taken for table t: workers may have to zero it (GROUP-26)."""
    if s.k.mamba:
        if both(s.k.zeroed_of(t), neg(stays_unzeroed(s, t))):
            s.zero[s.nzero] = b
            s.zerofor[s.nzero] = s.k.group(t)
            s.nzero += 1


def forget_taken(s: State) -> None:
    """What there is to zero is told with the step."""
    if s.k.mamba:
        s.zero = s.k.blank("zero")
        s.zerofor = s.k.blank("zerofor")
        s.nzero = 0
