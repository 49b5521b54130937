"""The picture of the NumPy engine."""

from hashlib import sha256

from nullblock.impl.picture import Picture, PoolPicture, RequestPicture
from nullblock.impl.prefix_cache import ROOT, PrefixCache
from nullblock.impl.requests import Request
from nullblock.impl.state import State


def portray(state: State, pool: bool) -> Picture:
    """The whole state, copied; without the block pool if that is not asked for."""
    return Picture(
        waiting=[request.id for request in state.waiting],
        running=state.running.ids.copy(),
        finished=list(dict.fromkeys(state.finished)),
        num_free=state.pool.num_free,
        requests={id: _request(state, request) for id, request in state.requests.items()},
        pool=_pool(state) if pool else None,
    )


def _request(state: State, request: Request) -> RequestPicture:
    running = state.running
    found = RequestPicture(
        is_running=request.is_running,
        num_preemptions=request.num_preemptions,
        num_tokens=request.num_tokens,
        num_prompt_tokens=request.num_prompt_tokens,
        num_output_placeholders=request.num_output_placeholders,
        num_discarded=request.num_discarded,
    )
    if request.is_running:
        place = running.index(request)
        found.num_tokens = int(running.num_tokens[place])
        found.num_output_placeholders = int(running.placeholders[place])
        found.num_discarded = int(running.discarded[place])
        found.num_computed_tokens = int(running.num_computed[place])
        found.blocks = running.blocks(place).tolist()
        found.num_cached_blocks = int(running.num_cached[place])
    return found


def _pool(state: State) -> PoolPicture:
    pool = state.pool
    carried = {b: name for b, name in enumerate(pool.cache.carried.tolist()) if name != ROOT}
    known = {ROOT: ""}
    contents = {name: _content(pool.cache, name, known) for name in carried.values()}
    return PoolPicture(
        free_queue=pool.free.in_order(),
        ref_cnt={b: n for b, n in enumerate(pool.ref_cnt.tolist()) if n},
        content={b: contents[name] for b, name in carried.items()},
        copies={content: pool.cache.blocks_of(name) for name, content in contents.items()},
    )


def _content(cache: PrefixCache, name: int, known: dict[int, str]) -> str:
    """A content, by what it is itself and the one before it; `known` grows.

    Of its own words the first is the name before, which may be another one the next time.
    """
    path = []
    while name not in known:
        path.append(name)
        name = int(cache.parent[name])
    found = known[name]
    for name in reversed(path):
        content = cache.contents[name]
        assert content is not None
        text, extra = content if isinstance(content, tuple) else (content, ())
        found = sha256(f"{found} {extra} ".encode() + text[8:]).hexdigest()
        known[name] = found
    return found
