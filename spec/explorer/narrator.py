"""Says what each rule did, in words: the observer behind a story."""

from collections.abc import Callable
from typing import Any

from nullblock.spec.explorer.encoder_narrator import EncoderNarrator
from nullblock.spec.explorer.remote_narrator import RemoteNarrator
from nullblock.spec.explorer.session_narrator import SessionNarrator
from nullblock.spec.explorer.touched import cached_last, grown, shrunk, withdrawn
from nullblock.spec.explorer.witnesses import flies
from nullblock.spec.fields import (
    CONTINUE,
    LENGTH,
    PREEMPTED,
    REPETITION,
    RESUMED,
    RUNNING,
    STOPPED,
)
from nullblock.spec.kernel import State
from nullblock.spec.names import PAUSE_NAME
from nullblock.spec.pooling import pools
from nullblock.spec.rejection import why_unservable
from nullblock.spec.sessions import num_output
from nullblock.spec.state import check_stop, live


class Narrator(EncoderNarrator, SessionNarrator, RemoteNarrator):
    """Collects what rules do to requests and blocks, one sentence a decision."""

    def __init__(self) -> None:
        self.sentences: list[str] = []
        self.hits: list[Any] = []
        self.taken: list[Any] = []
        self.published: list[Any] = []
        self.released: list[Any] = []
        self.unhashed: list[Any] = []
        self.found, self.computed = [], []
        self.gone = ""
        """What became of the request that is leaving."""
        self.granted: dict[Any, int] = {}
        """Tokens granted so far in the open step."""
        self.handlers: dict[str, Callable[[State], None]] = {
            "RUN-4": self.ran,
            "RUN-5": self.began,
            "RUN-6": self.skipped,
            "WAIT-8": self.held,
            "WAIT-9": self.admitted,
            "WAIT-10": self.gave_up,
            **dict.fromkeys(("POOL-10", "REMOTE-51"), self.took),
            "POOL-11": self.adopted,
            "POOL-12": self.popped,
            "HASH-12": self.cached,
            "HASH-13": self.evicted,
            "HASH-14": self.wiped,
            "PREEMPT-2": self.preempted,
            "PREEMPT-3": self.uncached,
            "PREEMPT-4": self.requeued,
            "UPD-2": self.passed,
            "UPD-3": self.took_token,
            "UPD-18": self.dropped,
            "UPD-60": self.got_nothing,
            "UPD-61": self.starts_anew,
            "UPD-51": self.took_vector,
            "HASH-20": self.cached_known,
            "UPD-5": self.left,
            "LIFE-1": self.arrived,
            "LIFE-2": self.refused,
            "LIFE-3": self.reset,
            "LIFE-4": self.aborted,
            "LIFE-5": self.aborted_waiting,
            "LIFE-6": self.forgotten,
            "LIFE-7": self.paused,
            **self.encoder_handlers(),
            **self.session_handlers(),
            **self.remote_handlers(),
        }

    def rule(self, s: State, id: str) -> None:
        """A rule has fired."""
        handler = self.handlers.get(id)
        if handler is not None:
            handler(s)

    def told(self) -> list[str]:
        """The sentences since the last call. A request half-way out is told as far as it got."""
        if self.gone:
            self._let_go()
        if self.hits or self.taken or self.published:
            self.say(", ".join(["half-way", *self._moved()]))
        told, self.sentences = self.sentences, []
        return told

    def say(self, text: str) -> None:
        """Add a sentence."""
        self.sentences.append(text)

    # the scheduled -----
    def began(self, s: State) -> None:
        """RUN-5: a step begins."""
        self.granted = {}
        if s.limit == 0:
            self.say("everything is paused: no token may be scheduled")

    def _got(self, s: State, what: str) -> None:
        r = s.actor
        self.granted[r] = n = s.sched[r]
        self.say(", ".join([f"{r} {what}: {_count(n, 'token')}", *self._moved()]))

    def _moved(self) -> list[str]:
        """What the request that asks for slots has been given so far."""
        done = (("hits", self.hits), ("takes", self.taken), ("hashes", self.published))
        said = [f"{verb} {_blocks(blocks)}" for verb, blocks in done if blocks]
        self.hits, self.taken, self.published = [], [], []
        return [*said, *self.items_moved()]

    def ran(self, s: State) -> None:
        """RUN-4: a running request is scheduled."""
        self._got(s, "goes on")

    def admitted(self, s: State) -> None:
        """WAIT-9: a request is admitted."""
        self._got(s, "resumes" if s.fresh[s.actor] == RESUMED else "is admitted")

    def skipped(self, s: State) -> None:
        """RUN-6: a running request is passed over."""
        self.say(f"{s.run[s.at - 1]} runs, but is given nothing to do")

    def held(self, s: State) -> None:
        """WAIT-8: the head is held back."""
        room = "all of it would not fit the pool"
        cut = "it may not be cut, and would not fit the budget"
        why = room if s.k.chunked else f"{cut}, or {room}" if s.k.reserve else cut
        self.say(f"the head of the queue is held back, and all behind it: {why}")

    def gave_up(self, s: State) -> None:
        """WAIT-10: the head's slots are not free."""
        self.hits, self.taken, self.published = [], [], []
        self.say("the head of the queue, and all behind it, wait: its slots are not free")

    # blocks -----
    def took(self, s: State) -> None:
        """POOL-10, REMOTE-51: a block from the free queue."""
        t = grown(s, s.actor)
        self.taken.append(s.tab[t, s.tlen[t] - 1])

    def adopted(self, s: State) -> None:
        """POOL-11: a hit."""
        self.hits.append(s.hit[s.na - 1])

    def cached(self, s: State) -> None:
        """HASH-12: a block is published."""
        self.published.append(cached_last(s, s.actor))

    def cached_known(self, s: State) -> None:
        """HASH-20: a block is published with its last token."""
        r = s.taker
        self.say(f"{r} hashes {_blocks([cached_last(s, r)])}")

    def popped(self, s: State) -> None:
        """POOL-12: a block is released; its place in the table is not overwritten."""
        t = shrunk(s, s.leaver)
        self.released.append(s.tab[t, s.tlen[t]])

    def uncached(self, s: State) -> None:
        """PREEMPT-3: a hash is taken back."""
        t = withdrawn(s, s.leaver, len(self.unhashed) + 1)
        self.unhashed.append(s.tab[t, s.ncached[t]])

    def evicted(self, s: State) -> None:
        """HASH-13: a hash is evicted from outside."""
        self.say("the block loses its hash")

    def wiped(self, s: State) -> None:
        """HASH-14: every hash is forgotten."""
        self.say("every hash is forgotten")

    # the leaving -----
    def _let_go(self) -> None:
        parts = [self.gone]
        if self.unhashed:
            parts.append(f"takes back the hashes of {_blocks(self.unhashed)}")
        if self.released:
            parts.append(f"releases {_blocks(self.released)}")
        self.say(", ".join(parts))
        self.gone, self.released, self.unhashed = "", [], []

    def preempted(self, s: State) -> None:
        """PREEMPT-2: a victim leaves."""
        v = s.leaver
        by = "by itself" if v == s.actor else f"by {s.actor}"
        back = self.granted.pop(v, 0)
        was = f" though it was scheduled in this step (its {_count(back, 'token')} go back)"
        self.gone = f"{v} is preempted {by}{was if back else ''}"

    def reset(self, s: State) -> None:
        """LIFE-3: a reset preempts a request."""
        self.gone = f"{s.leaver} is preempted by the reset"

    def aborted(self, s: State) -> None:
        """LIFE-4: a running request is aborted."""
        self.gone = f"{s.leaver} is aborted" + (
            ", its output in flight" if flies(s, s.leaver) else ""
        )

    def left(self, s: State) -> None:
        """UPD-5: a running request has stopped."""
        self.gone = f"{s.leaver} is gone"

    def requeued(self, s: State) -> None:
        """PREEMPT-4: a victim is back in the queue."""
        self._let_go()

    def forgotten(self, s: State) -> None:
        """LIFE-6: a request is gone."""
        self._let_go()

    def aborted_waiting(self, s: State) -> None:
        """LIFE-5: a waiting request is aborted."""
        self.say("the request leaves the queue")

    # tokens -----
    def passed(self, s: State) -> None:
        """UPD-2: an output is for nobody, or of a chunk."""
        r = s.frame[s.cur - 1]
        if live(s, r) and s.comp[r]:
            self.say(f"{r} has {s.comp[r]} of {s.ntok[r]} tokens computed, so no token yet")
        else:
            self.say(f"the output for {r} belongs to nobody")

    def dropped(self, s: State) -> None:
        """UPD-18: a token is dropped."""
        self.say(f"the token for {s.frame[s.cur - 1]} is dropped: it was reset meanwhile")

    def got_nothing(self, s: State) -> None:
        """UPD-60: a request takes nothing."""
        self.say(f"the step returns without a token for {s.frame[s.cur - 1]}")

    def starts_anew(self, s: State) -> None:
        """UPD-61: a running request starts over."""
        self.gone = f"the step returns without a token for {s.leaver}, which starts over"

    def took_token(self, s: State) -> None:
        """UPD-3: a request takes a token."""
        r = s.taker
        why = check_stop(s, r)
        where = "" if s.stage[r] == RUNNING else f" while it waits{_preempted(s, r)}"
        end = "" if why == CONTINUE else f" and stops: {_reason(s, r, why)}"
        self.say(f"{r} takes output token {num_output(s, r)}{where}{end}")

    def took_vector(self, s: State) -> None:
        """UPD-51: a request takes a vector."""
        r = s.taker
        where = "" if s.stage[r] == RUNNING else f" while it waits{_preempted(s, r)}"
        self.say(f"{r} takes its vector{where} and stops")

    # arrivals -----
    def arrived(self, s: State) -> None:
        """LIFE-1: a request arrives."""
        r = max(s.waitset, key=lambda q: s.rank[q])
        wants = "a vector" if pools(s, r) else f"max_tokens {s.k.max_tokens(r)}"
        limits = f"{_count(s.k.prompt_len(r), 'prompt token')}, {wants}"
        least = f", min_tokens {s.k.min_tokens(r)}" if s.k.min_tokens(r) else ""
        rank = f", priority {s.k.requests[r].priority}" if s.k.priority else ""
        self.say(f"{r} waits: {limits}{least}{rank}")

    def refused(self, s: State) -> None:
        """LIFE-2: a request is refused."""
        r = s.rej[s.nrej - 1]
        items = s.k.requests[r].items
        why = why_unservable(s.k.config, s.k.prompt_len(r), s.k.max_tokens(r), items)
        self.say(f"{r} is refused: {why}")

    def paused(self, s: State) -> None:
        """LIFE-7: the pause state changes."""
        self.say(f"the engine is {PAUSE_NAME[s.pause]}")


def _preempted(s: State, r: Any) -> str:
    return ", preempted" if s.stage[r] == PREEMPTED else ""


def _reason(s: State, r: Any, why: Any) -> str:
    if why == REPETITION:
        return "a repetition"
    if why != LENGTH:
        return "eos" if why == STOPPED else "a stop token"
    return "max_model_len" if s.ntok[r] >= s.k.max_len else "max_tokens"


def _count(n: int, what: str) -> str:
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


def _blocks(blocks: list[Any]) -> str:
    return f"block{'s' if len(blocks) > 1 else ''} {' '.join(map(str, blocks))}"
