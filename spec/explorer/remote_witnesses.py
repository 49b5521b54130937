"""What scopes have to reach in which there is a KV connector."""

from collections.abc import Callable
from typing import Any

from nullblock.spec.fields import BOTH_WAYS, REMOTE, RUN_PHASE, WHOLLY
from nullblock.spec.groups import passed
from nullblock.spec.hybrid import hit_table
from nullblock.spec.kernel import State
from nullblock.spec.loaded import lacks_window, was_loaded_whole
from nullblock.spec.sizes import full_of, hit_tokens

REMOTE_WITNESSES: dict[str, str] = {
    "load-begins": "a request waits for a load",
    "load-awaited": "a request is passed over because its load has not ended",
    "load-within-a-step": "a request is admitted whose blocks are loaded within the step",
    "load-ended": "a request goes on whose load has ended",
    "loaded-whole": "one goes on whose only token was loaded, and is computed again",
    "remote-unsure": "a request is passed over because the remote side has to look first",
    "abort-loading": "a request ends while it is loaded",
    "kept": "blocks of a request that has ended are kept",
    "kept-for-both": "they are kept for a load, and to be sent",
    "loses-part": "a request goes on with a part of what it was to load",
    "loses-all": "a request that waits gives back what was loaded",
    "starts-over": "a running request starts over because it lacks blocks",
    "ends-lacking": "a request ends because it lacks blocks",
    "null-for-load": "the null block stands for one that would be loaded, did a token see it",
    "hit-left": "and for a hit that the next token would see, were nothing loaded",
    "left-behind": "a request that ends gives back first what no token would see",
    "loses-window": "a request gives back what was loaded, as a part of it lacks its window",
    "reclaims-for-head": "loaded blocks are given back for a head that lacks them",
    "reclaims-for-running": "loaded blocks are given back for the only request that runs",
    "loads-apart": "blocks to load into are taken, of several groups",
}


class RemoteWatch:
    """Notes them."""

    reached: set[str]

    def remote_handlers(self) -> dict[str, Callable[[State], None]]:
        """What is called after which rule of remote KV."""
        return {
            "REMOTE-12": self.awaits_load,
            "REMOTE-15": self.went_on_loaded,
            "REMOTE-16": self.gave_load_back,
            "REMOTE-18": self.quit_for_good,
            "REMOTE-19": self.blocks_kept,
            "REMOTE-26": self.lost_load,
            "REMOTE-28": self.started_over,
            "REMOTE-29": self.ended_lacking,
            "REMOTE-46": self.reclaimed,
            "REMOTE-51": self.took_to_load,
            "REMOTE-52": self.let_left_behind_go,
            "GROUP-5": self.padded_for_load,
        }

    def awaits_load(self, s: State) -> None:
        """REMOTE-12: a request waits for a load."""
        self.reached.add("load-begins")

    def admitted_with_load(self, s: State, r: Any) -> None:
        """WAIT-9: a request runs."""
        if s.loadto[r] != 0:
            self.reached.add("load-within-a-step")

    def went_on_loaded(self, s: State) -> None:
        """REMOTE-15: a request goes on whose load has ended."""
        self.reached.add("load-ended")
        if any(was_loaded_whole(s, r) and s.tlen[s.k.table(r, 0)] > 0 for r in s.k.requests):
            self.reached.add("loaded-whole")

    def gave_load_back(self, s: State) -> None:
        """REMOTE-16: a request gives back what was loaded."""
        self.reached.add("loses-all")

    def quit_for_good(self, s: State) -> None:
        """REMOTE-18: a waiting request ends."""
        if s.awaits[s.leaver] == REMOTE and s.came[s.leaver] == 0:
            self.reached.add("abort-loading")

    def blocks_kept(self, s: State) -> None:
        """REMOTE-19: blocks are kept."""
        self.reached.add("kept")
        if any(s.kept_for[r] == BOTH_WAYS for r in s.k.requests):
            self.reached.add("kept-for-both")

    def lost_load(self, s: State) -> None:
        """REMOTE-26: a request that waits lacks blocks."""
        if any(s.failed[r] not in (0, WHOLLY) for r in s.k.requests):
            self.reached.add("loses-part")

        if s.k.several:
            return  # where nothing is kept anyhow
        if any(s.failed[r] == WHOLLY and lacks_window(s, r) for r in s.k.requests):
            self.reached.add("loses-window")

    def reclaimed(self, s: State) -> None:
        """REMOTE-46: loaded blocks are given back."""
        self.reached.add("reclaims-for-running" if s.phase == RUN_PHASE else "reclaims-for-head")

    def took_to_load(self, s: State) -> None:
        """REMOTE-51: a block to load into is taken."""
        self.reached.add("loads-apart")

    def let_left_behind_go(self, s: State) -> None:
        """REMOTE-52: a block goes before the others."""
        self.reached.add("left-behind")

    def padded_for_load(self, s: State) -> None:
        """GROUP-5: the null block takes its place."""
        t = hit_table(s, s.lr, s.na - 1)
        i = s.tlen[t] - 1
        if i >= full_of(s, t, hit_tokens(s)):
            self.reached.add("null-for-load")
        elif s.ext > 0:
            if i >= passed(s, t, hit_tokens(s)):
                self.reached.add("hit-left")

    def started_over(self, s: State) -> None:
        """REMOTE-28: a running request starts over."""
        self.reached.add("starts-over")

    def ended_lacking(self, s: State) -> None:
        """REMOTE-29: a request ends for want of blocks."""
        self.reached.add("ends-lacking")
