"""The requests and blocks of a replay, as an explanation shows them."""

from collections.abc import Iterable
from itertools import islice
from typing import Any

from nullblock.conformance.checker.explanation import BlockView, RequestView
from nullblock.conformance.checker.replay import Replay
from nullblock.spec.names import STATUS
from nullblock.spec.state import live


def totals(replay: Replay) -> str:
    """How full everything is."""
    s = replay.s
    return (
        f"by the rules {s.nr} run, {s.nwait} wait, {s.nfree} of {replay.k.usable} blocks are "
        f"free, {s.budget} of {s.limit} tokens are left in the step"
    )


def request(replay: Replay, r: int) -> RequestView:
    """One request."""
    return RequestView(r, _request(replay.s, r))


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
        + (f"{s.spec[r]} drafts, " if s.spec[r] else "")
        + f"{s.tlen[r]} blocks, priority {q.priority}, preempted {s.npre[r]} times"
    )


def blocks(replay: Replay, ids: Iterable[int] | None = None) -> list[BlockView]:
    """Some blocks, or all of them but the null block."""
    s = replay.s
    wanted = range(1, replay.k.usable + 1) if ids is None else list(ids)
    chosen = set(wanted)
    holders: dict[int, list[int]] = {}
    for r in s.k.requests:
        for i in range(s.tlen[r]):
            if (b := s.tab[r, i]) in chosen:
                holders.setdefault(b, []).append(r)
    places = {b: place for place, b in enumerate(s.stamp) if b in chosen}
    return [
        BlockView(b, s.ref[b], s.hsh[b], tuple(holders.get(b, ())), places.get(b)) for b in wanted
    ]


def next_free(replay: Replay, many: int) -> list[int]:
    """The blocks that would be given out next."""
    return list(islice(replay.s.stamp, many))
