"""A lookup that asks one kind of layers after the other: under an EAGLE-like method, and where
vLLM 0.22.1 does not see to it that all agree. Elsewhere there is nothing here.
"""

from nullblock.spec.in_turn import (
    ASKING,
    all_have_said,
    asked,
    has_said,
    is_last,
    said,
    shortens_quietly,
)
from nullblock.spec.kernel import State, Value, both, ite, least, neg, require, rule
from nullblock.spec.rules.junctions import forget_agreed, note_said
from nullblock.spec.rules.loads import ask_remote


def begin_round(s: State, r: Value) -> None:
    """The kinds are asked how much of r is hit, at first within all of it but the last token."""
    s.looking = ASKING
    s.span = s.ntok[r] - 1
    s.tried = s.span


def forget_rounds(s: State) -> None:
    """Nobody has said anything of whom nobody looks up."""
    if s.k.in_turn:
        s.reach = s.k.blank("reach")


def _note(s: State, r: Value, t: Value) -> None:
    n = said(s, r, t)
    if neg(has_said(s, r, t)):
        s.reach[s.kind] = n
    note_said(s, r, n)
    shortens = both(n < s.span, neg(shortens_quietly(s, t)))
    s.calm = ite(shortens, 0, least(s.calm, s.k.last_kind) + 1)
    s.span = n
    s.kind += 1


@rule("GROUP-60", "R")
def ask_kind(s: State, r: Value) -> None:
    """With groups of an EAGLE-like method each kind of layers says in its turn how far a hit
    reaches, within what the kind before it has said: full attention first, and only once, then
    the others in the order of the groups.

    Source: HybridKVCacheCoordinator.find_longest_cache_hit.
    """
    require(both(s.k.in_turn, s.looking == ASKING), "the kinds of layers are asked")
    require(r == s.lr, "about this request")
    require(neg(all_have_said(s)), "a kind is left in this round")
    if s.k.in_turn:
        _note(s, r, asked(s, r))


@rule("GROUP-61", "R")
def end_round(s: State, r: Value) -> None:
    """They are asked again within what they have left, until a round shortens nothing; where full
    attention has one other kind beside it one round does, unless chunks end within a block.

    Source: HybridKVCacheCoordinator.find_longest_cache_hit. A second round would ask the other
    kind again for a block that it does not need. In vLLM there is none for such chunks either, so
    that a hit may end in a chunk none of whose blocks was looked for.
    """
    require(both(s.k.in_turn, s.looking == ASKING), "the kinds of layers are asked")
    require(r == s.lr, "about this request")
    require(all_have_said(s), "each has said how far")
    over = is_last(s)
    s.span = least(s.span, s.tried)
    s.tried = ite(over, 0, s.span)
    s.calm = ite(over, 0, s.calm)
    s.kind = 0
    if over:
        s.looking = 1
        forget_agreed(s, r)
        ask_remote(s, r)
