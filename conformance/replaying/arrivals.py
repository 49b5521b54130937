"""Who arrives when: sessions become requests, by the clock and by what has ended."""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass

from nullblock.conformance.replaying.engine import Request
from nullblock.conformance.workloads.session import Session, Turn

EOS = -1
"""The token that ends a request, where one does."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How a workload is cut and how fast it comes."""

    speed: float = 1.0
    """Arrivals and delays are divided by it."""
    users: int = 16
    """Sessions without times of their own that may go on at once."""
    gap: float = 5.0
    """Seconds between their begins, at least; not divided by the speed."""
    max_think: float = 60.0
    """No delay is longer, in seconds of the workload."""
    limit: int | None = None
    """No more requests arrive."""
    seconds: float | None = None
    """Nobody arrives later."""
    ends_by_eos: bool = False
    """Whether the model ends a request before max_tokens does."""


@dataclass(slots=True)
class _Live:
    """A session that has begun."""

    turns: tuple[Turn, ...]
    waits_for: list[int]
    """For each turn how many others have to end first."""
    left: int
    """Turns that have not ended."""
    followers: list[list[int]]
    """For each turn who waits for it."""
    is_user: bool
    """Whether it has no time of its own, and another one begins when it ends."""


class Arrivals:
    """Requests in order of arrival. Memory: the sessions that are live."""

    def __init__(self, sessions: Iterator[Session], pace: Pace, room: int) -> None:
        """``room``: tokens that a request may grow to in the engine."""
        self.sessions, self.pace, self.room = sessions, pace, room
        self.arrived = self.too_long = self.shortened = 0
        self._due: list[tuple[float, int, _Live, int]] = []
        self._order = 0
        self._waiting: Session | None = None
        """The next session, read and not begun."""
        self._open = True
        self._users = 0
        self._last_begin: float | None = None
        self._of: dict[int, tuple[_Live, int]] = {}
        """By number, each live request's session and its place there."""

    def next_time(self) -> float | None:
        """When somebody arrives next, unless something ends before; None if nobody does."""
        begin = self._next_begin()
        first = self._due[0][0] if self._due else None
        times = [time for time in (begin, first) if time is not None]
        if not times or self._is_over(min(times)):
            return None
        return min(times)

    def take(self, now: float) -> Iterator[Request]:
        """Everybody who has arrived by now."""
        while (time := self.next_time()) is not None and time <= now:
            begin = self._next_begin()
            if begin is not None and begin <= time:
                self._begin(begin)
                continue
            time, _, live, place = heapq.heappop(self._due)
            request = self._request(time, live.turns[place])
            if request is None:
                self._turn_ended(live, place, time)
            else:
                self._of[request.number] = (live, place)
                yield request

    def ended(self, number: int, now: float) -> None:
        """A request has ended: others of its session may come."""
        live, place = self._of.pop(number)
        self._turn_ended(live, place, now)

    def _is_over(self, time: float) -> bool:
        pace = self.pace
        if pace.limit is not None and self.arrived >= pace.limit:
            return True
        return pace.seconds is not None and time > pace.seconds

    def _request(self, time: float, turn: Turn) -> Request | None:
        """The turn as a request; None for one that no engine of that size would take."""
        left = self.room - turn.content.length
        if left < 1:
            self.too_long += 1
            return None
        output = min(turn.output_length, left)
        self.shortened += output < turn.output_length
        self.arrived += 1
        by_eos = self.pace.ends_by_eos and output < left
        return Request(
            number=self.arrived - 1,
            content=turn.content,
            output_length=output,
            max_tokens=left if by_eos else output,
            eos=EOS if by_eos else None,
            arrival=time,
        )

    def _next_begin(self) -> float | None:
        """When the next session may begin; None if there is none or it has to wait."""
        if self._waiting is None and self._open:
            self._waiting = next(self.sessions, None)
            self._open = self._waiting is not None
        if self._waiting is None:
            return None
        if self._waiting.at is not None:
            return self._waiting.at / self.pace.speed
        if self._users >= self.pace.users:
            return None
        return 0.0 if self._last_begin is None else self._last_begin + self.pace.gap

    def _begin(self, time: float) -> None:
        session = self._waiting
        assert session is not None
        self._waiting = None
        if session.at is None:
            self._users += 1
            self._last_begin = time
        turns = session.turns
        live = _Live(
            turns=turns,
            waits_for=[len(turn.after) for turn in turns],
            left=len(turns),
            followers=[[] for _ in turns],
            is_user=session.at is None,
        )
        for place, turn in enumerate(turns):
            for earlier in turn.after:
                live.followers[earlier].append(place)
            if not turn.after:
                self._push(time, live, place)

    def _push(self, ended: float, live: _Live, place: int) -> None:
        delay = min(live.turns[place].delay, self.pace.max_think) / self.pace.speed
        self._order += 1
        heapq.heappush(self._due, (ended + delay, self._order, live, place))

    def _turn_ended(self, live: _Live, place: int, time: float) -> None:
        live.left -= 1
        for later in live.followers[place]:
            live.waits_for[later] -= 1
            if not live.waits_for[later]:
                self._push(time, live, later)
        if not live.left and live.is_user:
            self._users -= 1
            # Whoever was kept waiting begins now, not at a time that is over.
            assert self._last_begin is not None
            if self._users == self.pace.users - 1:
                self._last_begin = max(self._last_begin, time - self.pace.gap)
