"""What scopes with drafts have to reach."""

from collections.abc import Callable
from typing import Any

from nullblock.spec.drafts import relied_on, tokens_ahead
from nullblock.spec.fields import ERROR
from nullblock.spec.kernel import State
from nullblock.spec.sizes import blocks_of
from nullblock.spec.state import check_stop, is_hit

DRAFT_WITNESSES: dict[str, str] = {
    "drafts-taken": "a draft is taken, and does not end its request",
    "drafts-rejected": "every draft of an output is rejected",
    "drafts-cut": "a step verifies fewer drafts than are proposed",
    "drafts-lost": "a request is preempted that has drafts",
    "drafts-dropped": "an output with drafts in it is dropped after a reset",
    "stops-on-draft": "a request stops on a draft",
    "rejected-on-draft": "a request stops on a draft, and its grammar rejects the output",
    "looks-ahead": "a running request gets a block for what is drafted next alone",
    "last-hit-dropped": "a lookup leaves the last hit out, for an EAGLE-like method",
    "earlier-run-rejected": "drafts are rejected that were scheduled before a preemption",
    "waits-for-drafts": "a running request waits for its drafts in flight",
    "waits-for-earlier-run": "a resumed request waits for drafts of before its preemption",
}


class DraftWatch:
    """Notes them."""

    reached: set[str]

    def draft_handlers(self) -> dict[str, Callable[[State], None]]:
        """What is called after which rule of drafts."""
        return {
            "DRAFT-8": self.drafts_rejected,
            "DRAFT-9": self.draft_taken,
            "DRAFT-10": self.stopped_on_draft,
            "HASH-16": self.lookup_ended,
        }

    def ran_with_drafts(self, s: State, r: Any) -> None:
        """RUN-4: a running request is scheduled."""
        if 0 < s.drafted[r] < s.k.num_spec:
            self.reached.add("drafts-cut")
        t = s.k.table(r, 0)
        if s.k.lookahead and blocks_of(s, t, s.comp[r] + s.sched[r]) < s.tlen[t]:
            self.reached.add("looks-ahead")

    def skipped_with_drafts(self, s: State, r: Any) -> None:
        """RUN-6: a running request is passed over."""
        if relied_on(s, r) < tokens_ahead(s, r):
            self.reached.add("waits-for-earlier-run")
        if s.comp[r] > s.ntok[r] and not s.k.asynchronous:
            self.reached.add("waits-for-drafts")

    def preempted_with_drafts(self, s: State, v: Any) -> None:
        """PREEMPT-2: a victim leaves."""
        if s.spec[v]:
            self.reached.add("drafts-lost")

    def dropped_with_drafts(self, s: State) -> None:
        """UPD-18: a token is dropped."""
        if s.ndraft[s.cur - 1]:
            self.reached.add("drafts-dropped")

    def drafts_rejected(self, s: State) -> None:
        """DRAFT-8: what the model does not agree with is rejected."""
        r = s.frame[s.cur]
        if s.ndraft[s.cur] == 0 and s.open == 0:
            self.reached.add("drafts-rejected")
            if s.old[r]:
                self.reached.add("earlier-run-rejected")

    def draft_taken(self, s: State) -> None:
        """DRAFT-9: a draft is a token."""
        self.reached.add("drafts-taken")

    def stopped_on_draft(self, s: State) -> None:
        """DRAFT-10: a request stops on a draft."""
        self.reached.add("stops-on-draft")
        if check_stop(s, s.taker) == ERROR:
            self.reached.add("rejected-on-draft")

    def lookup_ended(self, s: State) -> None:
        """HASH-16: a lookup ends."""
        r = s.lr
        if not s.k.eagle or s.k.several:
            return
        if s.nhit < s.k.full(s.ntok[r] - 1) and is_hit(s, s.k.want(r, s.nhit)):
            self.reached.add("last-hit-dropped")
