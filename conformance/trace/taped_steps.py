"""What an engine of ours tells its workers of requests, as a trace tells it."""

from collections.abc import Callable

from msgspec import UNSET

from nullblock.conformance.engine import Fields
from nullblock.conformance.trace.records import CachedRequests, NewRequest


def new_request(new: Fields, number: Callable[[str], int]) -> NewRequest:
    """One that the workers have not seen; ``number``: what stands for an id."""
    sent = new.get("prefill_len")
    return NewRequest(
        id=number(new["id"]),
        computed=new["computed"],
        blocks=new["blocks"],
        prefill=UNSET if sent is None else sent,
    )


def cached_requests(cached: list[Fields], number: Callable[[str], int]) -> CachedRequests:
    """The requests that the workers know; ``number``: what stands for an id."""
    ids = [number(one["id"]) for one in cached]
    rows = list(zip(ids, cached, strict=True))
    return CachedRequests(
        ids=ids,
        computed=[one["computed"] for one in cached],
        num_output=[one["num_output"] for one in cached],
        blocks=[(r, blocks) for r, one in rows if (blocks := one["new_blocks"]) is not None],
        resumed=[r for r, one in rows if one["resumed"]],
        all_tokens=[(r, many) for r, one in rows if (many := one["all_token_ids"]) is not None],
    )
