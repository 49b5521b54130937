"""The rules on words, given the values of a concrete state: what a solver is told they do."""

from itertools import product
from typing import Any

import z3  # type: ignore[import-untyped]

from nullblock.spec.fields import FIELDS
from nullblock.spec.kernel import Disabled, Rule
from nullblock.spec.prover.environment import Lexicographic
from nullblock.spec.prover.finite.cells import Cells, FiniteState, absent, keys, number, word
from nullblock.spec.prover.finite.environment import FiniteEnv, Instance
from nullblock.spec.prover.paths import attached

DEPTH = 6


class Constant(FiniteEnv):
    """The environment of an instance with the values of a concrete one."""

    def __init__(self, s: Any) -> None:
        k = s.k
        self.names = [None, *k.requests]
        self.of = {r: n for n, r in enumerate(self.names)}
        instance = Instance(len(k.requests), k.usable, 12, DEPTH, k.block_size)
        super().__init__(instance, k.priority, k.sem)
        self.budget, self.max_seqs = word(k.budget), word(k.max_seqs)
        self.max_len, self.threshold = word(k.max_len), word(k.threshold)
        self.caching, self.chunked = z3.BoolVal(k.caching), z3.BoolVal(k.chunked)
        self.reserve, self.asynchronous = z3.BoolVal(k.reserve), z3.BoolVal(k.asynchronous)
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

    def order(self, r: Any) -> Any:
        """Place in a PRIORITY queue."""
        return self.ranks[r]

    def negligible(self, r: Any, index: Any) -> Lexicographic:
        """Key of the PRIORITY victim."""
        return Lexicographic(-self.facts["priority"][r], index)

    def want(self, r: Any, i: Any) -> Any:
        """The chain hash of r's i-th block."""
        return self.wanted[r, i] if hasattr(self, "wanted") else word(0)

    def word(self, value: Any, sort: str) -> Any:
        """A value of a sort as a word."""
        match sort:
            case "R":
                return word(self.of[value])
            case "H":
                return word(self.hash(value))
            case "{B}":
                return word(sum(1 << b for b in value))
            case "{R}":
                return word(sum(1 << self.of[r] for r in value))
            case _:
                return word(value or 0)

    def encoded(self, s: Any) -> FiniteState:
        """A concrete state as words."""
        new = FiniteState()
        new.k = self
        for f, sort in FIELDS.items():
            domain, arrow, to = sort.rpartition(">")
            if not arrow:
                setattr(new, f, self.word(getattr(s, f), to))
                continue
            cells = {}
            for at in keys(domain, self.instance.members):
                named = tuple(
                    self.names[n] if d == "R" else n for n, d in zip(at, domain, strict=True)
                )
                cells[at] = self.word(getattr(s, f)[named if len(named) > 1 else named[0]], to)
            setattr(new, f, Cells(cells, absent(f)))
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
            found[f] = {at: number(z3.simplify(word(c))) for at, c in x.cells.items()}
        else:
            found[f] = number(z3.simplify(word(x)))
    return found


def replayed(rule: Rule, s: Any, arguments: tuple[Any, ...]) -> dict[str, Any] | str:
    """The fields after a rule on words, or the guard that keeps it from firing."""
    k = Constant(s)
    t = k.encoded(s)
    terms = [k.word(x, sort) for x, sort in zip(arguments, rule.sorts, strict=True)]
    with attached(Replayer()):
        try:
            rule.body(t, *terms)
        except Disabled as e:
            return e.guard
        return values(t)


def performed(rule: Rule, s: Any, arguments: tuple[Any, ...]) -> dict[str, Any] | str:
    """The same of the concrete rule."""
    new = s.copy()
    k = Constant(s)
    try:
        rule.body(new, *arguments)
    except Disabled as e:
        return e.guard
    return values(k.encoded(new))
