"""Every mutant in every scope: the compiled explorer, compiled once a scope from the text that
holds them all.
"""

import ast
import hashlib
import json
import os
import re
import subprocess
from collections.abc import Iterable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from nullblock.spec.compiled import build
from nullblock.spec.compiled.context import Sizes
from nullblock.spec.compiled.translate import Program
from nullblock.spec.compiled.translate import program as translate
from nullblock.spec.compiled.values import (
    Bits,
    Bound,
    Dic,
    Num,
    StateRef,
    Untranslatable,
    Value,
    Vec,
)
from nullblock.spec.compiled.values import Scope as Names
from nullblock.spec.explorer.liveness import SERVED
from nullblock.spec.explorer.model import ModelEnv, Scope, beginning
from nullblock.spec.explorer.search import GUARD, PROMISE, Search
from nullblock.spec.kernel import Rule
from nullblock.spec.mutation import schema
from nullblock.spec.mutation.forks import Json, in_child
from nullblock.spec.mutation.generate import Mutant, numbers
from nullblock.spec.mutation.transplant import transplant
from nullblock.spec.profiles import NORMATIVE, Semantics

LIMIT = 60_000
"""States; no scope of the specification itself has as many."""
SECONDS = 300.0
BUILDING = 600.0
WITNESS = "witness"
"""What is missing where a scope no longer reaches what it promises to."""
HERE = Path(__file__).parent
ASKED = re.compile(r"ASKED\((\d+)\)")


class Schema(Program):
    """The translation of a text that asks which mutant is chosen."""

    def __init__(self, search: Search, env: ModelEnv, sizes: Sizes) -> None:
        super().__init__(search, env, sizes)
        self.judged: dict[str, str] = {}
        """Conditions of statements, and the C functions that judge them."""

    @property
    def looked_at(self) -> int:
        """All of them: a form of a statement may not stop where the statement does."""
        return self.sizes.indices

    def word(self, name: str, node: ast.Call, scope: Names) -> Value | None:
        if name == schema.ASKED:
            n = ast.literal_eval(node.args[0])
            return Num(f"ASKED({n})")
        return super().word(name, node, scope)

    def choose(self, test: Num, a: Value, b: Value, node: ast.AST, scope: Names) -> Value:
        """`a if test else b`: where a mutant is asked for, numbers and sets of it and of the text
        can be compared.
        """
        asked = ASKED.fullmatch(test.c)
        a, b = self.materialise(a, node, scope), self.materialise(b, node, scope)
        if asked is None or isinstance(a, Vec | Dic) or isinstance(b, Vec | Dic):
            return super().choose(test, a, b, node, scope)
        if isinstance(a, Bits) and isinstance(b, Bits):
            return Bits(f"FORK(bits, {asked[1]}, ({a.c}), ({b.c}))", a.fails or b.fails)
        x, y = self.num(a, node, scope), self.num(b, node, scope)
        text = f"FORK(int, {asked[1]}, ({x.c}), ({y.c}))"
        return Num(text, x.opt or y.opt, x.fails or y.fails)

    def _fire(self, rule: Rule, arguments: list[Value], node: ast.expr, scope: Names) -> Value:
        """A rule: what fires one cannot be tried."""
        found = super()._fire(rule, arguments, node, scope)
        assert isinstance(found, Num)
        return Num(f"(untried(), {found.c})", fails=True)

    def _branch(self, n: ast.If, scope: Names) -> tuple[str, bool]:
        """Of a statement that a mutant leaves out is seen what it changes."""
        test = self.expr(n.test, scope)
        asked = ASKED.fullmatch(test.c) if isinstance(test, Num) else None
        if asked is None or not (isinstance(n.body[0], ast.Pass) and _changes_state_alone(n)):
            return super()._branch(n, scope)
        return f"SKIP({asked[1]}, {{\n{self.block(n.orelse, scope)[0]}\n}})", False

    def _note(self, f: Bound, call: ast.Call, scope: Names) -> str:
        """What a watcher notes is no part of a state."""
        return f"n_effects++;\n{super()._note(f, call, scope)}"

    def _set(self, of: Value, name: str, value: Value, n: ast.stmt, scope: Names) -> str:
        """Nor is what it remembers."""
        text = super()._set(of, name, value, n, scope)
        return text if isinstance(of, StateRef) else f"n_effects++;\n{text}"

    def checked(self, id: str, value: Value, rule: str = "-1") -> str:
        """Judge a statement and its forms."""
        text = f"return {self.condition(value)};"
        if text not in self.judged:
            self.judged[text] = self.fresh("holds")
            self.outer(f"int {self.judged[text]}(void)", lambda: text)
        return f"consider({self.statements.index(id)}, {rule}, {self.judged[text]});"


def _changes_state_alone(n: ast.If) -> bool:
    """Whether all that a statement does shows in the state: it names nothing, and ends nothing."""
    inside = [x for part in n.orelse for x in ast.walk(part)]
    named = any(isinstance(x, ast.Name) and isinstance(x.ctx, ast.Store) for x in inside)
    return not named and not any(isinstance(x, ast.Return | ast.Break | ast.For) for x in inside)


def mutated(number: int) -> bool:
    """Whether a mutant is chosen, where nobody has chosen one."""
    return False


@dataclass(frozen=True, slots=True)
class Bounds:
    """A scope, and the semantics under which it is searched."""

    name: str
    scope: Scope
    semantics: Semantics = NORMATIVE


@dataclass(frozen=True, slots=True)
class Found:
    """What the search of one scope says of a mutant."""

    breaks: str
    """The ID of what it breaks, `guard`, `promise` or `witness`; empty if it breaks nothing."""
    states: int
    transitions: int
    seconds: float
    actions: int
    """Of the counterexample, if there is one."""
    complete: bool
    """Whether every state was seen."""


GIVING_UP = ("limit", "no-room", "no-memory")
"""How a search ends that did not see every state, and objected to none."""
GAVE_UP = Found("", 0, 0, 0.0, 0, False)
"""It takes too long, or more room than there is."""


class Unjudged(Exception):
    """A search in which not every form of the statements could be judged."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """A scope with every mutant in it."""

    name: str
    path: str
    statements: list[str]
    witnesses: dict[str, int]
    """Those that it promises, and the bits that tell."""

    def __call__(self, mutant: int, other: int = 0) -> Found:
        """Search with a mutant chosen, and perhaps another; 0 chooses none."""
        try:
            *_, said = self._run(SECONDS, MUTANT=mutant, MUTANT_TOO=other)
        except (subprocess.TimeoutExpired, ValueError):
            return GAVE_UP
        if said["outcome"] in ("no-room", "no-memory"):
            return GAVE_UP
        breaks, way = self._broken(said), len(said["way"]) - 1
        return Found(
            breaks,
            said["states"],
            said["transitions"],
            said["seconds"],
            way if breaks and breaks != WITNESS else 0,
            said["outcome"] == "complete",
        )

    def met(self, compared: Iterable[int] = ()) -> frozenset[int]:
        """The mutants whose place is met in the search without any, of those that are `compared`
        the ones that are not there what the text is: with one of the others chosen the search is
        the same. Raises Unjudged.
        """
        *notes, end = self._run(None, PLACES=1, COMPARED=",".join(map(str, compared)))
        if end["outcome"] != "complete":
            raise Unjudged(f"{self.name}: the search ended otherwise: {end}")
        return frozenset(n["met"] for n in notes)

    def forms(self, some: Iterable[int], mutant: int = 0, silent: str = "") -> dict[int, Found]:
        """What a search would find with each of some mutants of statements chosen, of those that
        object: one search for all of them. With another `mutant` in it they are those of the
        statement that alone objects to that one, and is `silent`. Raises Unjudged.
        """
        forms = ",".join(map(str, some))
        index = self.statements.index(silent) if silent else -1
        *notes, end = self._run(None, FORMS=forms, MUTANT=mutant, SILENT=index)
        if end["outcome"] not in ("complete", "settled", *(GIVING_UP if silent else ())):
            raise Unjudged(f"{self.name}: the search ended otherwise: {end}")
        return {n["form"]: self._noted(n) for n in notes}

    def _noted(self, n: Json) -> Found:
        if n["outcome"] == "no-room":
            return GAVE_UP
        counts = n["states"], n["transitions"], n["seconds"], n["actions"]
        return Found(self._broken(n), *counts, False)

    def _run(self, seconds: float | None, **told: Any) -> list[Json]:
        """What the program says, line by line. Raises subprocess.TimeoutExpired, and ValueError
        where it crashed.
        """
        env = os.environ | {f"NULLBLOCK_{name}": str(value) for name, value in told.items()}
        command = [self.path, str(LIMIT)]
        done = subprocess.run(command, env=env, capture_output=True, timeout=seconds, text=True)
        return [json.loads(line) for line in done.stdout.splitlines() or [""]]

    def _broken(self, said: Json) -> str:
        match said["outcome"]:
            case "violated":
                return self.statements[said["statement"]]
            case "guard" | "promise" as text:
                return GUARD if text == "guard" else PROMISE
            case "lasso":
                return SERVED
            case "complete":
                reached = int(said["reached"], 16)
                missing = (not reached >> bit & 1 for bit in self.witnesses.values())
                return WITNESS if any(missing) else ""
        return ""


def programs(
    some: Iterable[Mutant], scopes: Iterable[Bounds], folder: Path, level: str = "-O1"
) -> list[Compiled]:
    """Scopes, compiled with these mutants in them, as programs in a folder, optimized that much.
    Raises build.NoCompiler and Untranslatable.
    """
    texts, compiler = schema.texts(some), [*build.compiler(), level]
    wanted = list(scopes)
    made = folder / f"{_key(texts, wanted, level)}.json"

    def work() -> Json:
        transplant(texts, {schema.ASKED: mutated})
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            some = [_program(b, folder, compiler, pool) for b in wanted]
        for _, done in some:
            if done is not None:
                done.result()
        return {"programs": [asdict(c) for c, _ in some]}

    said = json.loads(made.read_text()) if made.exists() else in_child(work, BUILDING)
    if "programs" not in said:
        raise Untranslatable(f"the text that holds every mutant: {said.get('failed', 'too slow')}")
    made.write_text(json.dumps(said))
    return [Compiled(**p) for p in said["programs"]]


def _key(texts: dict[str, str], wanted: list[Bounds], level: str) -> str:
    """What the programs are made of: the text, the scopes, and all that translates them."""
    spec = Path(build.__file__).parents[1]
    made_by = [p.read_text() for p in sorted(spec.rglob("*")) if p.suffix in (".py", ".c")]
    parts = [*sorted(texts.values()), *map(repr, wanted), level, *made_by]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def _program(
    b: Bounds, folder: Path, compiler: list[str], pool: Executor
) -> tuple[Compiled, Future[object] | None]:
    """A program, which is compiled while the next is translated."""
    first = beginning(b.scope, b.semantics)
    room = max(len(first.k.indices), len(b.scope.templates) * (b.scope.depth + 1) + 1)
    sizes = Sizes(2 * room, "int16_t", 2)
    text, p = translate(Search(b.scope, b.semantics), first, sizes, translator=Schema)
    path, source = folder / b.name, folder / f"{b.name}.c"
    head, *tail = ((HERE / n).read_text() for n in ("chosen.c", "compared.c", "forms.c"))
    text = "\n".join((f"#define MUTANTS {len(numbers()) + 1}", head, text, *tail))
    done: Future[object] | None = None
    if not path.exists() or not source.exists() or source.read_text() != text:
        path.unlink(missing_ok=True)
        source.write_text(text)
        command = [*compiler, "-std=gnu11", "-w", "-o", str(path), str(source)]
        done = pool.submit(subprocess.run, command, check=True)
    promised = {w: p.watched[w] for w in sorted(b.scope.witnesses)}
    return Compiled(b.name, str(path), p.statements, promised), done
