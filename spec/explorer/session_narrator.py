"""Says in words what rules do with streaming sessions."""

from collections.abc import Callable
from typing import Any

from nullblock.spec.kernel import State
from nullblock.spec.sessions import awaits_input, prompt


class SessionNarrator:
    """The part of a narrator that speaks of chunks."""

    say: Callable[[str], None]

    def session_handlers(self) -> dict[str, Callable[[State], None]]:
        """What is called after which rule of sessions."""
        return {
            "SESS-6": self.turn_ended,
            "SESS-7": self.turn_ended,
            "SESS-11": self.chunk_queued,
            "SESS-12": self.end_queued,
            "SESS-13": self.chunk_taken,
            "SESS-15": self.chunk_refused,
        }

    def turn_ended(self, s: State) -> None:
        """SESS-6, SESS-7: a session stops, and goes on."""
        r = s.taker
        if awaits_input(s, r):
            self.say(f"{r} waits for its next chunk")
        else:
            self.say(f"{r} takes its next chunk: {_prompt(s, r)}")
        if s.drop[r] > 0:
            self.say(f"outputs in flight for {r} will be dropped: {s.drop[r]}")

    def chunk_queued(self, s: State) -> None:
        """SESS-11: a chunk arrives for a session that has something to do."""
        self.say("the chunk is kept until the turn ends")

    def end_queued(self, s: State) -> None:
        """SESS-12: an end does."""
        self.say("the end is kept until the chunks before it are taken")

    def chunk_taken(self, s: State) -> None:
        """SESS-13: a session that waits for a chunk takes it."""
        self.say("the chunk is taken, and its session waits for its turn")

    def chunk_refused(self, s: State) -> None:
        """SESS-15: a chunk is refused."""
        self.say(f"the next chunk of {s.rej[s.nrej - 1]} cannot be served, and ends it")


def _prompt(s: State, r: Any) -> str:
    return f"a prompt of {prompt(s, r)} tokens now"
