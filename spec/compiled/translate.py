"""A whole scope as one C program."""

import ast
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FunctionType
from typing import Any, get_args

from nullblock.spec import fields, flight
from nullblock.spec.compiled import layout
from nullblock.spec.compiled.context import Frame, Sizes
from nullblock.spec.compiled.functions import Functions
from nullblock.spec.compiled.text import body, definition
from nullblock.spec.compiled.values import (
    Bits,
    Const,
    Done,
    Hook,
    Num,
    Scope,
    StateRef,
    Untranslatable,
    Value,
)
from nullblock.spec.explorer import actions, identity, liveness
from nullblock.spec.explorer.model import ModelEnv
from nullblock.spec.explorer.search import Search
from nullblock.spec.explorer.witnesses import WITNESSES, Watch
from nullblock.spec.kernel import RULES

HERE = Path(__file__).parent
NOTES = ("reached", "fired")
"""Sets of a watcher that are its results."""
MOST_NOTES = 512
"""As many as `prelude.c` has places for."""
ARGUMENT = "done_argument"


class Program(Functions):
    """The translation of one search."""

    def __init__(self, search: Search, env: ModelEnv, sizes: Sizes) -> None:
        super().__init__(env, sizes)
        self.search = search
        self.codes = {kind: i for i, kind in enumerate(get_args(actions.Action))}
        self.watched = {name: i for i, name in enumerate(WITNESSES)}
        self.rules = {rule.id: i for i, rule in enumerate(RULES.values())}
        self.statements = [s.id for s in search.invariants]
        self.statements += [i for i, _ in (*search.transitions, *search.steps)]
        self.statements += [i for some in search.after.values() for i, _ in some]
        self.statements = list(dict.fromkeys(self.statements))
        self.watch = Watch()
        self.sets = [n for n, v in vars(self.watch).items() if isinstance(v, set)]
        self.sets = [n for n in self.sets if n not in NOTES]
        for name in self.sets:
            setattr(self.watch, name, Bits(f"watch_{name}"))
        # Chains are numbered when they are first asked for; these questions are about all of them.
        self.answers("want")
        self.answers("chain_of")
        if max(len(self.watched), len(self.rules)) > MOST_NOTES:
            raise Untranslatable(f"more than {MOST_NOTES} rules or witnesses")

    def applied(self, f: Callable[..., Any], *arguments: Value) -> Value:
        """A function of the text, called from here."""
        assert isinstance(f, FunctionType)
        scope = Scope({}, f.__globals__, f.__code__.co_filename)
        return self.call(f, list(arguments), ast.Constant(None), scope)

    def outer(self, head: str, build: Callable[[], str]) -> None:
        """A C function that is not one of the text."""
        self.frames.append(Frame(head))
        text = build()
        declared = "\n".join(self.frames.pop().declared)
        self.prototypes.append(f"static {head};")
        self.code.append(f"static {head} {{\n{declared}\n{text}\n}}")

    def condition(self, value: Value) -> str:
        """A value as a C condition."""
        node, scope = ast.Constant(None), Scope({}, {}, "")
        return self.num(self.truth(value, node, scope), node, scope).c

    def checked(self, id: str, value: Value, rule: str = "-1") -> str:
        """Stop the search if a statement is false."""
        return f"if (!{self.condition(value)}) violated({self.statements.index(id)}, {rule});"

    def write(self) -> None:
        """Translate everything."""
        st = StateRef("st")
        for rule in RULES.values():
            self.outer(f"void after_{self.rules[rule.id]}(void)", lambda r=rule: self._after(r.id))  # type: ignore[misc]
        self.outer("void check_invariants(void)", self._invariants)
        self.outer("void check_transition(void)", self._transitions)
        self.outer("void watch_event(void)", self._event)
        self.outer("void offer(void)", self._offer)
        self.outer("void act(int kind, int argument)", self._act)
        for reading in (flight.answers, flight.owes_token):
            self.outer(f"int {reading.__name__}(int i)", lambda f=reading: self._reading(f))  # type: ignore[misc]
        self.outer("void forget(void)", self._forget)
        self.outer(
            "int is_unserved(void)",
            lambda: f"return {self.condition(self.applied(liveness.unserved, st))};",
        )

    def _reading(self, f: Callable[..., Any]) -> str:
        """What the normal form asks about an entry in flight."""
        return f"return {self.condition(self.applied(f, StateRef('st'), Num('i')))};"

    def _forget(self) -> str:
        """What the normal form leaves out once it is over, by the readable form's own lists."""
        lines = [
            "blank_hit(&st); blank_rej(&st); blank_ends(&st);",
            "st.preempted = st.finished = st.prev = 0;",
        ]
        lines += [f"st.{name} = 0;" for name in identity.PAST]
        lines += [f"st.{name} = NONE;" for name in identity.NOBODY]
        return "\n".join(lines)

    def _after(self, id: str) -> str:
        st = StateRef("st")
        lines = [f"fired[{self.rules[id]}] = 1;"]
        handler = self.watch.handlers.get(id)
        if handler is not None:
            noted = self.applied(handler.__func__, Const(self.watch), st)  # type: ignore[attr-defined]
            if isinstance(noted, Num):
                lines.append(f"{noted.c};")
        for which, holds in self.search.after.get(id, []):
            lines.append(self.checked(which, self.applied(holds, st), str(self.rules[id])))
        return "\n".join(lines)

    def _invariants(self) -> str:
        found = [
            self.checked(s.id, self.applied(s.holds, StateRef("st")))
            for s in self.search.invariants
        ]
        return "\n".join(found)

    def _transitions(self) -> str:
        st = StateRef("st")
        was = StateRef("was")
        found = [
            self.checked(id, self.applied(holds, was, st, Done()))
            for id, holds in self.search.transitions
        ]
        found += [self.checked(id, self.applied(holds, st)) for id, holds in self.search.steps]
        return "\n".join(found)

    def _event(self) -> str:
        noted = self.applied(Watch.event, Const(self.watch), StateRef("st"), Done())
        return f"{noted.c};" if isinstance(noted, Num) else ""

    def _offer(self) -> str:
        f = actions.actions
        names: dict[str, Value] = {"s": StateRef("st"), "scope": Const(self.search.scope)}
        scope = Scope(names, f.__globals__, f.__code__.co_filename)
        return self.block(body(definition(f)), scope)[0]

    def _act(self) -> str:
        """`perform`, an action a case."""
        f = actions.perform
        (match,) = [n for n in definition(f).body if isinstance(n, ast.Match)]
        lines = []
        for case in match.cases:
            pattern = case.pattern
            if not isinstance(pattern, ast.MatchClass):
                continue
            names: dict[str, Value] = {"s": StateRef("st"), "half": Hook("half")}
            scope = Scope(names, f.__globals__, f.__code__.co_filename)
            kind = self.expr(pattern.cls, scope)
            for inner in pattern.patterns:
                if not isinstance(inner, ast.MatchAs) or inner.name is None:
                    raise self.refuse(inner, scope, "this pattern has no C form")
                scope.names[inner.name] = Num("argument")
            if not isinstance(kind, Const) or kind.value not in self.codes:
                raise self.refuse(pattern, scope, "no action")
            code = self.codes[kind.value]
            lines.append(f"if (kind == {code}) {{\n{self.block(case.body, scope)[0]}\n}}")
        return "\n".join(lines)


def named_constants(p: Program, checked: bool) -> Iterator[str]:
    """What the hand-written parts ask for by name."""
    for name in ("IDLE", "RUNNING"):
        yield f"#define {name} {getattr(fields, name)}"
    for kind, code in p.codes.items():
        if kind in liveness.STEPS:
            yield f"#define {kind.__name__.upper()} {code}"
    steps = " || ".join(f"(kind) == {p.codes[k]}" for k in liveness.STEPS)
    yield f"#define IS_STEP(kind) ({steps})"
    claims = p.search.claims
    yield f"#define LIVENESS {int(claims is None or liveness.SERVED in claims)}"
    yield f"#define CANONICAL {int(p.search.identity.canonical)}"
    yield f"#define CHECKED {int(checked)}"
    yield f"#define PRIORITY {int(p.env.priority)}"
    yield f"#define WINDOWED {int(p.env.windowed)}"
    order = sorted(p.requests, key=p.env.order)
    ranks = ", ".join(str(order.index(r)) for r in p.requests)
    yield f"static const int ORDER[NR] = {{{ranks}}};"


def program(
    search: Search,
    first: Any,
    sizes: Sizes,
    checked: bool = True,
    translator: type[Program] = Program,
) -> tuple[str, Program]:
    """The C program of a search that begins in the state `first`. Raises Untranslatable."""
    p = translator(search, first.k, sizes)
    p.write()
    tables = [f"static const int {name}[] = {{{text}}};" for text, name in p.tables.items()]
    parts = [
        *layout.constants(p),
        *named_constants(p, checked),
        (HERE / "prelude.c").read_text(),
        *layout.structs(p),
        *layout.access(p),
        *tables,
        *(f"static bits watch_{name};" for name in p.sets),
        "static void half(void);",
        *p.prototypes,
        *layout.start(p, first),
        *layout.packing(p),
        *layout.renaming(p),
        (HERE / "identity.c").read_text(),
        *p.code,
        (HERE / "search.c").read_text(),
    ]
    return "\n".join(parts) + "\n", p
