"""The waiting requests, in the order in which they will be tried."""

import heapq
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Iterator
from enum import Enum

from nullblock.reference.request import Request


class SchedulingPolicy(Enum):
    """Who is served first."""

    FCFS = "fcfs"
    """First come, first served; whoever was preempted goes back to the front."""
    PRIORITY = "priority"
    """Smaller priority first, then earlier arrival, then the smaller id."""


class RequestQueue(ABC):
    """A queue of waiting requests. Iteration is in the order of service."""

    @abstractmethod
    def add_request(self, request: Request) -> None:
        """Queue a request."""

    @abstractmethod
    def pop_request(self) -> Request:
        """Take the request at the head; ``IndexError`` if there is none."""

    @abstractmethod
    def peek_request(self) -> Request:
        """The request at the head; ``IndexError`` if there is none."""

    @abstractmethod
    def prepend_request(self, request: Request) -> None:
        """Queue a request at the front, if the policy knows a front."""

    @abstractmethod
    def prepend_requests(self, requests: "RequestQueue") -> None:
        """Prepend another queue's requests one by one, so that they end up reversed."""

    @abstractmethod
    def remove_request(self, request: Request) -> None:
        """Take out one request; ``ValueError`` if it is not queued."""

    @abstractmethod
    def remove_requests(self, requests: Iterable[Request]) -> None:
        """Take out those of the requests that are queued."""

    @abstractmethod
    def reorder(self) -> None:
        """Put in order what has changed in the requests since they were queued."""

    @abstractmethod
    def __bool__(self) -> bool: ...

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def __iter__(self) -> Iterator[Request]: ...


class FCFSRequestQueue(deque[Request], RequestQueue):
    """First come, first served: a deque."""

    def add_request(self, request: Request) -> None:
        """Queue a request at the back."""
        self.append(request)

    def pop_request(self) -> Request:
        """Take the request at the front."""
        return self.popleft()

    def peek_request(self) -> Request:
        """The request at the front."""
        if not self:
            raise IndexError("peek from an empty queue")
        return self[0]

    def prepend_request(self, request: Request) -> None:
        """Queue a request at the front."""
        self.appendleft(request)

    def prepend_requests(self, requests: RequestQueue) -> None:
        """Prepend another queue's requests one by one, so that they end up reversed."""
        self.extendleft(requests)

    def remove_request(self, request: Request) -> None:
        """Take out one request."""
        self.remove(request)

    def remove_requests(self, requests: Iterable[Request]) -> None:
        """Take out those of the requests that are queued."""
        leaving = set(requests)
        staying = [request for request in self if request not in leaving]
        self.clear()
        self.extend(staying)

    def reorder(self) -> None:
        """Nothing: what has been queued first comes first."""

    def __bool__(self) -> bool:
        return len(self) > 0

    def __len__(self) -> int:
        return super().__len__()

    def __iter__(self) -> Iterator[Request]:
        return super().__iter__()


class PriorityRequestQueue(RequestQueue):
    """A heap by :meth:`Request.__lt__`. It has no front to prepend to: prepending is adding."""

    def __init__(self) -> None:
        self._heap: list[Request] = []

    def add_request(self, request: Request) -> None:
        """Queue a request."""
        heapq.heappush(self._heap, request)

    def pop_request(self) -> Request:
        """Take the request that comes first."""
        if not self._heap:
            raise IndexError("pop from an empty queue")
        return heapq.heappop(self._heap)

    def peek_request(self) -> Request:
        """The request that comes first."""
        if not self._heap:
            raise IndexError("peek from an empty queue")
        return self._heap[0]

    def prepend_request(self, request: Request) -> None:
        """Queue a request."""
        self.add_request(request)

    def prepend_requests(self, requests: RequestQueue) -> None:
        """Queue another queue's requests."""
        for request in requests:
            self.add_request(request)

    def remove_request(self, request: Request) -> None:
        """Take out one request."""
        self._heap.remove(request)
        heapq.heapify(self._heap)

    def remove_requests(self, requests: Iterable[Request]) -> None:
        """Take out those of the requests that are queued."""
        leaving = set(requests)
        self._heap = [request for request in self._heap if request not in leaving]
        heapq.heapify(self._heap)

    def reorder(self) -> None:
        """Put in order what has changed in the requests since they were queued."""
        heapq.heapify(self._heap)

    def __bool__(self) -> bool:
        return bool(self._heap)

    def __len__(self) -> int:
        return len(self._heap)

    def __iter__(self) -> Iterator[Request]:
        heap = self._heap.copy()
        while heap:
            yield heapq.heappop(heap)


def create_request_queue(policy: SchedulingPolicy) -> RequestQueue:
    """An empty queue of that policy."""
    match policy:
        case SchedulingPolicy.FCFS:
            return FCFSRequestQueue()
        case SchedulingPolicy.PRIORITY:
            return PriorityRequestQueue()
    raise ValueError(f"unknown scheduling policy: {policy}")
