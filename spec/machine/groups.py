"""Loops over the rules of tables whose layers see only a part of the past."""

from nullblock.spec.fields import HANDED
from nullblock.spec.groups import holds_outlived, last_outlived, may_go, sees_part
from nullblock.spec.kernel import State, Value, loop
from nullblock.spec.rules.groups import let_go, tell_table


def let_outlived_go(s: State, t: Value) -> None:
    """Give back the blocks of table t that no later token of the actor sees (GROUP-6)."""
    if s.k.windowed and sees_part(s, t):
        for _ in loop(
            s,
            until=lambda: not holds_outlived(s, t),
            decreases=lambda: s.k.count("I", lambda i: may_go(s, t, i), by="outlived"),
            changes=HANDED,
        ):
            let_go(s, t, s.tab[t, last_outlived(s, t)])


def tell_tables(s: State, r: Value) -> None:
    """Each table of a request that is scheduled is known to the worker from now on (GROUP-20)."""
    if s.k.several:
        if s.sched[r] != 0:
            for t in s.k.tables(r):
                tell_table(s, t)
