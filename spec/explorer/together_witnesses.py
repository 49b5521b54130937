"""What scopes have to reach in which loads, drafts, windows and steps in flight meet."""

from collections.abc import Callable
from typing import Any

from nullblock.spec.explorer.draft_witnesses import DraftWatch
from nullblock.spec.explorer.group_witnesses import GroupWatch
from nullblock.spec.explorer.remote_witnesses import RemoteWatch
from nullblock.spec.fields import REMOTE
from nullblock.spec.flight import answers, in_flight
from nullblock.spec.groups import is_null
from nullblock.spec.hybrid import of_all
from nullblock.spec.kernel import State, both, neg
from nullblock.spec.loaded import is_written_to
from nullblock.spec.lost import is_short_in

TOGETHER_WITNESSES: dict[str, str] = {
    "load-beside-drafts": "every group of a request is loaded, two steps with drafts in flight",
    "freed-beside-load": "a block behind a window is given back by a request with a draft in "
    "flight, while another request is loaded",
    "rejected-behind-window": "all drafts of an output are rejected, of a request that holds "
    "nothing any more behind its window",
    "loses-beside-drafts": "a request that waits lacks blocks while a draft is in flight",
    "starts-over-with-drafts": "a running request with a draft in flight starts over",
    "lacks-with-drafts": "a running request with a draft in flight is to end for want of blocks",
    "lacks-one-group": "a request lacks a block of one group, and has all those of another",
}


def drafts_fly(s: State, first: Any, end: Any) -> bool:
    """Whether a draft is in flight in one of these entries of steps."""
    return any(s.ndraft[i] > 0 and answers(s, i) for i in range(first, end))


def drafts_fly_of(s: State, r: Any) -> bool:
    """Whether a draft of r is in flight."""
    entries = range(s.cur, s.nframe)
    return any(s.frame[i] == r and s.ndraft[i] > 0 and answers(s, i) for i in entries)


def waits_for_load(s: State, r: Any) -> Any:
    """Whether r waits for a load that has not ended."""
    return both(s.awaits[r] == REMOTE, s.came[r] == 0)


def loads_each_group(s: State, r: Any) -> Any:
    """Whether a load writes to a block at least of each table of r."""

    def loads(t: Any) -> Any:
        return s.k.exists("B", lambda b: is_written_to(s, t, b))

    return s.k.forall("G", lambda g: loads(s.k.table(r, g))) if s.k.several else False


def has_null(s: State, r: Any) -> Any:
    """Whether a table of r has a null block."""

    def has(t: Any) -> Any:
        return s.k.exists("I", lambda i: both(0 <= i, i < s.tlen[t], is_null(s, t, i)))

    return s.k.exists("G", lambda g: has(s.k.table(r, g))) if s.k.several else has(r)


def lacks_of_one(s: State, r: Any) -> Any:
    """Whether r lacks a block of one of its tables, and none of another."""
    whole = of_all(s, r, lambda t: neg(is_short_in(s, t)))
    return both(neg(whole), neg(of_all(s, r, lambda t: is_short_in(s, t))))


class TogetherWatch(DraftWatch, GroupWatch, RemoteWatch):
    """Notes them, and what each of the features has to reach."""

    def together_handlers(self) -> dict[str, Callable[[State], None]]:
        """What is called after which rule of these features, in place of what is called there for
        one of them.
        """
        return {
            **self.draft_handlers(),
            **self.remote_handlers(),
            **self.group_handlers(),
            "DRAFT-8": self.rejected_together,
            "GROUP-6": self.let_go_together,
            "REMOTE-24": self.found_together,
            "REMOTE-26": self.lost_together,
            "REMOTE-27": self.lacked_together,
            "REMOTE-28": self.started_over_together,
        }

    def flew_together(self, s: State) -> None:
        """UPD-8: a step is in flight."""
        if in_flight(s) < 2 or not any(
            waits_for_load(s, r) and loads_each_group(s, r) for r in s.k.requests
        ):
            return
        middle = s.fend[s.steps - 2]
        if drafts_fly(s, s.cur, middle) and drafts_fly(s, middle, s.nframe):
            self.reached.add("load-beside-drafts")

    def rejected_together(self, s: State) -> None:
        """DRAFT-8: what the model does not agree with is rejected."""
        self.drafts_rejected(s)
        if s.ndraft[s.cur] == 0 and s.open == 0:
            if has_null(s, s.frame[s.cur]):
                self.reached.add("rejected-behind-window")

    def let_go_together(self, s: State) -> None:
        """GROUP-6: a block is given back."""
        self.let_go(s)
        if drafts_fly_of(s, s.actor) and any(waits_for_load(s, r) for r in s.k.requests):
            self.reached.add("freed-beside-load")

    def found_together(self, s: State) -> None:
        """REMOTE-24: somebody lacks blocks."""
        if any(s.k.mem(s.seen, r) and lacks_of_one(s, r) for r in s.k.requests):
            self.reached.add("lacks-one-group")

    def lost_together(self, s: State) -> None:
        """REMOTE-26: a request that waits lacks blocks."""
        self.lost_load(s)
        if drafts_fly(s, s.cur, s.nframe):
            self.reached.add("loses-beside-drafts")

    def lacked_together(self, s: State) -> None:
        """REMOTE-27: a running request lacks blocks."""
        if any(s.k.mem(s.missing, r) and drafts_fly_of(s, r) for r in s.k.requests):
            self.reached.add("lacks-with-drafts")

    def started_over_together(self, s: State) -> None:
        """REMOTE-28: a running request starts over."""
        self.started_over(s)
        if drafts_fly_of(s, s.leaver):
            self.reached.add("starts-over-with-drafts")
