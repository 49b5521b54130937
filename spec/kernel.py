"""The few words in which rules and machine are written. It imports no engine.

A value is an int, a bool or a tuple when the text runs on a concrete state, and a term when the
prover runs it; `if`, `==` and `+` work on both. Inside quantifiers use `both`, `either` and `neg`,
because there `and`, `or` and `not` would have to decide at once. This file is trusted: every
engine's verdict rests on it.
"""

from collections.abc import Callable, Iterator
from typing import Any

from nullblock.spec.catalogue import register

Value = Any
"""An int, bool or tuple on a concrete state; a Z3 term in the prover."""
State = Any
"""An object with the fields of `nullblock.spec.fields.FIELDS` and the environment `k`."""


class Disabled(Exception):
    """A guard does not hold: the rule may not fire in this state, which is left as it was."""

    def __init__(self, rule: str, guard: str) -> None:
        super().__init__(f"{rule} is not enabled: {guard}")
        self.rule, self.guard = rule, guard


class Broken(Exception):
    """The text broke a promise that it makes about itself: an `ensure`, a loop invariant or a
    variant.
    """


CONFUSED = (LookupError, TypeError, ValueError, AttributeError)
"""What a machine that has gone wrong raises where it asks for something that there is not."""


class Engines:
    """What is attached to the text while it runs: at most one prover, and one observer of fired
    rules.
    """

    prover: Any = None
    after_rule: Callable[[State, str], None] | None = None


RULES: dict[str, "Rule"] = {}


def both(*xs: Value) -> Value:
    """Conjunction of any number of conditions."""
    if Engines.prover is None:
        return all(xs)
    rest = []
    for x in xs:
        if x is False:
            return False
        if x is not True:
            rest.append(x)
    return Engines.prover.conj(*rest) if rest else True


def neg(a: Value) -> Value:
    """Negation."""
    return not a if Engines.prover is None or isinstance(a, bool) else Engines.prover.neg(a)


def either(*xs: Value) -> Value:
    """Disjunction of any number of conditions."""
    return any(xs) if Engines.prover is None else neg(both(*map(neg, xs)))


def implies(a: Value, b: Value) -> Value:
    """Material implication."""
    if a is True:
        return b
    if a is False:
        return True
    return Engines.prover.implies(a, b) if Engines.prover else (not a) or b


def ite(c: Value, a: Value, b: Value) -> Value:
    """`a` if `c`, else `b`, without forking the path."""
    if c is True:
        return a
    if c is False:
        return b
    return Engines.prover.ite(c, a, b) if Engines.prover else (a if c else b)


def least(a: Value, b: Value) -> Value:
    """The smaller of two numbers."""
    return ite(a < b, a, b)


def require(guard: Value, why: str) -> None:
    """A guard: `why` says in words what must hold.

    Concrete: reject the rule. Prover: assumed when the rule is proved, an obligation where the
    machine fires it.
    """
    if Engines.prover is not None:
        Engines.prover.require(guard, why)
    elif not guard:
        raise Disabled("", why)


def ensure(promise: Value, why: str) -> None:
    """A promise that the text makes. Concrete: checked. Prover: an obligation."""
    if Engines.prover is not None:
        Engines.prover.prove(promise, why)
        Engines.prover.assume(promise)
    elif not promise:
        raise Broken(why)


class Rule:
    """A guarded rule: the only kind of text that writes the state."""

    __slots__ = ("body", "id", "name", "sorts")

    def __init__(self, id: str, sorts: str, body: Callable[..., None]) -> None:
        self.id, self.sorts, self.body, self.name = id, sorts, body, body.__name__

    def __call__(self, s: State, *args: Value) -> None:
        """Fire the rule on `s`. Raises Disabled and leaves `s` untouched if a guard fails."""
        if Engines.prover is not None:
            Engines.prover.fire(self, s, args)
            return
        try:
            self.body(s, *args)
        except Disabled as e:
            raise Disabled(f"{self.id} {self.name}", e.guard) from None
        if Engines.after_rule is not None:
            Engines.after_rule(s, self.id)


def rule(id: str, sorts: str = "") -> Callable[[Callable[..., None]], Rule]:
    """Register a rule. `sorts` names its parameters: R request, B block, I integer.

    Every `require` comes before the first write, so a rejected rule changes nothing.
    """

    def enter(body: Callable[..., None]) -> Rule:
        register(id, "rule", body)
        fire = Rule(id, sorts, body)
        if body.__name__ in RULES:
            raise ValueError(f"two rules are called {body.__name__}")
        RULES[body.__name__] = fire
        return fire

    return enter


def loop(
    s: State,
    *,
    until: Callable[[], Value],
    changes: frozenset[str],
    decreases: Callable[[], Value],
    keep: Callable[[], Value] = lambda: True,
) -> Iterator[None]:
    """Repeat the body of `for _ in loop(...)` until `until()`. The loop carries its own proof
    outline: `changes` names the fields that its body may write, `keep` is its invariant,
    `decreases` a number that falls and stays at or above zero.

    Concrete: an ordinary loop that checks `keep` and `decreases` where `s.k.checks` says so.
    Prover: prove `keep`, forget `changes`, run the body ONCE from any state that satisfies it,
    prove it again.
    """
    if Engines.prover is not None:
        yield from Engines.prover.loop(s, until, changes, decreases, keep)
        return
    if not s.k.checks:
        while not until():
            yield
        return
    while True:
        ensure(keep(), "a loop keeps its invariant")
        if until():
            return
        before = decreases()
        yield
        ensure(
            both(before >= 0, decreases() < before),
            "a loop's variant falls and stays at or above zero",
        )
