"""No drift: what the solver is asked about is what runs.

The machine does nothing but fire rules; and a rule on words, given the values of a state, does
what the rule does on that state, guard by guard and field by field: here on sampled states of
larger scopes; test_prover_drift_exhaustive.py tries every state of small ones.
"""

import random
import sys
from collections.abc import Iterator
from copy import copy
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from nullblock.spec.explorer.actions import actions, perform
from nullblock.spec.explorer.identity import Identity
from nullblock.spec.explorer.model import beginning
from nullblock.spec.explorer.scopes import STANDARD
from nullblock.spec.explorer.search import explore
from nullblock.spec.fields import FIELDS
from nullblock.spec.kernel import CONFUSED, RULES, Broken, Rule
from nullblock.spec.profiles import NORMATIVE
from nullblock.spec.prover.claims import proved_rules
from nullblock.spec.prover.finite.cells import word
from nullblock.spec.prover.finite.environment import FiniteEnv

sys.path.insert(0, str(Path(__file__).parent))
from finite_replay import performed, replayed  # noqa: E402  (a module beside this one)

SCOPES = (
    *("rules", "rules-ahead", "rules-priority", "resets", "orphans", "inflight", "pauses"),
    *("uncut", "drafts", "drafts-eagle", "rules-drafts", "grammars"),
)
"""Where states are taken from: among them every rule fires."""
Fired = tuple[Rule, tuple[Any, ...]]


@pytest.fixture
def fired(monkeypatch: pytest.MonkeyPatch) -> list[Fired]:
    """Every rule that the machine fires, with its arguments."""
    seen: list[Fired] = []
    call = Rule.__call__

    def recorded(self: Rule, s: Any, *args: Any) -> None:
        call(self, s, *args)
        seen.append((self, args))

    monkeypatch.setattr(Rule, "__call__", recorded)
    return seen


def test_the_machine_routed_through_its_rules_gives_the_explorers_graph(
    fired: list[Fired],
) -> None:
    """Fired one by one, without the machine, the rules of each action lead to the very same state;
    and the states and transitions so met are as many as the explorer counts.
    """
    scope = STANDARD["rules"]
    first = beginning(scope, NORMATIVE)
    identity = Identity()
    seen = {identity.key(first)[0]}
    edge, transitions = [first], 0
    while edge:
        later = []
        for s in edge:
            for action in actions(s, scope):
                by_machine, by_rules = s.copy(), s.copy()
                fired.clear()
                perform(by_machine, action)
                for rule, args in list(fired):
                    rule.body(by_rules, *args)
                assert all(getattr(by_machine, f) == getattr(by_rules, f) for f in FIELDS)
                transitions += 1
                key = identity.key(by_rules)[0]
                if key not in seen:
                    seen.add(key)
                    later.append(by_rules)
        edge = later
    found = explore(scope)
    assert (len(seen), transitions) == (found.states, found.transitions)


@cache
def states() -> dict[str, list[tuple[Any, tuple[Any, ...]]]]:
    """For each rule a few states in which it fires, with the arguments, from different scopes."""
    met: dict[str, list[tuple[Any, tuple[Any, ...]]]] = {name: [] for name in RULES}
    call = Rule.__call__

    def recorded(self: Rule, s: Any, *args: Any) -> None:
        if len(met[self.name]) < 3 and (not met[self.name] or r.random() < 0.1):
            met[self.name].append((s.copy(), args))
        call(self, s, *args)

    Rule.__call__ = recorded  # type: ignore[method-assign]
    try:
        for name in SCOPES:
            r = random.Random(name)
            scope = STANDARD[name]
            for _ in range(40):
                s = beginning(scope, NORMATIVE)
                for _ in range(25):
                    perform(s, r.choice(list(actions(s, scope))))
    finally:
        Rule.__call__ = call  # type: ignore[method-assign]
    return met


def arguments(rule: Rule, s: Any) -> Iterator[tuple[Any, ...]]:
    """Every argument of a rule in a small state."""
    domains = {sort: list(s.k.domain(sort)) for sort in "RTB"} | {"I": range(-1, 4)}
    return product(*(domains[sort] for sort in rule.sorts))


@pytest.mark.parametrize("name", sorted(proved_rules()))
def test_a_rule_on_words_is_the_rule(name: str) -> None:
    """Where it fires the fields afterwards are the same; with other arguments the same guard
    keeps both from firing.
    """
    rule = RULES[name]
    assert states()[name], "no run fires it"
    for s, args in states()[name]:
        after = performed(rule, s, args)
        assert isinstance(after, dict)
        assert replayed(rule, s, args) == after
    s = states()[name][0][0]
    for args in arguments(rule, s):
        assert replayed(rule, s, args) == performed(rule, s, args), args


def damaged(s: Any, r: random.Random) -> Any:
    """A state that nobody reaches: some numbers changed. Whether anybody is passed over is asked
    of the state, as on words: only where nobody breaks an invariant can it be left out.
    """
    new = s.copy()
    new.k = copy(s.k)
    new.k.skips = True
    fields = [f for f, sort in FIELDS.items() if sort.rpartition(">")[2] == "I"]
    for f in r.sample(fields, 3):
        if ">" not in FIELDS[f]:
            setattr(new, f, getattr(new, f) + r.choice((-1, 1)))
        else:
            m = getattr(new, f)
            for key in r.sample(list(m), min(1, len(m))):
                m[key] += r.choice((-1, 1))
    # Past its length a sequence has no members, whichever form it has.
    new.run = type(new.run)((j, x) for j, x in new.run.items() if j < new.nr)
    return new


def test_a_rule_on_words_is_the_rule_where_nobody_gets() -> None:
    """The same of states that break invariants: neither form leans on them."""
    r = random.Random(7)
    compared = 0
    for name in sorted(proved_rules()):
        rule = RULES[name]
        for s, args in states()[name][:2]:
            t = damaged(s, r)
            try:
                after = performed(rule, t, args)
            except (Broken, AssertionError, *CONFUSED):
                continue
            assert replayed(rule, t, args) == after, name
            compared += 1
    assert compared > len(proved_rules())


def test_a_drift_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """An instance that takes as many blocks to be full as there are tokens is told apart."""
    monkeypatch.setattr(FiniteEnv, "full", lambda self, n: self.tokens(word(n)))
    rule = RULES["pop_block"]
    told_apart = [
        replayed(rule, s, args) != performed(rule, s, args) for s, args in states()["pop_block"]
    ]
    assert any(told_apart)
