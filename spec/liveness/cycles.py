"""Cycles of a finite graph: strongly connected components, and a short way round one of them.

Nothing here knows what a state is. A graph is a dict from nodes to labelled edges that stay inside
it; self-loops and several edges between two nodes are edges like any other.
"""

from collections import deque
from collections.abc import Callable, Iterable
from typing import TypeVar

E = TypeVar("E")
Graph = dict[int, list[tuple[E, int]]]
"""For every node its edges: a label, and the node where the edge leads. None leads outside."""
Way = list[tuple[int, E, int]]
"""Edges one after another: from, label, to."""
Take = Callable[[int, E], bool]
"""Whether a cycle does what it must by taking this edge of this node."""


def components(graph: Graph[E]) -> list[list[int]]:
    """The strongly connected components that have an edge: each cycle is in one of them.

    Tarjan's algorithm without recursion. A node met again on another way (a join) ends nothing: it
    only matters whether its component is still open.
    """
    number: dict[int, int] = {}
    low: dict[int, int] = {}
    open_: list[int] = []
    is_open: set[int] = set()
    found: list[list[int]] = []
    for root in graph:
        if root in number:
            continue
        work = [(root, 0)]
        while work:
            node, at = work.pop()
            if at == 0:
                number[node] = low[node] = len(number)
                open_.append(node)
                is_open.add(node)
            edges = graph[node]
            while at < len(edges):
                target = edges[at][1]
                at += 1
                if target not in number:
                    work += ((node, at), (target, 0))
                    break
                if target in is_open:
                    low[node] = min(low[node], number[target])
            else:
                if low[node] == number[node]:
                    found.append(_close(node, open_, is_open))
                if work:
                    above = work[-1][0]
                    low[above] = min(low[above], low[node])
    return [c for c in found if len(c) > 1 or any(t == c[0] for _, t in graph[c[0]])]


def _close(node: int, open_: list[int], is_open: set[int]) -> list[int]:
    """Take a finished component off the stack."""
    component = []
    while True:
        member = open_.pop()
        is_open.discard(member)
        component.append(member)
        if member == node:
            return component


def within(graph: Graph[E], nodes: Iterable[int]) -> Graph[E]:
    """The part of a graph that lies in some of its nodes."""
    kept = set(nodes)
    return {v: [(e, t) for e, t in graph[v] if t in kept] for v in kept}


def does_all(graph: Graph[E], takes: Iterable[Take[E]]) -> bool:
    """Whether each of `takes` is met by some edge: judged on this graph alone."""
    return all(any(take(v, e) for v, edges in graph.items() for e, _ in edges) for take in takes)


def ring(graph: Graph[E], first: int, takes: Iterable[Take[E]]) -> Way[E]:
    """A short cycle through `first` that takes an edge for each of `takes`, in a graph that is
    strongly connected and has such edges.
    """
    home = _distances(_reversed(graph), first)
    way: Way[E] = []
    at = first
    for take in takes:
        if any(take(v, e) for v, e, _ in way):
            continue
        far = _distances(graph, at)
        source, label, target = min(
            ((v, e, t) for v, edges in graph.items() for e, t in edges if take(v, e)),
            key=lambda edge: (far[edge[0]] + home[edge[2]], edge[0], edge[2]),
        )
        way += _path(graph, at, source)
        way.append((source, label, target))
        at = target
    if not way:
        label, at = min(graph[first], key=lambda edge: home[edge[1]])
        way.append((first, label, at))
    return way + _path(graph, at, first)


def _reversed(graph: Graph[E]) -> Graph[E]:
    back: Graph[E] = {v: [] for v in graph}
    for v, edges in graph.items():
        for e, t in edges:
            back[t].append((e, v))
    return back


def _distances(graph: Graph[E], start: int) -> dict[int, int]:
    far, queue = {start: 0}, deque([start])
    while queue:
        v = queue.popleft()
        for _, t in graph[v]:
            if t not in far:
                far[t] = far[v] + 1
                queue.append(t)
    return far


def _path(graph: Graph[E], start: int, end: int) -> Way[E]:
    """A shortest way; nothing if start is end."""
    came: dict[int, tuple[int, E]] = {}
    queue = deque([start])
    while queue and end not in came and start != end:
        v = queue.popleft()
        for e, t in graph[v]:
            if t not in came and t != start:
                came[t] = (v, e)
                queue.append(t)
    way: Way[E] = []
    while end != start:
        v, e = came[end]
        way.append((v, e, end))
        end = v
    return way[::-1]
