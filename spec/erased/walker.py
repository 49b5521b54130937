"""Walks through the statements of the text: branches, loops, effects."""

import ast
from collections.abc import Sequence
from dataclasses import replace
from types import FunctionType
from typing import Any

from nullblock.spec import kernel
from nullblock.spec.erased import text
from nullblock.spec.erased.calls import Calls, bound
from nullblock.spec.erased.code import Break, Do, If, Loop, Set
from nullblock.spec.erased.evaluator import CLEARED, Frame, Known
from nullblock.spec.erased.paths import FRESH, RETURN, Dead, Path, join
from nullblock.spec.erased.records import Blocks
from nullblock.spec.erased.text import Unsupported
from nullblock.spec.erased.values import Value
from nullblock.spec.fields import GHOSTS
from nullblock.spec.indexes import Void


class Walker(Calls):
    """The partial evaluator."""

    def block(self, statements: Sequence[ast.stmt], frame: Frame) -> bool:
        """Follow statements; whether the path goes on after them inside a loop."""
        for s in statements:
            match s:
                case ast.Return():
                    value = self.evaluate(s.value, frame) if s.value else self.values.const(None)
                    if frame.then is not None:
                        return frame.then(value)
                    self.path.locals[RETURN] = value
                    if frame.breaks is not None:
                        frame.breaks.append(self.path)
                        return False
                case ast.If() if not self.haunted(s, frame):
                    if not self.branch(s, frame):
                        return False
                case ast.For():
                    if not self.loop(s, frame):
                        return False
                case ast.While(orelse=[]):
                    self.counted(s, frame)
                case ast.Expr(value=ast.Call() as call):
                    self.effect(call, frame)
                case ast.Assign(targets=[target]) if not self.ghostly(target, frame):
                    self.assign(target, self.evaluate(s.value, frame), frame)
                case ast.AnnAssign(value=ast.expr() as given):
                    self.assign(s.target, self.evaluate(given, frame), frame)
                case ast.AugAssign() if not self.ghostly(s.target, frame):
                    self.augment(s, frame)
                case ast.Raise() if frame.again is not None:
                    self.reads.append(set())
                    self.outlined(*frame.again)
                    self.reads.pop()
                    raise Dead
                case ast.FunctionDef():
                    self.path.locals[s.name] = Known(s, {**self.path.locals, "": frame})
                case ast.Pass() | ast.Assign(targets=[_]) | ast.AugAssign() | ast.If():
                    pass
                case _:
                    raise Unsupported(f"line {s.lineno}: {ast.unparse(s)}")
        return True

    def assign(self, target: ast.expr, value: Any, frame: Frame) -> None:
        """To a local, a field, or a map at a key."""
        if isinstance(target, ast.Name):
            self.path.locals[target.id] = value
            return
        if isinstance(target, ast.Tuple) and isinstance(value, Value) and value.op == "tuple":
            for one, part in zip(target.elts, value.args, strict=True):
                self.assign(one, part, frame)
            return
        inner = target.value if isinstance(target, ast.Subscript) else target
        field = self.field_of(inner, frame)
        if field is None:
            self.put(target, value, frame)
            return
        if not isinstance(value, Value):
            raise Unsupported(f"line {target.lineno}: {ast.unparse(target)} is no value")
        if isinstance(target, ast.Subscript):
            self.store(field, self.value(target.slice, frame), value)
        else:
            self.path.fields[field] = value
            if field in self.path.versions:
                self.path.stored(field, {})

    def put(self, target: ast.expr, value: Any, frame: Frame) -> None:
        """To a dictionary of the environment, at a key."""
        base = self.evaluate(target.value, frame) if isinstance(target, ast.Subscript) else None
        if not isinstance(target, ast.Subscript) or not isinstance(base, Value):
            raise Unsupported(f"line {target.lineno}: writes {ast.unparse(target)}")
        self.reads[-1].add("never")
        parts = (base, self.value(target.slice, frame), value)
        self.path.block.append(Do("{}[{}] = {}", tuple(map(self.path.atom, parts))))
        self.changed(base)

    def store(self, field: str, key: Value, value: Value) -> None:
        """A field that is a map, at a key."""
        carrier = self.carriers[field]
        if carrier is Void:
            self.path.stored(field, {})
            return
        base, form = self.path.fields[field], "{}[{}] = {}"
        place = key
        if field in self.slotted:
            base, form = self.record(key), f"{{0}}.{field} = {{2}}"
        elif self.windowed(field):
            base, place = self.cell(field, key)
            self.makes_room = True
        elif carrier is Blocks:
            base, place = self.blocks(key)
        elif carrier in CLEARED and value is self.values.const(CLEARED[carrier][0]):
            form = CLEARED[carrier][1]
        atoms = tuple(map(self.path.atom, (base, place, value)))
        self.path.block.append(Do(form, atoms, f"*{field}", self.rule))
        self.path.stored(field, {key: value})

    def ghostly(self, target: ast.expr, frame: Frame) -> bool:
        """Whether a ghost field is written, which decides nothing."""
        inner = target.value if isinstance(target, ast.Subscript) else target
        return self.field_of(inner, frame) in GHOSTS

    def haunted(self, s: ast.If, frame: Frame) -> bool:
        """Whether a branch writes ghost fields and does nothing else: then it does not matter what
        decides it, which may be a ghost as well.
        """
        written = [t for inner in (*s.body, *s.orelse) for t in _targets(inner)]
        if not all(t is not None and self.ghostly(t, frame) for t in written):
            return False
        named = (frame.globals.get(n.id) for n in ast.walk(s.test) if isinstance(n, ast.Name))
        return not any(isinstance(f, FunctionType) and text.changes_state(f) for f in named)

    def augment(self, s: ast.AugAssign, frame: Frame) -> None:
        """`x += e`."""
        value = ast.copy_location(ast.BinOp(_read(s.target), s.op, s.value), s)
        self.assign(s.target, self.value(value, frame), frame)

    def branch(self, s: ast.If, frame: Frame) -> bool:
        """Both ways, unless it is known which."""
        decides = self.decides(s.test, frame)
        if decides is not None:
            return self.threaded(decides, s, frame)
        c = self.condition(self.value(s.test, frame))
        if c.constant:
            return self.block(s.body if c.args[0] else s.orelse, frame)
        start, ends, alive = self.path, [], False
        node = If(start.atom(self.computed(c)), [], [], self.rule)
        for true, statements in ((True, s.body), (False, s.orelse)):
            self.path = path = start.copy()
            path.block = node.body if true else node.orelse
            path.assume(c, true, self.values)
            try:
                if self.block(statements, frame):
                    ends.append(self.path)
                alive = True
            except Dead:
                pass
        start.block.append(node)
        if not ends:
            self.path = start
            if not alive:
                raise Dead
            return False
        self.onward(start, ends)
        return True

    def decides(self, test: ast.expr, frame: Frame) -> Any:
        """A function of the machine that is called to decide a branch."""
        if not isinstance(test, ast.Call) or not isinstance(test.func, ast.Name):
            return None
        f = frame.globals.get(test.func.id)
        if not isinstance(f, FunctionType) or test.keywords or not text.changes_state(f):
            return None
        return f if text.decides(text.definition(f)) else None

    def threaded(self, f: Any, s: ast.If, frame: Frame) -> bool:
        """A branch on what a function returns: each path through it goes on in its own arm."""
        assert isinstance(s.test, ast.Call)
        args = [self.evaluate(a, frame) for a in s.test.args]
        outer = self.path.locals

        def then(value: Value) -> bool:
            self.path.locals = dict(outer)
            c = self.condition(value)
            if not c.constant:
                raise Unsupported(f"line {s.lineno}: {f.__name__} returns {value}")
            return self.block(s.body if c.args[0] else s.orelse, frame)

        place = (*frame.place, id(s))
        inner = Frame(f.__globals__, frame.rule, place, then=then)
        self.path.locals = bound(f, text.definition(f), args, {}, self)
        return self.block(text.body(text.definition(f)), inner)

    def onward(self, start: Path, ends: list[Path]) -> None:
        """Go on, where `start` left off, with what the ends have in common."""
        met = join(ends, self.values)
        met.sites = start.sites
        start.become(met)
        self.path = start

    # loops -----
    def loop(self, s: ast.For, frame: Frame) -> bool:
        """`for _ in loop(...)`: found out by trying what its body changes. Over a tuple: its body
        for each member. Whether the path goes on after it.
        """
        if not isinstance(s.iter, ast.Call):
            raise Unsupported(f"line {s.lineno}: a loop without loop()")
        if self.evaluate(s.iter.func, frame) != Known(kernel.loop):
            return self.unrolled(s, frame)
        if frame.breaks is not None and text.returns(s):
            raise Unsupported(f"line {s.lineno}: a return from a loop in a loop")
        until = next(k.value for k in s.iter.keywords if k.arg == "until")
        self.turns(s, until, frame)
        return True

    def unrolled(self, s: ast.For, frame: Frame) -> bool:
        """A loop over members that are known one by one, as the tables of a request are."""
        members = self.value(s.iter, frame)
        if members.op != "tuple":
            raise Unsupported(f"line {s.lineno}: a loop without loop()")
        for n, member in enumerate(members.args):
            self.assign(s.target, member, frame)
            if not self.block(s.body, replace(frame, place=(*frame.place, id(s), n))):
                return False
        return True

    def left(self, start: Path, exits: list[Path]) -> None:
        """Go on behind a loop that paths have left."""
        if not exits:
            self.path = start
            raise Dead
        blocks = [path.block for path in exits]
        self.onward(start, exits)
        for block in blocks:
            block.append(Break())

    def turns(self, s: ast.For, until: ast.expr, frame: Frame) -> None:
        """A loop whose head is met again and again."""
        place = (*frame.place, id(s))
        phis = self.phis.setdefault(place, {})
        fields = self.path.fields
        fields.update((f, self.path.settled(v)) for f, v in fields.items() if v in self.path.equal)
        while True:
            start = self.path
            tried = self.turn(s, until, frame, place, phis)
            new = [f for f in _changed(tried[0], tried[1]) if f not in phis]
            if not new:
                break
            for f in new:
                phis[f] = f"{f}_{next(FRESH)}"
            self.path = start
        self.closed(start, tried, phis)

    def turn(
        self,
        s: ast.For,
        until: ast.expr,
        frame: Frame,
        place: tuple[int, ...],
        phis: dict[str, str],
    ) -> tuple[Path, Path | None, list[Path], Loop]:
        """One turn, from a head that knows nothing of what turns change."""
        assert isinstance(until, ast.Lambda)
        head = self.path.copy()
        for f, name in phis.items():
            if f in head.fields and f != "memory":
                head.fields[f] = self.values.var(name)
                head.saved[f] = None
        for f in phis:
            if f.startswith("*"):
                head.stored(f[1:], {})
            elif f.startswith("!"):
                head.saved[f[1:]] = None
            elif f.startswith("@"):
                head.touched[f] = next(FRESH)
        if any(f[0] in "*@" or f == "memory" for f in phis):
            head.memory = next(FRESH)
        first = head.copy()
        loop = Loop(head.block)
        self.path = head
        inner = Frame(frame.globals, frame.rule, place, [], frame.again)
        c = self.condition(self.value(until.body, inner))
        exits: list[Path] = []
        if not (c.constant and not c.args[0]):
            gone = head.copy()
            gone.assume(c, True, self.values)
            head.block.append(If(head.atom(self.computed(c)), gone.block))
            exits.append(gone)
        end: Path | None = None
        if not (c.constant and c.args[0]):
            head.assume(c, False, self.values)
            try:
                if self.block(s.body, inner):
                    end = self.path
            except Dead:
                pass
            exits += inner.breaks or []
        return first, end, exits, loop

    def closed(
        self,
        start: Path,
        tried: tuple[Path, Path | None, list[Path], Loop],
        phis: dict[str, str],
    ) -> None:
        """Put a loop together: what goes in, what comes round, what comes out."""
        _, end, exits, loop = tried
        carried = {f: name for f, name in phis.items() if f in start.fields}
        enter = [(name, start.atom(start.fields[f])) for f, name in carried.items()]
        start.block += [Set(enter), loop]
        if end is not None:
            again = [(name, end.atom(end.fields[f])) for f, name in carried.items()]
            end.block.append(Set(again))
        self.left(start, exits)

    def counted(self, s: ast.While, frame: Frame) -> None:
        """A loop of a reading: it changes nothing but its own locals."""
        names = {n.id for n in ast.walk(s) if isinstance(n, ast.Name) and not _loads(n)}
        start = self.path
        carried = {n: f"{n}_{next(FRESH)}" for n in sorted(names & set(start.locals))}
        enter = [(variable, start.atom(start.locals[n])) for n, variable in carried.items()]
        start.locals |= {n: self.values.var(variable) for n, variable in carried.items()}
        self.path = head = start.copy()
        loop = Loop(head.block)
        c = self.condition(self.value(s.test, frame))
        head.block.append(If(head.atom(self.negated(c)), [Break()]))
        head.assume(c, True, self.values)
        if not self.block(s.body, frame) or _changed(start, self.path):
            raise Unsupported(f"line {s.lineno}: a loop that writes, or returns")
        again = [(v, self.path.atom(self.path.locals[n])) for n, v in carried.items()]
        self.path.block.append(Set(again))
        start.block += [Set(enter), loop]
        self.path = start


def _targets(s: ast.stmt) -> list[ast.expr | None]:
    """What a statement assigns to; of any other, nothing that has a name."""
    match s:
        case ast.Assign(targets=targets):
            return list(targets)
        case ast.AugAssign(target=target):
            return [target]
    return [None]


def _loads(n: ast.Name) -> bool:
    return isinstance(n.ctx, ast.Load)


def _read(target: ast.expr) -> ast.expr:
    """What is written, to be read."""
    match target:
        case ast.Attribute():
            new: ast.expr = ast.Attribute(target.value, target.attr, ast.Load())
        case ast.Subscript():
            new = ast.Subscript(target.value, target.slice, ast.Load())
        case ast.Name():
            new = ast.Name(target.id, ast.Load())
        case _:
            raise Unsupported(f"line {target.lineno}: {ast.unparse(target)}")
    return ast.copy_location(new, target)


def _changed(head: Path, end: Path | None) -> list[str]:
    """What is not at the end of a turn what it was at the head: fields, the contents of maps, what
    the state object holds. Nothing, if no turn ends.
    """
    if end is None:
        return []
    fields, saved = head.fields, head.saved
    found = [f for f, v in end.fields.items() if fields[f] not in (v, end.settled(v))]
    found += [f"*{f}" for f, n in end.versions.items() if head.versions[f] != n]
    found += [f"!{f}" for f, v in end.saved.items() if saved[f] not in (v, end.settled(v))]
    found += [root for root, n in end.touched.items() if head.touched.get(root) != n]
    return [*found, "memory"] if head.memory != end.memory else found
