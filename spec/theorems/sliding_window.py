"""Sliding windows: there a miss says nothing of later blocks. A shortest way to an orphan.

A request under a sliding window gives back blocks that have slid out of it while it goes on
holding those behind them. The model is the pool alone: two requests take blocks, cache them and
leave as `nullblock.spec.rules.pool` has it, without a scheduler; `slide` is the one step added.
"""

from collections.abc import Callable, Iterator
from typing import Any

from nullblock.spec.concrete import Env, State, initial
from nullblock.spec.facts import Config, Request
from nullblock.spec.rules import pool
from nullblock.spec.state import lru
from nullblock.spec.theorems.chain import no_orphan
from nullblock.spec.theorems.theorem import Found, objection, shown, theorem

Move = tuple[str, str]
"""What happens, and to whom."""
BLOCKS, LONGEST = 3, 2
SHARED = 1
"""Leading blocks in which the two requests agree."""


class PoolEnv(Env):
    """Two requests whose chains part after the first block."""

    def want(self, r: Any, i: int) -> Any:
        """The chain hash of r's i-th block: the blocks up to it."""
        return tuple("*" if j < SHARED else r for j in range(i + 1))

    def par(self, h: Any) -> Any:
        """The chain before."""
        return h and h[:-1]


def empty() -> State:
    """Nobody holds anything."""
    k = PoolEnv(Config(BLOCKS + 1, 1, LONGEST, 2, LONGEST))
    k.requests = {r: Request(r, LONGEST, 1) for r in "ab"}
    return initial(k)


def take(s: Any, r: str) -> bool:
    """r takes the block at the front of the free queue."""
    b = lru(s)
    if b is None or s.tlen[r] == LONGEST:
        return False
    pool._dequeue(s, b)
    pool._unhash(s, b)
    s.ref[b] = 1
    pool._append(s, r, b)
    return True


def cache(s: Any, r: str) -> bool:
    """r's next block is full, and is cached."""
    if s.ncached[r] >= s.tlen[r]:
        return False
    pool._publish(s, r)
    return True


def _release(s: Any, r: str, i: int) -> None:
    b = s.tab[r, i]
    s.pos[r, b] = -1
    s.own[b] = s.k.remove(s.own[b], r)
    s.ref[b] -= 1
    if s.ref[b] == 0:
        s.pw[b] = s.tab[r, i - 1] if i else b
        pool._enqueue(s, b)


def held(s: Any, r: str) -> list[int]:
    """The places of r's table that hold a block."""
    return [i for i in range(s.tlen[r]) if s.pos[r, s.tab[r, i]] == i]


def leave(s: Any, r: str) -> bool:
    """r ends: its last block goes first (POOL-12)."""
    places = held(s, r)
    for i in reversed(places):
        _release(s, r, i)
    s.tlen[r] = s.ncached[r] = 0
    return bool(places)


def slide(s: Any, r: str) -> bool:
    """r's first block slides out of its window; those behind it stay."""
    places = held(s, r)
    if len(places) < 2 or s.ncached[r] < s.tlen[r]:
        return False
    _release(s, r, places[0])
    return True


FULL: dict[str, Callable[[Any, str], bool]] = {"take": take, "cache": cache, "leave": leave}
SLIDING = FULL | {"slide": slide}


def _key(s: Any) -> Any:
    """A state up to the numbers that only order things."""
    queue = sorted((b for b in s.k.domain("B") if s.stamp[b]), key=lambda b: s.stamp[b])
    tables = tuple((tuple(s.tab[r, i] for i in held(s, r)), s.tlen[r], s.ncached[r]) for r in "ab")
    return tuple(queue), tables, tuple(s.hsh[b] for b in s.k.domain("B"))


def orphan(s: Any) -> str | None:
    """A cached block whose parent's hash is nowhere; None: there is none."""
    cached = {h for h in s.hsh.values() if h is not None}
    for b, h in sorted(s.hsh.items()):
        if h is not None and len(h) > 1 and h[:-1] not in cached:
            at = len(h) - 1
            return f"block {b} is cached as block {at} of its chain, and the one before is not"
    return None


def search(moves: dict[str, Callable[[Any, str], bool]]) -> tuple[tuple[Move, ...], str, int]:
    """A shortest way to an orphan, what is wrong there, and how many states were seen; without an
    orphan the way is empty and all states were seen.
    """
    level: list[tuple[State, tuple[Move, ...]]] = [(empty(), ())]
    seen = {_key(level[0][0])}
    while level:
        following = []
        for s, way in level:
            for t, move in _moves(s, moves):
                wrong = orphan(t)
                if wrong:
                    return (*way, move), wrong, len(seen)
                if _key(t) not in seen:
                    seen.add(_key(t))
                    following.append((t, (*way, move)))
        level = following
    return (), "", len(seen)


def _moves(s: State, moves: dict[str, Callable[[Any, str], bool]]) -> Iterator[tuple[State, Move]]:
    for name, move in moves.items():
        for r in "ab":
            t = s.copy()
            if move(t, r):
                yield t, (name, r)


def story() -> str:
    """The shortest way, told."""
    way, wrong, _ = search(SLIDING)
    steps = "; ".join(f"{n}. {r} {name}s" for n, (name, r) in enumerate(way, start=1))
    return f"{len(way)} steps over {BLOCKS} blocks: {steps}. Then {wrong}."


def _sliding_breaks_it() -> Found:
    way, wrong, seen = search(SLIDING)
    what = f"under a sliding window some way leads to an orphan ({seen} states seen)"
    return (shown("THEOREM-13", what, bool(way), None if way else "no orphan was found"),)


@theorem(
    "THEOREM-13",
    engine="search: a shortest counterexample to THEOREM-1, in a pool of three blocks",
    rests_on=("POOL-10", "POOL-12", "HASH-12"),
    assumes=(
        "a model of the pool alone, with vLLM's remove_skipped_blocks as the one step added",
    ),
    canaries={
        "an orphan without slides": lambda: (
            shown("canary", "some way leads to an orphan", bool(search(FULL)[0])),
        ),
    },
)
def orphans_under_sliding_windows() -> Found:
    """Under a sliding window a miss does not imply a miss at every later block: a block slides
    out and is evicted while those behind it stay cached.
    """
    return _sliding_breaks_it()


def objection_of(s: State) -> str | None:
    """What THEOREM-1 says against a state of this model."""
    return objection(s, no_orphan, "B")
