"""The requests that wait, under either policy (WAIT-1)."""

import heapq
from collections import deque
from collections.abc import Iterator
from typing import Protocol

from nullblock.impl.requests import Request


class WaitingQueue(Protocol):
    """Who waits."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Request]:
        """Next one first."""
        ...

    def peek(self) -> Request:
        """The next one."""
        ...

    def pop(self) -> Request:
        """The next one, which leaves."""
        ...

    def add(self, request: Request) -> None:
        """An arrival."""
        ...

    def put_back(self, request: Request) -> None:
        """A preempted request."""
        ...

    def remove(self, request: Request) -> None:
        """One that will not be served."""
        ...


class FCFS:
    """In order of arrival, preempted ones before all others."""

    def __init__(self) -> None:
        self._queue: deque[Request] = deque()

    def __len__(self) -> int:
        return len(self._queue)

    def __iter__(self) -> Iterator[Request]:
        return iter(self._queue)

    def peek(self) -> Request:
        """The next one."""
        return self._queue[0]

    def pop(self) -> Request:
        """The next one, which leaves."""
        return self._queue.popleft()

    def add(self, request: Request) -> None:
        """Last."""
        self._queue.append(request)

    def put_back(self, request: Request) -> None:
        """First."""
        self._queue.appendleft(request)

    def remove(self, request: Request) -> None:
        """From wherever it stands."""
        self._queue.remove(request)


class Priority:
    """By priority, arrival time and id."""

    def __init__(self) -> None:
        self._heap: list[Request] = []

    def __len__(self) -> int:
        return len(self._heap)

    def __iter__(self) -> Iterator[Request]:
        return iter(sorted(self._heap))

    def peek(self) -> Request:
        """The least."""
        return self._heap[0]

    def pop(self) -> Request:
        """The least, which leaves."""
        return heapq.heappop(self._heap)

    def add(self, request: Request) -> None:
        """Where it belongs."""
        heapq.heappush(self._heap, request)

    put_back = add

    def remove(self, request: Request) -> None:
        """From wherever it stands."""
        self._heap.remove(request)
        heapq.heapify(self._heap)
