"""What the explorer explores: a scope, its requests, and the environment that answers for them."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from nullblock.spec.concrete import Env, Span, State, initial
from nullblock.spec.explorer.histories import Histories
from nullblock.spec.facts import Chunk, Config, Item, Request
from nullblock.spec.fields import EOS, FIELDS, PLAIN, REJECTED, REPEATS, STOP_ID
from nullblock.spec.kernel import both
from nullblock.spec.keys import Keys, embeds_in, extra_keys, find_items, items_in
from nullblock.spec.profiles import Semantics
from nullblock.spec.sessions import num_output
from nullblock.spec.waiting import has_come_whole

EOS_TOKEN = 7
"""The token that ends a sequence: the only one that outputs of different requests share."""
Token = int | tuple[str, int]
"""A prompt token, or what a request samples at a position: no two requests sample the same."""


@dataclass(frozen=True, slots=True)
class Template:
    """One slot for requests: whenever its id is not in use, such a request may arrive, any number
    of times.
    """

    id: str
    prompt: tuple[int, ...]
    max_tokens: int
    min_tokens: int = 0
    priority: int = 0
    arrival: float = 0.0
    eos_at: int | None = None
    """From this output on (0 is the first) the model samples eos; None: never."""
    stop_at: int | None = None
    """The output that is one of the stop ids; None: none is."""
    repeats_at: int | None = None
    """From this output on, not the first, its outputs end in a repetition that it wants detected;
    None: never."""
    misses: int | None = None
    """The model disagrees with the draft of every so-manieth output; None: with none."""
    silent_at: int | None = None
    """The output at which the model says nothing as long as it has drafts; None: none."""
    proposes: int | None = None
    """How many drafts are proposed for it; None: as many as there may be."""
    skip_cache_read: bool = False
    lora: str | None = None
    salt: str | None = None
    adapter: int = 0
    """The number of its adapter, for the cap on them; 0: none."""
    grammar: bool = False
    """Whether it has a grammar, compiled some time after it arrives."""
    reject_at: int | None = None
    """The token that the grammar rejects, by its place among the outputs; None: none."""
    items: tuple[Item, ...] = ()
    """Its encoder inputs."""
    chunks: tuple[tuple[int, ...], ...] | None = None
    """What it may be sent after its prompt, as a session; None: it is none."""
    limits: tuple[int, ...] = ()
    """max_tokens of those chunks, where it is not its own."""
    arrivals: tuple[float, ...] = ()
    """When they are sent, where it is not when it arrived."""
    client: int = 0
    """Which front end it is from."""
    pooling: bool = False
    """Whether it wants a vector; `max_tokens` is then 1."""
    remote: int = 0
    """Tokens of it that the remote side holds."""
    unsure: bool = False
    """Whether the remote side has to look first."""
    loads_over_steps: bool = False
    """Whether a load for it takes longer than a step."""
    delays_free: bool = False
    """Whether its blocks are kept after its end, until they are sent."""
    embeds: int | None = None
    """The seed of the embeddings that its prompt is; None: it is tokens, and nothing else."""

    @property
    def rows(self) -> tuple[bytes, ...] | None:
        """The embeddings, which follow from the seed and their positions; None: there are none."""
        if self.embeds is None:
            return None
        return tuple(f"{self.embeds}:{i}".encode() for i in range(len(self.prompt)))


@dataclass(frozen=True, slots=True)
class Scope:
    """A bounded instance of the specification: an open system with at most one live request a
    template.
    """

    name: str
    purpose: str
    config: Config
    templates: tuple[Template, ...]
    witnesses: frozenset[str] = frozenset()
    """What the scope must reach; without it a pass would be vacuous."""
    halves: bool = False
    """Events may come between schedule and update."""
    depth: int = 1
    """Steps that may be in flight; more than one only where `halves`."""
    aborts: bool = True
    resets: tuple[bool, ...] = ()
    """Values of reset_running with which the prefix cache is reset."""
    pauses: tuple[int, ...] = ()
    evicts: bool = False
    """Hashed blocks may be evicted from outside."""
    lossy: bool = False
    """Blocks may turn out not to have been loaded."""
    external: tuple[int, ...] | None = None
    """Numbers of the items that an encoder connector has; None: there is no such connector."""
    encoder_resets: bool = False
    """The encoder cache may be reset."""
    every_rule: bool = False
    """Check the invariants after every rule, not only between events."""


def chunks_of(t: Template) -> tuple[Chunk, ...]:
    """What a session is sent, as the rules want it."""
    chunks = t.chunks or ()
    limits = t.limits or (t.max_tokens,) * len(chunks)
    arrivals = t.arrivals or (t.arrival,) * len(chunks)
    sent = zip(chunks, limits, arrivals, strict=True)
    return tuple(Chunk(len(chunk), limit, arrival) for chunk, limit, arrival in sent)


def _keys(q: Template, start: int, end: int) -> Keys:
    """What the content of these tokens depends on besides them, whatever a profile hashes."""
    return (
        *((f"lora {q.lora}",) if q.lora else ()),
        *items_in(q.items, start, end),
        *((f"salt {q.salt}",) if q.salt and start == 0 else ()),
        *(q.rows or ())[start:end],
    )


class ModelEnv(Env):
    """The environment of a scope. A chain hash is the number of a chain of blocks: ideal.

    Raises ValueError for a scope in which nothing could be lost, though it is lossy: of several
    groups vLLM takes no report of it (REMOTE-23).
    """

    def __init__(self, scope: Scope, semantics: Semantics) -> None:
        if scope.lossy and len(scope.config.groups) > 1 and not semantics.failed_loads_start_over:
            what = "of several groups no report of blocks that were not loaded is taken"
            raise ValueError(f"scope {scope.name} is lossy: {what} in this profile")
        super().__init__(replace(scope.config, semantics=semantics), checks=True)
        self.scope = scope
        self.loads_items = scope.external is not None
        self.external = frozenset(scope.external or ())
        self.templates = {t.id: t for t in scope.templates}
        self.requests = {
            t.id: Request(
                id=t.id,
                prompt_len=len(t.prompt),
                max_tokens=t.max_tokens,
                min_tokens=t.min_tokens,
                priority=t.priority,
                arrival=t.arrival,
                skip_reading_prefix_cache=t.skip_cache_read,
                adapter=t.adapter,
                grammar=t.grammar,
                items=t.items,
                resumable=t.chunks is not None,
                chunks=chunks_of(t),
                client=t.client,
                pooling=t.pooling,
                remote=t.remote,
                unsure=t.unsure,
                loads_over_steps=t.loads_over_steps,
                delays_free=t.delays_free,
            )
            for t in scope.templates
        }
        self.silences = any(t.silent_at is not None for t in scope.templates)
        self.in_order = self.in_order and not self.silences
        self.indices = range(max(len(self.indices) - 2, len(self.requests)) + 2)
        self.listed: dict[str, tuple[tuple[Any, ...], ...]] = {}
        self.numbers: dict[tuple[int, Any], int] = {}
        self.parents: list[Any] = [self.ROOT]
        self.depths: list[int] = [0]
        self.chains: dict[Any, list[int]] = {t: [] for t in self.domain("T")}
        self.truths: dict[Any, list[Any]] = {t: [] for t in self.domain("T")}
        self.places: dict[Any, int] = {}
        """By table, the item from which those in its next block are looked for."""
        chunks = {t.id: t.chunks for t in scope.templates if t.chunks}
        self.histories = Histories(
            chunks, self.max_len, self.block_size, self.sem.chunks_rehash, self.sampled
        )
        self.later: dict[tuple[int, int, tuple[int, ...]], int] = {}
        self.contents: dict[Any, int] = {}

    def members(self, sorts: str, span: Span | None = None) -> Iterable[tuple[Any, ...]]:
        """The members of several sorts, those of whole sorts listed once."""
        if span is not None:
            return super().members(sorts, span)
        if sorts not in self.listed:
            self.listed[sorts] = tuple(super().members(sorts))
        return self.listed[sorts]

    def forall(self, sorts: str, test: Any, span: Span | None = None, by: Any = None) -> bool:
        """Whether `test` holds for all members of the sorts."""
        if span is None and len(sorts) == 1:
            return all(map(test, self.domain(sorts)))
        return super().forall(sorts, test, span, by)

    def token(self, r: Any, position: int) -> Token:
        """r's token at a position, prompt or output."""
        t = self.templates[r]
        if position < len(t.prompt):
            return t.prompt[position]
        return self.sampled(r, position, len(t.prompt))

    def sampled(self, r: Any, position: int, begin: int) -> Token:
        """What r samples at a position, if its outputs begin there."""
        t = self.templates[r]
        if t.eos_at is not None and position - begin >= t.eos_at:
            return EOS_TOKEN
        return (t.id, position)

    def want(self, t: Any, i: int) -> int | None:
        """The chain hash of the i-th block of tokens of a table's request; None where invariants
        ask for nobody's or for no block's.
        """
        r = self.owner(t)
        if r is None or i < 0:
            return None
        group = (self.group(t),) if self.several else ()
        chain = self.chains[t]
        while len(chain) <= i:
            n, q, size = len(chain), self.templates[r], self.size_of(t)
            tokens = tuple(self.token(r, p) for p in range(n * size, (n + 1) * size))
            parent = chain[-1] if chain else 0
            start, end = n * size, (n + 1) * size
            embeds = embeds_in(q.rows, start, end)
            alone = n > 0 and end > len(q.prompt)
            block, first = range(start, end), self.places.get(t, 0)
            found, self.places[t] = find_items(self.sem, q.items, block, first, alone)
            extra = extra_keys(self.sem, q.lora, q.salt, n == 0, found, embeds)
            key = (parent, (tokens, extra, *group))
            if key not in self.numbers:
                self.numbers[key] = len(self.parents)
                self.parents.append(parent or self.ROOT)
                self.depths.append(n + 1)
            chain.append(self.numbers[key])
            self.truths[t].append((tokens, _keys(q, start, end), *group))
        return chain[i]

    def truth(self, t: Any, i: int) -> Any:
        """What really identifies the i-th block of a table, whatever a profile hashes: all that
        its content depends on, from the start, and the group that it is of.
        """
        self.want(t, i)
        return self.truths[t][: i + 1]

    def extended(self, r: Any, past: int, kept: int, known: int) -> int:
        """The number of what r has had once its next chunk stands behind what it keeps."""
        return self.histories.extended(r, past, kept, known)

    def chained(self, t: Any, i: int, past: int) -> int | None:
        """The chain hash of the i-th block of a table whose request has had that."""
        return self.want(t, i) if past == 0 else self.chain_of(t, past, i)

    def chain_of(self, t: Any, past: int, i: int) -> int | None:
        """The same of a session with chunks; None where invariants ask for nobody's or for no
        block's.
        """
        if t is None or i < 0:
            return None
        h, (group, size) = self.histories.all[past], self._group_and_size(t)
        if i < h.full * self.block_size // size:
            return self.chained(t, i, h.before)
        if (past, i, group) not in self.later:
            tokens, q = self._block(past, i, size), self.templates[h.id]
            parent = self.chained(t, i - 1, past) or 0
            found = self._found(q.items, past, i, size) if q.items else ()
            key = (parent, (tokens, extra_keys(self.sem, q.lora, q.salt, i == 0, found), *group))
            if key not in self.numbers:
                self.numbers[key] = len(self.parents)
                self.parents.append(parent or self.ROOT)
                self.depths.append(i + 1)
            self.later[past, i, group] = self.numbers[key]
        return self.later[past, i, group]

    def _group_and_size(self, t: Any) -> tuple[tuple[int, ...], int]:
        """What tells the group of a table apart from others, and the tokens of its blocks."""
        return ((self.group(t),), self.size_of(t)) if self.several else ((), self.block_size)

    def _block(self, past: int, i: int, size: int) -> tuple[Token, ...]:
        """The tokens of a session's i-th block of so many."""
        id = self.histories.all[past].id
        prompt, places = self.templates[id].prompt, range(i * size, (i + 1) * size)
        return tuple(self.histories.token(id, prompt, past, p) for p in places)

    def _found(self, items: tuple[Item, ...], past: int, i: int, size: int) -> tuple[Any, ...]:
        """The items found in the i-th block of a session with chunks: a chunk has those that it
        fills hashed at once.
        """
        begin = self.histories.all[past].full * self.block_size // size
        filled = range(begin, self.histories.start(past) // size)
        begin, first, found = begin if i in filled else i, 0, tuple[Any, ...]()
        for n in range(begin, i + 1):
            block, alone = range(n * size, (n + 1) * size), n == begin and n > 0
            found, first = find_items(self.sem, items, block, first, alone)
        return found

    def content(self, t: Any, i: int, past: int) -> int:
        """A number for what really identifies the i-th block of a table whose request has had
        that.
        """
        return self.first_content(t, i) if past == 0 else self.later_content(t, past, i)

    def first_content(self, t: Any, i: int) -> int:
        """The same before it takes a chunk."""
        return self._content(tuple(self.truth(t, i)))

    def later_content(self, t: Any, past: int, i: int) -> int:
        """The same of a session with chunks."""
        group, size = self._group_and_size(t) if t is not None else ((), self.block_size)
        q = self.templates[self.histories.all[past].id]
        return self._content(
            tuple(
                (self._block(past, n, size), _keys(q, n * size, (n + 1) * size), *group)
                for n in range(i + 1)
            )
        )

    def _content(self, truth: Any) -> int:
        return self.contents.setdefault(truth, len(self.contents))

    def par(self, h: Any) -> Any:
        """The chain hash before h, ROOT if there is none."""
        return self.parents[h or 0]

    def depth(self, h: Any) -> int:
        """How many blocks the chain of h covers."""
        return self.depths[h or 0]

    def last_token(self, s: Any, r: Any) -> int:
        """What r's last token is to it."""
        t = self.templates[r]
        output = num_output(s, r) - 1
        if t.reject_at is not None and output >= t.reject_at and has_come_whole(s, r):
            return REJECTED
        if t.eos_at is not None and output >= t.eos_at:
            return EOS
        if t.stop_at == output:
            return STOP_ID
        return REPEATS if t.repeats_at is not None and output >= t.repeats_at else PLAIN

    def accepted(self, s: Any, r: Any) -> int:
        """How many drafts of the entry that is settled the model agrees with."""
        return self.agreed(s, r, s.cur)

    def agreed(self, s: Any, r: Any, i: Any) -> int:
        """With how many of r's entry i of the oldest step in flight."""
        t = self.templates[r]
        drafts: int = s.ndraft[i]
        if t.misses is None:
            return drafts
        output: int = num_output(s, r)
        return min(drafts, t.misses - 1 - output % t.misses)

    def says_nothing(self, s: Any, r: Any) -> Any:
        """Whether the model samples nothing for the entry that is settled."""
        return self.lacks_output(s, r, s.cur)

    def lacks_output(self, s: Any, r: Any, i: Any) -> Any:
        """Whether it samples nothing for r's entry i of the oldest step in flight."""
        t = self.templates[r]
        if t.silent_at is None:
            return False
        return both(s.ndraft[i] > 0, num_output(s, r) == t.silent_at)

    def proposed(self, s: Any, r: Any) -> int:
        """How many drafts are proposed for r with each of its tokens."""
        t = self.templates[r]
        if self.asynchronous:
            return 0
        return self.num_spec if t.proposes is None else t.proposes

    def observe(self, reading: Any, s: Any) -> Any:
        """Nothing: what the worker is told is no part of a state between steps."""
        return None


SCALARS = tuple(f for f in FIELDS if ">" not in FIELDS[f])


def beginning(scope: Scope, semantics: Semantics) -> State:
    """The state of a scope before anything has happened."""
    return initial(ModelEnv(scope, semantics))
