"""What a concrete environment answers about the order under PRIORITY, and about the skipped queue
where it is a heap (WAIT-53).

The heap is Python's: while it is out of order, where `heapq` puts whom decides who comes first, so
`heapq` itself is asked. A field has who stands in it, by place.
"""

import heapq
from collections import Counter
from typing import Any

from nullblock.spec.carriers import CARRIERS
from nullblock.spec.facts import Request


class Backwards(tuple[Any, ...]):
    """A tuple that comes before those that it is greater than."""

    __slots__ = ()

    def __lt__(self, other: tuple[Any, ...]) -> bool:
        return tuple.__gt__(self, other)

    def __le__(self, other: tuple[Any, ...]) -> bool:
        return tuple.__ge__(self, other)


class Place:
    """A place in a heap: whose it is, compared as he stands now."""

    __slots__ = ("k", "r", "s")

    def __init__(self, k: "Heaps", s: Any, r: Any) -> None:
        self.k, self.s, self.r = k, s, r

    def __lt__(self, other: "Place") -> bool:
        k, turns = self.k, self.s.turns
        return k.order(self.r, turns[self.r]) < k.order(other.r, turns[other.r])


class Heaps:
    """Who comes before whom, and a heap `m` of the state `s` after each of vLLM's operations.
    Whoever is compared has the place that its last chunk gives it.
    """

    sem: Any
    requests: dict[Any, Request]

    def arrival(self, r: Any, n: int) -> float:
        """When r arrived, or the n-th chunk that it has taken."""
        q = self.requests[r]
        return q.chunks[n - 1].arrival if n else q.arrival

    def order(self, r: Any, n: int = 0) -> tuple[int, float, Any]:
        """Place in a PRIORITY queue, least first, of a request that has taken n chunks."""
        q = self.requests[r]
        return (q.priority, self.arrival(r, n), q.id)

    def behind(self, r: Any, n: int = 0) -> Backwards:
        """Place in a PRIORITY queue, greatest first."""
        return Backwards(self.order(r, n))

    def negligible(self, r: Any, n: int, index: int) -> tuple[int, float, int]:
        """Greatest priority value, then latest arrival, then first in the list; least first."""
        return (-self.requests[r].priority, -self.arrival(r, n), index)

    def entries(self, m: Any, s: Any) -> list[Place]:
        """The places of a heap, in their order, to be changed."""
        return [Place(self, s, m[i]) for i in range(len(m))]

    def kept(self, m: Any, places: list[Place]) -> Any:
        """The heap `m` with these places."""
        return CARRIERS["heap"](enumerate(place.r for place in places))

    def pushed(self, m: Any, s: Any, r: Any) -> Any:
        """The heap with r in it. Source: PriorityRequestQueue.add_request."""
        places = self.entries(m, s)
        heapq.heappush(places, Place(self, s, r))
        return self.kept(m, places)

    def popped(self, m: Any, s: Any) -> Any:
        """The heap without its head. Source: PriorityRequestQueue.pop_request."""
        places = self.entries(m, s)
        heapq.heappop(places)
        return self.kept(m, places)

    def coming_back(self, s: Any) -> list[Any]:
        """Who was passed over and stands in the skipped queue, in the order in which they come
        back: their own, or in later lines that in which they were, backwards.
        """
        back = [r for r in s.passed if s.skip[r]]
        if self.sem.holders_wait_apart:
            return sorted(back, key=lambda r: -s.skip[r])
        return sorted(back, key=lambda r: self.order(r, s.turns[r]))

    def joined(self, m: Any, s: Any) -> Any:
        """The heap with all who were passed over in the step and stand there from now on, each as
        often as it did. Source: PriorityRequestQueue.prepend_requests.
        """
        places = self.entries(m, s)
        there = Counter(place.r for place in places)
        for r in self.coming_back(s):
            for _ in range(1 + s.againto[r] - s.againfrom[r] - there[r]):
                heapq.heappush(places, Place(self, s, r))
        return self.kept(m, places)

    def taken_out(self, m: Any, s: Any, r: Any) -> Any:
        """What is left without r, in its order. Source: PriorityRequestQueue.remove_requests."""
        return self.kept(m, [place for place in self.entries(m, s) if place.r != r])

    def still_waiting(self, m: Any, s: Any) -> Any:
        """What is left of the waiting queue without those who stand there no more, in its order.
        Source: PriorityRequestQueue.remove_requests.
        """
        left = (r for place in self.entries(m, s) if s.rank[r := place.r])
        stays = {r for r in left if not s.skip[r] or s.also[r]}
        return self.kept(m, [place for place in self.entries(m, s) if place.r in stays])

    def heapified(self, m: Any, s: Any) -> Any:
        """A heap of those. Source: PriorityRequestQueue.remove_requests."""
        places = self.entries(m, s)
        heapq.heapify(places)
        return self.kept(m, places)

    def given_out(self, m: Any, s: Any) -> list[Any]:
        """Whom vLLM finds in a heap one after the other. Source: PriorityRequestQueue.__iter__."""
        places = self.entries(m, s).copy()
        return [heapq.heappop(places).r for _ in range(len(places))]

    def found_at(self, m: Any, s: Any, r: Any) -> int:
        """How many vLLM finds in a heap before r."""
        return self.given_out(m, s).index(r)


class PlacedHeap:
    """A heap that is changed in place, read as the map is that it stands for."""

    __slots__ = ("places",)

    def __init__(self) -> None:
        self.places: list[Place] = []

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, i: int) -> Any:
        return self.places[i].r if i < len(self.places) else None


class HeapsInPlace(Heaps):
    """The same of one state alone, with no copy made: n requests that are passed over in a step
    take n log n comparisons.
    """

    def entries(self, m: Any, s: Any) -> list[Place]:
        return m.places  # type: ignore[no-any-return]

    def kept(self, m: Any, places: list[Place]) -> Any:
        m.places = places
        return m

    def put_last(self, m: Any, s: Any, r: Any) -> None:
        """r stands in the last place, whether or not it belongs there."""
        m.places.append(Place(self, s, r))
