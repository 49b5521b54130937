"""Says in words what rules do with KV that is loaded from elsewhere, or sent there."""

from collections.abc import Callable
from typing import Any

from nullblock.spec.fields import LOAD, SEND
from nullblock.spec.kernel import State

UNTIL = {LOAD: "its load has ended", SEND: "they are sent"}
UNTIL[LOAD + SEND] = f"{UNTIL[LOAD]} and {UNTIL[SEND]}"


class RemoteNarrator:
    """The part of a narrator that speaks of loads and of kept blocks."""

    say: Callable[[str], None]
    _moved: Callable[[], list[str]]
    _let_go: Callable[[], None]
    gone: str
    released: list[Any]

    def remote_handlers(self) -> dict[str, Callable[[State], None]]:
        """What is called after which rule of remote KV."""
        return {
            "REMOTE-10": self.learnt,
            "REMOTE-12": self.load_began,
            "REMOTE-13": self.load_ended,
            "REMOTE-15": self.load_taken_in,
            "REMOTE-16": self.load_lost,
            "REMOTE-17": self.waits_anew,
            "REMOTE-18": self.left_queue,
            "REMOTE-19": self.blocks_kept,
            "REMOTE-20": self.still_kept,
            "REMOTE-21": self.kept_go,
            "REMOTE-22": self.kept_forgotten,
            "REMOTE-23": self.unloaded,
            "REMOTE-26": self.load_shortened,
            "REMOTE-27": self.lacks,
            "REMOTE-28": self.started_over,
            "REMOTE-46": self.reclaimed,
            "REMOTE-52": self.let_left_behind_go,
        }

    def let_left_behind_go(self, s: State) -> None:
        """REMOTE-52: a block goes before the others; it is the last in the free queue."""
        self.released.append(max(s.stamp, key=s.stamp.__getitem__))

    def learnt(self, s: State) -> None:
        """REMOTE-10: the remote side knows what it holds."""
        self.say("the remote side knows now what it holds of the request")

    def load_began(self, s: State) -> None:
        """REMOTE-12: a request waits for a load."""
        r = s.actor
        loads = f"{r} waits for a load, with which {s.comp[r]} of {s.ntok[r]} tokens are computed"
        self.say(", ".join([loads, *self._moved()]))

    def load_ended(self, s: State) -> None:
        """REMOTE-13: a load is reported to have ended."""
        self.say("the load has ended, which counts when it is its request's turn")

    def load_taken_in(self, s: State) -> None:
        """REMOTE-15: a load is taken in."""
        self.say("what was loaded counts: its request waits for nothing but its turn")

    def load_lost(self, s: State) -> None:
        """REMOTE-16: nothing came of a load."""
        self.gone = f"{s.leaver}, for whom nothing was loaded, waits anew"

    def reclaimed(self, s: State) -> None:
        """REMOTE-46: loaded blocks are given back for somebody who lacks them."""
        self.gone = f"{s.leaver}, whose loaded blocks somebody else lacks, waits anew"

    def waits_anew(self, s: State) -> None:
        """REMOTE-17: and its blocks are given back."""
        self._let_go()

    def left_queue(self, s: State) -> None:
        """REMOTE-18: a waiting request ends."""
        self.gone = f"{s.leaver} leaves the queue"

    def blocks_kept(self, s: State) -> None:
        """REMOTE-19: the blocks of a request that has ended are kept."""
        r = s.leaver
        self.say(f"{self.gone or r}, and its blocks are kept until {UNTIL[s.kept_for[r]]}")
        self.gone = ""

    def still_kept(self, s: State) -> None:
        """REMOTE-20: blocks stay kept."""
        self.say("its blocks are kept for something else as well")

    def kept_go(self, s: State) -> None:
        """REMOTE-21: kept blocks are let go."""
        self.gone = f"{s.leaver}, which has ended, keeps its blocks no longer"

    def kept_forgotten(self, s: State) -> None:
        """REMOTE-22: and given back."""
        self._let_go()

    def unloaded(self, s: State) -> None:
        """REMOTE-23: a block was not loaded."""
        self.say("the block holds nothing, and nobody may hit it")

    def load_shortened(self, s: State) -> None:
        """REMOTE-26: a request that waits lacks blocks."""
        self.say(f"of what was loaded for one that waits {s.left} tokens count")

    def lacks(self, s: State) -> None:
        """REMOTE-27: a running request lacks blocks."""
        self.say(f"one that runs lacks the block: {s.left} of its tokens count as computed")

    def started_over(self, s: State) -> None:
        """REMOTE-28: a running request starts over."""
        self.gone = f"{s.leaver} lacks the block and starts over"
