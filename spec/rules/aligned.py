"""Tables of Mamba layers in the mode `align`: how they grow. Of others there is nothing here."""

from nullblock.spec.aligned import (
    inner_end,
    inner_states,
    is_aligned,
    is_gap,
    moves_along,
    next_swept,
    next_to_move,
    noted_before,
)
from nullblock.spec.hybrid import adopted, begun
from nullblock.spec.kernel import State, Value, both, either, ensure, ite, neg, require, rule
from nullblock.spec.slots import lacks_place
from nullblock.spec.state import turn


@rule("GROUP-30", "T")
def note_before(s: State, t: Value) -> None:
    """When an aligned table gets longer, the place of the state that the step begins with is
    noted, and how many places there were; and whether it keeps an inner state (GROUP-72).

    Source: MambaManager.allocate_new_blocks.
    """
    require(turn(s, s.k.owner(t)), "the request is being given slots")
    require(both(is_aligned(s, t), lacks_place(s, t)), "the aligned table lacks a place")
    require(s.grows[t] == 0, "it is not noted yet")
    if s.k.keeps_inner:
        end, r = inner_end(s, t, s.goal), s.k.owner(t)
        inner = inner_states(s, t, begun(s, r), s.goal)
        known = either(neg(s.k.caching), inner == 0, end <= s.ntok[r])
        ensure(known, "the tokens of a state that can be hit are known")
        s.inner[t] = ite(inner == 1, s.goal, 0)
    s.before[t] = noted_before(s, t, adopted(s, t))
    s.grows[t] = s.tlen[t] + 1


@rule("GROUP-31", "T")
def leave_gap(s: State, t: Value) -> None:
    """The null block takes each place before the state that the step ends with.

    Source: MambaManager.allocate_new_blocks.
    """
    require(turn(s, s.k.owner(t)), "the request is being given slots")
    require(both(is_aligned(s, t), lacks_place(s, t)), "the aligned table lacks a place")
    require(s.grows[t] != 0, "the state before is noted")
    require(is_gap(s, t), "the place lies before the state")
    s.tab[t, s.tlen[t]] = s.k.NULL
    s.tlen[t] += 1


@rule("GROUP-32", "TB")
def move_state(s: State, t: Value, b: Value) -> None:
    """The states beside that would stand before the state that the step ends with move behind the
    others, in their order; the null block takes their places.

    Source: MambaManager.allocate_new_blocks. vllm-0.32.0 asserts that they are the request's own:
    where an output of an id that is used again has let one go, it raises.
    """
    require(turn(s, s.k.owner(t)), "the request is being given slots")
    require(both(is_aligned(s, t), lacks_place(s, t)), "the aligned table lacks a place")
    require(s.grows[t] != 0, "the state before is noted")
    require(neg(is_gap(s, t)), "no gap is left")
    require(moves_along(s, t), "a state beside has to move")
    i, n = next_to_move(s, t), s.tlen[t]
    require(b == s.tab[t, i], "it is the next one")
    if s.k.sem.gaps_swept:
        ensure(b != s.k.NULL, "a state that moves has not been given back")
    s.tab[t, i] = s.k.NULL
    s.tab[t, n] = b
    s.pos[t, b] = n
    s.tlen[t] = n + 1


def forget_before(s: State, t: Value) -> None:
    """A table that is empty has had no state."""
    if s.k.aligns:
        if s.tlen[t] == 0:
            s.before[t] = 0
            s.grows[t] = 0
            s.inner[t] = 0
            s.swept[t] = 0


def begin_turn(s: State) -> None:
    """Of whoever asks for slots no table has got longer, and nothing is given back yet."""
    if s.k.aligns:
        s.grows = s.k.blank("grows")
        s.swept = s.k.blank("swept")


def sweep(s: State, t: Value, i: Value, passed: Value) -> None:
    """The block at place i of table t is given back: it is swept if it stood next in the row, be
    it the one that the last growth began with or not.
    """
    if is_aligned(s, t):
        if either(s.k.sem.gaps_swept, i == next_swept(s, t, passed)):
            s.swept[t] += 1
