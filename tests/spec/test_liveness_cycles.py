"""The search for cycles, on graphs small enough to see: what checkers of liveness get wrong."""

import random
from itertools import product

import pytest

from nullblock.spec.liveness.cycles import Graph, Way, components, does_all, ring, within


def graph(*edges: str) -> Graph[str]:
    """`0-s>1`: an edge labelled s from 0 to 1."""
    made: Graph[str] = {}
    for text in edges:
        source, _, rest = text.partition("-")
        label, _, target = rest.partition(">")
        made.setdefault(int(target), [])
        made.setdefault(int(source), []).append((label, int(target)))
    return made


def stepping(v: int, label: str) -> bool:
    """Whether an edge is a step."""
    return label == "s"


def closed(way: Way[str], g: Graph[str]) -> bool:
    """Whether a way consists of edges of g, each beginning where the one before ends, and returns
    to its beginning.
    """
    ends = [t for _, _, t in way]
    starts = [v for v, _, _ in way]
    return starts == ends[-1:] + ends[:-1] and all((e, t) in g[v] for v, e, t in way)


def parts(g: Graph[str]) -> list[list[int]]:
    """The components, in order."""
    return sorted(map(sorted, components(g)))


def test_a_state_that_steps_to_itself_is_a_cycle() -> None:
    """Stuttering: a step that changes nothing is a cycle of one, and no step at all is none."""
    assert parts(graph("0-s>0")) == [[0]]
    assert parts({0: []}) == []
    assert ring(graph("0-s>0"), 0, [stepping]) == [(0, "s", 0)]


def test_a_cycle_behind_a_join_is_found() -> None:
    """A state met before, on a way that led to no cycle, may still be on one that is met later."""
    joined = graph("0-a>1", "0-a>2", "1-a>3", "2-a>3", "3-s>4", "4-a>2")
    assert parts(joined) == [[2, 3, 4]]
    crossing = graph("0-a>1", "1-a>2", "0-a>2", "2-s>3", "3-a>1")
    assert parts(crossing) == [[1, 2, 3]]


def test_a_join_alone_is_no_cycle() -> None:
    """Two ways to one state are no way back."""
    assert parts(graph("0-s>1", "0-s>2", "1-s>3", "2-s>3", "0-s>3")) == []


def test_a_cycle_without_a_step_is_not_fair() -> None:
    """The world going round, with an engine that never steps, starves nobody that counts."""
    (part,) = components(graph("0-add>1", "1-abort>0"))
    assert not does_all(within(graph("0-add>1", "1-abort>0"), part), [stepping])


def test_fairness_is_judged_on_what_is_left() -> None:
    """A step that only the whole component has does not make the cycle fair that is left when the
    states are left out in which somebody is served.
    """
    whole = graph("0-add>1", "1-abort>0", "1-s>2", "2-a>0")
    (every,) = components(whole)
    assert sorted(every) == [0, 1, 2] and does_all(within(whole, every), [stepping])
    (left,) = components(within(whole, {0, 1}))
    assert not does_all(within(whole, left), [stepping])


def test_a_step_out_of_a_component_does_not_count() -> None:
    """An edge between two components is on no cycle."""
    g = graph("0-a>1", "1-a>0", "1-s>2", "2-a>2")
    assert parts(g) == [[0, 1], [2]]
    assert not any(does_all(within(g, part), [stepping]) for part in components(g))


def test_all_that_must_be_taken_is_taken_in_one_cycle() -> None:
    """Where two duties lie on different small cycles, the lasso goes round both."""
    g = graph("0-s>1", "1-a>0", "0-u>2", "2-a>0")
    duties = [stepping, lambda v, label: label == "u"]
    way = ring(g, 0, duties)
    assert closed(way, g) and [e for _, e, _ in way] == ["s", "a", "u", "a"]


def test_of_two_edges_between_two_states_the_right_one_is_taken() -> None:
    """Edges are told apart by their labels, not by where they lead."""
    g = graph("0-a>1", "0-s>1", "1-a>0")
    assert ring(g, 0, [stepping]) == [(0, "s", 1), (1, "a", 0)]


def test_the_cycle_is_short() -> None:
    """Of two ways round, the shorter one that does its duty."""
    g = graph("0-a>1", "1-a>2", "2-s>0", "0-a>3", "3-s>0", "0-a>0")
    assert ring(g, 0, [stepping]) == [(0, "a", 3), (3, "s", 0)]


def test_a_long_way_needs_no_stack() -> None:
    """Ten thousand states in a row, and a way back."""
    n = 10_000
    g: Graph[str] = {i: [("s", (i + 1) % n)] for i in range(n)}
    (part,) = components(g)
    assert len(part) == n and len(ring(g, 0, [stepping])) == n


def reaches(g: Graph[str]) -> set[tuple[int, int]]:
    """Which states lead to which, by one edge or more."""
    found = {(v, t) for v, edges in g.items() for _, t in edges}
    while True:
        more = {(a, d) for (a, b), (c, d) in product(found, found) if b == c} - found
        if not more:
            return found
        found |= more


@pytest.mark.parametrize("seed", range(8))
def test_components_are_mutual_reachability(seed: int) -> None:
    """On random graphs: two states are in one component just if each leads to the other, and a
    cycle with its duties is found just if there is one.
    """
    r = random.Random(seed)
    fair = 0
    for _ in range(60):
        n = r.randrange(1, 7)
        g: Graph[str] = {v: [] for v in range(n)}
        for _ in range(r.randrange(0, 2 * n)):
            g[r.randrange(n)].append((r.choice("asu"), r.randrange(n)))
        far = reaches(g)
        mutual = {frozenset(w for w in g if {(v, w), (w, v)} <= far) for v in g}
        assert set(map(frozenset, components(g))) == mutual - {frozenset()}
        duties = [stepping, lambda v, label: label == "u"]
        for part in components(g):
            inner = within(g, part)
            if does_all(inner, duties):
                way = ring(inner, min(part), duties)
                assert closed(way, g) and way[0][0] == min(part)
                assert {"s", "u"} <= {e for _, e, _ in way}
                fair += 1
    assert fair
