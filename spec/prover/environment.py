"""The environment of a symbolic state: quantifiers, sets, sizes, hashes and facts about requests,
as Z3 terms.

Constants of a configuration are symbols, so a proof holds for every pool size, block size, budget
and length, with and without prefix caching, chunked prefill and full-sequence reservation. Only
the policy is a Python bool: the prover runs both.
"""

from collections.abc import Callable
from typing import Any

import z3  # type: ignore[import-untyped]

from nullblock.spec.fields import FIELDS
from nullblock.spec.grouped import OneGroup
from nullblock.spec.kernel import Engines, both, implies, neg
from nullblock.spec.profiles import NORMATIVE, Semantics
from nullblock.spec.prover.symbols import BOOL, INT, SORTS, Term, TermMap, blank

Text = Callable[..., Any]


def _function(name: str, *sorts: str) -> Any:
    return z3.Function(name, *[SORTS[s] for s in sorts])


BLOCKS, FULL, TOKENS = (_function(f, "I", "I") for f in ("blocks", "full", "tokens"))
PROMPT_LEN, MAX_TOKENS, MIN_TOKENS, ORDER, URGENCY = (
    _function(f, "R", "I") for f in ("prompt_len", "max_tokens", "min_tokens", "order", "urgency")
)
SKIP_READ = z3.Function("skip_read", SORTS["R"], BOOL)
WANT, PAR, DEPTH = (
    _function("want", "R", "I", "H"),
    _function("par", "H", "H"),
    _function("depth", "H", "I"),
)
GRAMMAR = z3.Function("grammar", SORTS["R"], BOOL)
LAST_TOKEN = _function("last_token", "R", "I", "I")
CARD = {s: z3.Function(f"card_{s}", z3.SetSort(SORTS[s]), INT) for s in "BR"}
SOME = {s: z3.Function(f"some_{s}", z3.SetSort(SORTS[s]), SORTS[s]) for s in "BR"}


class Lexicographic:
    """A pair of integers that is compared first by the one, then by the other."""

    __slots__ = ("first", "second")

    def __init__(self, first: Term, second: Term) -> None:
        self.first, self.second = first, second

    def __le__(self, other: "Lexicographic") -> Any:
        return z3.Or(
            self.first < other.first,
            z3.And(self.first == other.first, self.second <= other.second),
        )


class SymbolicEnv(OneGroup):
    """What the text asks of `s.k`, answered with terms.

    Fresh names are numbered from 0 in every run, so equal obligations of two paths are the same
    term.
    """

    concrete = False
    checks = True
    NOHASH, ROOT = z3.IntVal(-1), z3.IntVal(0)
    windowed = False
    """The layers see all of the past; others, and several groups, are searched, not proved."""
    encodes = keeps_embeddings = encoder_decoder = False
    """No model has an encoder; those that have one are searched, not proved."""
    sessions = False
    """Nobody is a session; where some are, states are searched, not proved."""
    tells_ends = False
    """Clients are told of no ends; where they are, states are searched, not proved."""
    wants_vectors = makes_vectors = False
    """No request wants a vector; those that do are searched, not proved."""
    connector = False
    """There is no KV connector; requests whose KV is loaded are searched, not proved."""
    silences = False
    """No step returns without a token that it owes; those that do are searched, not proved."""
    drafts = True
    """Drafts may come."""
    skips = True
    """Requests may be skipped, unless all are served in order."""
    max_loras = 0
    """Adapters are not capped."""
    usable, budget, max_seqs, max_len, threshold = z3.Ints(
        "usable_blocks token_budget max_num_seqs max_model_len long_prefill_threshold"
    )
    num_spec, lookahead = z3.Ints("num_spec_tokens num_lookahead_tokens")
    caching, chunked, reserve, asynchronous, eagle, in_order = z3.Bools(
        "prefix_caching chunked_prefill reserve_full_isl async_scheduling use_eagle in_order"
    )

    def __init__(self, priority: bool, sem: Semantics = NORMATIVE) -> None:
        self.priority, self.sem = priority, sem
        self.named = self.nested = 0

    def const(self, name: str, sort: Any) -> Term:
        """A constant that no formula has named before in this run."""
        self.named += 1
        return z3.Const(f"{name}!{self.named}", sort)

    # quantifiers -----------------------------------------------------------------------------
    def _bound(self, sorts: str, text: Text) -> tuple[list[Term], Term]:
        # Bound names need not be fresh, only distinct where they nest: so equal formulas are equal
        # terms.
        self.nested += 1
        names = [z3.Const(f"{d.lower()}{n}_{self.nested}", SORTS[d]) for n, d in enumerate(sorts)]
        body = text(*names)
        self.nested -= 1
        return names, body

    def forall(self, sorts: str, test: Text, span: Text | None = None, by: Any = None) -> Term:
        """Whether `test` holds for all members of the sorts, integers within their span."""

        def inside(*members: Term) -> Term:
            if span is None:
                return test(*members)
            named = len(sorts.rstrip("I"))
            lo, hi = span(*members[:named])
            within = (both(lo <= i, i < hi) for i in members[named:])
            return implies(both(*within), test(*members))

        names, body = self._bound(sorts, inside)
        return body if isinstance(body, bool) else z3.ForAll(names, body)

    def exists(self, sort: str, test: Text, by: Any = None) -> Term:
        """Whether `test` holds for some member."""
        names, body = self._bound(sort, test)
        return body if isinstance(body, bool) else z3.Exists(names, body)

    def is_first(self, sort: str, x: Term, test: Text, key: Text, by: Any = None) -> Term:
        """Whether x has the least key among those that pass `test`."""
        return both(test(x), self.forall(sort, lambda y: implies(test(y), key(x) <= key(y))))

    def first(self, sort: str, test: Text, key: Text, by: Any = None, known: Any = None) -> Term:
        """Some x that is first.

        Axiom: if anything passes `test`, something is first, for what passes is finite. `known` is
        a member to ask first, which spares Z3 the search for one.
        """
        x = self.const("first", SORTS[sort])
        some = self.exists(sort, test) if known is None else test(known)
        Engines.prover.assume(implies(some, self.is_first(sort, x, test, key)))
        return x

    # sizes -----------------------------------------------------------------------------------
    def blocks(self, tokens: Term) -> Term:
        """Blocks that `tokens` tokens need."""
        return BLOCKS(tokens)

    def full(self, tokens: Term) -> Term:
        """Blocks that `tokens` tokens fill."""
        return FULL(tokens)

    def tokens(self, blocks: Term) -> Term:
        """Tokens in whole blocks."""
        return TOKENS(blocks)

    # requests --------------------------------------------------------------------------------
    def prompt_len(self, r: Term) -> Term:
        """Prompt tokens of r."""
        return PROMPT_LEN(r)

    def max_tokens(self, r: Term) -> Term:
        """Output tokens at which r stops."""
        return MAX_TOKENS(r)

    def min_tokens(self, r: Term) -> Term:
        """Output tokens below which r does not stop on a token."""
        return MIN_TOKENS(r)

    def skip_read(self, r: Term) -> Term:
        """Whether r refuses prefix hits."""
        return SKIP_READ(r)

    def grammar(self, r: Term) -> Term:
        """Whether r has a grammar, where there are any."""
        return both(neg(self.in_order), GRAMMAR(r))

    def order(self, r: Term, n: int = 0) -> Term:
        """Place in a PRIORITY queue: an integer stands for (priority, arrival, id)."""
        return ORDER(r)

    def behind(self, r: Term, n: int = 0) -> Term:
        """Place in a PRIORITY queue, greatest first."""
        return -self.order(r)

    def negligible(self, r: Term, n: int, index: Term) -> Lexicographic:
        """The most negligible first, then the first in the list."""
        return Lexicographic(-URGENCY(r), index)

    def want(self, r: Term, i: Term) -> Term:
        """The chain hash of r's i-th block."""
        return WANT(r, i)

    def par(self, h: Term) -> Term:
        """The chain hash before h."""
        return PAR(h)

    def depth(self, h: Term) -> Term:
        """How many blocks the chain of h covers."""
        return DEPTH(h)

    def valid(self, h: Term) -> Term:
        """Whether h is a chain hash."""
        return h > 0

    def last_token(self, s: Any, r: Term) -> Term:
        """What r's last token is to it: any value."""
        return LAST_TOKEN(r, s.ntok[r])

    def on_token(self, s: Any, r: Term) -> None:
        """Nothing: tokens have no content here."""

    def accepted(self, s: Any, r: Term) -> Term:
        """How many drafts the model agrees with: any of those there are."""
        return self._up_to("accepted", s.ndraft[s.cur])

    def proposed(self, s: Any, r: Term) -> Term:
        """How many drafts are proposed: any number that there may be."""
        return self._up_to("proposed", self.num_spec)

    def _up_to(self, name: str, most: Term) -> Term:
        n = self.const(name, INT)
        Engines.prover.assume(both(0 <= n, n <= most))
        return n

    def note(self, s: Any, r: Term, why: Any) -> None:
        """Nothing: verdicts decide nothing."""

    def observe(self, reading: Text, s: Any) -> None:
        """Nothing: what only concrete runs read."""

    def tell(self, reading: Text, s: Any, *args: Any) -> None:
        """Nothing: what is told decides nothing."""

    # sets and maps ---------------------------------------------------------------------------
    def mem(self, members: Term, x: Term) -> Term:
        """Membership."""
        return z3.Select(members, x)

    def card(self, members: Term) -> Term:
        """Cardinality."""
        return CARD[str(members.domain())](members)

    def some(self, members: Term) -> Term:
        """Some member of a set."""
        return SOME[str(members.domain())](members)

    def empty(self, sort: str) -> Term:
        """The empty set of a sort."""
        return z3.K(SORTS[sort], z3.BoolVal(False))

    def add(self, members: Term, x: Term) -> Term:
        """The set with x in it."""
        return self._changed(members, x, True)

    def remove(self, members: Term, x: Term) -> Term:
        """The set without x."""
        return self._changed(members, x, False)

    def copied(self, members: Term) -> Term:
        """The set, for another field."""
        return members

    def _changed(self, members: Term, x: Term, inside: bool) -> Term:
        from nullblock.spec.prover.axioms import counted

        new = z3.Store(members, x, inside)
        Engines.prover.assume(counted(self, members, x, new, inside))
        return new

    def drop(self, m: TermMap, i: Term, n: Term) -> TermMap:
        """The sequence m[0:n] without its i-th member."""
        j = z3.Int("j_drop")
        return TermMap(z3.Lambda([j], z3.If(j < i, m[j], m[j + 1])))

    def shift(self, m: TermMap, i: Term) -> TermMap:
        """The map with every value above i lowered by one."""
        r = z3.Const("r_shift", SORTS["R"])
        return TermMap(z3.Lambda([r], z3.If(m[r] > i, m[r] - 1, m[r])))

    def trim(self, m: TermMap, i: Term) -> TermMap:
        """The map without its keys below i: what it is there is anything."""
        j, below = z3.Int("j_trim"), self.const("below", m.term.sort())
        return TermMap(z3.Lambda([j], z3.If(j < i, below[j], m[j])))

    def blank(self, field: str) -> TermMap:
        """An empty map for a field."""
        match FIELDS[field].rpartition(">")[2]:
            case "H":
                value = self.NOHASH
            case "I":
                value = z3.IntVal(-1 if field == "pos" else 0)
            case "{R}" | "{T}":
                value = self.empty("R")
            case range_:
                value = z3.Const(f"no_{range_}", SORTS[range_])
        return blank(field, value)
