"""Two states are one exactly if they behave alike and are alike in all that a statement says."""

import itertools
import random
from typing import Any

import pytest
from world import random_states

from nullblock.spec.carriers import Zero
from nullblock.spec.evidence import RELEASED
from nullblock.spec.explorer.actions import Evict, actions, perform
from nullblock.spec.explorer.identity import NOBODY, PAST, Identity, normalise, order, rename
from nullblock.spec.explorer.model import beginning
from nullblock.spec.explorer.reads import reads, writes
from nullblock.spec.explorer.scopes import STANDARD
from nullblock.spec.explorer.search import STEP_SCALARS
from nullblock.spec.explorer.transitions import CLAIMS
from nullblock.spec.fields import FIELDS, RUNNING
from nullblock.spec.invariants import INVARIANTS
from nullblock.spec.kernel import RULES, Engines
from nullblock.spec.profiles import NORMATIVE

STATEMENTS = INVARIANTS | CLAIMS


def permuted(s: Any, names: list[int]) -> Any:
    """The state with its blocks called otherwise."""
    s = s.copy()
    of = dict(zip(range(1, s.k.usable + 1), names, strict=True)).get
    for f in ("ref", "stamp", "hsh", "hstamp", "own", "done"):
        whole = getattr(s, f)
        setattr(s, f, whole.__class__((of(b, b), v) for b, v in whole.items()))
    s.pw = s.pw.__class__((of(b), of(p, p)) for b, p in s.pw.items())
    s.pos = s.pos.__class__(((r, of(b)), i) for (r, b), i in s.pos.items())
    s.tab = s.tab.__class__((ri, of(b, b)) for ri, b in s.tab.items())
    s.freeset = frozenset(map(of, s.freeset))
    return s


@pytest.mark.parametrize("name", ["core", "priority", "orphans", "inflight"])
def test_states_that_differ_by_names_of_blocks_are_one(name: str) -> None:
    """Whatever the blocks are called, a state has one identity, and so have its successors."""
    scope, chance = STANDARD[name], random.Random(3)
    for s in itertools.islice(random_states(scope, 5, 400), 0, None, 7):
        names = list(range(1, s.k.usable + 1))
        chance.shuffle(names)
        t, keys = permuted(s, names), Identity()
        for action in actions(s, scope):
            a, b = s.copy(), t.copy()
            perform(a, action)
            # An eviction names a block: the same one under its other name.
            perform(b, Evict(names[action.block - 1]) if isinstance(action, Evict) else action)
            assert keys.key(a) == keys.key(b)
        assert keys.key(s.copy()) == keys.key(t.copy())


def test_the_order_of_blocks_is_a_permutation() -> None:
    """Every block is numbered once, in states that are sound and in one that is not."""
    for s in random_states(STANDARD["core"], 9, 200):
        normalise(s)
        assert sorted(order(s)) == list(range(1, s.k.usable + 1))
        rename(s)
        assert order(s) == list(range(1, s.k.usable + 1))
    s.stamp[1], s.tlen["a"] = 0, 2
    s.tab["a", 0] = s.tab["a", 1] = None
    assert sorted(order(s)) == list(range(1, s.k.usable + 1))


def littered(s: Any, chance: random.Random) -> Any:
    """The state with anything at all where identity does not look, and clocks that started
    earlier.
    """
    s, R, B = s.copy(), list(s.k.requests), range(1, s.k.usable + 1)
    for f in PAST:
        setattr(s, f, chance.randrange(1, 9) if f != "nrej" else chance.randrange(2))
    for f in NOBODY:
        setattr(s, f, chance.choice(R))
    for f in ("preempted", "finished", "prev"):
        setattr(s, f, frozenset(chance.sample(R, 2)))
    s.rej[0], s.hit[0] = chance.choice(R), chance.choice(B)
    s.run[s.nr] = s.frame[s.nframe] = chance.choice(R)
    for f in ("born", "grant", "due", "spot", "nth", "ndraft"):
        getattr(s, f)[s.nframe] = chance.randrange(9)
    s.fend[s.steps] = chance.randrange(9)
    for r in R:
        s.npre[r], s.tab[r, s.tlen[r]] = chance.randrange(9), chance.choice(B)
        if s.stage[r] != RUNNING:
            s.ix[r] = chance.randrange(-9, 0)
            s.since[r] = chance.randrange(9)
        s.entry[r, s.base[r] + s.drop[r] + s.ph[r]] = chance.randrange(9)
        s.cum[r, s.base[r] + s.drop[r] + s.ph[r]] = chance.randrange(9)
    for b in B:
        if s.ref[b] or s.hsh[b] is None:
            s.done[b], s.pw[b] = chance.randrange(2), chance.choice(B)
    for f, clock in (("stamp", "back"), ("hstamp", "hclock"), ("arr", "aclk"), ("rank", "hi")):
        earlier, whole = chance.randrange(9), getattr(s, f)
        away = {x: v + earlier * ((v > 0) - (v < 0)) for x, v in whole.items()}
        setattr(s, f, whole.__class__(away))
        s.lo -= earlier
        if f == "arr":
            s.born = Zero((i, v + earlier) for i, v in s.born.items())
        setattr(s, clock, getattr(s, clock) + earlier + chance.randrange(9))
    s.front, s.lo = s.front - chance.randrange(9), s.lo - chance.randrange(9)
    return s


@pytest.mark.parametrize(
    "name",
    ["core", "priority", "inflight", "orphans", "pauses", "deep", "resets", "drafts-resets"],
)
def test_what_is_left_out_of_a_state_is_not_read(name: str) -> None:
    """What a state's identity leaves out, set to anything, changes neither what may happen nor
    what does.
    """
    scope, chance = STANDARD[name], random.Random(1)
    for s in itertools.islice(random_states(scope, 2, 400), 0, None, 7):
        keys, litter = Identity(), littered(s, chance)
        assert keys.key(litter.copy()) == keys.key(s.copy())
        assert list(actions(litter, scope)) == list(actions(s, scope))
        for action in actions(s, scope):
            a, b = s.copy(), litter.copy()
            perform(a, action)
            perform(b, action)
            assert keys.key(a) == keys.key(b), action


PLAIN = ("core", "priority", "inflight", "orphans", "pauses", "deep", "resets")


def some_value(sort: str, s: Any, chance: random.Random) -> Any:
    """A value of a sort of field, sound or not."""
    R, B = tuple(s.k.requests), tuple(range(1, s.k.usable + 1))
    values: dict[str, Any] = {
        "R": (*R, None),
        "B": (*B, None),
        "I": range(-2, 9),
        "H": (*range(1, len(s.k.parents)), None),
        "{R}": (frozenset(), frozenset(R), frozenset(R[:1])),
        "{T}": (frozenset(), frozenset(R), frozenset(R[:1])),
        "{B}": (frozenset(), frozenset(B), frozenset(B[1:])),
    }
    return chance.choice(values[sort])


def damaged(s: Any, chance: random.Random) -> Any:
    """The state with one value anywhere replaced."""
    s = s.copy()
    f = chance.choice(list(FIELDS))
    *domain, sort = FIELDS[f].split(">")
    if not domain:
        setattr(s, f, some_value(sort, s, chance))
        return s
    key = tuple(
        chance.randrange(4) if c == "I" else chance.choice(sorted(s.k.domain(c)))
        for c in domain[0]
    )
    getattr(s, f)[key if len(key) > 1 else key[0]] = some_value(sort, s, chance)
    return s


def verdicts(s: Any) -> dict[str, bool]:
    """What every statement about states says; one that loses its way says no."""
    found = {}
    for id in STATEMENTS.keys() - STEP_SCALARS:
        try:
            found[id] = bool(STATEMENTS[id](s))
        except (LookupError, TypeError):
            found[id] = False
    return found


def test_no_fault_is_repaired_or_made_by_naming_anew() -> None:
    """In a state that is wrong anywhere every statement says of the normal form what it says of
    the state; those about an open step are checked before.
    """
    chance, broken = random.Random(7), set()
    for name in (*PLAIN, "drafts-resets"):
        for s in itertools.islice(random_states(STANDARD[name], 6, 300), 0, None, 2):
            for _ in range(8):
                t = damaged(s, chance)
                before = verdicts(t)
                normalise(t)
                rename(t)
                assert verdicts(t) == before
                broken |= {id for id, holds in before.items() if not holds}
    assert len(broken) > 40


def test_a_statement_is_checked_again_when_what_it_reads_changes() -> None:
    """The fields that a statement is said to read are those it really asks a state for."""
    for name in ("core", "priority", "inflight"):
        for s in random_states(STANDARD[name], 4, 60):
            for id, holds in STATEMENTS.items():
                asked: set[str] = set()
                watched = _Watched(s, asked)
                assert holds(watched), id
                assert asked <= reads(holds) | {"k"}, (id, asked - reads(holds))


def test_what_a_rule_changes_it_is_known_to_write() -> None:
    """After a rule only statements are checked again that read what it may write: it changes
    nothing else, and not all rules write all.
    """
    known = {rule.id: writes(rule.body) for rule in RULES.values()}
    assert all(known.values()) and max(map(len, known.values())) < len(FIELDS) / 2
    fired: set[str] = set()
    last: list[Any] = []

    def after(s: Any, id: str) -> None:
        changed = {f for f in FIELDS if getattr(s, f) != getattr(last[0], f)}
        assert changed <= known[id], (id, changed - known[id])
        fired.add(id)
        last[:] = [s.copy()]

    outer, Engines.after_rule = Engines.after_rule, after
    try:
        for name in (
            "core",
            "priority",
            "uncut",
            "inflight",
            "orphans",
            "pauses",
            "ahead",
            "resets",
            "drafts",
            "drafts-ahead",
            "chunks",
            "window",
            "grammars",
            "adapters",
            "items",
            "items-ahead",
            "items-loaded",
            "silence",
            "silence-ahead",
            "hybrid-kinds",
            "hybrid-chunks",
            "hybrid-ahead",
            "rules-mamba-align",
            "rules-cross",
            "pooling",
            "sessions",
            "sessions-ahead",
            "sessions-hybrid",
            "clients",
            "loads",
            "sends",
            "lossy",
            "lossy-now",
            "lossy-now-ends",
            "remote-window",
            "remote-hybrid",
            "loads-before-one",
        ):
            last[:] = [beginning(STANDARD[name], NORMATIVE)]
            for _ in random_states(STANDARD[name], 8, 400):
                pass
    finally:
        Engines.after_rule = outer
    idle = {rule.id for rule in RULES.values()} - fired
    assert RELEASED <= idle and len(idle - RELEASED) <= 3, sorted(idle - RELEASED)


class _Watched:
    """A state that notes which fields it is asked for."""

    def __init__(self, s: Any, asked: set[str]) -> None:
        object.__setattr__(self, "_s", s)
        object.__setattr__(self, "_asked", asked)

    def __getattr__(self, name: str) -> Any:
        object.__getattribute__(self, "_asked").add(name)
        return getattr(object.__getattribute__(self, "_s"), name)
