"""Loops over the rules of tables whose layers see only a part of the past."""

from nullblock.spec.fields import HANDED
from nullblock.spec.groups import holds_outlived, is_outlived, last_outlived, passes_over, unseen
from nullblock.spec.kernel import State, Value, loop
from nullblock.spec.rules.groups import let_go, pass_over_block


def pass_over_unseen(s: State, r: Value) -> None:
    """Begin the prefix of a lookup with what the next token does not see (GROUP-2, GROUP-4)."""
    if s.k.windowed:
        for _ in loop(
            s,
            until=lambda: not passes_over(s, r),
            decreases=lambda: unseen(s, r) - s.nhit,
            changes=frozenset({"hit", "nhit"}),
        ):
            pass_over_block(s, r)


def let_outlived_go(s: State, r: Value) -> None:
    """Give back the blocks that no later token of the actor sees (GROUP-6)."""
    if s.k.windowed:
        for _ in loop(
            s,
            until=lambda: not holds_outlived(s, r),
            decreases=lambda: s.k.count("I", lambda i: is_outlived(s, r, i), by="outlived"),
            changes=HANDED,
        ):
            let_go(s, r, s.tab[r, last_outlived(s, r)])
