"""Defects of the statements themselves: would anybody notice that an invariant says less?

A statement that says too much is false of the specification, and the explorer finds out. One that
says less is noticed if some defect of the rules is caught by nothing else: with both planted, no
scope objects any more. A statement that is the only one to catch any defect is *needed*; of the
others it is only shown that they follow, in the scopes, from what the rest says.
"""

import ast
from collections.abc import Iterator, Mapping
from functools import cache

from nullblock.spec.mutation.exploring import Explorer
from nullblock.spec.mutation.forks import Json
from nullblock.spec.mutation.generate import STATEMENTS, Mutant, by_id, mutants, source
from nullblock.spec.mutation.guards import says_less
from nullblock.spec.mutation.results import Results

TRIED = 12
"""Defects that a statement caught, of which is asked whether others catch them too."""
KEPT = 1
"""Defects that only one statement catches, as many as are wanted of each."""


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
    """Defects of the rules that nothing but this statement catches."""
    found: list[str] = []
    for m in caught(explored, id):
        if not explorer.together(m, silenced()[id], explored.said[m.id]["scope"]):
            found.append(m.id)
        if len(found) == KEPT:
            break
    return found


def judge(
    explorer: Explorer, explored: Results, soles: Mapping[str, list[str]], statement: Mutant
) -> Json:
    """How a defect of a statement is noticed: `by` what it says of the specification itself, or
    `without` it a defect of the rules passes; nothing if it is not.
    """
    if not says_less(statement):
        said = explorer.judge(statement)
        if "by" in said:
            return said
    for id in concerned(statement.function):
        for m in soles.get(id, ()):
            if not explorer.together(by_id()[m], statement, explored.said[m]["scope"]):
                return {"by": id, "without": m}
    return {"same": True}
