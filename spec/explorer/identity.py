"""When two states are the same.

A state is every field. What is left out is named here, and is what nothing between two steps
reads: the absolute values of clocks, counters of what is past, and entries of maps beyond their
live range. Values that break an order are kept as they are, and so is everything where something
is half-way, so that no fault is repaired by naming it anew.

Blocks get canonical ids. No rule compares the names of blocks, so states that differ by a
permutation of them have the same future, and one of them stands for all: that in which blocks are
numbered as they are met in the tables, request by request, and then along the free queue. Requests
keep their names: no two of a scope's are alike.
"""

from operator import attrgetter
from typing import Any

from nullblock.spec.carriers import Minus, Nothing, Zero
from nullblock.spec.concrete import MAPS, State
from nullblock.spec.explorer.model import SCALARS
from nullblock.spec.fields import IDLE, RUNNING
from nullblock.spec.flight import answers, owes_token
from nullblock.spec.state import live

PAST = (
    *("at", "limit", "budget", "used", "slots", "mates"),
    *("turned", "adm", "blocked", "halted", "goal", "ext", "left", "cutoff"),
    *("gate", "nrej", "upto", "ebudget", "pfrom", "ptokens", "pitem", "pcost", "pbudget"),
)
"""Of the step before: the next step starts by setting them."""
BY_TABLE = ("tlen", "ncached", "told", "before", "grows", "inner", "swept")
BY_REQUEST = (
    *("stage", "comp", "ntok", "sched", "ph", "drop", "fresh"),
    *("spec", "drafted", "pd", "old", "chunk", "awaits", "came"),
    *("turns", "sent", "ended", "grown", "lost", "past", "also"),
    *("remote", "unsure", "failed", "kept_for", "loadto"),
)
BY_ITEM = ("kept", "unused", "inputs", "newly", "gone", "plan", "made", "holds")
GONE = -1
"""When the request of an entry arrived, once it is gone: like no arrival."""
NOBODY = ("lr", "leaver", "actor", "taker", "planner")
"""Who acted last."""


class Identity:
    """Numbers the parts of states, so that a state is a short tuple of small integers and equal
    parts are kept once.
    """

    def __init__(self, canonical: bool = True) -> None:
        """Without `canonical`, blocks keep their names."""
        self.canonical = canonical
        self.parts: dict[str, dict[Any, tuple[int, Any]]] = {f: {} for f in MAPS}
        self.scalars: dict[Any, int] = {}
        self.scalars_of = attrgetter(*SCALARS)

    def key(self, s: State) -> tuple[tuple[int, ...], tuple[Any, ...]]:
        """The identity of s, which is brought into its normal form, and the vector of its parts
        in the order of `nullblock.spec.explorer.reads.VECTOR`.
        """
        normalise(s)
        if self.canonical:
            rename(s)
        numbers = []
        for f, known in self.parts.items():
            whole = getattr(s, f)
            part = frozenset(whole.items())
            found = known.get(part)
            if found is None:
                found = known[part] = (len(known), whole)
            else:
                setattr(s, f, found[1])
            numbers.append(found[0])
        scalars = self.scalars_of(s)
        vector = (*numbers, *scalars)
        numbers.append(self.scalars.setdefault(scalars, len(self.scalars)))
        return tuple(numbers), vector


def normalise(s: Any) -> None:
    """Bring a state between steps into its normal form."""
    _flights(s)
    _clocks(s)
    _requests(s)
    held, hsh = s.ref, s.hsh
    s.ref = Zero((b, n) for b, n in held.items() if n)
    s.hsh = Nothing((b, h) for b, h in hsh.items() if h is not None)
    s.own = s.own.__class__((b, rs) for b, rs in s.own.items() if rs)
    s.pos = Minus((rb, i) for rb, i in s.pos.items() if i >= 0)
    idle = [b for b in s.hsh if not held[b]]
    s.done = Zero((b, s.done[b]) for b in idle)
    s.pw = Nothing((b, s.pw[b]) for b in idle if s.evicted != 1 and not s.k.windowed)
    s.run = Nothing((i, s.run[i]) for i in range(s.nr))
    s.users = s.users.__class__((n, rs) for n, rs in s.users.items() if rs)
    for f in BY_ITEM:
        setattr(s, f, Zero((n, v) for n, v in getattr(s, f).items() if v))
    if s.phase == IDLE and not (s.leaving or s.looking or s.nhit or s.asked or s.open):
        _forget(s)


def _forget(s: Any) -> None:
    """Leave out what is over, in a state in which nothing is half-way."""
    s.hit, s.rej = Nothing(), Nothing()
    s.preempted = s.finished = s.prev = s.k.empty("R")
    s.ends = s.k.blank("ends")
    for f in PAST:
        setattr(s, f, 0)
    for f in NOBODY:
        setattr(s, f, None)


def order(s: Any) -> list[int]:
    """The blocks as canonical ids number them: the first is 1. Blocks that stand nowhere, as no
    sound state has them, come last.
    """
    blocks = range(1, s.k.usable + 1)
    held = (s.tab[t, i] for t in s.k.domain("T") for i in range(s.tlen[t]))
    queue = sorted((b for b, n in s.stamp.items() if n), key=s.stamp.__getitem__)
    met = dict.fromkeys(b for b in (*held, *queue) if b in blocks)
    return [*met, *(b for b in blocks if b not in met)]


def rename(s: Any) -> None:
    """Give the blocks their canonical ids."""
    name = {b: i for i, b in enumerate(order(s), start=1)}
    if all(b == i for b, i in name.items()):
        return
    of = name.get
    by_block = ("ref", "stamp", "hsh", "hstamp", "own", "done", "anew")
    for f in (*by_block, "invalid", "claimed", "evict"):
        whole = getattr(s, f)
        setattr(s, f, whole.__class__((of(b, b), v) for b, v in whole.items()))
    s.pw = Nothing((of(b, b), of(p, p)) for b, p in s.pw.items())
    s.pos = Minus(((r, of(b, b)), i) for (r, b), i in s.pos.items())
    s.tab = Nothing((ri, of(b, b)) for ri, b in s.tab.items())
    s.hit = Nothing((i, of(b, b)) for i, b in s.hit.items())
    s.freeset = frozenset(of(b, b) for b in s.freeset)
    s.evset = frozenset(of(b, b) for b in s.evset)


def _flights(s: Any) -> None:
    """Entries, steps and outputs are numbered from 0: the oldest in flight. Of those that are over
    nothing is read.
    """
    if s.cur < 0:
        return
    first, live = s.cur, range(s.cur, s.nframe)

    def moved(m: Any) -> Any:
        return m.__class__((i - first, m[i]) for i in live)

    owed = [i for i in live if owes_token(s, i)]
    s.nth = Zero((i - first, s.nth[i] - s.base[s.frame[i]]) for i in owed)
    s.entry = Minus(
        ((r, n), s.entry[r, s.base[r] + n] - first)
        for r in s.k.requests
        for n in range(s.drop[r] + s.ph[r])
    )
    s.since = Zero(
        (r, s.since[r] - first)
        for r in s.k.requests
        if s.stage[r] == RUNNING and s.since[r] > first
    )
    s.cum = Zero(
        ((r, n), s.cum[r, s.base[r] + n] - s.landed[r])
        for r in s.k.requests
        for n in range(s.drop[r], s.drop[r] + s.ph[r])
        if s.cum[r, s.base[r] + n] != s.landed[r]
    )
    flown = ((r, s.flown[r] - s.landed[r]) for r in s.k.requests)
    s.flown, s.landed = Zero((r, n) for r, n in flown if n), Zero()
    s.base = Zero()
    s.spot = Zero((i - first, s.spot[i] - s.slip[s.frame[i]]) for i in live if answers(s, i))
    s.slip = Zero()
    for f in ("frame", "born", "grant", "due"):
        setattr(s, f, moved(getattr(s, f)))
    s.ndraft = Zero((i - first, s.ndraft[i]) for i in live if s.ndraft[i])
    steps = range(s.oldest, s.steps)
    s.fend = Zero((n - s.oldest, s.fend[n] - first) for n in steps)
    s.paced = Zero((r, n - s.oldest) for r in s.k.requests if (n := s.paced[r]) > s.steps)
    s.cur, s.nframe, s.upto = 0, s.nframe - first, s.upto - first
    s.oldest, s.steps = 0, s.steps - s.oldest


def _requests(s: Any) -> None:
    R = s.k.requests
    T = s.k.domain("T")
    s.tab = Nothing(((t, i), s.tab[t, i]) for t in T for i in range(s.tlen[t]))
    for fields, keys in ((BY_TABLE, T), (BY_REQUEST, R)):
        for f in fields:
            whole = getattr(s, f)
            setattr(s, f, Zero((x, whole[x]) for x in keys if whole[x]))
    s.loadfrom = Zero((r, s.loadfrom[r]) for r in R if s.loadto[r] and s.loadfrom[r])
    s.ix = Zero((r, s.ix[r]) for r in R if s.stage[r] == RUNNING)
    s.npre = Zero()


def _dense(m: Any, order: Any = None) -> Any:
    """The map with its values numbered from 1 in their order, zeros left out."""
    values = sorted({v for v in m.values() if v}) if order is None else order
    number = {v: i for i, v in enumerate(values, start=1)}
    return Zero((x, number[v]) for x, v in m.items() if v)


def _queue(places: Any, k: Any) -> Any:
    """The places in a queue, numbered from 1: under PRIORITY its order is another one."""
    waiting = {r: v for r, v in places.items() if v}
    if k.priority and len(set(waiting.values())) == len(waiting):
        return Zero((r, i) for i, r in enumerate(sorted(waiting, key=k.order), start=1))
    return _dense(places)


def _within(m: Any, low: int, high: int) -> bool:
    return low < 0 < high and all(low < v < high for v in m.values())


def _clocks(s: Any) -> None:
    """Stamps count only by their order. Those out of their range are faults, and are kept."""
    k = s.k
    owned = {i for i, r in s.frame.items() if s.born[i] and s.born[i] == s.arr[r]}
    if _within(s.stamp, s.front, s.back):
        s.stamp = _dense(s.stamp)
        s.front, s.back = -1, max(s.stamp.values(), default=0) + 1
    if _within(s.hstamp, -1, s.hclock):
        s.hstamp = _dense(s.hstamp)
        s.hclock = max(s.hstamp.values(), default=0) + 1
    if _within(s.rank, s.lo, s.hi):
        s.rank, s.more = _with_further(s.rank, s.more, s.morefrom, s.moreto, k)
        s.moreto = _num_further(s.morefrom, s.moreto, k)
        s.morefrom = Zero()
        s.lo, s.hi = -1, max((*s.rank.values(), *s.more.values()), default=0) + 1
    if _within(s.skip, -1, s.sback):
        s.skip, s.again = _with_further(s.skip, s.again, s.againfrom, s.againto, k)
        s.againto = _num_further(s.againfrom, s.againto, k)
        s.againfrom = Zero()
        s.sback = max((*s.skip.values(), *s.again.values()), default=0) + 1
    if _within(s.unused, -1, s.uback):
        s.unused = _dense(s.unused)
        s.uback = max(s.unused.values(), default=0) + 1
    if _within(s.arr, -1, s.aclk) and _within(s.born, -2, s.aclk):
        s.arr = Zero((r, 1) for r, v in s.arr.items() if v) if k.priority else _dense(s.arr)
        s.aclk = max(s.arr.values(), default=0) + 1
        s.born = Zero((i, s.arr[r] if i in owned else GONE) for i, r in s.frame.items())


def _with_further(places: Any, further: Any, first: Any, end: Any, k: Any) -> tuple[Any, Any]:
    """The places in a queue, and those that a session has there besides: in vllm-0.22.1 it may
    have several.
    """
    others = {
        (r, i - first[r]): further[r, i] for r in k.requests for i in range(first[r], end[r])
    }
    values = sorted((*(v for v in places.values() if v), *others.values()))
    return _dense(places, values) if others else _queue(places, k), _dense(others, values)


def _num_further(first: Any, end: Any, k: Any) -> Any:
    """How many those are."""
    return Zero((r, end[r] - first[r]) for r in k.requests if end[r] > first[r])


def census(s: Any) -> tuple[int, int]:
    """How many requests are live, and how many of them run."""
    return sum(1 for r in s.k.requests if live(s, r)), s.nr
