"""A counterexample as a story: what happened, what changed each time, and what broke.

The actions are performed anew, and every sentence is learnt from the rules that fire and from the
states between them.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from nullblock.spec.concrete import Span
from nullblock.spec.explorer.actions import Action, Schedule, Step, Update, perform
from nullblock.spec.explorer.frame import Frame, RequestFrame, frame
from nullblock.spec.explorer.model import Scope, beginning
from nullblock.spec.explorer.narrator import Narrator
from nullblock.spec.explorer.reads import reads
from nullblock.spec.explorer.result import Counterexample, Lasso
from nullblock.spec.explorer.search import (
    GUARD,
    PROMISE,
    STEP_SCALARS,
)
from nullblock.spec.explorer.transitions import CLAIMS, TRANSITIONS
from nullblock.spec.fields import FIELDS
from nullblock.spec.invariants import INVARIANTS
from nullblock.spec.kernel import CONFUSED, Broken, Disabled, Engines, State
from nullblock.spec.profiles import Semantics
from nullblock.spec.state import live

LEGEND = (
    "a 3/4 [1* 2]: request a has computed 3 of its 4 tokens and holds blocks 1 and 2; * carries a "
    "hash"
)


@dataclass(frozen=True, slots=True)
class Beat:
    """One action, what changed, and what the state then was."""

    action: Action
    changes: tuple[str, ...]
    frame: Frame

    @property
    def after(self) -> str:
        """The state in a line."""
        return standing(self.frame)


@dataclass(frozen=True, slots=True)
class Story:
    """A counterexample, told."""

    beats: tuple[Beat, ...]
    breaks: str
    sentence: str
    values: tuple[str, ...]
    """The values with which the statement is false."""
    rule: str | None
    """The rule after which it is false, where that is known."""
    repeats: int = 0
    """How many of the last actions go on for ever; 0: the last one breaks the statement."""

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self) -> Iterator[str]:
        """The story as text."""
        for number, beat in enumerate(self.beats, start=1):
            yield f"{number:3}. {beat.action}"
            yield from (f"       {change}" for change in beat.changes)
            yield f"       = {beat.after}"
        if self.repeats:
            last = len(self.beats)
            which = f"actions {last - self.repeats + 1} to {last} lead"
            back = f"action {last} leads" if self.repeats == 1 else which
            yield f"     {back} back to the same state (blocks may change names): so for ever"
        after = f" after rule {self.rule}" if self.rule else ""
        broken = (
            self.breaks if self.breaks in (GUARD, PROMISE) else f"{self.breaks} is broken{after}"
        )
        yield f"{broken}: {self.sentence}"
        yield from (f"     {value}" for value in self.values)
        yield f"({LEGEND})"


class Untold(Exception):
    """The actions do not break what they were said to break."""


class _Stop(Exception):
    """The statement has become false; `state` is where."""

    def __init__(self, state: State) -> None:
        super().__init__()
        self.state = state


def tell(found: Counterexample, scope: Scope, semantics: Semantics) -> Story:
    """Perform the actions of a counterexample again and say what happened. Raises Untold."""
    return _Telling(found, scope, semantics).tell()


class _Telling:
    def __init__(self, found: Counterexample, scope: Scope, semantics: Semantics) -> None:
        self.found, self.narrator = found, Narrator()
        self.s: Any = beginning(scope, semantics)
        self.holds: Callable[[State], Any] | None = (INVARIANTS | CLAIMS).get(found.breaks)
        self.last = False

    def tell(self) -> Story:
        beats = []
        values: tuple[str, ...] | None = None
        outer, Engines.after_rule = Engines.after_rule, self.after_rule
        try:
            for number, action in enumerate(self.found.actions, start=1):
                self.last = number == len(self.found.actions)
                values = self.act(action)
                beats.append(Beat(action, tuple(self.narrator.told()), frame(self.s)))
        finally:
            Engines.after_rule = outer
        repeats = self.found.repeats if isinstance(self.found, Lasso) else 0
        if repeats:
            values = tuple(
                sorted(f"{r} is never served" for r in self.s.k.requests if live(self.s, r))
            )
        if values is None:
            raise Untold(f"{self.found.breaks} holds after {len(beats)} actions")
        found = self.found
        return Story(tuple(beats), found.breaks, found.sentence, values, found.rule, repeats)

    def act(self, action: Action) -> tuple[str, ...] | None:
        """Perform one action; the values that break the statement, if the last one does."""
        try:
            self.perform(action)
        except _Stop as e:
            return tuple(at_fault(self.found.breaks, e.state))
        except (Disabled, Broken, *CONFUSED) as e:
            if not self.last:
                raise Untold(f"{action} cannot happen: {e}") from e
            return ()
        if self.last and self.holds is not None and not self.holds(self.s):
            return tuple(at_fault(self.found.breaks, self.s))
        return None

    def perform(self, action: Action) -> None:
        s, was = self.s, self.s.copy()
        done = action
        if isinstance(action, Step):

            def half(t: State) -> None:
                nonlocal was
                self.check(was, t, Schedule())
                was = t.copy()

            perform(s, action, half)
            done = Update()
            s.preempted = s.k.empty("R")
        else:
            if not isinstance(action, Schedule):
                s.preempted = s.k.empty("R")
            perform(s, action)
        self.check(was, s, done)

    def check(self, was: State, s: State, done: Action) -> None:
        """Stop where a half step or event breaks the statement."""
        if not self.last:
            return
        id = self.found.breaks
        transition = TRANSITIONS.get(id)
        if transition is not None and not transition(was, s, done):
            raise _Stop(s)
        if id in STEP_SCALARS and not INVARIANTS[id](s):
            raise _Stop(s)

    def after_rule(self, s: State, id: str) -> None:
        """Narrate a rule, and stop after the one that broke the statement."""
        self.narrator.rule(s, id)
        if self.last and id == self.found.rule and self.holds is not None and not self.holds(s):
            raise _Stop(s)


def standing(f: Frame) -> str:
    """The state between two actions, in a line."""
    carries = {b.id for b in f.blocks if b.hash is not None}

    def block(b: int) -> str:
        return f"{b}*" if b in carries else str(b)

    def request(r: RequestFrame) -> str:
        tables = " | ".join(" ".join(map(block, table)) for table in r.tables)
        return f"{r.id} {r.computed}/{r.tokens} [{tables}]"

    running = ", ".join(map(request, f.running)) or "nobody"
    waiting = ", ".join(f"{r.id} {r.computed}/{r.tokens}" for r in f.waiting) or "nobody"
    free = " ".join(block(b.id) for b in f.free) or "none"
    return f"running {running}; waiting {waiting}; free {free}"


class _Asked:
    """The environment, remembering for which members a quantified statement is false."""

    def __init__(self, k: Any) -> None:
        self.k = k
        self.culprits: list[tuple[str, tuple[Any, ...]]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.k, name)

    def forall(
        self, sorts: str, test: Callable[..., Any], span: Span | None = None, by: Any = None
    ) -> bool:
        """Whether `test` holds for all members; the first for which it does not is kept."""
        for members in self.k.members(sorts, span):
            if not test(*members):
                self.culprits.append((sorts, members))
                return False
        return True


NAMES = dict(B="block", R="request", T="table", I="index", H="hash", G="group")


def at_fault(id: str, s: State) -> Iterator[str]:
    """What the statement reads where it is false: its members, and what is known of them."""
    statement: Any = INVARIANTS.get(id) or CLAIMS.get(id) or TRANSITIONS[id]
    fields = [f for f in FIELDS if f in reads(statement)]
    scalars = [f"{f} {getattr(s, f)}" for f in fields if FIELDS[f] == "I"]
    if scalars:
        yield ", ".join(scalars)
    if id not in INVARIANTS:
        known = (_known(s, fields, "R", (r,)) for r in s.k.requests if live(s, r))
        yield from (line for line in known if ":" in line)
        return
    asked = s.copy()
    asked.k = _Asked(s.k)
    statement(asked)
    for sorts, members in asked.k.culprits[:1]:
        yield _known(s, fields, sorts, members)


def _known(s: State, fields: list[str], sorts: str, members: tuple[Any, ...]) -> str:
    """The fields of some members: `block 2: ref 0, hsh 1`."""
    if not s.k.several:
        sorts = sorts.replace("T", "R")
    who = ", ".join(f"{NAMES[sort]} {m}" for sort, m in zip(sorts, members, strict=True))
    parts = []
    for f in fields:
        keys, arrow, _ = FIELDS[f].partition(">")
        if not arrow:
            continue
        if not s.k.several:
            keys = keys.replace("T", "R")
        if f == "tab" and sorts == "R":
            table = [s.tab[members[0], i] for i in range(s.tlen[members[0]])]
            parts.append(f"tab {table}")
        elif len(keys) == 1:
            at = [m for sort, m in zip(sorts, members, strict=True) if sort == keys]
            parts += [
                f"{f}{f'[{m}]' if len(at) > 1 else ''} {_text(getattr(s, f)[m])}" for m in at
            ]
        elif keys == sorts:
            parts.append(f"{f} {_text(getattr(s, f)[members])}")
    return f"{who}: {', '.join(parts)}" if parts else who


def _text(value: Any) -> str:
    if isinstance(value, frozenset):
        return "{" + ", ".join(sorted(map(str, value))) + "}"
    return "none" if value is None else str(value)
