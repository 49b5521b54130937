"""What a scope has to reach, so that a pass over it means something.

A witness is a thing that happens on some path. The observer sees the state after every rule and
remembers, within a step, who was scheduled and what was published.
"""

from collections.abc import Callable
from typing import Any

from nullblock.spec.explorer.actions import Action, Reset
from nullblock.spec.explorer.draft_witnesses import DRAFT_WITNESSES
from nullblock.spec.explorer.encoder_witnesses import ENCODER_WITNESSES, EncoderWatch
from nullblock.spec.explorer.group_witnesses import GROUP_WITNESSES
from nullblock.spec.explorer.pooling_witnesses import POOLING_WITNESSES, PoolingWatch
from nullblock.spec.explorer.remote_witnesses import REMOTE_WITNESSES
from nullblock.spec.explorer.session_witnesses import SESSION_WITNESSES, SessionWatch
from nullblock.spec.explorer.together_witnesses import TOGETHER_WITNESSES, TogetherWatch
from nullblock.spec.explorer.touched import cached_last, grown
from nullblock.spec.explorer.wait_witnesses import WAIT_WITNESSES, WaitWatch
from nullblock.spec.fields import (
    ERROR,
    LENGTH,
    PAUSED_ALL,
    PAUSED_NEW,
    PLAIN,
    PREEMPTED,
    REPEATS,
    REPETITION,
    RESUMED,
    STOPPED,
    UPDATE,
)
from nullblock.spec.flight import answers, in_flight
from nullblock.spec.kernel import State, both, neg
from nullblock.spec.pooling import pools
from nullblock.spec.sessions import num_output
from nullblock.spec.state import check_stop, last_in_flight, live

WITNESSES: dict[str, str] = {
    "three-at-once": "three requests are scheduled in one step",
    "full-house": "max_num_seqs requests run while another waits",
    "budget-cut": "a prefill is cut where the token budget ends",
    "threshold-cut": "a prefill is cut at the long-prefill threshold",
    "preempts-another": "a request preempts another",
    "preempts-itself": "a request preempts itself",
    "preempts-twice": "two requests are preempted in one step",
    "preempts-with-budget": "a request is preempted while token budget is left",
    "withdrawal": "a request already scheduled in this step is preempted",
    "hashes-withdrawn": "a victim takes back hashes of blocks that it will not fill",
    "duplicate-hash": "two blocks carry one hash",
    "hash-evicted": "a block that carries a hash is given to somebody else",
    "free-hit": "a hit on a block in the free queue",
    "shared-hit": "a hit on a block that somebody holds",
    "same-step-hit": "a hit on a block published in the same step",
    "resume-with-hit": "a preempted request resumes with a prefix hit",
    "held-by-reserve": "the head is held back because its whole sequence does not fit",
    "held-uncut": "the head is held back because it may not be cut",
    "slots-not-free": "the head is held back because its slots are not free",
    "abort-in-flight": "a request is aborted while its output is in flight",
    "output-for-nobody": "an output comes for a request that is gone",
    "id-reused-in-flight": "an id is used again while the output for its old owner is in flight",
    "token-to-preempted": "a request that a reset preempted takes a token",
    "finish-in-queue": "a request finishes in the waiting queue",
    "three-in-flight": "three steps are in flight",
    "runs-ahead": "a request is scheduled for a token that is in flight",
    "passed-over": "a request is passed over because all it may get is in flight",
    "preempted-in-flight": "a step preempts a request while its output is in flight",
    "resumed-in-flight": "a preempted request resumes while its output is in flight",
    "overrun": "a request stops while a later step is in flight for it",
    "cached-at-output": "a block is cached when its last token becomes known",
    "token-dropped": "a token in flight is dropped after a reset",
    "reset-upon-reset": "a request is reset again while a token in flight is still to be dropped",
    "rejection": "a request is refused at arrival",
    "stop-eos": "a request stops on eos",
    "stop-id": "a request stops on a stop id",
    "stop-repetition": "a request stops where its outputs repeat themselves",
    "stop-length": "a request stops at max_tokens",
    "stop-max-len": "a request stops at max_model_len",
    "below-min-tokens": "a stop token does not count below min_tokens",
    "repeats-below-min-tokens": "a repetition does not count below min_tokens",
    "reset": "the prefix cache is reset",
    "reset-refused": "a reset is refused because a block is held",
    "orphan": "a cached block outlives its parent's hash, evicted from outside",
    "paused-admissions": "a step keeps a request waiting because admissions are paused",
    "paused-all": "a step schedules nothing because everything is paused",
    **DRAFT_WITNESSES,
    **WAIT_WITNESSES,
    **GROUP_WITNESSES,
    **ENCODER_WITNESSES,
    **POOLING_WITNESSES,
    **SESSION_WITNESSES,
    **REMOTE_WITNESSES,
    **TOGETHER_WITNESSES,
}


def flies(s: State, r: Any) -> bool:
    """Whether a step in flight is for r."""
    return any(s.frame[i] == r and answers(s, i) for i in range(s.cur, s.nframe))


class Watch(TogetherWatch, EncoderWatch, PoolingWatch, SessionWatch, WaitWatch):
    """Observes rules, and notes the witnesses reached and the rules fired."""

    def __init__(self) -> None:
        self.reached: set[str] = set()
        self.fired: set[str] = set()
        self.scheduled: set[Any] = set()
        self.published: set[Any] = set()
        self.hashed: set[Any] = set()
        self.gave_back: set[Any] = set()
        self.idle_items: set[Any] = set()
        self.handlers: dict[str, Callable[[State], None]] = {
            "RUN-4": self.ran,
            "RUN-5": self.began,
            "RUN-7": self.served,
            "WAIT-8": self.held,
            "WAIT-9": self.admitted,
            "WAIT-10": self.gave_up,
            "POOL-10": self.took_new,
            "POOL-11": self.adopted,
            "HASH-12": self.published_one,
            "HASH-13": self.evicted,
            "HASH-14": self.wiped,
            "PREEMPT-2": self.preempted,
            "PREEMPT-3": self.uncached,
            "RUN-6": self.skipped,
            "HASH-20": self.published_known,
            "UPD-8": self.flew,
            "UPD-2": self.passed,
            "UPD-18": self.dropped,
            "LIFE-3": self.reset,
            "LIFE-6": self.forgotten,
            "UPD-3": self.took_token,
            "UPD-5": self.finished,
            "UPD-6": self.finished_waiting,
            "UPD-13": self.went_on,
            "LIFE-1": self.arrived,
            "LIFE-2": self.rejected,
            "LIFE-4": self.aborted,
            **self.wait_handlers(),
            **self.session_handlers(),
            **self.together_handlers(),
            **self.encoder_handlers(),
            **self.pooling_handlers(),
        }

    def rule(self, s: State, id: str) -> None:
        """A rule has fired."""
        self.fired.add(id)
        handler = self.handlers.get(id)
        if handler is not None:
            handler(s)

    def event(self, s: State, done: Action) -> None:
        """An action is over."""
        if isinstance(done, Reset) and any(s.ref.values()):
            self.reached.add("reset-refused")

    def began(self, s: State) -> None:
        """RUN-5: a step begins."""
        self.scheduled.clear()
        self.published.clear()
        self.gave_back.clear()
        self.hashed = set(s.hsh)
        if s.pause == PAUSED_ALL and s.nr:
            self.reached.add("paused-all")

    def _scheduled(self, s: State, r: Any) -> None:
        self.scheduled.add(r)
        if len(self.scheduled) >= 3:
            self.reached.add("three-at-once")
        if s.comp[r] + s.sched[r] < s.ntok[r]:
            self.reached.add("budget-cut" if s.budget == 0 else "threshold-cut")

    def ran(self, s: State) -> None:
        """RUN-4: a running request is scheduled."""
        r = s.actor
        self._scheduled(s, r)
        if s.k.asynchronous and s.comp[r] + s.sched[r] > s.ntok[r]:
            self.reached.add("runs-ahead")
        self.ran_with_drafts(s, r)

    def skipped(self, s: State) -> None:
        """RUN-6: a running request is passed over."""
        if last_in_flight(s, s.run[s.at - 1]):
            self.reached.add("passed-over")
        self.skipped_with_drafts(s, s.run[s.at - 1])

    def flew(self, s: State) -> None:
        """UPD-8: a step is in flight."""
        if in_flight(s) >= 3:
            self.reached.add("three-in-flight")
        self.flew_together(s)

    def served(self, s: State) -> None:
        """RUN-7: the running requests are served."""
        if s.pause == PAUSED_NEW and s.nwait and s.budget and not s.turned:
            self.reached.add("paused-admissions")
        if s.nr == s.k.max_seqs and s.nwait:
            self.reached.add("full-house")

    def held(self, s: State) -> None:
        """WAIT-8: the head is held back; which reason it was shows where only one can be."""
        if s.k.split:
            if both(s.k.chunked, neg(s.k.reserve)):
                self.reached.add("cut-to-nothing")
        elif not s.k.reserve:
            self.reached.add("held-uncut")
        elif s.k.chunked:
            self.reached.add("held-by-reserve")

    def gave_up(self, s: State) -> None:
        """WAIT-10: the head's slots are not free."""
        self.reached.add("slots-not-free")

    def admitted(self, s: State) -> None:
        """WAIT-9: a request runs."""
        r = s.actor
        self._scheduled(s, r)
        if s.fresh[r] == RESUMED and s.comp[r] > 0:
            self.reached.add("resume-with-hit")
        if s.fresh[r] == RESUMED and s.ph[r]:
            self.reached.add("resumed-in-flight")
        self.admitted_from_queues(s, r)
        self.admitted_with_load(s, r)
        self.admitted_to_group(s, r)

    def took_new(self, s: State) -> None:
        """POOL-10: a free block is taken."""
        t = grown(s, s.actor)
        b = s.tab[t, s.tlen[t] - 1]
        if b in self.hashed:
            self.reached.add("hash-evicted")
            self.hashed.discard(b)

    def adopted(self, s: State) -> None:
        """POOL-11: a hit is touched."""
        b = s.hit[s.na - 1]
        self.reached.add("free-hit" if s.ref[b] == 1 else "shared-hit")
        if b in self.published:
            self.reached.add("same-step-hit")
        self.adopted_in_group(s)

    def published_one(self, s: State) -> None:
        """HASH-12: a block gets its hash."""
        b = cached_last(s, s.actor)
        self.published.add(b)
        self.hashed.add(b)
        if b not in (None, s.k.NULL) and sum(1 for h in s.hsh.values() if h == s.hsh[b]) > 1:
            self.reached.add("duplicate-hash")

    def evicted(self, s: State) -> None:
        """HASH-13: a hash is evicted from outside."""
        hashes = {h for h in s.hsh.values() if h is not None}
        if any(s.k.par(h) != s.k.ROOT and s.k.par(h) not in hashes for h in hashes):
            self.reached.add("orphan")

    def wiped(self, s: State) -> None:
        """HASH-14: every hash is forgotten."""
        self.reached.add("reset")

    def preempted(self, s: State) -> None:
        """PREEMPT-2: a victim leaves."""
        v = s.leaver
        self.reached.add("preempts-itself" if v == s.actor else "preempts-another")
        if s.budget:
            self.reached.add("preempts-with-budget")
        if s.turned >= 2:
            self.reached.add("preempts-twice")
        if v in self.scheduled:
            self.reached.add("withdrawal")
            self.scheduled.discard(v)

        if s.ph[v]:
            self.reached.add("preempted-in-flight")
        self.preempted_with_drafts(s, v)
        self.preempted_in_group(s)

    def reset(self, s: State) -> None:
        """LIFE-3: a reset preempts a request."""
        if s.drop[s.leaver] > 1:
            self.reached.add("reset-upon-reset")

    def forgotten(self, s: State) -> None:
        """LIFE-6: a request is gone."""
        if s.phase == UPDATE and any(s.frame[i] == s.leaver for i in range(s.upto, s.nframe)):
            self.reached.add("overrun")

    def published_known(self, s: State) -> None:
        """HASH-20: a block gets its hash with its last token."""
        self.reached.add("cached-at-output")

    def dropped(self, s: State) -> None:
        """UPD-18: a token is dropped."""
        self.reached.add("token-dropped")
        self.dropped_with_drafts(s)

    def uncached(self, s: State) -> None:
        """PREEMPT-3: a hash is taken back."""
        self.reached.add("hashes-withdrawn")

    def passed(self, s: State) -> None:
        """UPD-2: an output is for nobody, or of a chunk."""
        if not live(s, s.frame[s.cur - 1]):
            self.reached.add("output-for-nobody")

    def took_token(self, s: State) -> None:
        """UPD-3: a request takes a token."""
        if s.stage[s.taker] == PREEMPTED:
            self.reached.add("token-to-preempted")
        self.took_token_waiting(s, s.taker)

    def _stopped(self, s: State) -> None:
        r, why = s.taker, check_stop(s, s.taker)
        if pools(s, r):
            self.reached.add("stop-vector")
        elif why == ERROR:
            self.reached.add("ends-by-grammar")
        elif why == REPETITION:
            self.reached.add("stop-repetition")
        elif why != LENGTH:
            self.reached.add("stop-eos" if why == STOPPED else "stop-id")
        elif s.ntok[r] >= s.k.max_len:
            self.reached.add("stop-max-len")
        else:
            self.reached.add("stop-length")

    def finished(self, s: State) -> None:
        """UPD-5: a running request stops."""
        self._stopped(s)

    def finished_waiting(self, s: State) -> None:
        """UPD-6: a waiting request stops; its length is forgotten by now."""
        self.reached.add("finish-in-queue")

    def went_on(self, s: State) -> None:
        """UPD-13: a request goes on."""
        r = s.taker
        early = num_output(s, r) < s.k.min_tokens(r)
        if early and s.k.last_token(s, r) == REPEATS:
            self.reached.add("repeats-below-min-tokens")
        elif early and s.k.last_token(s, r) != PLAIN:
            self.reached.add("below-min-tokens")

    def arrived(self, s: State) -> None:
        """LIFE-1: a request arrives."""
        if in_flight(s):
            r = max(s.waitset, key=lambda q: s.rank[q])
            if any(s.frame[i] == r for i in range(s.cur, s.nframe)):
                self.reached.add("id-reused-in-flight")

    def rejected(self, s: State) -> None:
        """LIFE-2: a request is refused."""
        self.reached.add("rejection")

    def aborted(self, s: State) -> None:
        """LIFE-4: a running request is aborted."""
        if flies(s, s.leaver):
            self.reached.add("abort-in-flight")
