"""No drift, in every state of scopes small enough to try them all.

Every state that a rule is ever fired in, mid-step ones included; in each of them every rule with
every argument: the rule on words has the same fields afterwards, or the same guard keeps it from
firing.
"""

import sys
from collections.abc import Iterator
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from nullblock.spec.explorer.actions import actions, perform
from nullblock.spec.explorer.identity import Identity
from nullblock.spec.explorer.model import Scope, Template, beginning
from nullblock.spec.explorer.search import explore
from nullblock.spec.facts import Config
from nullblock.spec.fields import FIELDS, PAUSED_NEW, UNPAUSED
from nullblock.spec.kernel import RULES, Rule
from nullblock.spec.profiles import NORMATIVE
from nullblock.spec.prover.claims import proved_rules

sys.path.insert(0, str(Path(__file__).parent))
from finite_replay import Beside, Constant  # noqa: E402  (a module beside this one)

A = 1001
SMALL = {
    scope.name: scope
    for scope in (
        Scope(
            "ahead",
            "asynchronous, two steps in flight, resets that preempt: outputs to discard",
            Config(3, 1, 2, 2, 16, async_scheduling=True),
            (Template("a", (A,), 2),),
            halves=True,
            depth=2,
            aborts=False,
            resets=(True,),
        ),
        Scope(
            "evicted",
            "evictions and pauses from outside",
            Config(3, 1, 2, 2, 16),
            (Template("a", (A,), 2),),
            aborts=False,
            pauses=(UNPAUSED, PAUSED_NEW),
            evicts=True,
        ),
        Scope(
            "held",
            "a shared prefix; who may not fit is held back",
            Config(3, 1, 2, 2, 16),
            (Template("a", (A, A), 1), Template("b", (A,), 2)),
            aborts=False,
        ),
        Scope(
            "refused",
            "one request fits, in chunks, the other never will; aborts",
            Config(3, 1, 1, 1, 3),
            (Template("a", (A, A), 1), Template("b", (A, A, A, A), 1)),
        ),
        Scope(
            "urgent",
            "two priorities, no reservation: preemption, and who does not fit gives up",
            Config(3, 1, 2, 2, 16, policy="priority", scheduler_reserve_full_isl=False),
            (Template("a", (A,), 2), Template("b", (A,), 2, priority=1)),
            aborts=False,
        ),
        Scope(
            "withdrawn",
            "two priorities, room for both at first: who had its turn is preempted",
            Config(5, 1, 2, 2, 16, policy="priority", scheduler_reserve_full_isl=False),
            (Template("a", (A,), 2), Template("b", (A + 1,), 3, priority=1)),
            aborts=False,
        ),
        Scope(
            "interrupted",
            "a reset that preempts with the last output in flight: who waits ends by it",
            Config(3, 1, 2, 2, 16),
            (Template("a", (A,), 1),),
            halves=True,
            aborts=False,
            resets=(True,),
        ),
        Scope(
            "compiled",
            "a grammar that is compiled some time later, and one that rejects a token",
            Config(3, 1, 2, 2, 16, grammars=True),
            (
                Template("a", (A,), 2, grammar=True, reject_at=1),
                Template("b", (A,), 1, grammar=True),
            ),
            aborts=False,
        ),
        Scope(
            "proposed",
            "three drafts: one goes on, the next ends the request, the last is rejected",
            Config(6, 1, 4, 1, 5, num_spec_tokens=3),
            (Template("a", (A,), 4, eos_at=2, misses=4),),
            aborts=False,
        ),
        Scope(
            "proposed-ahead",
            "asynchronous, a draft in each of two steps in flight",
            Config(5, 1, 3, 1, 4, num_spec_tokens=1, async_scheduling=True),
            (Template("a", (A,), 3, misses=3),),
            halves=True,
            depth=2,
            aborts=False,
        ),
    )
}
STATES = {
    "ahead": 451,
    "compiled": 1146,
    "evicted": 426,
    "held": 332,
    "interrupted": 102,
    "proposed": 122,
    "proposed-ahead": 276,
    "refused": 97,
    "urgent": 389,
    "withdrawn": 1253,
}
"""How many there are: a scope that loses some shows less."""


@cache
def met(name: str) -> tuple[list[Any], frozenset[str], int]:
    """Every state of a scope in which a rule is fired; the rules; and the states between steps."""
    scope, found, fired = SMALL[name], {}, set()
    call = Rule.__call__

    def recorded(self: Rule, s: Any, *args: Any) -> None:
        fired.add(self.name)
        whole = (getattr(s, f) for f in FIELDS)
        key = tuple(frozenset(x.items()) if isinstance(x, dict) else x for x in whole)
        if key not in found:
            found[key] = s.copy()
        call(self, s, *args)

    Rule.__call__ = recorded  # type: ignore[method-assign]
    try:
        first = beginning(scope, NORMATIVE)
        identity = Identity()
        seen, edge = {identity.key(first)[0]}, [first]
        while edge:
            s = edge.pop()
            for action in actions(s, scope):
                t = s.copy()
                perform(t, action)
                key = identity.key(t)[0]
                if key not in seen:
                    seen.add(key)
                    edge.append(t)
    finally:
        Rule.__call__ = call  # type: ignore[method-assign]
    return list(found.values()), frozenset(fired), len(seen)


def arguments(rule: Rule, s: Any) -> Iterator[tuple[Any, ...]]:
    """Every argument of a rule: each request, each block, the places and one on either side."""
    places = range(-1, max(s.k.usable, len(s.k.requests)) + 1)
    domains = {sort: list(s.k.domain(sort)) for sort in "RTB"} | {"I": places}
    return product(*(domains[sort] for sort in rule.sorts))


def drifts(s: Any) -> list[tuple[str, tuple[Any, ...]]]:
    """The rules, with arguments, that are not the same on words in a state."""
    beside = Beside(s)
    return [
        (rule.name, args)
        for rule in map(RULES.__getitem__, sorted(proved_rules()))
        for args in arguments(rule, s)
        if beside.replayed(rule, args) != beside.performed(rule, args)
    ]


@pytest.mark.parametrize("name", sorted(SMALL))
def test_the_states_are_all_there_are(name: str) -> None:
    """Between steps they are as many as the explorer counts, and mid-step none was lost."""
    states, _, between = met(name)
    assert between == explore(SMALL[name]).states
    assert len(states) == STATES[name]


def test_every_rule_fires() -> None:
    """No rule of the specification is compared only where it is refused."""
    fired = frozenset[str]().union(*(met(name)[1] for name in SMALL))
    assert proved_rules() - fired == set()


@pytest.mark.parametrize("name", sorted(SMALL))
def test_every_rule_on_words_is_the_rule_everywhere(name: str) -> None:
    """No state, no rule and no argument tells the two forms apart."""
    assert [(s, found) for s in met(name)[0] if (found := drifts(s))] == []


def test_a_drift_in_one_fact_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """An instance whose requests may sample one token more is told apart, by a rule that asks."""
    began = Constant.__init__

    def generous(self: Constant, s: Any) -> None:
        began(self, s)
        cells = self.facts["max_tokens"].cells
        self.facts["max_tokens"].cells = {at: n + 1 for at, n in cells.items()}

    monkeypatch.setattr(Constant, "__init__", generous)
    assert any(drifts(s) for s in met("ahead")[0][::7])
