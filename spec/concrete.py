"""The environment of a concrete state: quantifiers, sets, sizes and hashes over finite domains, by
definition.

This is the readable truth; `nullblock.spec.indexed` answers the same questions with indexes for
large pools.
"""

import itertools
from collections.abc import Callable, Iterable
from typing import Any

from nullblock.spec.carriers import Collections
from nullblock.spec.facts import Config, Request
from nullblock.spec.fields import FIELDS
from nullblock.spec.grouped import Grouped
from nullblock.spec.heaps import Heaps
from nullblock.spec.kernel import Value
from nullblock.spec.prompts import Prompts

Key = Callable[[Any], Any]
Test = Callable[[Any], Any]
Span = Callable[..., tuple[Any, Any]]


MAPS = tuple(f for f in FIELDS if ">" in FIELDS[f])
SCALARS = tuple(f for f in FIELDS if ">" not in FIELDS[f])


class State:
    """A concrete state: one attribute a field, and its environment `k`."""

    __slots__ = (*FIELDS, "k")
    k: Any

    def copy(self) -> "State":
        """A state that shares nothing mutable with this one."""
        new = object.__new__(State)
        for f in SCALARS:
            setattr(new, f, getattr(self, f))
        for f in MAPS:
            m = getattr(self, f)
            setattr(new, f, m.__class__(m))
        new.k = self.k
        return new


class Env(Collections, Grouped, Heaps, Prompts):
    """Answers what the text asks of `s.k`, over blocks 1 … num_blocks - 1 and the requests that
    have been introduced.

    Block 0 is the null block: it is never free, never hashed and nobody's, so it is no member of
    the domain.
    """

    NOHASH: Any = None
    NULL = 0
    ROOT: Any = ()
    concrete = True
    silences = False
    """Whether a step may return without a token that it owes."""

    def __init__(self, config: Config, checks: bool = False) -> None:
        Grouped.__init__(self, config)
        Prompts.__init__(self, config)
        self.config, self.sem, self.checks = config, config.semantics, checks
        self.usable = config.num_blocks - 1
        self.budget = config.max_num_scheduled_tokens
        self.max_seqs = config.max_num_seqs
        self.max_len = config.max_model_len
        self.threshold = config.long_prefill_token_threshold
        self.watermark = config.watermark_blocks
        self.chunked = config.enable_chunked_prefill
        self.caching = config.enable_prefix_caching
        self.reserve = config.scheduler_reserve_full_isl
        self.priority = config.policy == "priority"
        self.asynchronous = config.async_scheduling
        self.num_spec = config.num_spec_tokens
        self.drafts = config.num_spec_tokens > 0 or config.drafts_from_outside
        self.eagle = config.use_eagle and not (self.mamba and not self.several)
        self.lookahead = config.num_lookahead_tokens
        self.batched = config.max_num_batched_tokens or config.max_num_scheduled_tokens
        self.draft_slots = config.draft_slots
        self.max_loras = config.max_loras
        self.second_runner = config.use_v2_model_runner
        self.stages = config.stages
        self.wants_vectors = config.pooling
        self.makes_vectors = config.makes_vectors
        self.tells_ends = config.include_finished_set
        self.connector = config.connector
        self.defers = config.steps_overlap
        self.delivers = config.requires_kv_delivery
        self.fails_loads = config.fail_failed_loads
        self.skips = config.may_skip
        self.sessions = config.sessions
        self.in_order = not config.may_skip
        self.block_size = config.block_size
        self.requests: dict[Any, Request] = {}
        longest = -(-self.max_len // min(self.sizes)) if self.windowed or self.several else 0
        longest += max(self.kept_beside)
        if self.encodes:
            # Items have no more places and numbers than that.
            longest = max(longest, self.max_len)
        self.indices = range(max(self.usable, longest * len(self.groups)) + 2)

    # quantifiers -----
    def domain(self, sort: str) -> Iterable[Any]:
        """The members of a sort."""
        match sort:
            case "B":
                return range(1, self.usable + 1)
            case "R":
                return self.requests
            case "T":
                if not self.several:
                    return self.requests
                return [t for r in self.requests for t in self.tables(r)]
            case "G":
                return range(len(self.groups))
            case _:
                return self.indices

    def members(self, sorts: str, span: Span | None = None) -> Iterable[tuple[Any, ...]]:
        """The members of several sorts. With `span` integers, which stand last, run over a range
        instead: its bounds, given the members before.
        """
        if span is None:
            return itertools.product(*map(self.domain, sorts))
        named = sorts.rstrip("I")
        return (
            (*v, *i)
            for v in itertools.product(*map(self.domain, named))
            for i in itertools.product(range(*span(*v)), repeat=len(sorts) - len(named))
        )

    def forall(
        self, sorts: str, test: Callable[..., Any], span: Span | None = None, by: Any = None
    ) -> bool:
        """Whether `test` holds for all members of the sorts."""
        return all(itertools.starmap(test, self.members(sorts, span)))

    def exists(self, sort: str, test: Test, by: Any = None) -> bool:
        """Whether `test` holds for some member."""
        return any(map(test, self.domain(sort)))

    def first(self, sort: str, test: Test, key: Key, by: Any = None, known: Any = None) -> Any:
        """The member with the least key among those that pass `test`; None if there is none.

        `known` tells a prover where to look for one that passes; it changes no answer.
        """
        return min(filter(test, self.domain(sort)), key=key, default=None)

    def is_first(self, sort: str, x: Any, test: Test, key: Key, by: Any = None) -> bool:
        """Whether x is `first(sort, test, key)`."""
        if not test(x):
            return False
        mine = key(x)
        return all(mine <= key(y) for y in self.domain(sort) if test(y))

    def count(self, sort: str, test: Test, by: Any = None) -> int:
        """How many members pass `test`."""
        return sum(1 for x in self.domain(sort) if test(x))

    def variety(self, sort: str, test: Test, key: Key, by: Any = None) -> int:
        """How many different keys those members have that pass `test`."""
        return len({key(x) for x in self.domain(sort) if test(x)})

    def sum_over(self, sort: str, of: Key) -> int:
        """The sum of a number that each member has."""
        return sum(map(of, self.domain(sort)))

    def total(self, m: Any, low: int, high: int) -> int:
        """The sum of m[low], …, m[high - 1]."""
        return sum(m[i] for i in range(low, high))

    def summed(self, sort: str, m: Any) -> int:
        """The sum of a map over the members of a sort."""
        return sum(m[x] for x in self.domain(sort))

    def among(self, m: Any, low: int, high: int, x: Any) -> bool:
        """Whether x is one of m[low], …, m[high - 1]."""
        return any(m[i] == x for i in range(low, high))

    def matching(self, m: Any, low: int, high: int, x: Any, of: Any) -> int:
        """The sum of those of[low], …, of[high - 1] at whose place m has x."""
        return sum(of[i] for i in range(low, high) if m[i] == x)

    # sizes -----
    def blocks(self, tokens: int) -> int:
        """Blocks that `tokens` tokens need: rounded up."""
        return -(-tokens // self.block_size)

    def full(self, tokens: int) -> int:
        """Blocks that `tokens` tokens fill: rounded down."""
        return tokens // self.block_size

    def tokens(self, blocks: int) -> int:
        """Tokens in whole blocks."""
        return blocks * self.block_size

    # requests -----
    def prompt_len(self, r: Any) -> int:
        """Prompt tokens of r."""
        return self.requests[r].prompt_len

    def max_tokens(self, r: Any) -> int:
        """Output tokens at which r stops."""
        return self.requests[r].max_tokens

    def min_tokens(self, r: Any) -> int:
        """Output tokens below which r does not stop on a token."""
        return self.requests[r].min_tokens

    def skip_read(self, r: Any) -> bool:
        """Whether r refuses prefix hits; invariants ask of nobody too."""
        return r is not None and self.requests[r].skip_reading_prefix_cache

    def adapter(self, r: Any) -> int:
        """The number of r's adapter, 0 for none, and where invariants ask for nobody's."""
        return 0 if r is None else self.requests[r].adapter

    def grammar(self, r: Any) -> bool:
        """Whether r has a grammar."""
        return self.requests[r].grammar

    def resumable(self, r: Any) -> bool:
        """Whether r is a session."""
        return self.requests[r].resumable

    def chunk_len(self, r: Any, n: int) -> int:
        """Tokens of the n-th chunk that r is sent, from 1, after its first prompt."""
        return self.requests[r].chunks[n - 1].length

    def chunk_limit(self, r: Any, n: int) -> int:
        """Output tokens at which the turn of that chunk ends; 0: that of the first prompt."""
        return self.requests[r].chunks[n - 1].max_tokens if n else self.requests[r].max_tokens

    def extended(self, r: Any, past: int, kept: int, known: int) -> int:
        """The number of what r has had once its next chunk stands behind the first `kept` tokens
        of what it had (`past`); its blocks keep the hashes of the first `known` of these, and
        where none is hashed again (`chunks_rehash`) those that were kept before. Supplied by a
        subclass.
        """
        raise NotImplementedError

    def chained(self, t: Any, i: int, past: int) -> Any:
        """The chain hash of the i-th block of a table whose request has had that."""
        return self.want(t, i)

    def loads_over_steps(self, r: Any) -> bool:
        """Whether a load for r takes longer than a step; invariants ask of nobody too."""
        return r is not None and self.requests[r].loads_over_steps

    def delays_free(self, r: Any) -> bool:
        """Whether r's blocks are kept after its end, until they are sent."""
        return self.requests[r].delays_free

    def remote_tokens(self, r: Any) -> int:
        """Tokens of r that the remote side holds."""
        return self.requests[r].remote

    def looks_first(self, r: Any) -> bool:
        """Whether the remote side does not know that when r arrives."""
        return self.requests[r].unsure

    def want(self, t: Any, i: int) -> Any:
        """The chain hash of the i-th block of tokens of a table's request, from 0; of several
        groups each has its own hashes. Supplied by a subclass.
        """
        raise NotImplementedError

    def end_of(self, t: Any, prompt: int) -> int:
        """Tokens before the hash that ends last in a prompt of so many, if it ends within a block
        of table t; 0 where one hash covers a block. Supplied by a subclass that has others.
        """
        return 0

    def end_hash(self, t: Any, end: int) -> Any:
        """That hash, of the prompt of a table's request; None if there is none."""
        return None

    def par(self, h: Any) -> Any:
        """The chain hash before h, ROOT if there is none. Supplied by a subclass that checks
        invariants.
        """
        raise NotImplementedError

    def depth(self, h: Any) -> int:
        """How many blocks the chain of h covers. Supplied by a subclass that checks invariants."""
        raise NotImplementedError

    def valid(self, h: Any) -> bool:
        """Whether h is a chain hash: neither NOHASH nor ROOT."""
        return h is not None and h != self.ROOT

    def last_token(self, s: State, r: Any) -> int:
        """What r's last token is to it: rejected by its grammar, eos, a stop id, one with which
        its outputs end in a repetition that it wants detected, or plain. Supplied by a subclass.
        """
        raise NotImplementedError

    def on_token(self, s: State, r: Any) -> None:
        """Called when r takes a token."""

    def on_null(self, s: State, change: int) -> None:
        """Called where vLLM changes the reference count of the null block, which nobody keeps."""

    def accepted(self, s: State, r: Any) -> int:
        """How many drafts of the entry that is settled the model agrees with. Supplied by a
        subclass.
        """
        raise NotImplementedError

    def says_nothing(self, s: State, r: Any) -> Any:
        """Whether the entry that is settled, which owes r a token, returns without any."""
        return False

    def proposed(self, s: State, r: Any) -> int:
        """How many drafts are proposed for r as soon as its tokens have come: none, where a
        subclass does not say otherwise.
        """
        return 0

    def note(self, s: State, r: Any, why: Value) -> None:
        """Called with the verdict of the stop check."""

    def failing(self, s: State, r: Any) -> int:
        """Place of r among those that end because a load failed, least first."""
        place: int = s.arr[r]  # type: ignore[attr-defined]
        return place

    def note_kept(self, s: State, r: Any) -> None:
        """Called when r has ended and its blocks are kept."""

    def note_reclaimed(self, s: State, r: Any) -> None:
        """Called when r gives loaded blocks back."""

    def letting_go(self, s: State, r: Any, i: int) -> int:
        """What orders the items of which r lets go."""
        return i

    def evicting(self, s: State, b: Any) -> int:
        """Place of b among the blocks that leave the prefix cache together, least first."""
        return int(b)

    def note_failed(self, s: State, r: Any) -> None:
        """Called when r ends because a load failed."""

    def observe(self, reading: Callable[[State], Any], s: State) -> Any:
        """The value of a reading that only concrete runs need."""
        return reading(s)

    def tell(self, reading: Callable[..., Any], s: State, *args: Any) -> None:
        """Called with a reading of `nullblock.spec.cache_events` when its event happens."""


def initial(k: Env) -> State:
    """The state before anything has happened: every block but the null block in the free queue,
    in order of id.
    """
    s = State()
    s.k = k
    for f in FIELDS:
        setattr(s, f, k.blank(f) if ">" in FIELDS[f] else 0)
    for b in range(1, k.usable + 1):
        s.stamp[b] = b  # type: ignore[attr-defined]
    start: dict[str, Any] = {
        "back": k.usable + 1,
        "front": -1,
        "nfree": k.usable,
        "hclock": 1,
        "aclk": 1,
        "hi": 1,
        "lo": -1,
        "sback": 1,
        "uback": 1,
        "eroom": k.encoder_slots,
        "efree": k.encoder_slots,
        "planner": None,
        "lr": None,
        "leaver": None,
        "actor": None,
        "taker": None,
    }
    for f, value in start.items():
        setattr(s, f, value)
    for f in ("preempted", "finished", "prev", "waitset", "passed", "lineset", "seen", "missing"):
        setattr(s, f, k.empty("R"))
    s.evset = k.empty("B")  # type: ignore[attr-defined]
    s.freeset = frozenset(range(1, k.usable + 1)) if isinstance(s.evset, frozenset) else s.evset  # type: ignore[attr-defined]
    return s
