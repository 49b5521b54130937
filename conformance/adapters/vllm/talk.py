"""What is kept of streaming sessions while the engine is inside a call, and between calls.

Nothing in here is called while no request is a session.
"""

from collections import deque
from typing import Any, NamedTuple


class Taken(NamedTuple):
    """A session has taken a chunk."""

    request: Any
    before: list[bytes]
    """The hashes of its full blocks before."""
    first: int
    """Blocks of which it is told anew: those before it keep their hashes."""
    full: int
    """Its full blocks with it, as far as they have a hash."""
    tokens: int
    """What it has then."""
    parameters: Any
    """The sampling parameters of its turn before."""


class Place(NamedTuple):
    """Where a chunk puts its session under PRIORITY."""

    told: dict[str, Any]
    """Its arrival and tie; nothing where they do not count."""
    features: list[str]
    """What is not told of it."""


NOWHERE = Place({}, [])


class Talk:
    """What sessions do while the engine is inside a call. Memory: the sessions alive."""

    def __init__(self) -> None:
        self.taken: dict[str, Taken] = {}
        """Since the call began."""
        self.owing: dict[int, frozenset[str]] = {}
        """Of each step in flight since there are sessions: who gets a token from it."""
        self.held: dict[str, int] = {}
        """Blocks of sessions that stopped and wait, which they are not given again."""
        self.places: dict[str, deque[Place]] = {}
        """Of sessions, those of the chunks that they have not taken, where they count."""

    def took(self, request: Any, before: list[bytes], first: int, parameters: Any) -> None:
        """A session has taken a chunk; ``before``, ``first``: as of :class:`Taken`."""
        full, tokens = len(request.block_hashes), request.num_tokens
        self.taken[request.request_id] = Taken(request, before, first, full, tokens, parameters)

    def parameters(self, request: Any) -> Any:
        """The sampling parameters by which a request took the output at hand; None: it is gone."""
        if request is None:
            return None
        taken = self.taken.get(request.request_id)
        return request.sampling_params if taken is None else taken.parameters

    def hashes(self, id: str) -> list[bytes] | None:
        """The hashes of full blocks without the chunk that a session takes now; None: it takes
        none.
        """
        taken = self.taken.get(id)
        return None if taken is None else taken.before

    def forget(self, id: str) -> None:
        """A request has ended."""
        self.held.pop(id, None)
        self.places.pop(id, None)


def owing(requests: dict[str, Any], ids: list[str]) -> frozenset[str]:
    """Who gets a token from the step that was just decided."""
    return frozenset(id for id in ids if not requests[id].is_prefill_chunk)
