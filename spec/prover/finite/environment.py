"""The environment of a finite instance: quantifiers written out, sizes, sets and hashes by
definition.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import reduce
from itertools import product
from typing import Any

import z3  # type: ignore[import-untyped]

from nullblock.spec.fields import FIELDS
from nullblock.spec.grouped import OneGroup
from nullblock.spec.kernel import Engines, both, either, implies, neg
from nullblock.spec.profiles import NORMATIVE, Semantics
from nullblock.spec.prover.environment import Lexicographic
from nullblock.spec.prover.finite.cells import (
    BITS,
    HIGHEST,
    LOWEST,
    Cells,
    absent,
    choose,
    keys,
    word,
)
from nullblock.spec.prover.symbols import Term

Text = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Instance:
    """How large a finite instance is."""

    requests: int
    blocks: int
    indices: int
    """Places in the running list, in a table, among the entries and outputs in flight."""
    depth: int = 4
    """Blocks that a chain of hashes may cover."""
    block_size: int = 2

    @property
    def members(self) -> dict[str, range]:
        """The members of each sort that maps have as keys."""
        return {
            "B": range(1, self.blocks + 1),
            "R": range(1, self.requests + 1),
            "T": range(1, self.requests + 1),
            "I": range(self.indices),
        }

    def __str__(self) -> str:
        return f"{self.requests} requests, {self.blocks} blocks"


class FiniteEnv(OneGroup):
    """What the text asks of `s.k`, answered with words."""

    concrete = False
    checks = True
    drafts = skips = True
    keeps_embeddings = encoder_decoder = False
    windowed = encodes = sessions = tells_ends = connector = silences = False
    wants_vectors = makes_vectors = False
    max_loras = 0
    NOHASH, ROOT = z3.BitVecVal(-1, BITS), z3.BitVecVal(0, BITS)

    def __init__(self, instance: Instance, priority: bool, sem: Semantics = NORMATIVE) -> None:
        self.instance, self.priority, self.sem = instance, priority, sem
        self.usable = instance.blocks
        self.named = 0
        self.budget, self.max_seqs, self.max_len, self.threshold, self.share = z3.BitVecs(
            "budget max_seqs max_len threshold share", BITS
        )
        self.caching, self.chunked, self.reserve, self.asynchronous, self.eagle = z3.Bools(
            "caching chunked reserve asynchronous eagle"
        )
        self.in_order = z3.Bool("in_order")
        self.slots = z3.Bool("draft_slots")
        self.num_spec = z3.BitVec("num_spec", BITS)
        self.lookahead = z3.If(self.slots, self.num_spec, word(0))
        requests = instance.members["R"]
        self.facts = {
            name: Cells({(r,): z3.BitVec(f"{name} {r}", BITS) for r in requests}, 0)
            for name in (
                "prompt_len",
                "max_tokens",
                "min_tokens",
                "priority",
                "kind",
                "skip",
                "grammar",
            )
        }
        self.limits: list[Term] = [
            *(within(x, 1, HIGHEST) for x in (self.budget, self.max_seqs)),
            within(self.max_len, 1, instance.depth * instance.block_size),
            within(self.threshold, 0, 4),
            within(self.share, 0, instance.depth),
            within(self.num_spec, 0, 3),
            z3.Implies(self.eagle, z3.And(self.slots, self.num_spec > 0)),
        ]
        for name, low, high in (
            *(("prompt_len", 0, 8), ("max_tokens", 1, 8), ("min_tokens", 0, 3)),
            *(("priority", 0, 1), ("kind", 0, 4), ("skip", 0, 1), ("grammar", 0, 1)),
        ):
            self.limits += [within(x, low, high) for x in self.facts[name].cells.values()]
        self.chains = [self.want(r, i) for r, i in product(requests, range(instance.depth))]

    # values ----------------------------------------------------------------------------------
    def const(self, name: str, sort: str) -> tuple[Term, Term]:
        """A constant of a sort that nothing has named before in this run, and its limits."""
        self.named += 1
        x = z3.BitVec(f"{name}!{self.named}", BITS)
        return x, self.limit(x, sort)

    def limit(self, x: Term, sort: str) -> Term:
        """What the values of a sort are."""
        match sort:
            case "B" | "R" | "T":
                return within(x, 0, self.instance.members[sort].stop - 1)
            case "H":
                return z3.Or(x == -1, *(x == h for h in self.chains))
            case "I":
                return within(x, LOWEST, HIGHEST)
            case _:
                return x & ~self.everybody(sort[1]) == 0

    def everybody(self, sort: str) -> Term:
        """The set of all members."""
        return word(sum(1 << n for n in self.instance.members[sort]))

    def field(self, field: str) -> tuple[Any, list[Term]]:
        """Any value of a field, and its limits."""
        domain, arrow, sort = FIELDS[field].rpartition(">")
        if not arrow:
            x, limit = self.const(field, sort)
            return x, [limit]
        cells, limits = {}, []
        for at in keys(domain, self.instance.members):
            cells[at], limit = self.const(f"{field}{at}", sort)
            limits.append(limit)
        return Cells(cells, absent(field)), limits

    def room(self, s: Any) -> list[Term]:
        """What keeps a state within the places that there are, with one to spare for a rule."""
        last = self.instance.indices - 1
        limits = [
            *(within(x, 0, last) for x in (s.nr, s.nhit, s.nrej, s.cur, s.nframe)),
            *(within(x, 0, last) for x in (s.oldest, s.steps)),
        ]
        for r in self.instance.members["R"]:
            limits += [within(s.tlen[r], 0, last), within(s.base[r], 0, last)]
            limits.append(within(s.base[r] + s.drop[r], 0, last))
            limits.append(s.base[r] + s.drop[r] + s.ph[r] <= last)
        return limits

    def plain(self, s: Any) -> list[Term]:
        """What makes a state easier to read: wished for in this order, and not insisted on."""
        requests, facts = self.instance.members["R"], self.facts
        return [
            both(z3.Not(self.asynchronous), z3.Not(self.reserve)),
            self.num_spec == 0,
            self.in_order,
            both(self.threshold == 0, self.chunked, self.caching),
            self.threshold == 0,
            s.evicted == 0,
            s.oldest == s.steps,
            s.steps - s.oldest <= 1,
            s.stage[requests[-1]] == 0,
            s.pause == 0,
            both(*(both(facts["kind"][r] == 0, facts["skip"][r] == 0) for r in requests)),
            both(*(facts["min_tokens"][r] == 0 for r in requests)),
            both(*(both(1 <= s.ntok[r], s.ntok[r] <= 4) for r in requests)),
            both(*(s.drop[r] == 0 for r in requests)),
            both(self.budget <= 4, self.max_seqs <= 3),
            both(*(s.ref[b] == 0 for b in self.instance.members["B"][1:])),
            both(*(s.hsh[b] == -1 for b in self.instance.members["B"][1:])),
            self.share == 0,
            both(*(within(s.done[b], 0, 1) for b in self.instance.members["B"])),
        ]

    # quantifiers -----------------------------------------------------------------------------
    def _members(self, sorts: str, span: Text | None) -> Iterable[tuple[Term, tuple[Term, ...]]]:
        for values in product(*(self.instance.members[sort] for sort in sorts)):
            words = tuple(map(word, values))
            if span is None:
                yield True, words
                continue
            named = len(sorts.rstrip("I"))
            lo, hi = span(*words[:named])
            yield both(*(both(lo <= i, i < hi) for i in words[named:])), words

    def forall(self, sorts: str, test: Text, span: Text | None = None, by: Any = None) -> Term:
        """Whether `test` holds for all members."""
        return both(*(implies(when, test(*x)) for when, x in self._members(sorts, span)))

    def exists(self, sort: str, test: Text, by: Any = None) -> Term:
        """Whether `test` holds for some member."""
        return either(*(test(*x) for _, x in self._members(sort, None)))

    def is_first(self, sort: str, x: Term, test: Text, key: Text, by: Any = None) -> Term:
        """Whether x has the least key among those that pass `test`."""
        return both(
            self.limit(x, sort) if sort != "I" else within(x, 0, self.instance.indices - 1),
            x != 0 if sort != "I" else True,
            test(x),
            self.forall(sort, lambda y: implies(test(y), key(x) <= key(y))),
        )

    def first(self, sort: str, test: Text, key: Text, by: Any = None, known: Any = None) -> Term:
        """The x that is first; nobody, if nothing passes."""
        x, limit = self.const("first", sort)
        Engines.prover.assume(limit)
        some = self.exists(sort, test)
        Engines.prover.assume(implies(some, self.is_first(sort, x, test, key)))
        Engines.prover.assume(implies(neg(some), x == 0))
        return x

    # sizes -----------------------------------------------------------------------------------
    def blocks(self, tokens: Term) -> Term:
        """Blocks that `tokens` tokens need."""
        return self.full(tokens + (self.instance.block_size - 1))

    def full(self, tokens: Term) -> Term:
        """Blocks that `tokens` tokens fill. Words divide towards zero, integers down."""
        size = self.instance.block_size
        if isinstance(tokens, int):
            return tokens // size
        return z3.If(tokens < 0, (tokens - (size - 1)) / size, tokens / size)

    def tokens(self, blocks: Term) -> Term:
        """Tokens in whole blocks."""
        return blocks * self.instance.block_size

    # requests --------------------------------------------------------------------------------
    def prompt_len(self, r: Term) -> Term:
        """Prompt tokens of r."""
        return self.facts["prompt_len"][r]

    def max_tokens(self, r: Term) -> Term:
        """Output tokens at which r stops."""
        return self.facts["max_tokens"][r]

    def min_tokens(self, r: Term) -> Term:
        """Output tokens below which r does not stop on a token."""
        return self.facts["min_tokens"][r]

    def skip_read(self, r: Term) -> Term:
        """Whether r refuses prefix hits."""
        return self.facts["skip"][r] == 1

    def grammar(self, r: Term) -> Term:
        """Whether r has a grammar, where there are any."""
        return both(neg(self.in_order), self.facts["grammar"][r] == 1)

    def order(self, r: Term, n: int = 0) -> Term:
        """Place in a PRIORITY queue: by priority, then by number; all arrive at one time."""
        return self.facts["priority"][r] * 8 + r

    def behind(self, r: Term, n: int = 0) -> Term:
        """Place in a PRIORITY queue, greatest first."""
        return -self.order(r)

    def negligible(self, r: Term, n: int, index: Term) -> Lexicographic:
        """The most negligible first, then the first in the list."""
        return Lexicographic(-self.facts["priority"][r], index)

    def last_token(self, s: Any, r: Term) -> Term:
        """What r's last token is to it."""
        return self.facts["kind"][r]

    def on_token(self, s: Any, r: Term) -> None:
        """Nothing: tokens have no content here."""

    def accepted(self, s: Any, r: Term) -> Term:
        """How many drafts the model agrees with: any of those there are."""
        return self._up_to("accepted", s.ndraft[s.cur])

    def proposed(self, s: Any, r: Term) -> Term:
        """How many drafts are proposed: any number that there may be."""
        return self._up_to("proposed", self.num_spec)

    def _up_to(self, name: str, most: Term) -> Term:
        n, limit = self.const(name, "I")
        Engines.prover.assume(both(limit, 0 <= n, n <= most))
        return n

    def note(self, s: Any, r: Term, why: Any) -> None:
        """Nothing: verdicts decide nothing."""

    def observe(self, reading: Text, s: Any) -> None:
        """Nothing: what only concrete runs read."""

    def tell(self, reading: Text, s: Any, *args: Any) -> None:
        """Nothing: what is told decides nothing."""

    # hashes: in the low three bits the depth, above them whose chain it is, 0 for what is shared
    def want(self, r: Term, i: Term) -> Term:
        """The chain hash of r's i-th block: up to `share` blocks all requests have in common."""
        r, i = word(r), word(i)
        chain = z3.If(i < self.share, i + 1, (r << 3) + i + 1)
        return z3.If(r == 0, self.NOHASH, z3.If(i < 0, self.ROOT, chain))

    def par(self, h: Term) -> Term:
        """The chain hash before h."""
        h = word(h)
        before = self.depth(h) - 1
        own = z3.If(z3.And(h >> 3 != 0, before <= self.share), before, h - 1)
        return z3.If(before == 0, self.ROOT, own)

    def depth(self, h: Term) -> Term:
        """How many blocks the chain of h covers."""
        h = word(h)
        return z3.If(h <= 0, word(0), h & 7)

    def valid(self, h: Term) -> Term:
        """Whether h is a chain hash."""
        return h > 0

    # sets and maps ---------------------------------------------------------------------------
    def mem(self, members: Term, x: Term) -> Term:
        """Membership."""
        return (members >> word(x)) & 1 == 1

    def card(self, members: Term) -> Term:
        """Cardinality."""
        members = word(members)
        return reduce(lambda n, x: n + ((members >> x) & 1), range(1, BITS), word(0))

    def some(self, members: Term) -> Term:
        """Some member of a set: the least; nobody, of the empty one."""
        found = word(0)
        for x in reversed(range(1, BITS)):
            found = z3.If(self.mem(members, x), word(x), found)
        return found

    def empty(self, sort: str) -> Term:
        """The empty set of a sort."""
        return word(0)

    def add(self, members: Term, x: Term) -> Term:
        """The set with x in it."""
        return members | (word(1) << word(x))

    def remove(self, members: Term, x: Term) -> Term:
        """The set without x."""
        return members & ~(word(1) << word(x))

    def copied(self, members: Term) -> Term:
        """The set, for another field."""
        return members

    def drop(self, m: Cells, i: Term, n: Term) -> Cells:
        """The sequence m[0:n] without its i-th member."""
        return self._each(m, lambda j: choose(word(j) < i, m[j], m[j + 1]))

    def shift(self, m: Cells, i: Term) -> Cells:
        """The map with every value above i lowered by one."""
        return self._each(m, lambda r: z3.If(m[r] > i, m[r] - 1, m[r]))

    def trim(self, m: Cells, i: Term) -> Cells:
        """The map without its keys below i."""
        return self._each(m, lambda j: z3.If(word(j) < i, word(m.default), m[j]))

    def _each(self, m: Cells, value: Callable[[int], Term]) -> Cells:
        return Cells({at: value(at[0]) for at in m.cells}, m.default)

    def blank(self, field: str) -> Cells:
        """An empty map for a field."""
        domain = FIELDS[field].partition(">")[0]
        default = absent(field)
        every = keys(domain, self.instance.members)
        return Cells(dict.fromkeys(every, word(default)), default)


def within(x: Term, low: int, high: int) -> Term:
    """low <= x <= high."""
    return z3.And(low <= x, x <= high)
