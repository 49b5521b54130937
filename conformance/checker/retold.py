"""What a state says once more of requests that have arrived: it has to be what was told then."""

from typing import Any

from msgspec import UNSET

from nullblock.conformance.checker.chains import Chain
from nullblock.conformance.checker.facts import Recorded
from nullblock.conformance.checker.items import ITEMS, items
from nullblock.conformance.trace.errors import Malformed
from nullblock.conformance.trace.records import RequestState, State

_RECORDER = "record it again: a recorder writes what happens, in its order"
FACTS = {
    "prompt": "prompt_len",
    "max_tokens": "max_tokens",
    "min_tokens": "min_tokens",
    "priority": "priority",
    "skip_reading_prefix_cache": "skip_reading_prefix_cache",
    "adapter": "adapter",
}
"""Fields of a request in a ``state``, and what they are called in its facts."""

NOT_TOLD = "in_flight_of_another"
"""A feature of a request's state, not of its arrival: something that only who begins there, and so
does not know of those that had its id before, has to be told."""
OF_TURNS = ("prompt", "max_tokens")
"""Those that are compared as decisions, of a session."""


def compare(k: Recorded, seen: State) -> None:
    """Compare the inputs that a state repeats, of the requests that the rules know.

    Raises Malformed, without a line number, where it contradicts what was told before.
    """
    for q in seen.requests:
        if q.id not in k.requests or q.prompt is UNSET:
            continue
        for name, was, now in _facts(k, q):
            if was != now:
                what = f"{name} of request {q.id}: {now}, which was {was} before"
                raise Malformed(what, _RECORDER)
        if k.caching and q.chain is not UNSET:
            _chain(k, q, Chain(q.chain))


def _facts(k: Recorded, q: RequestState) -> list[tuple[str, Any, Any]]:
    """Name, value told before, and value told now. The order of arrival counts under PRIORITY."""
    known = k.requests[q.id]
    # What a session has for a prompt, and may do with it, follows from decisions.
    facts = {n: f for n, f in FACTS.items() if n not in OF_TURNS} if known.resumable else FACTS
    rows = [(name, getattr(known, fact), _told(getattr(q, name))) for name, fact in facts.items()]
    # A chunk of a session may have brought it encoder inputs.
    told = {*k.features[q.id]} | ({ITEMS} if known.items else set())
    rows.append(("features", sorted(told), sorted({*q.features} - {NOT_TOLD})))
    rows.append(("items", known.items, items(q.items)))
    if k.priority:
        rows += [("arrival", known.arrival, _told(q.arrival)), ("tie", known.id[0], _told(q.tie))]
    return rows


def _told(value: Any) -> Any:
    """What a field says: where it is left out it is 0."""
    return 0 if value is UNSET else value


def _chain(k: Recorded, q: RequestState, told: Chain) -> None:
    """The content of its full blocks."""
    many = q.tokens // k.block_size
    # Where a session drops tokens their blocks may keep their numbers.
    if told.length < many or (told.length > many and not k.requests[q.id].resumable):
        what = f"{told.length} chain numbers for {q.tokens} tokens of request {q.id}"
        raise Malformed(what, "one for each full block")
    before = k.chains[q.id]
    if not before.agrees(told) or told.length > max(before.length, many):
        raise Malformed(f"other chain numbers of request {q.id} than before", _RECORDER)
