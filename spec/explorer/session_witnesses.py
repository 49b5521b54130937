"""What scopes have to reach with streaming sessions."""

from collections.abc import Callable

from nullblock.spec.encoder import refers_to_any
from nullblock.spec.fields import IDLE
from nullblock.spec.kernel import State
from nullblock.spec.sessions import awaits_input, continues

SESSION_WITNESSES: dict[str, str] = {
    "waits-for-chunk": "a session stops, and waits for its next chunk with its blocks",
    "chunk-at-stop": "a session stops, and a chunk is there",
    "chunk-arrives": "a session that waits for a chunk gets it",
    "continues-session": "a session that has taken a chunk is tried with what it has computed",
    "turn-ends-preempted": "a session stops while it is preempted, and goes on",
    "late-outputs": "a session stops while a later output is in flight for it, and goes on",
    "session-leaves-queue": "a session that waits is gone, and gives its blocks back",
    "waits-inside-item": "a session waits that refers to an item",
    "chunk-refused": "a session ends because its chunk cannot be served",
}


class SessionWatch:
    """Notes them."""

    reached: set[str]

    def session_handlers(self) -> dict[str, Callable[[State], None]]:
        """What is called after which rule."""
        return {
            "WAIT-6": self.looked_up,
            "SESS-6": self.turn_ended,
            "SESS-7": self.waiting_turn_ended,
            "SESS-13": self.chunk_taken,
            "SESS-14": self.left_queue,
            "SESS-15": self.chunk_refused,
        }

    def looked_up(self, s: State) -> None:
        """WAIT-6: a request is tried."""
        if continues(s, s.lr):
            self.reached.add("continues-session")

    def turn_ended(self, s: State) -> None:
        """SESS-6: a running session stops, and goes on."""
        waits = awaits_input(s, s.taker)
        if refers_to_any(s, s.taker):
            self.reached.add("waits-inside-item")
        self.reached.add("waits-for-chunk" if waits else "chunk-at-stop")
        if s.drop[s.taker] > 0:
            self.reached.add("late-outputs")

    def waiting_turn_ended(self, s: State) -> None:
        """SESS-7: one that waits does."""
        self.reached.add("turn-ends-preempted")

    def chunk_taken(self, s: State) -> None:
        """SESS-13: a session that waits for a chunk takes it."""
        self.reached.add("chunk-arrives")

    def left_queue(self, s: State) -> None:
        """SESS-14: a session that waits is gone."""
        if s.phase == IDLE:
            self.reached.add("session-leaves-queue")

    def chunk_refused(self, s: State) -> None:
        """SESS-15: a chunk is refused."""
        self.reached.add("chunk-refused")
