"""The prover's axioms, without gaps: every member of small domains, every scope of the explorer,
and for sizes all integers.

`test_axioms.py` draws at random. Here each axiom, as it is written, is evaluated exhaustively on
the environments that check invariants; for sizes Z3 adds all integers, one block size at a time.
That shows also that the axioms do not contradict each other on what is enumerated: one environment
satisfies all of them at once. It does not show that a real hash function is ideal, as the model of
a hash is, nor sizes for block sizes that are not tried.
"""

import sys
from collections.abc import Callable, Iterator
from itertools import chain, combinations, product
from pathlib import Path
from typing import Any

import pytest
import z3  # type: ignore[import-untyped]
from hypothesis import given
from hypothesis import strategies as st

from nullblock.conformance import driver, scenario
from nullblock.conformance.engines import make_engine
from nullblock.conformance.errors import InputError
from nullblock.spec.concrete import Env
from nullblock.spec.explorer.model import ModelEnv
from nullblock.spec.explorer.scopes import STANDARD
from nullblock.spec.facts import Config, Request
from nullblock.spec.profiles import NORMATIVE
from nullblock.spec.prover.axioms import AXIOMS, HASHES, REQUESTS, SETS, SIZES, Axiom, counted
from nullblock.spec.prover.environment import SymbolicEnv
from nullblock.spec.prover.paths import attached
from nullblock.spec.prover.symbols import TermMap

sys.path.insert(0, str(Path(__file__).parent))
from world import World  # noqa: E402  (a module beside this one)

INTEGERS = range(-7, 25)
BLOCK_SIZES = (1, 2, 3, 4, 16)
HUGE = st.integers(-(10**12), 10**12)


def world(block_size: int = 2) -> Env:
    """Four requests; two are alike to the last fact but their ids."""
    k = World(Config(5, block_size, 4, 3, 12))
    for id, prompt, priority in (("a0", 0, 1), ("a1", 5, 1), ("b2", 5, 1), ("e3", 9, 0)):
        k.requests[id] = Request(id, prompt, 1 + prompt, priority=priority)
    return k


ENVIRONMENTS: dict[str, Callable[[], Env]] = {
    "world": world,
    **{
        f"scope {name}": lambda scope=scope: ModelEnv(scope, NORMATIVE)  # type: ignore[misc]
        for name, scope in STANDARD.items()
    },
}


def subsets(members: list[Any]) -> Iterator[frozenset[Any]]:
    """Every set of these members."""
    sizes = range(len(members) + 1)
    return map(frozenset, chain.from_iterable(combinations(members, n) for n in sizes))


def hashes(k: Env) -> set[Any]:
    """Every chain hash of up to five blocks, and the two values that are none."""
    return {k.NOHASH, k.ROOT} | {k.want(t, i) for t in k.domain("T") for i in range(5)}


def domain(k: Env, sort: str) -> list[Any]:
    """What a variable of a sort ranges over."""
    match sort:
        case "I":
            return list(INTEGERS)
        case "H":
            return list(hashes(k))
        case "{B}" | "{R}":
            return list(subsets(list(k.domain(sort[1]))))
        case _:
            return list(k.domain(sort))


def exceptions(axiom: Axiom, k: Env) -> list[tuple[Any, ...]]:
    """Where the axiom is false."""
    values = product(*(domain(k, sort) for sort in axiom.sorts))
    return [v for v in values if not axiom.text(k, *v)]


@pytest.mark.parametrize("axiom", AXIOMS, ids=lambda a: a.name)
def test_an_axiom_is_true_where_invariants_are_checked(axiom: Axiom) -> None:
    """The axiom's own text holds for every value of its variables in a small domain."""
    found = {name: exceptions(axiom, make()) for name, make in ENVIRONMENTS.items()}
    assert found == dict.fromkeys(ENVIRONMENTS, [])


@pytest.mark.parametrize("axiom", SIZES, ids=lambda a: a.name)
@pytest.mark.parametrize("block_size", BLOCK_SIZES)
def test_sizes_hold_for_all_integers(axiom: Axiom, block_size: int) -> None:
    """Z3 finds no integers, however large or negative, that break the arithmetic of sizes."""

    class Arithmetic(SymbolicEnv):
        """The definitions of `Env`, on terms. Division by a positive number rounds down."""

        def blocks(self, tokens: Any) -> Any:
            return -((-tokens) / block_size)

        def full(self, tokens: Any) -> Any:
            return tokens / block_size

        def tokens(self, blocks: Any) -> Any:
            return blocks * block_size

    class Words:
        conj, implies, neg, ite = (staticmethod(f) for f in (z3.And, z3.Implies, z3.Not, z3.If))

    with attached(Words()):
        zero = z3.IntVal(0)
        k = Arithmetic(False)
        claim = (
            z3.And(k.blocks(zero) == 0, k.full(zero) == 0, k.tokens(zero) == 0)
            if axiom.name == "nothing"
            else axiom.text(k, *z3.Ints("i j")[: len(axiom.sorts)])
        )
    solver = z3.Solver()
    solver.add(z3.Not(claim))
    assert solver.check() == z3.unsat


@given(HUGE, HUGE, st.integers(1, 4096))
def test_sizes_hold_of_large_numbers(i: int, j: int, block_size: int) -> None:
    """Random integers and block sizes break no axiom of sizes."""
    k = world(block_size)
    for axiom in SIZES:
        assert axiom.text(k, *(i, j)[: len(axiom.sorts)]), axiom.name


@pytest.mark.parametrize("sort", "BR")
def test_a_set_is_counted_when_it_changes(sort: str) -> None:
    """The instance that the prover assumes wherever a set gains or loses a member is true."""
    k = world()
    for members, x in product(domain(k, "{" + sort + "}"), k.domain(sort)):
        assert counted(k, members, x, k.add(members, x), True)
        assert counted(k, members, x, k.remove(members, x), False)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=5), st.data())
def test_sequences_are_cut_alike(members: list[int], data: st.DataObject) -> None:
    """`drop` and `shift` are defined twice, on maps and on terms: they agree on every member."""
    n = len(members)
    i = data.draw(st.integers(0, n - 1))
    k, sym = world(), SymbolicEnv(False)
    run = z3.K(z3.IntSort(), z3.IntVal(-9))
    for j, x in enumerate(members):
        run = z3.Store(run, j, x)
    cut, term = k.drop(dict(enumerate(members)), i, n), sym.drop(TermMap(run), i, n)
    for j in range(n - 1):
        assert z3.simplify(term[z3.IntVal(j)]).as_long() == cut[j]
    ids = [z3.Const(f"r{j}", z3.DeclareSort("R")) for j in range(n)]
    places = z3.K(z3.DeclareSort("R"), z3.IntVal(-9))
    for r, x in zip(ids, members, strict=True):
        places = z3.Store(places, r, x)
    lower, lowered = k.shift(dict(enumerate(members)), i), sym.shift(TermMap(places), z3.IntVal(i))
    for j, r in enumerate(ids):
        same = z3.Solver()
        same.add(z3.Distinct(*ids), lowered[r] != lower[j])
        assert same.check() == z3.unsat


@pytest.mark.parametrize(
    ("facts", "settings"),
    [
        ({}, {"max_num_batched_tokens": 0}),
        ({}, {"max_num_seqs": 0}),
        ({}, {"max_model_len": 0}),
        ({}, {"num_blocks": 0}),
        ({"max_tokens": 0}, {}),
        ({"max_tokens": -1}, {}),
    ],
)
def test_what_an_axiom_excludes_is_refused(
    facts: dict[str, int], settings: dict[str, int]
) -> None:
    """Nothing runs with a configuration or a request of which an axiom is false: reading the
    scenario fails, or the engine refuses the request.
    """
    assert accepted({}, {})
    assert not accepted(facts, settings)


def accepted(facts: dict[str, int], settings: dict[str, int]) -> bool:
    """Whether the spec takes a scenario's only request."""
    document = {
        "config": {"num_blocks": 8, **settings},
        "events": [{"op": "add", "id": "a", "prompt": [1, 2], **facts}],
    }
    try:
        read = scenario.from_dict(document)
    except InputError:
        return False
    lines = driver.run(read, make_engine("spec", read.config, NORMATIVE))
    return not any("EXCEPTION" in str(line) for line in lines)


class RoundsUp(World):
    """Counts a block begun as full."""

    def full(self, tokens: int) -> int:
        return self.blocks(tokens)


class CountsNull(World):
    """Counts one member too many."""

    def card(self, S: Any) -> int:
        return len(S) + 1


class Orphans(World):
    """Forgets what stands before a block."""

    def par(self, h: Any) -> Any:
        return self.ROOT


class Ties(World):
    """Orders requests without their ids."""

    def order(self, r: Any, n: int = 0) -> Any:
        return super().order(r, n)[:2]


@pytest.mark.parametrize(
    ("kind", "axioms", "broken"),
    [
        (RoundsUp, SIZES, {"filled"}),
        (CountsNull, SETS, {"card-R", "card-B", "empty-R", "empty-B"}),
        (Orphans, HASHES[:2], {"chain"}),
        (Ties, REQUESTS, {"order"}),
    ],
)
def test_a_false_axiom_would_be_noticed(
    kind: type[World], axioms: tuple[Axiom, ...], broken: set[str]
) -> None:
    """On an environment with one mistake just the axioms that speak of it are false."""
    k = kind(Config(5, 2, 4, 3, 12))
    k.requests = world().requests
    assert {a.name for a in axioms if exceptions(a, k)} == broken
