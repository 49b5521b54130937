"""What can go wrong with a piece of text: each operator looks at a node of a syntax tree and names
the defects that it can have.

A defect replaces a node by other text. A guard that is dropped becomes `require(True, …)`, a
conjunct that is dropped `True`, a statement that is skipped `pass`: so that one and the same
replacement can be planted alone, or chosen among all when the text runs (`schema.py`).
"""

import ast
import builtins
from collections.abc import Iterator
from dataclasses import dataclass

from nullblock.spec import fields

SKIPPED_KEYWORDS = frozenset({"by", "known", "changes", "decreases", "keep"})
"""What says where to look, or outlines a proof: it decides nothing."""
ENUMERATIONS: tuple[tuple[str, ...], ...] = (
    ("IDLE", "RUN_PHASE", "WAIT_PHASE", "DECIDED", "ADVANCE", "UPDATE", "RESETTING"),
    ("UNBORN", "WAITING", "PREEMPTED", "RUNNING", "LEAVING"),
    ("BACK", "AWAY"),
    ("CHUNK", "TOKEN"),
    ("NEW", "RESUMED"),
    ("UNPAUSED", "PAUSED_NEW", "PAUSED_ALL"),
    ("CONTINUE", "STOPPED", "STOPPED_BY_ID", "LENGTH"),
)
"""Values of one kind, each of which may be mistaken for the next."""
NEXT = {a: row[(i + 1) % len(row)] for row in ENUMERATIONS for i, a in enumerate(row)}
assert all(hasattr(fields, name) for name in NEXT)

WEAKER: dict[type[ast.cmpop], str] = {ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">"}
OPPOSITE: dict[type[ast.cmpop], str] = {
    ast.Lt: ">=",
    ast.LtE: ">",
    ast.Gt: "<=",
    ast.GtE: "<",
    ast.Eq: "!=",
    ast.NotEq: "==",
}
SIGN: dict[type[ast.cmpop], str] = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}


@dataclass(frozen=True, slots=True)
class Change:
    """One defect of one node."""

    kind: str
    node: ast.expr | ast.stmt
    new: str
    what: str


def text(node: ast.AST) -> str:
    """A node on one line, short."""
    line = " ".join(ast.unparse(node).split())
    return line if len(line) <= 70 else line[:67] + "…"


def whole(node: ast.expr) -> str:
    """An expression that can stand anywhere in another one."""
    line = ast.unparse(node)
    return line if isinstance(node, ast.Name | ast.Constant | ast.Call) else f"({line})"


def operand(node: ast.expr) -> str:
    """An expression that can be compared: two comparisons in a row would be a chain."""
    return f"({ast.unparse(node)})" if isinstance(node, ast.Compare) else ast.unparse(node)


def called(node: ast.AST) -> str:
    """The name of the function that a call calls, `k.first` for `s.k.first`; else empty."""
    match node:
        case ast.Call(func=ast.Name(id=name)):
            return name
        case ast.Call(func=ast.Attribute(value=ast.Attribute(attr="k"), attr=name)):
            return f"k.{name}"
    return ""


# statements -----
def statement(node: ast.stmt) -> Iterator[Change]:
    """Defects of a statement."""
    match node:
        case ast.Expr(value=ast.Call() as call):
            yield from _effect(node, call)
        case ast.AugAssign(op=ast.Add() | ast.Sub() as op, target=target, value=value):
            yield Change("skip", node, "pass", f"`{text(node)}` is left out")
            sign = "-" if isinstance(op, ast.Add) else "+"
            new = f"{ast.unparse(target)} {sign}= {ast.unparse(value)}"
            yield Change("sign", node, new, f"`{text(node)}` becomes `{new}`")
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield Change("skip", node, "pass", f"`{text(node)}` is left out")
        case ast.Return(value=ast.Constant(value=bool(value))):
            yield Change("result", node, f"return {not value}", f"it returns {not value}")


def _effect(node: ast.Expr, call: ast.Call) -> Iterator[Change]:
    name = called(call)
    if name == "require":
        new = f"require(True, {ast.unparse(call.args[1])})"
        yield Change("guard", node, new, f"the guard {ast.unparse(call.args[1])} is dropped")
    elif name != "ensure":
        yield Change("skip", node, "pass", f"`{text(node)}` is left out")


# expressions -----
def expression(node: ast.expr) -> Iterator[Change]:
    """Defects of an expression."""
    match node:
        case ast.Compare(ops=[op], left=left, comparators=[right]):
            yield from _comparison(node, left, op, right)
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() as op, right=right):
            sign = "-" if isinstance(op, ast.Add) else "+"
            new = f"({ast.unparse(left)} {sign} {whole(right)})"
            yield Change("sign", node, new, f"`{text(node)}` becomes `{new[1:-1]}`")
        case ast.Constant(value=bool() | str() | None):
            return
        case ast.Constant(value=int(n)):
            for m in (n + 1, n - 1):
                yield Change("constant", node, f"({m})", f"a {n} becomes {m}")
        case ast.Call():
            yield from _word(node)
        case ast.IfExp(test=test):
            yield from _test(test)


def _comparison(
    node: ast.Compare, left: ast.expr, op: ast.cmpop, right: ast.expr
) -> Iterator[Change]:
    a, b = operand(left), operand(right)

    def change(kind: str, new: str) -> Change:
        return Change(kind, node, f"({new})", f"`{text(node)}` becomes `{new}`")

    if type(op) in OPPOSITE:
        yield change("negate", f"{a} {OPPOSITE[type(op)]} {b}")
    if type(op) in WEAKER:
        yield change("boundary", f"{a} {WEAKER[type(op)]} {b}")
        if not _is_value(right):
            sign, way = SIGN[type(op)], "-" if isinstance(op, ast.Lt | ast.LtE) else "+"
            yield change("off-by-one", f"{a} {sign} {whole(right)} {way} 1")
    elif isinstance(op, ast.Eq) and (_is_number(left) or _is_number(right)):
        if isinstance(right, ast.Constant):
            yield change("off-by-one", f"{a} == {right.value + 1}")  # type: ignore[operator]
        elif not _is_value(right):
            yield change("weaken", f"{a} <= {b}")
            yield change("weaken", f"{a} >= {b}")


def _is_value(node: ast.expr) -> bool:
    """Whether a node names a value of an enumeration."""
    return isinstance(node, ast.Name) and node.id.isupper()


def _is_number(node: ast.expr) -> bool:
    """Whether a node is sure to be a number: no request, block or hash."""
    match node:
        case ast.BinOp():
            return True
        case ast.Attribute(attr=name) | ast.Subscript(value=ast.Attribute(attr=name)):
            return fields.FIELDS.get(name, "").rpartition(">")[2] == "I"
    name = called(node)
    return name.isidentifier() and not hasattr(builtins, name)


def _word(node: ast.Call) -> Iterator[Change]:
    name, arguments = called(node), node.args
    match name:
        case "both" | "either":
            neutral = str(name == "both")
            for part in arguments:
                yield Change("conjunct", part, neutral, f"`{text(part)}` is dropped")
        case "neg":
            new = f"({ast.unparse(arguments[0])})"
            yield Change("negate", node, new, f"`{text(node)}` loses its not")
        case "implies":
            premise = arguments[0]
            yield Change("conjunct", premise, "True", f"the premise `{text(premise)}` is dropped")
        case "ite":
            yield from _test(arguments[0])
        case "least":
            a, b = map(ast.unparse, arguments)
            new = f"ite({a} < {b}, {b}, {a})"
            yield Change("reverse", node, new, f"`{text(node)}` takes the greater")


def _test(test: ast.expr) -> Iterator[Change]:
    for value in (True, False):
        new, which = str(value), "holds always" if value else "never holds"
        yield Change("condition", test, new, f"`{text(test)}` {which}")


def condition(node: ast.If) -> Iterator[Change]:
    """Defects of the condition of an `if`."""
    yield from _test(node.test)


def mistaken(node: ast.Name) -> Iterator[Change]:
    """One value of an enumeration is mistaken for another, where it is set, given or returned."""
    if node.id in NEXT:
        yield Change("mistake", node, NEXT[node.id], f"{node.id} becomes {NEXT[node.id]}")


def anybody(call: ast.Call) -> Iterator[Change]:
    """A quantifier or `first` asks nothing of its members."""
    at = {"k.first": 1, "k.exists": 1, "k.count": 1, "k.is_first": 2}.get(called(call))
    test = None if at is None else call.args[at]
    if isinstance(test, ast.Lambda) and isinstance(test.body, ast.Call):
        yield Change("anybody", test.body, "True", f"`{text(test.body)}` is not asked for")


def denied(node: ast.Return) -> Iterator[Change]:
    """A reading says the contrary."""
    value = node.value
    if isinstance(value, ast.Call) and called(value) in ("k.exists", "k.is_first"):
        yield Change("denied", value, f"neg({ast.unparse(value)})", "it says the contrary")


def descending(call: ast.Call) -> Iterator[Change]:
    """`first` takes the greatest instead of the least: the key changes its sign."""
    at = {"k.first": 2, "k.is_first": 3}.get(called(call))
    key = None if at is None else call.args[at]
    if isinstance(key, ast.Lambda) and not isinstance(key.body, ast.Call):
        new = f"(-{whole(key.body)})"
        yield Change("reverse", key.body, new, f"the order by `{text(key.body)}` is reversed")
