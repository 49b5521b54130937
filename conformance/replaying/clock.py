"""Virtual time: what a step costs, and when its output is there.

No wall time decides anything, so that a replay gives the same result everywhere. A step takes

    step_seconds + token_seconds * (tokens scheduled)

and nothing if no token is scheduled. Steps run one after another; a step that is scheduled while
another one runs begins when that one has ended. Deciding a step takes no time.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StepTime:
    """What a step costs."""

    step_seconds: float = 0.012
    token_seconds: float = 0.00004

    def of(self, tokens: int) -> float:
        """Seconds that a step of so many tokens takes."""
        return self.step_seconds + self.token_seconds * tokens if tokens else 0.0

    def __str__(self) -> str:
        return f"{self.step_seconds * 1e3:g} ms + {self.token_seconds * 1e6:g} µs a token"


class Clock:
    """The time, and until when the device is busy; seconds since the replay began."""

    def __init__(self, step_time: StepTime) -> None:
        self.step_time = step_time
        self.now = self._busy_until = 0.0

    def start(self, tokens: int) -> float:
        """Give the device one more step; when its output is there."""
        begin = max(self.now, self._busy_until)
        self._busy_until = begin + self.step_time.of(tokens)
        return self._busy_until

    def advance(self, time: float) -> None:
        """Let it become that late; it never becomes earlier."""
        self.now = max(self.now, time)
