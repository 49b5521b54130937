"""Loops over the rules of remote KV in tables."""

from nullblock.spec.fields import HANDED
from nullblock.spec.groups import is_padding
from nullblock.spec.hybrid import pending
from nullblock.spec.kernel import State, Value, loop, neg
from nullblock.spec.loaded import (
    holds_left_behind,
    is_left_behind,
    lacks_to_load,
    last_left_behind,
    to_load,
)
from nullblock.spec.rules.groups import pad
from nullblock.spec.rules.loaded import let_left_behind_go, take_to_load
from nullblock.spec.rules.pool import adopt
from nullblock.spec.state import lru


def takes_to_load(s: State) -> Value:
    """Whether blocks to load into are taken apart from the others: of several groups, and of
    states, which are not taken one behind the other (GROUP-31).
    """
    return s.ext > 0 if s.k.connector and (s.k.several or s.k.aligns) else False


def adopt_and_load(s: State, t: Value) -> None:
    """In vllm-0.22.1 the actor's table t adopts its hits, and has the blocks to load into taken,
    before the tables behind it do (REMOTE-51).
    """
    if s.k.several and not s.k.sem.hits_precede_loads:
        if takes_to_load(s):
            for _ in loop(
                s,
                until=lambda: pending(s, t) == 0,
                decreases=lambda: pending(s, t),
                changes=HANDED | {"na", "nevict", "evset", "comp"},
            ):
                if is_padding(s):
                    pad(s, t)
                else:
                    adopt(s, t, s.hit[s.na])
            take_to_be_loaded(s, t)


def take_to_be_loaded(s: State, t: Value) -> None:
    """Take the blocks that are loaded into of the actor's table t (REMOTE-51)."""
    if s.k.several or s.k.aligns:
        if takes_to_load(s):
            for _ in loop(
                s,
                until=lambda: neg(lacks_to_load(s, t)),
                decreases=lambda: to_load(s, t) - s.tlen[t],
                changes=HANDED,
            ):
                take_to_load(s, t, lru(s))


def let_all_left_behind_go(s: State, t: Value) -> None:
    """Give back the blocks of table t of a request that ends that no token would see
    (REMOTE-52).
    """
    if s.k.windowed and s.k.connector:
        for _ in loop(
            s,
            until=lambda: neg(holds_left_behind(s, t)),
            decreases=lambda: s.k.count("I", lambda i: is_left_behind(s, t, i)),
            changes=HANDED,
        ):
            let_left_behind_go(s, t, s.tab[t, last_left_behind(s, t)])
