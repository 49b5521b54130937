"""What the prover takes for granted is true of what really runs.

Each axiom is one text. Here it is evaluated on integers, sets, chains of blocks and requests: not
a proof, but an axiom that is false of the real thing would not last.
"""

import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nullblock.spec.explorer.model import ModelEnv, Scope, Template
from nullblock.spec.facts import Config, Request
from nullblock.spec.profiles import NORMATIVE
from nullblock.spec.prover.axioms import AXIOMS, Axiom, counted

NAMED = {axiom.name: axiom for axiom in AXIOMS}


def environment(config: Config) -> Any:
    """An environment with two requests whose prompts share a block."""
    prompts = ((1, 2, 3, 4, 5), (1, 2, 3, 9, 9))
    templates = tuple(Template(n, p, 3) for n, p in zip("ab", prompts, strict=True))
    k = ModelEnv(Scope("axioms", "", config, templates), NORMATIVE)
    k.requests["c"] = Request("c", 0, 1, 0, priority=-1)
    k.requests["d"] = Request("d", 4, 1, 0, arrival=2.5)
    return k


CONFIGS = st.builds(
    Config,
    st.integers(1, 9),
    st.integers(1, 7),
    st.integers(1, 9),
    st.integers(1, 9),
    st.integers(1, 40),
    long_prefill_token_threshold=st.integers(0, 5),
)


def members(k: Any, sort: str) -> Any:
    """A strategy for the members of a sort."""
    match sort:
        case "I":
            return st.integers(-3, 2000)
        case "R" | "T":
            return st.sampled_from(["a", "b"])
        case "B":
            return st.integers(1, 6)
        case "H":
            return st.sampled_from([k.want(r, i) for r in "ab" for i in range(4)])
        case _:
            return st.frozensets(members(k, sort.strip("{}")), max_size=5)


@pytest.mark.parametrize("name", NAMED)
@given(data=st.data())
@settings(max_examples=200, deadline=None)
def test_an_axiom_holds_of_what_runs(name: str, data: st.DataObject) -> None:
    """Under any configuration, for any members of its sorts."""
    axiom = NAMED[name]
    k = environment(data.draw(CONFIGS))
    values = [data.draw(members(k, sort)) for sort in axiom.sorts]
    assert axiom.text(k, *values), values


def test_the_order_of_requests_is_an_order() -> None:
    """Every pair of requests, equal in priority and arrival or not."""
    k = environment(Config(5, 2, 4, 2, 9))
    for r, q in itertools.product(k.requests, repeat=2):
        assert NAMED["order"].text(k, r, q)
        assert (k.order(r) < k.order(q)) + (k.order(q) < k.order(r)) == (r != q)


@given(st.frozensets(st.integers(1, 6)), st.integers(1, 6), st.booleans())
def test_a_cardinality_counts(whole: frozenset[int], x: int, inside: bool) -> None:
    """What `add` and `remove` tell the prover about sizes."""
    k = environment(Config(5, 2, 4, 2, 9))
    new = k.add(whole, x) if inside else k.remove(whole, x)
    assert counted(k, whole, x, new, inside)


@given(st.dictionaries(st.integers(1, 6), st.integers(0, 9)), st.integers(0, 9))
def test_what_is_first_is_first(keys: dict[int, int], least: int) -> None:
    """A non-empty finite set has a least member, and `first` finds it; of an empty one, none."""
    k = environment(Config(7, 2, 4, 2, 9))

    def passes(b: int) -> bool:
        return keys.get(b, -1) >= least

    found = k.first("B", passes, lambda b: keys[b])
    assert (found is not None) == k.exists("B", passes)
    assert found is None or k.is_first("B", found, passes, lambda b: keys[b])


WRONG = (
    Axiom("w1", "", ("I",), lambda k, i: k.blocks(i) == k.full(i)),
    Axiom("w2", "", ("{B}",), lambda k, S: k.card(S) > 0),
    Axiom("w3", "", ("R", "I"), lambda k, r, i: k.want("a", i) == k.want("b", i)),
)


@pytest.mark.parametrize("axiom", WRONG, ids=lambda a: a.name)
def test_a_false_axiom_would_be_refuted(axiom: Axiom) -> None:
    """The same evaluation finds a counterexample to what is not true."""

    @given(data=st.data())
    @settings(max_examples=200, deadline=None, database=None)
    def holds(data: st.DataObject) -> None:
        k = environment(data.draw(CONFIGS))
        values = [data.draw(members(k, sort)) for sort in axiom.sorts]
        assert axiom.text(k, *(abs(v) if isinstance(v, int) else v for v in values))

    with pytest.raises(AssertionError):
        holds()
