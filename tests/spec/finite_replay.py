"""The rules on words, given the values of a concrete state: what a solver is told they do."""

from itertools import product
from typing import Any

import z3  # type: ignore[import-untyped]

from nullblock.spec.fields import FIELDS
from nullblock.spec.kernel import Disabled, Rule
from nullblock.spec.prover.environment import Lexicographic
from nullblock.spec.prover.finite.cells import BITS, Cells, FiniteState, absent, keys, number, word
from nullblock.spec.prover.finite.environment import FiniteEnv, Instance
from nullblock.spec.prover.paths import attached

DEPTH = 6


class Constant(FiniteEnv):
    """The environment of an instance with the values of a concrete one."""

    def __init__(self, s: Any) -> None:
        k = s.k
        self.names = [None, *k.requests]
        self.of = {r: n for n, r in enumerate(self.names)}
        self.known: dict[str, list[tuple[tuple[int, ...], Any]]] = {}
        instance = Instance(len(k.requests), k.usable, 12, DEPTH, k.block_size)
        super().__init__(instance, k.priority, k.sem)
        self.budget, self.max_seqs = word(k.budget), word(k.max_seqs)
        self.max_len, self.threshold = word(k.max_len), word(k.threshold)
        self.caching, self.chunked = z3.BoolVal(k.caching), z3.BoolVal(k.chunked)
        self.reserve, self.asynchronous = z3.BoolVal(k.reserve), z3.BoolVal(k.asynchronous)
        self.num_spec, self.lookahead = word(k.num_spec), word(k.lookahead)
        self.eagle, self.in_order = z3.BoolVal(k.eagle), z3.BoolVal(k.in_order)
        ranked = sorted(k.requests, key=k.order)
        urgent = sorted({(q.priority, q.arrival) for q in k.requests.values()})
        self.ranks = Cells({(self.of[r],): word(n) for n, r in enumerate(ranked)}, 0)
        self.facts = {
            name: Cells({(self.of[r],): word(value(r)) for r in k.requests}, 0)
            for name, value in {
                "prompt_len": k.prompt_len,
                "max_tokens": k.max_tokens,
                "min_tokens": k.min_tokens,
                "skip": lambda r: int(k.skip_read(r)),
                "grammar": lambda r: int(k.grammar(r)),
                "kind": lambda r: k.last_token(s, r) if s.ntok[r] else 0,
                "priority": lambda r: urgent.index(
                    (k.requests[r].priority, k.requests[r].arrival)
                ),
            }.items()
        }
        every = list(product(k.requests, range(DEPTH)))
        wanted = {(self.of[r], i): self.hash(k.want(r, i)) for r, i in every}
        self.wanted = Cells({at: word(h) for at, h in wanted.items()}, -1)

    def hash(self, h: Any) -> int:
        """A hash of the explorer is a number already."""
        return -1 if h is None else 0 if h == () else int(h)

    def order(self, r: Any, n: int = 0) -> Any:
        """Place in a PRIORITY queue."""
        return self.ranks[r]

    def negligible(self, r: Any, n: int, index: Any) -> Lexicographic:
        """The most negligible first, then the first in the list."""
        return Lexicographic(-self.facts["priority"][r], index)

    def want(self, r: Any, i: Any) -> Any:
        """The chain hash of r's i-th block."""
        return self.wanted[r, i] if hasattr(self, "wanted") else word(0)

    def integer(self, value: Any, sort: str) -> int:
        """The number that stands for a value of a sort, as a word of so many bits has it."""
        match sort:
            case "R" | "T":
                found = self.of[value]
            case "H":
                found = self.hash(value)
            case "{B}":
                found = sum(1 << b for b in value)
            case "{R}" | "{T}":
                found = sum(1 << self.of[r] for r in value)
            case _:
                found = int(value or 0)
        half = 1 << BITS - 1
        return (found + half) % (2 * half) - half

    def word(self, value: Any, sort: str) -> Any:
        """A value of a sort as a word."""
        return word(self.integer(value, sort))

    def field(self, s: Any, f: str) -> Any:
        """A field of a concrete state as integers: one, or one for each key."""
        domain, arrow, to = FIELDS[f].rpartition(">")
        whole = getattr(s, f)
        if not arrow:
            return self.integer(whole, to)
        return {at: self.integer(whole[key], to) for at, key in self.keys(domain)}

    def keys(self, domain: str) -> list[tuple[tuple[int, ...], Any]]:
        """Every key of maps with this domain, and what a concrete map calls it."""
        if domain not in self.known:
            every = keys(domain, self.instance.members)
            named = [
                tuple(self.names[n] if d in "RT" else n for n, d in zip(at, domain, strict=True))
                for at in every
            ]
            called = [key if len(key) > 1 else key[0] for key in named]
            self.known[domain] = list(zip(every, called, strict=True))
        return self.known[domain]

    def encoded(self, s: Any) -> FiniteState:
        """A concrete state as words."""
        new = FiniteState()
        new.k = self
        for f in FIELDS:
            found = self.field(s, f)
            if isinstance(found, dict):
                found = Cells({at: word(n) for at, n in found.items()}, absent(f))
            setattr(new, f, word(found) if isinstance(found, int) else found)
        return new


class Replayer:
    """The words of the kernel, decided at once: every term is a constant."""

    conj, implies, neg = staticmethod(z3.And), staticmethod(z3.Implies), staticmethod(z3.Not)

    @staticmethod
    def ite(condition: Any, a: Any, b: Any) -> Any:
        """One of two values."""
        return z3.If(condition, word(a), word(b))

    def branch(self, condition: Any) -> bool:
        """Which way an `if` goes."""
        decided = z3.simplify(condition)
        assert z3.is_true(decided) or z3.is_false(decided), condition
        return bool(z3.is_true(decided))

    def require(self, guard: Any, why: str) -> None:
        """A guard."""
        if not self.branch(word(guard)):
            raise Disabled("", why)

    def prove(self, promise: Any, why: str) -> None:
        """A promise."""
        assert self.branch(word(promise)), why

    def assume(self, fact: Any) -> None:
        """What `prove` has shown."""


def values(s: FiniteState) -> dict[str, Any]:
    """Every field as integers."""
    found: dict[str, Any] = {}
    for f in FIELDS:
        x = getattr(s, f)
        if isinstance(x, Cells):
            found[f] = {at: plain(c) for at, c in x.cells.items()}
        else:
            found[f] = plain(x)
    return found


def plain(x: Any) -> int | None:
    """The integer that a term without variables is."""
    found = number(x)
    return number(z3.simplify(word(x))) if found is None else found


class Beside:
    """A concrete state and its words, on which rule after rule is tried."""

    def __init__(self, s: Any) -> None:
        self.s, self.k = s, Constant(s)
        self.words = self.k.encoded(s)

    def replayed(self, rule: Rule, arguments: tuple[Any, ...]) -> dict[str, Any] | str:
        """The fields after the rule on words, or the guard that keeps it from firing."""
        t = self.words.copy()
        terms = [self.k.word(x, sort) for x, sort in zip(arguments, rule.sorts, strict=True)]
        with attached(Replayer()):
            try:
                rule.body(t, *terms)
            except Disabled as e:
                return e.guard
            return values(t)

    def performed(self, rule: Rule, arguments: tuple[Any, ...]) -> dict[str, Any] | str:
        """The same of the concrete rule."""
        new = self.s.copy()
        try:
            rule.body(new, *arguments)
        except Disabled as e:
            return e.guard
        return {f: self.k.field(new, f) for f in FIELDS}


def replayed(rule: Rule, s: Any, arguments: tuple[Any, ...]) -> dict[str, Any] | str:
    """The fields after a rule on words, or the guard that keeps it from firing."""
    return Beside(s).replayed(rule, arguments)


def performed(rule: Rule, s: Any, arguments: tuple[Any, ...]) -> dict[str, Any] | str:
    """The same of the concrete rule."""
    return Beside(s).performed(rule, arguments)
