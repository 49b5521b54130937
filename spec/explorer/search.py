"""Breadth-first search over everything that may happen in a scope."""

import time
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from nullblock.spec.catalogue import CATALOGUE
from nullblock.spec.explorer.actions import (
    Action,
    Evict,
    Schedule,
    Step,
    Unloaded,
    Update,
    actions,
    perform,
)
from nullblock.spec.explorer.identity import Identity, order
from nullblock.spec.explorer.liveness import SERVED, STEPS, Edges, cycle, unserved
from nullblock.spec.explorer.model import Scope, beginning
from nullblock.spec.explorer.reads import Remembered, reads, writes
from nullblock.spec.explorer.result import Counterexample, Lasso, Progress, Result
from nullblock.spec.explorer.transitions import CLAIMS, TRANSITIONS
from nullblock.spec.explorer.witnesses import Watch
from nullblock.spec.invariants import INVARIANTS
from nullblock.spec.kernel import CONFUSED, RULES, Broken, Disabled, Engines, State
from nullblock.spec.profiles import NORMATIVE, Semantics

STEP_SCALARS = ("RUN-11", "RUN-12", "PREEMPT-6")
"""Invariants about fields of the open step, which are no part of a state's identity: checked on
every transition.
"""
GUARD, PROMISE = "guard", "promise"
"""What breaks, besides statements: a guard of a rule that the machine fires, or a promise."""


class Violation(Exception):
    """A statement does not hold."""

    def __init__(self, id: str, detail: str | None = None, rule: str | None = None) -> None:
        super().__init__(id)
        self.id, self.detail, self.rule = id, detail, rule


class Search:
    """One search; `claims` restricts what is looked for to some IDs."""

    def __init__(
        self,
        scope: Scope,
        semantics: Semantics,
        claims: frozenset[str] | None = None,
        canonical: bool = True,
    ) -> None:
        self.scope, self.semantics = scope, semantics
        self.claims = claims
        self.invariants = [Remembered(i, f) for i, f in self._chosen(INVARIANTS | CLAIMS)]
        self.after = self._after(self._chosen(INVARIANTS)) if scope.every_rule else {}
        self.steps = [(i, f) for i, f in self._chosen(INVARIANTS) if i in STEP_SCALARS]
        self.transitions = self._chosen(TRANSITIONS)
        self.watch = Watch()
        self.identity = Identity(canonical)
        self.seen: dict[tuple[int, ...], int] = {}
        self.origin: list[tuple[int, Action | None]] = []
        self.edges: Edges = {}
        self.count = 0
        self.depth = 0

    def _chosen(self, statements: dict[str, Any]) -> list[tuple[str, Any]]:
        return [(i, f) for i, f in statements.items() if self.claims is None or i in self.claims]

    def _after(self, statements: list[tuple[str, Any]]) -> dict[str, list[tuple[str, Any]]]:
        """What each rule might break: statements that read a field which it may write."""
        read = [(reads(holds), (id, holds)) for id, holds in statements]
        written = {rule.id: writes(rule.body) for rule in RULES.values()}
        return {id: [it for fields, it in read if fields & w] for id, w in written.items()}

    def after_rule(self, s: State, id: str) -> None:
        """Observe a rule, and check the invariants where the scope asks for that."""
        self.watch.rule(s, id)
        if self.scope.every_rule:
            self.check(s, self.after[id], id)

    def check(self, s: State, statements: list[tuple[str, Any]], rule: str | None = None) -> None:
        """Raise Violation for the first statement that is false in s."""
        for id, holds in statements:
            if not holds(s):
                raise Violation(id, rule=rule)

    def check_transition(self, was: State, s: State, done: Action) -> None:
        """Raise Violation for the first statement that a half step or event breaks."""
        for id, holds in self.transitions:
            if not holds(was, s, done):
                raise Violation(id)
        self.check(s, self.steps)

    def perform(self, s: State, action: Action) -> None:
        """Let an action happen, and check it."""
        was, last = s.copy(), action
        if isinstance(action, Step):
            middle: list[State] = []

            def half(t: State) -> None:
                self.check_transition(was, t, Schedule())
                middle.append(t.copy())

            perform(s, action, half)
            was, last = middle[0], Update()
            # Who was preempted in the first half is settled there.
            s.preempted = s.k.empty("R")
        else:
            if not isinstance(action, Schedule):
                s.preempted = s.k.empty("R")
            perform(s, action)
        self.check_transition(was, s, last)
        self.watch.event(s, action)

    def successor(self, s: State, action: Action) -> tuple[tuple[int, ...], State, bool]:
        """The state after an action, its identity, and whether it is new. Raises Violation."""
        t = s.copy()
        self.count += 1
        try:
            self.perform(t, action)
            key, vector = self.identity.key(t)
            fresh = key not in self.seen
            if fresh:
                for statement in self.invariants:
                    if not statement(t, vector):
                        raise Violation(statement.id)
        except Disabled as e:
            raise Violation(GUARD, f"the machine fires a rule that may not fire: {e}") from None
        except Broken as e:
            raise Violation(PROMISE, f"the text breaks its promise: {e}") from None
        except CONFUSED as e:
            what = f"the machine asks for what there is not: {type(e).__name__}: {e}"
            raise Violation(PROMISE, what) from None
        return key, t, fresh

    def run(
        self, limit: int | None, progress: Progress | None
    ) -> tuple[Counterexample | None, bool]:
        """Search; returns a counterexample or None, and whether every state was seen."""
        s = beginning(self.scope, self.semantics)
        self.seen[self.identity.key(s)[0]] = 0
        self.origin.append((0, None))
        level = [(0, s)]
        while level:
            following: list[tuple[int, State]] = []
            for index, s in level:
                for action in actions(s, self.scope):
                    try:
                        key, t, fresh = self.successor(s, action)
                    except Violation as e:
                        return self.counterexample(e, index, action), False
                    number = self.seen.setdefault(key, len(self.origin))
                    if fresh:
                        self.origin.append((index, action))
                        following.append((number, t))
                    if isinstance(action, STEPS) and unserved(s):
                        self.edges[index] = (action, number)
                if progress is not None and index % 256 == 0:
                    progress(len(self.origin), self.count)
                if limit is not None and len(self.origin) >= limit:
                    return None, False
            level = following
            self.depth += bool(level)
        return self.lasso(), True

    def way(self, index: int) -> list[Action]:
        """A shortest way to a state."""
        back: list[Action] = []
        while True:
            index, action = self.origin[index]
            if action is None:
                return back[::-1]
            back.append(action)

    def counterexample(self, e: Violation, index: int, last: Action) -> Counterexample:
        """The shortest way to a violation."""
        sentence = e.detail or CATALOGUE[e.id].sentence
        way = tuple(self.named([*self.way(index), last]))
        return Counterexample(e.id, sentence, e.rule, way)

    def lasso(self) -> Lasso | None:
        """A shortest way into a cycle on which somebody is never served, once all is seen."""
        if self.claims is not None and SERVED not in self.claims:
            return None
        found = cycle(self.edges)
        if found is None:
            return None
        first, ring = found
        way = tuple(self.named([*self.way(first), *ring]))
        return Lasso(SERVED, CATALOGUE[SERVED].sentence, None, way, len(ring))

    def named(self, way: Iterable[Action]) -> list[Action]:
        """The actions with the ids that blocks have where nothing is named anew."""
        outer, Engines.after_rule = Engines.after_rule, None
        s, plain = beginning(self.scope, self.semantics), []
        try:
            for action in way:
                if isinstance(action, Evict | Unloaded):
                    action = type(action)(order(s)[action.block - 1])
                plain.append(action)
                with suppress(Disabled, Broken, *CONFUSED):
                    perform(s, action)
        finally:
            Engines.after_rule = outer
        return plain


def explore(
    scope: Scope,
    semantics: Semantics = NORMATIVE,
    *,
    claims: frozenset[str] | None = None,
    limit: int | None = None,
    progress: Progress | None = None,
) -> Result:
    """Every state that `scope` reaches, or a shortest counterexample.

    `claims`: look only for violations of these IDs (of guards and promises always). `limit`: give
    up at so many states. `progress` is called now and then with states and transitions.
    """
    search = Search(scope, semantics, claims)
    outer = Engines.after_rule
    Engines.after_rule = search.after_rule
    start = time.perf_counter()
    try:
        found, complete = search.run(limit, progress)
    finally:
        Engines.after_rule = outer
    return Result(
        scope=scope.name,
        states=len(search.origin),
        transitions=search.count,
        depth=search.depth,
        seconds=time.perf_counter() - start,
        witnesses=frozenset(search.watch.reached),
        missing=scope.witnesses - search.watch.reached if complete else frozenset(),
        fired=frozenset(search.watch.fired),
        counterexample=found,
        complete=complete,
    )
