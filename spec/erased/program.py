"""The erased form of a function of the machine, as a Python function."""

from collections.abc import Callable
from types import CodeType
from typing import Any

from nullblock.spec.erased.coalesce import coalesce
from nullblock.spec.erased.code import Do, Statement, counted, fold, lines, prune
from nullblock.spec.erased.evaluator import BUILT_IN, FRESHLY_MADE, STATE, Frame, Known
from nullblock.spec.erased.invariants import hoist
from nullblock.spec.erased.paths import Dead
from nullblock.spec.erased.text import Unsupported
from nullblock.spec.erased.walker import Walker
from nullblock.spec.fields import FIELDS, GHOSTS
from nullblock.spec.kernel import Broken, Disabled

TAKEN = BUILT_IN | FRESHLY_MADE | {"k", "s", "fired", "answer", "each", "range", "zip"}
"""Names that the residual program has for something else than a field."""
Erased = Callable[..., Any]
"""Called with a state, the counter of rules, and what else the function takes: one row of
arguments, or an iterable of rows."""


def disabled(rule: str, why: str) -> Disabled:
    """A guard that does not hold."""
    return Disabled(rule, why)


def broken(rule: str, why: str) -> Broken:
    """A promise that is not kept, with the rule that made it."""
    error = Broken(why)
    error.rule = rule  # type: ignore[attr-defined]
    return error


OWN = {"disabled": disabled, "broken": broken}
"""What every residual program names, besides the environment and the rules by line."""


def erased(f: Callable[..., Any], k: Any, *, each: bool = False) -> Erased:
    """What `f(s, …)` does to states of the environment `k`, without what needs no doing.

    `each`: of a function that answers nothing, done for one row of arguments after another.
    """
    name, source, names = residual(f, k, each=each)
    return compiled(name, code_of(name, source), names)


def code_of(name: str, source: str) -> CodeType:
    """A residual program with a function of that name, compiled."""
    return compile(source, f"<erased {name}>", "exec")


def compiled(name: str, code: CodeType, names: dict[str, Any]) -> Erased:
    """The function of that name in a residual program."""
    exec(code, names)
    function: Erased = names[name]
    return function


def rule_at(error: BaseException) -> str:
    """The ID of the rule in whose erased text an exception was raised, or nothing."""
    found = ""
    trace = error.__traceback__
    while trace is not None:
        by_line = trace.tb_frame.f_globals.get("rules_by_line")
        found = by_line[trace.tb_lineno - 1] if by_line is not None else found
        trace = trace.tb_next
    return found


def residual(
    f: Callable[..., Any], k: Any, *, each: bool = False
) -> tuple[str, str, dict[str, Any]]:
    """The name, the text, and what the text names from outside."""
    fired: dict[str, str] = {}
    if k.checks:
        raise Unsupported("loops that check their outline")
    if taken := TAKEN & frozenset(FIELDS):
        raise Unsupported(f"fields called {', '.join(sorted(taken))}")
    walker = Walker(k, fired)
    given = tuple(f"given_{i}" for i in range(1, f.__code__.co_argcount))
    block = _followed(walker, f, given)
    uses = counted(block)
    fold(block, uses)
    used = set(uses)
    loads = ["k.make_room(s)"] if walker.makes_room else []
    loads += [f"{f} = s.{f}" for f in FIELDS if f in used and f not in GHOSTS]
    loads += [f"{n} = {e}" for n, e in walker.loaded.items() if n in used]
    head = _head(f.__name__, given, loads, list(fired.values()), each)
    body = list(lines(block, 3 if each else 2))
    tail = ["    finally:"]
    tail += [f"        if {c}: fired[{i!r}] += {c}" for i, c in fired.items()] or ["        pass"]
    tail += ["" if each else "    return answer", ""]
    text = "\n".join([*head, *(line for line, _ in body), *tail])
    by_line = [*("" for _ in head), *(rule for _, rule in body), *("" for _ in tail)]
    names = {**walker.names, **OWN, "k": k, "rules_by_line": by_line}
    return f.__name__, text, names


def _followed(walker: Walker, f: Callable[..., Any], given: tuple[str, ...]) -> list[Statement]:
    """What is left of a function that is followed from a state of which nothing is known."""
    path = walker.path
    for field, sort in FIELDS.items():
        path.fields[field] = path.saved[field] = walker.values.var(field)
        if sort not in ("I", "R", "B"):
            path.versions[field] = 0
            path.known[field] = {}
    frame = Frame(f.__globals__, "", ())
    try:
        result = walker.run(f, [Known(STATE), *map(walker.values.var, given)], {}, frame)
    except Dead:
        raise Unsupported(f"the end of {f.__name__}, which is never reached") from None
    walker.write_back(frozenset(FIELDS))
    answer, atoms = walker.written_out(result)
    block = walker.path.block
    block.append(Do(f"answer = {answer}", tuple(atoms)))
    prune(block)
    coalesce(block, (f for f in FIELDS if f not in GHOSTS))
    prune(block)
    hoist(block)
    return block


def _head(
    name: str, given: tuple[str, ...], loads: list[str], counters: list[str], each: bool
) -> list[str]:
    """What comes before the body: what is loaded, once or for each row of arguments."""
    count = [f"    {' = '.join(counters)} = 0"] if counters else []
    if not each:
        first = f"def {name}({', '.join(('s', 'fired', *given))}):"
        return [first, *(f"    {load}" for load in loads), *count, "    try:"]
    rows = f"        for {', '.join(given)}, in each:"
    inside = (f"            {load}" for load in loads)
    return [f"def {name}(s, fired, each):", *count, "    try:", rows, *inside]
