"""What it takes for everybody to be served: each condition is needed; together they are enough."""

from collections import Counter
from dataclasses import replace
from itertools import product

import pytest

from nullblock.spec.concrete import Env, initial
from nullblock.spec.explorer.model import Scope, Template
from nullblock.spec.explorer.scopes import A, B
from nullblock.spec.facts import Config, Request
from nullblock.spec.liveness.check import check
from nullblock.spec.liveness.fairness import EVERY, Assumption
from nullblock.spec.liveness.preconditions import (
    LENIENT,
    PRECONDITIONS,
    Precondition,
    Setting,
    violated,
)
from nullblock.spec.liveness.scopes import CONTENDED
from nullblock.spec.profiles import NORMATIVE
from nullblock.spec.state import servable

LASSOS = {
    "pool": ("LIVE-4", "add a; step; step; step; step; step", "step"),
    "cutting": ("LIVE-4", "add a; add b; step; step; step", "step"),
    "prompt-length": ("LIVE-3", "add a; step; step", "step"),
    "min-tokens": ("LIVE-3", "add a; step; step", "step"),
    "ranks": ("LIVE-2", "add b; step; step; add a; step", "step; step; step; step"),
    "budget": ("LIVE-4", "add a", "step"),
    "places": ("LIVE-4", "add a", "step"),
    "steps": ("LIVE-4", "add a", "pause PAUSED_NEW; pause UNPAUSED"),
    "unpaused": ("LIVE-4", "add a; pause PAUSED_NEW", "step"),
    "resets": ("LIVE-1", "add a; step", "reset_prefix_cache reset_running; step"),
    "arrivals": ("LIVE-1", "add b; step; add a; step", "step; add b; step"),
    "adapters": (
        "LIVE-6",
        "add b; add a; step; add c; step; add b; step; add c; step",
        "add b; step; add c; step",
    ),
    "grammars": ("LIVE-4", "add a", "step"),
    "chunks": ("LIVE-4", "add a; step", "step"),
    "ways": (
        "LIVE-5",
        "add a; schedule; add b; update; schedule; schedule; chunk for a; update; update",
        "schedule; update",
    ),
    "answers": ("LIVE-4", "add a; schedule", "update; schedule"),
    "loads": ("LIVE-4", "add a; schedule", "update; schedule"),
    "sends": ("LIVE-4", "add a; add b; schedule; update", "schedule; update"),
}
"""For each condition: what falls without it, the way into the cycle, the cycle."""


@pytest.mark.parametrize("p", PRECONDITIONS, ids=lambda p: p.name)
def test_without_it_somebody_starves(p: Precondition) -> None:
    """A setting violates this condition and no other, and there is a lasso."""
    setting = p.violated
    assert violated(setting) == [p.name]
    found = check(setting.scope, setting.semantics, assumed=setting.assumed).lasso
    assert found is not None
    stem = len(found.actions) - found.repeats
    names = [str(a) for a in found.actions]
    assert (found.breaks, "; ".join(names[:stem]), "; ".join(names[stem:])) == LASSOS[p.name]


@pytest.mark.parametrize("which", Assumption, ids=lambda which: which.value)
def test_with_it_nobody_starves(which: Assumption) -> None:
    """It is the one assumption dropped that starves somebody: with all of them nobody does."""
    (p,) = (p for p in PRECONDITIONS if p.name == which.value)
    assert check(p.violated.scope).passed


def test_a_grammar_goes_before_who_has_none() -> None:
    """Under FCFS too some go before others: a request with a grammar joins the queue that is
    served first, so that as long as such requests arrive another one may wait for ever.
    """
    scope = Scope(
        *("overtaken", "", Config(3, 2, 4, 1, 8, grammars=True)),
        (Template("a", (A,), 1), Template("b", (B,), 1, grammar=True)),
        aborts=False,
    )
    found = check(scope, assumed=EVERY - {Assumption.ARRIVALS}).lasso
    assert found is not None and found.complaint.startswith("a waits for ever")
    assert check(scope).passed


def test_the_scopes_that_pass_meet_every_condition() -> None:
    """In the scopes where starving is easy nothing else protects anybody; and they do without what
    is not needed.
    """
    for scope in CONTENDED.values():
        assert violated(Setting(scope, NORMATIVE)) == []
    configs = [s.config for s in CONTENDED.values()]
    assert not all(c.scheduler_reserve_full_isl for c in configs)
    assert not all(c.enable_prefix_caching for c in configs)
    assert any(c.async_scheduling for c in configs)


def test_normative_refuses_whom_the_conditions_exclude() -> None:
    """LIFE-11 refuses a request exactly if it is empty or violates the conditions on the pool, on
    cutting, or on the prompt's length.
    """
    seen: Counter[bool] = Counter()
    for blocks, size, budget, chunked, threshold in product(
        (2, 3, 5), (1, 2), (2, 5), (True, False), (0, 2, 9)
    ):
        config = Config(
            *(blocks, size, budget, 2, 6),
            long_prefill_token_threshold=threshold,
            enable_chunked_prefill=chunked,
        )
        s = initial(Env(config))
        for prompt, output in product(range(1, 8), range(1, 5)):
            s.k.requests["r"] = Request("r", prompt, output)
            scope = Scope("x", "", config, (Template("r", (A,) * prompt, output),))
            met = not violated(Setting(scope, NORMATIVE))
            assert bool(servable(s, "r")) == met, (config, prompt, output)
            seen[met] += 1
    assert min(seen.values()) > 200


def small_settings() -> list[Setting]:
    """Every small configuration with two requests that are in each other's way, or with one that
    a reset may preempt at any time.
    """
    found = []
    for blocks, size, budget, chunked, reserve, policy in product(
        (2, 3), (1, 2), (2, 3), (True, False), (True, False), ("fcfs", "priority")
    ):
        config = Config(
            *(blocks + 1, size, budget, 2, 6),
            enable_chunked_prefill=chunked,
            scheduler_reserve_full_isl=reserve,
            enable_prefix_caching=False,
            policy=policy,
        )
        two = (
            Template("a", (A,) * 2, 2, priority=1),
            Template("b", (B,) * 1, 3, priority=0),
        )
        found.append(Setting(Scope("two", "", config, two, aborts=False)))
        if policy == "fcfs":
            for prompt, output in ((1, 2), (2, 2), (3, 1), (1, 5), (6, 1)):
                one = (Template("a", (A,) * prompt, output),)
                found.append(Setting(Scope("one", "", config, one, aborts=False, resets=(True,))))
    return found


def test_together_the_conditions_are_exact_in_small_scopes() -> None:
    """Taking in whoever arrives: whoever meets the conditions is served in every fair run, and
    where a lone request violates one of them there is a fair run in which it starves.
    """
    seen: Counter[tuple[str, bool]] = Counter()
    for setting in small_settings():
        broken = violated(setting)
        starves = check(setting.scope, LENIENT, claims=frozenset({"LIVE-1"})).lasso is not None
        if not broken or setting.scope.name == "one":
            assert starves == bool(broken), (setting.scope.config, setting.scope.templates)
        seen[setting.scope.name, bool(broken)] += 1
    assert min(seen.values()) > 15, seen


def test_a_tie_is_broken_by_the_arrival() -> None:
    """With different arrival times the two that preempt each other for ever are both served, even
    where ids take no part.
    """
    (ranks,) = (p for p in PRECONDITIONS if p.name == "ranks")
    scope = ranks.violated.scope
    a, b = scope.templates
    apart = replace(scope, templates=(a, replace(b, arrival=1.0)))
    assert check(apart, ranks.violated.semantics).passed


def test_ids_break_ties() -> None:
    """Where the id decides too, as in normative, equals do not preempt each other for ever."""
    (ranks,) = (p for p in PRECONDITIONS if p.name == "ranks")
    assert check(ranks.violated.scope, NORMATIVE).passed
