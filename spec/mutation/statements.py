"""Defects of the statements themselves: would anybody notice that an invariant says less?

A statement that says too much is false of the specification, and the explorer finds out. One that
says less is noticed if some defect of the rules is caught by nothing else: with both planted, no
scope objects any more. A statement that is the only one to catch any defect is *needed*; of the
others it is only shown that they follow, in the scopes, from what the rest says.
"""

import ast
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache

from nullblock.spec.mutation.compiled import Compiled
from nullblock.spec.mutation.exploring import Explorer, noticed
from nullblock.spec.mutation.forks import Json
from nullblock.spec.mutation.generate import STATEMENTS, Mutant, by_id, mutants, numbers, source
from nullblock.spec.mutation.guards import says_less
from nullblock.spec.mutation.results import Results

TRIED = 12
"""Defects that a statement caught, of which is asked whether others catch them too."""


@cache
def ids() -> dict[str, str]:
    """The ID that each function defines, of those that state something."""
    return {
        f.name: str(d.args[0].value)
        for file in STATEMENTS
        for f in source(file).functions()
        for d in f.decorator_list
        if isinstance(d, ast.Call) and isinstance(d.args[0], ast.Constant)
    }


@cache
def concerned(function: str) -> tuple[str, ...]:
    """The IDs of the statements whose text names a function, itself included."""
    return tuple(
        ids()[f.name]
        for file in STATEMENTS
        for f in source(file).functions()
        if f.name in ids()
        and (f.name == function or any(_names(n, function) for n in ast.walk(f)))
    )


def _names(node: ast.AST, function: str) -> bool:
    return isinstance(node, ast.Name) and node.id == function


def silenced() -> dict[str, Mutant]:
    """For every ID the mutant in which that statement says nothing."""
    return {ids()[m.function]: m for m in mutants() if m.kind == "true"}


def caught(explored: Results, id: str) -> Iterator[Mutant]:
    """Defects of the rules that the explorer noticed by a statement, shortest first."""
    some = [m for m, said in explored.said.items() if said.get("by") == id and m in by_id()]
    some.sort(key=lambda m: (explored.said[m]["actions"], explored.said[m]["states"], m))
    return (by_id()[m] for m in some[:TRIED])


def only(explorer: Explorer, explored: Results, id: str) -> list[str]:
    """A defect of the rules that nothing but this statement catches, if one is found."""
    for m in caught(explored, id):
        if not explorer.together(m, silenced()[id], explored.said[m.id]["scope"]):
            return [m.id]
    return []


def alarms(scope: Compiled, some: Iterable[Mutant]) -> dict[str, Json]:
    """Which of some defects of statements object to the specification itself in a scope, and what
    is kept of that; nothing is known of a defect that there has no room. Raises Unjudged.
    """
    number = numbers()
    asked = {number[m.id]: m.id for m in some if not says_less(m)}
    found = scope.forms(asked)
    return {asked[n]: noticed(scope.name, f) if f.breaks else {} for n, f in found.items()}


def passing(
    explorer: Explorer, explored: Results, id: str, sole: str, some: Iterable[Mutant]
) -> list[str]:
    """With which of some defects of a statement nobody notices `sole`, a defect of the rules that
    the statement alone catches. Raises Unjudged.
    """
    number = numbers()
    left = {number[m.id]: m.id for m in some if id in concerned(m.function)}
    for c in explorer.concerned(by_id()[sole], explored.said[sole]["scope"]):
        found = c.forms(left, number[sole], id) if left else {}
        left = {n: m for n, m in left.items() if n not in found or not found[n].breaks}
    return list(left.values())


def answer(m: Mutant, soles: Mapping[str, str], passes: Mapping[str, Collection[str]]) -> Json:
    """How a defect is noticed that objects to nothing new: `by` the statement that has it, which
    is silent `without` it where a defect of the rules passes; nothing if it is not. `passes`: for
    every statement that alone catches something the defects with which that passes.
    """
    for id in concerned(m.function):
        if m.id in passes.get(id, ()):
            return {"by": id, "without": soles[id]}
    return {"same": True}
