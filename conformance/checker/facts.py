"""The environment of a replay: what a trace tells about requests, in place of their tokens."""

from collections.abc import Collection, Iterable
from dataclasses import replace
from itertools import chain as concatenated
from itertools import repeat
from typing import Any

from msgspec import UNSET

from nullblock.conformance.checker import items, repetition, sessions
from nullblock.conformance.checker.chains import Chain
from nullblock.conformance.checker.heard import Hearing
from nullblock.conformance.checker.unknown import NotRecorded
from nullblock.conformance.encoder_format import MOST_ITEMS
from nullblock.conformance.repetition import FEATURE
from nullblock.conformance.trace.errors import Malformed
from nullblock.conformance.trace.records import Add, Output, Update
from nullblock.conformance.trace.sessions import RESUMABLE
from nullblock.conformance.unruled import raising_prompt, unruled_prompt
from nullblock.spec import facts
from nullblock.spec.concrete import MAPS, State
from nullblock.spec.encoder import encodable
from nullblock.spec.erased.records import View
from nullblock.spec.erased.windows import Window
from nullblock.spec.fields import (
    CONTINUE,
    EOS,
    ERROR,
    FIELDS,
    PLAIN,
    REJECTED,
    REPEATS,
    STOP_ID,
    STOPPED_BY_ID,
    UNBORN,
)
from nullblock.spec.state import check_stop

GRAMMARS = "structured_output"
"""The feature of a request whose output has to follow a grammar."""
POOLING = "pooling"
"""That of one that wants a vector, and no tokens."""
ERROR_BY_ID = -1
"""Of a verdict: a grammar rejects the token, which is a stop id as well."""
NO_CHAIN = -1
"""The chain of a block that is not full yet: no block carries it."""
OF_REQUESTS = tuple(f for f in MAPS if FIELDS[f].startswith(("R>", "T>")))


class Recorded(Hearing):
    """Chains and token kinds as recorded. Memory: the pool, and the requests alive."""

    silences = True

    def __init__(self, config: facts.Config) -> None:
        super().__init__(config)
        self.held: set[int] = set()
        """Items of which an encoder connector has said last that it has them."""
        beside = self.sink_blocks
        self.pool = range(beside + 1, beside + self.usable + 1)
        """The blocks that requests get: as in the engine those of sinks come before all others."""
        self.chains: dict[int, Chain] = {}
        self.features: dict[int, list[str]] = {}
        """What arrived with each request."""
        self.kinds: dict[int, int] = {}
        """Of the tokens in the frame: those that are not PLAIN."""
        self.detecting: set[int] = set()
        """Who wants repetitions detected."""
        self.rejected: set[int] = set()
        """Whose token in the frame its grammar rejects."""
        self.counts: dict[int, int] | None = {}
        """Of the requests in the frame: how many tokens; None: one for each of them."""
        self.taken: list[int] = []
        """Of the update under way: whose token was taken."""
        self.ends: list[tuple[int, int]] = []
        """Of those, who ends, and what the stop check said."""
        self.most = MOST_ITEMS
        """Encoder inputs that no request has more of."""
        self.tells_blocks = True
        """Whether block ids are told."""
        self.held_back = False
        """Whether the step held the head of the waiting queue back (WAIT-8)."""
        self.put_in_by_number = False
        """Whether those whom a state told to begin with have arrived in order of number, by the
        rules, which may be another than they came in."""
        self.owed_unknown: set[int] = set()
        """Of whose entries in flight a state did not tell what they are owed: they had ended."""
        self.refused: list[tuple[int, str]] = []
        """Who was rejected at arrival, and why, until an update has reported it."""
        self.refused_next: list[tuple[int, str]] = []
        """Sessions rejected for a chunk in the update under way: the next one reports it."""
        self.talk = sessions.Talk()

    def has_item(self, n: int) -> bool:
        return n in self.held

    def domain(self, sort: str) -> Iterable[Any]:
        return self.pool if sort == "B" else super().domain(sort)

    def start(self) -> State:
        s: Any = super().start()
        if self.sink_blocks:
            s.stamp = self.blank("stamp")
            for b in self.pool:
                s.stamp[b] = b
            s.back = self.pool.stop
        return s  # type: ignore[no-any-return]

    def introduce(self, add: Add) -> None:
        """Learn what an arrival tells. Raises NotRecorded."""
        if self.priority and add.arrival is UNSET:
            raise NotRecorded(f"the arrival time of request {add.id}, under the PRIORITY policy")
        if self.caching and add.chain is UNSET and add.prompt >= self.block_size:
            raise NotRecorded(f"the chain numbers of request {add.id}")
        told = self.config, add.prompt
        if unruled := unruled_prompt(*told) or raising_prompt(*told):
            raise NotRecorded(f"what becomes of {unruled}, as request {add.id} has")
        self.talk.forget(add.id)  # an earlier owner of the number may be reported yet
        self._about = None  # or was looked up last
        self.records.make(add.id)
        self.requests[add.id] = facts.Request(
            id=(0.0 if add.tie is UNSET else add.tie, add.id),
            prompt_len=add.prompt,
            max_tokens=add.max_tokens,
            min_tokens=add.min_tokens,
            priority=add.priority,
            arrival=0.0 if add.arrival is UNSET else float(add.arrival),
            skip_reading_prefix_cache=add.skip_reading_prefix_cache,
            adapter=add.adapter,
            grammar=GRAMMARS in add.features,
            items=self.counted(items.items(add.items)),
            resumable=RESUMABLE in add.features,
            pooling=POOLING in add.features,
        )
        self.features[add.id] = add.features
        repetition.wanted(self, add.id, FEATURE in add.features)
        self.chains[add.id] = Chain(() if add.chain is UNSET else add.chain)

    def sampled(self, output: Output) -> None:
        """Learn what a frame tells. Raises Malformed for more content than the tokens fill."""
        ids, counts = output.ids, output.counts
        self.kinds = {r: STOP_ID for r, _ in output.stop} | {r: EOS for r, _ in output.eos}
        self.rejected = {r for r, _ in output.rejected}
        for r in self.rejected:
            if r in self.requests and not self.requests[r].grammar:
                raise NotRecorded(f"which grammar rejects what request {r} samples")
        everyone = counts.count(1) == len(counts) and ids == self.next_frame()
        self.counts = None if everyone else dict(zip(ids, counts, strict=True))
        for r, number in () if output.chain is UNSET else output.chain:
            if r in self.chains:
                self.chains[r].extend(number)
                self._check_filled(r)

    def ended(self, update: Update) -> None:
        """Learn what an update tells that no rule decides: what sessions take that go on, and
        whose outputs repeat themselves.
        """
        self.talk.told = {turn.id: turn.taken for turn in update.turns}
        for r, place in repetition.detected(self, self.state, update):
            self.repeats(r, place)
        gone = [f.id for f in update.finish if repetition.forgets_stop_id(self, f)]
        self.talk.by_stop_id.difference_update(gone)

    def repeats(self, r: int, place: int) -> None:
        """The token of r at that place of the frame ends a repetition."""
        self.kinds.setdefault(r, REPEATS)

    def _check_filled(self, r: int) -> None:
        """No block has a chain number before it is full."""
        s: Any = self.state
        came = 1 if self.counts is None else self.counts[r]
        if self.chains[r].length * self.block_size > s.ntok[r] + came:
            what = f"a block of request {r} that its tokens do not fill"
            raise Malformed(what, "record it again: one chain number for each full block")

    def next_frame(self) -> list[int]:
        """Who is in the oldest step in flight."""
        s: Any = self.state
        first, end, frame = s.cur, s.fend[s.oldest], s.frame
        if isinstance(frame, Window):
            return frame.members(first, end)
        return [frame[i] for i in range(first, end)]

    def forget(self, s: Any, gone: Collection[int]) -> None:
        """Drop everything about those of `gone` that are gone for good."""
        if not gone:
            return
        kept = s.finished | {r for r, _ in self.refused + self.refused_next}
        for r in gone:
            if r not in self.requests or s.stage[r] != UNBORN or r in kept:
                continue
            if r in s.skip:
                continue  # in vllm-0.22.1 it may have ended there (UPD-6), and waits all the same
            del self.requests[r], self.chains[r]
            self.detecting.discard(r)
            self.features.pop(r, None)  # of one whose blocks alone were told there are none
            self.talk.forget(r)
            self._forget(s, r)
            if self.several:
                for t in self.tables(r):
                    self._forget(s, t)

    def _forget(self, s: Any, key: Any) -> None:
        """Drop what the maps have of a request, or of a table with a name of its own."""
        self.records.pop(key, None)
        for f in OF_REQUESTS:
            carrier = getattr(s, f)
            if carrier.__class__ is not View:
                carrier.pop(key, None)

    def want(self, t: Any, i: int) -> Any:
        if self.several:
            return self.hash(self.chain_of(t, i), self.group(t))
        return self.chain(t, i)

    def hashes(self, t: Any, first: int, end: int) -> Iterable[Any]:
        if self.sessions or not self.caching:
            return super().hashes(t, first, end)
        many = self.size_of(t) // self.covered() if self.several else 1
        chain = self.chains[self.owner(t)]
        full = max(first, min(end, chain.length // many))
        numbers = chain.numbers(range((first + 1) * many - 1, full * many, many))
        known = zip(numbers, repeat(self.group(t))) if self.several else numbers
        return concatenated(known, super().hashes(t, full, end))

    def hash(self, chain: int, group: int) -> Any:
        """What a block carries: of several groups each has its own hashes."""
        return (chain, group) if self.several else chain

    def chain(self, r: Any, i: int) -> int:
        """The chain number of the i-th block of a request, of as many tokens as a chain number is
        for; NO_CHAIN while it is not full.
        """
        if not self.caching:
            return NO_CHAIN  # no block carries any, and none is recorded
        chain = self.chains[r]
        state: Any = self.state
        if self.sessions and (i + 1) * self.block_size > state.ntok[r]:
            # Where a session has dropped tokens there may be a number all the same.
            return NO_CHAIN
        if i < chain.length:
            return chain[i]
        if (i + 1) * self.block_size <= state.ntok[r]:
            raise NotRecorded(f"the chain number of block {i} of request {r}")
        return NO_CHAIN

    def on_token(self, s: State, r: Any) -> None:
        if self.counts is None:
            return
        if self.counts.get(r) != 1:
            counted = self.counts.get(r, "no")
            raise NotRecorded(f"one token of request {r}, which has {counted} in its output")

    def came(self, r: Any) -> int:
        """How many tokens of a request the frame has, or vectors."""
        if self.counts is None:
            return 1
        return self.counts.get(r, 0)

    def says_nothing(self, s: State, r: Any) -> bool:
        if self.counts is None:
            return False
        return self.counts.get(r) == 0

    def last_token(self, s: State, r: Any) -> int:
        if r in self.rejected:
            return REJECTED
        if self.kinds:
            return self.kinds.get(r, PLAIN)
        return PLAIN

    def chunk_len(self, r: Any, n: int) -> int:
        return self.talk.sent[r][n].length

    def arrival(self, r: Any, n: int) -> float:
        return float(self.requests[r].arrival)

    def chunk_limit(self, r: Any, n: int) -> int:
        return self.talk.sent[r][n].max_tokens if n else self.max_tokens(r)

    def extended(self, r: Any, past: int, kept: int, known: int) -> int:
        taken, chunk = self.talk.take(r, past + 1)
        self.requests[r] = replace(
            self.requests[r],
            min_tokens=chunk.min_tokens,
            # Under PRIORITY it stands where its last chunk's arrival puts it.
            arrival=chunk.arrival,
            id=(chunk.tie, r),
            items=self.counted(items.extended(self, r, chunk.items, kept)),
        )
        if self.sem.reject_unservable and not encodable(self.state, r):
            raise NotRecorded(f"an encoder input of request {r} that can never be computed")
        repetition.wanted(self, r, chunk.detects)
        if self.sem.chunks_rehash:
            self.chains[r].cut(known // self.block_size)
        for run in (taken.chain if taken is not None else ()) or ():
            self.chains[r].extend(*run)
        return past + 1

    def note(self, s: State, r: Any, why: Any) -> None:
        if self.wants_vectors and self.pools(r) and self.came(r) != 1:
            raise NotRecorded(f"the vector of request {r}, which its output does not have")
        if self.sessions and why != CONTINUE:
            self.stops(s, r, why)
        self.taken.append(r)
        if why == ERROR:
            self.ends.append((r, self.error_of(s, r)))
        elif why != CONTINUE:
            self.ends.append((r, why))

    def error_of(self, s: State, r: Any) -> int:
        """The end of a request whose token its grammar rejects: a stop id is reported all the
        same.
        """
        self.rejected.discard(r)
        try:
            return ERROR_BY_ID if check_stop(s, r) == STOPPED_BY_ID else ERROR
        finally:
            self.rejected.add(r)

    def stops(self, s: State, r: Any, why: Any) -> None:
        """A request stops, which may be a session. Raises NotRecorded."""
        if unknown := sessions.unknown_stop(s, r):
            raise NotRecorded(unknown)
        if refused := sessions.refused_next(s, r, why):
            self.refused_next.append((r, refused))

    def most_items(self) -> int:
        return self.most

    def counted(self, found: tuple[facts.Item, ...]) -> tuple[facts.Item, ...]:
        """The encoder inputs of a request, which may be more than any had before."""
        self.most = max(self.most, len(found))
        return found

    def let_wait(self) -> bool:
        """From now on requests may wait for a grammar. Whether they could not before."""
        if self.config.grammars:
            return False
        self.config = replace(self.config, grammars=True)
        self.skips, self.in_order = True, False
        return True

    def let_pool(self) -> bool:
        """From now on requests may want vectors. Whether they could not before."""
        if self.config.pooling:
            return False
        self.config = replace(self.config, pooling=True)
        self.wants_vectors = True
        return True

    def let_continue(self) -> bool:
        """From now on requests may be sessions. Whether they could not before."""
        if self.config.sessions:
            return False
        self.config = replace(self.config, sessions=True)
        self.sessions, self.skips, self.in_order = True, True, False
        s: Any = self.state
        sessions.restore_heap(s, sorted(s.skip, key=self.order), UNSET)
        return True

    def passed_on(self) -> list[int]:
        """How many tokens those in `taken` have taken: who has a vector takes none."""
        if self.wants_vectors:
            return [int(not self.pools(r)) for r in self.taken]
        return [1] * len(self.taken)
