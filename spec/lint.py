"""What the proofs take for granted about the specification's text, checked on its syntax trees.

1. Machine: writes nothing but its own locals; calls only rules, readings, the machine's own
   functions, kernel words and the environment; every loop is `for _ in loop(...)`, or runs over
   the tables of a request, of which there is one in a proof, or over a parameter and then only
   fires rules; no local is carried round a loop or out of it.
2. Rules: every guard comes before the first write; no loops; no rule fires a rule.
3. Readings and invariants: write nothing and fire nothing.
"""

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from nullblock.spec.fills import FILLS

WORDS = frozenset({"both", "either", "neg", "implies", "ite", "least", "loop"})
GUARDS = frozenset({"require", "ensure"})
BUILT_IN = frozenset({"frozenset"})
WRITERS = frozenset({"setattr", "delattr", "vars", "exec", "eval"})
"""Built-ins by which a reading could write all the same."""
ODD = (
    ast.While,
    ast.AsyncFor,
    ast.Try,
    ast.TryStar,
    ast.With,
    ast.AsyncWith,
    ast.AsyncFunctionDef,
    ast.Match,
    ast.Raise,
    ast.Import,
    ast.ImportFrom,
    ast.Global,
    ast.Nonlocal,
    ast.Delete,
    ast.ListComp,
    ast.SetComp,
    ast.DictComp,
    ast.GeneratorExp,
    ast.Yield,
    ast.YieldFrom,
    ast.Await,
    ast.NamedExpr,
    ast.ClassDef,
)
"""What neither machine nor rules may contain."""

MACHINE = (
    *("machine/blocks.py", "machine/schedule.py", "machine/update.py", "machine/events.py"),
    *("machine/drafts.py", "machine/groups.py", "machine/waiting.py", "machine/sessions.py"),
    *("machine/encoder.py", "machine/remote.py", "machine/aligned.py"),
    "machine/cross.py",
    "machine/loaded.py",
    "machine/reclaim.py",
    "machine/silence.py",
)
RULES = (
    *("rules/pool.py", "rules/lookup.py", "rules/queues.py", "rules/steps.py", "rules/later.py"),
    *("rules/drafts.py", "rules/groups.py", "rules/waiting.py"),
    *("rules/encoder.py", "rules/sessions.py", "rules/pooling.py", "rules/clients.py"),
    *("rules/loads.py", "rules/remote.py", "rules/mamba.py", "rules/aligned.py"),
    "rules/cross.py",
    "rules/loaded.py",
    "rules/deferred.py",
    *("rules/reclaim.py", "rules/silence.py", "rules/in_turn.py"),
    "rules/junctions.py",
)
PARTS = (
    "rules/queues.py",
    "rules/later.py",
    "rules/drafts.py",
    "rules/waiting.py",
    "rules/pool.py",
    "rules/encoder.py",
    "rules/pooling.py",
    "rules/clients.py",
    "rules/lookup.py",
    "rules/queues.py",
    "rules/loads.py",
    "rules/mamba.py",
    "rules/aligned.py",
    *("rules/cross.py", "rules/in_turn.py", "rules/junctions.py"),
)
READINGS = (
    *("state.py", "flight.py", "later.py", "drafts.py", "waiting.py"),
    *("groups.py", "hybrid.py", "in_turn.py", "nulls.py"),
    *("encoder.py", "planning.py", "sessions.py", "turns.py"),
    *("pooling.py", "remote.py", "lost.py", "loaded.py"),
    *("sizes.py", "slots.py", "mamba.py", "aligned.py"),
    *("cross.py", "gate.py", "prompt_states.py"),
    "deferred.py",
    "reclaim.py",
    *("machine/output.py", "cache_events.py"),
)


@dataclass(frozen=True, slots=True)
class Names:
    """The functions of the specification, by what they may do."""

    rules: frozenset[str]
    readings: frozenset[str]
    machine: frozenset[str]
    parts: frozenset[str] = frozenset()
    """Parts of rules, that rules of other files call."""


def functions(source: str) -> list[ast.FunctionDef]:
    """The functions that a module defines at its top level."""
    return [d for d in ast.parse(source).body if isinstance(d, ast.FunctionDef)]


def is_rule(definition: ast.FunctionDef) -> bool:
    """Whether a function is decorated as a rule."""
    return any(
        isinstance(d, ast.Call) and ast.unparse(d.func) == "rule"
        for d in definition.decorator_list
    )


def writes(node: ast.AST) -> Iterator[ast.Attribute | ast.Subscript | ast.Call]:
    """Where a text writes something that is no local name."""
    for n in ast.walk(node):
        if isinstance(n, (ast.Attribute, ast.Subscript)) and isinstance(
            n.ctx, (ast.Store, ast.Del)
        ):
            yield n
        if isinstance(n, ast.Call) and getattr(n.func, "attr", None) in FILLS:
            yield n


def calls(node: ast.AST) -> Iterator[tuple[ast.Call, str]]:
    """Every call below a node, and what is called."""
    for n in ast.walk(node):
        if isinstance(n, ast.Call):
            yield n, ast.unparse(n.func)


def _names(node: ast.AST, context: type[ast.expr_context]) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, context)}


def _reads(node: ast.AST) -> set[str]:
    """Names that a text reads; `x += 1` reads x."""
    changed = (n.target for n in ast.walk(node) if isinstance(n, ast.AugAssign))
    return _names(node, ast.Load) | {t.id for t in changed if isinstance(t, ast.Name)}


def carried(block: Sequence[ast.stmt], local: set[str], defined: set[str]) -> set[str]:
    """Names of `local` that a loop's body may read before this turn has set them."""
    bad: set[str] = set()
    defined = set(defined)
    for statement in block:
        if isinstance(statement, (ast.If, ast.For)):
            asked = statement.test if isinstance(statement, ast.If) else statement.iter
            bad |= _names(asked, ast.Load) & local - defined
            bad |= carried(statement.body, local, defined)
            bad |= carried(statement.orelse, local, defined)
        else:
            bad |= _reads(statement) & local - defined
            defined |= _names(statement, ast.Store)
    return bad


def _loop(definition: ast.FunctionDef, n: ast.For, names: Names) -> Iterator[str]:
    """What is wrong with one loop of the machine."""
    parameters = {a.arg for a in definition.args.args[1:]}
    if isinstance(n.iter, ast.Name) and n.iter.id in parameters:
        if not all(
            isinstance(x, ast.Expr)
            and isinstance(x.value, ast.Call)
            and ast.unparse(x.value.func) in names.rules
            for x in n.body
        ):
            yield f"{n.lineno}: a loop over {n.iter.id} does more than fire rules"
        return
    if not ast.unparse(n.iter).startswith(("loop(s,", "s.k.tables(", "s.k.tables_from_behind(")):
        yield f"{n.lineno}: a loop without loop()"
    local = _names(ast.Module(n.body, []), ast.Store)
    later = {
        x.id
        for x in ast.walk(definition)
        if isinstance(x, ast.Name)
        and isinstance(x.ctx, ast.Load)
        and x.lineno > (n.end_lineno or 0)
    }
    used = carried(n.body, local, set()) | (_names(n.iter, ast.Load) | later) & local
    for x in sorted(used):
        yield f"{n.lineno}: the loop carries {x}"
    if n.orelse:
        yield f"{n.lineno}: a loop with else"


def lint_machine(source: str, names: Names) -> list[str]:
    """What the machine's text does that it may not."""
    known = names.rules | names.readings | names.machine | WORDS | BUILT_IN
    found = []
    for d in functions(source):
        lines: list[str] = [
            f"{n.lineno}: {type(n).__name__} in the machine"
            for n in ast.walk(d)
            if isinstance(n, ODD) or (isinstance(n, ast.FunctionDef) and n is not d)
        ]
        lines += [f"{w.lineno}: writes {ast.unparse(w)}" for w in writes(d)]
        lines += [f"{d.lineno}: binds s anew" for _ in range("s" in _names(d, ast.Store))]
        for n, name in calls(ast.Module(d.body, [])):
            if name not in known and not name.startswith("s.k."):
                lines.append(f"{n.lineno}: calls {name}")
        for loop in [n for n in ast.walk(d) if isinstance(n, ast.For)]:
            lines += _loop(d, loop, names)
        found += [f"{d.name}:{line}" for line in lines]
    return found


def lint_rules(source: str, names: Names) -> list[str]:
    """What the rules' text does that it may not."""
    found = []
    for d in functions(source):
        writers = names.parts | {f.name for f in functions(source) if not is_rule(f)}
        known = names.readings | WORDS | GUARDS | writers
        lines = [
            f"{n.lineno}: {type(n).__name__} in a rule"
            for n in ast.walk(d)
            if isinstance(n, (*ODD, ast.For)) or (isinstance(n, ast.FunctionDef) and n is not d)
        ]
        guards, effects = [], [w.lineno for w in writes(d)]
        for n, name in calls(ast.Module(d.body, [])):
            if name == "require":
                guards.append(n.lineno)
            elif name in writers:
                effects.append(n.lineno)
            elif name not in known and not name.startswith("s.k."):
                lines.append(f"{n.lineno}: calls {name}")
        if guards and not is_rule(d):
            lines.append(f"{guards[0]}: a guard outside a rule")
        if guards and effects and max(guards) > min(effects):
            lines.append(f"{max(guards)}: a guard after the first write")
        found += [f"{d.name}:{line}" for line in lines]
    return found


def lint_readings(source: str, names: Names) -> list[str]:
    """What readings and invariants do that they may not."""
    found = []
    for d in functions(source):
        found += [f"{d.name}:{w.lineno}: a reading writes {ast.unparse(w)}" for w in writes(d)]
        found += [
            f"{d.name}:{n.lineno}: a reading calls {name}"
            for n, name in calls(ast.Module(d.body, []))
            if name in names.rules | names.machine | names.parts | GUARDS | WRITERS
            or (name.startswith("s.") and not name.startswith("s.k."))
        ]
    return found


def names_of(folder: Path) -> Names:
    """The functions that the specification in `folder` defines."""
    rules = [d for f in RULES for d in functions((folder / f).read_text()) if is_rule(d)]
    readings = [d for f in READINGS for d in functions((folder / f).read_text())]
    machine = [d for f in MACHINE for d in functions((folder / f).read_text())]
    return Names(
        frozenset(d.name for d in rules),
        frozenset(d.name for d in readings),
        frozenset(d.name for d in machine),
        frozenset(
            d.name for f in PARTS for d in functions((folder / f).read_text()) if not is_rule(d)
        ),
    )


def lint(folder: Path = Path(__file__).parent) -> list[str]:
    """Every breach of the discipline in the specification in `folder`: file, function, line."""
    names = names_of(folder)
    paths = sorted((folder / "invariants").glob("*.py"))
    invariants = [f"invariants/{p.name}" for p in paths if p.name != "ledger.py"]
    found = []
    for files, check in (
        (MACHINE, lint_machine),
        (RULES, lint_rules),
        ((*READINGS, *invariants), lint_readings),
    ):
        for f in files:
            found += [f"{f}: {line}" for line in check((folder / f).read_text(), names)]
    return found
