"""The requests and blocks of a replay, as an explanation shows them."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from nullblock.conformance.checker.explanation import BlockView, RequestView
from nullblock.conformance.checker.replay import Replay
from nullblock.spec.names import STATUS
from nullblock.spec.state import live


def totals(replay: Replay) -> str:
    """How full everything is."""
    s = replay.s
    flying = int(s.steps) - int(s.oldest)
    return (
        f"by the rules {s.nr} run, {s.nwait} wait, {s.nfree} of {replay.k.usable} blocks are "
        f"free, {s.budget} of {s.limit} tokens are left in the step"
        + (f", {flying} steps are in flight" if flying else "")
    )


def request(replay: Replay, r: int, name: str | None = None) -> RequestView:
    """One request; `name`: what the engine calls it."""
    called = f", in the engine {name}" if name is not None else ""
    return RequestView(r, _request(replay.s, r) + called, name)


def _request(s: Any, r: int) -> str:
    if r not in s.k.requests:
        return f"request {r} is not known, or has ended and was reported"
    q = s.k.requests[r]
    what = f"request {r}: prompt of {q.prompt_len} tokens, at most {q.max_tokens} more"
    if any(q == r for q, _ in s.k.refused):
        return what + ", rejected at arrival"
    if not live(s, r):
        return what + ", ended"
    return what + (
        f", {STATUS[s.stage[r]]}, {s.comp[r]} of {s.ntok[r]} tokens computed, "
        + (f"{s.ph[r]} placeholders in flight, " if s.ph[r] else "")
        + (f"{s.spec[r]} drafts, " if s.spec[r] else "")
        + f"{_held(s, r)} blocks, priority {q.priority}, preempted {s.npre[r]} times"
    )


def _tables(s: Any, r: int) -> Iterator[int]:
    """The blocks in the tables of a request, null blocks among them."""
    return (s.tab[t, i] for t in s.k.tables(r) for i in range(s.tlen[t]))


def _held(s: Any, r: int) -> int:
    return sum(b != s.k.NULL for b in _tables(s, r))


def _chain(s: Any, b: int) -> int | None:
    h = s.hsh[b]
    return None if h is None else s.k.content(h)[0]


def blocks(replay: Replay, ids: Iterable[int] | None = None) -> list[BlockView]:
    """Some blocks, or all of them but the null block."""
    s = replay.s
    wanted = replay.k.pool if ids is None else list(ids)
    chosen = set(wanted)
    holders: dict[int, list[int]] = {}
    for r in s.k.requests:
        for b in _tables(s, r):
            if b in chosen:
                holders.setdefault(b, []).append(r)
    places = {b: place for place, b in enumerate(s.stamp) if b in chosen}
    return [
        BlockView(b, s.ref[b], _chain(s, b), tuple(holders.get(b, ())), places.get(b))
        for b in wanted
    ]


def next_free(replay: Replay, many: int) -> list[int]:
    """The blocks that would be given out next."""
    return list(islice(replay.s.stamp, many))
