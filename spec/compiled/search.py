"""The explorer, compiled: the same search, the same counts, the same counterexample.

What it objects to is performed again by the readable form, whose objection is the one that counts.
"""

import json
import subprocess
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args

from nullblock.spec.catalogue import CATALOGUE, catalogue
from nullblock.spec.compiled import build
from nullblock.spec.compiled.context import Sizes
from nullblock.spec.compiled.translate import Program, program
from nullblock.spec.compiled.values import Untranslatable
from nullblock.spec.explorer.actions import Action
from nullblock.spec.explorer.liveness import SERVED
from nullblock.spec.explorer.model import Scope, beginning
from nullblock.spec.explorer.result import Counterexample, Lasso, Progress, Result
from nullblock.spec.explorer.search import Search, Violation
from nullblock.spec.kernel import Engines
from nullblock.spec.profiles import NORMATIVE, Semantics

Json = dict[str, Any]
ATTEMPTS = 3
"""How often room is made where maps, sequences or numbers turn out larger than they were given."""


def explore(
    scope: Scope,
    semantics: Semantics = NORMATIVE,
    *,
    claims: frozenset[str] | None = None,
    limit: int | None = None,
    progress: Progress | None = None,
    checked: bool = True,
    canonical: bool = True,
    optimized: bool = False,
) -> Result:
    """What `nullblock.spec.explorer.explore` finds; `seconds` are those of the search alone.

    Without `checked` no statement is checked, for measuring what that costs; without `canonical`
    blocks keep their names; `optimized` is worth it for scopes larger than the standard ones.
    Raises build.NoCompiler and Untranslatable: then only the readable form can say.
    """
    first = beginning(scope, semantics)
    flights = len(scope.templates) * (scope.depth + 1) + 1
    sizes = Sizes(max(len(first.k.indices), flights))
    said: Json = {}
    for _ in range(ATTEMPTS):
        search = Search(scope, semantics, claims, canonical)
        text, translated = program(search, beginning(scope, semantics), sizes, checked)
        with build.program(text, optimized) as path:
            said = _run(path, limit, progress)
        if said["outcome"] != "no-room":
            return _result(search, translated, said)
        sizes = sizes.more()
    raise Untranslatable(f"scope {scope.name} needs more room than there is for {said['at']}")


def _run(path: Path, limit: int | None, progress: Progress | None) -> Json:
    """Run a compiled search."""
    arguments = [str(path), str(limit or 0), *(["progress"] if progress else [])]
    with subprocess.Popen(
        arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout is not None and running.stderr is not None
        try:
            for line in running.stderr:
                if progress is not None:
                    states, transitions = line.split()
                    progress(int(states), int(transitions))
            out = running.stdout.read()
        except BaseException:
            running.kill()
            raise
    if running.returncode:
        raise Untranslatable(f"the compiled search ended with code {running.returncode}")
    said: Json = json.loads(out)
    if said["outcome"] == "no-memory":
        raise Untranslatable("the compiled search ran out of memory")
    return said


def _result(search: Search, translated: Program, said: Json) -> Result:
    outcome, scope = said["outcome"], search.scope
    reached = _names(translated.watched, said["reached"])
    found: Counterexample | None = None
    if outcome == "lasso":
        found = _lasso(search, translated, said)
    elif outcome not in ("complete", "limit"):
        found = _again(search, translated, said)
    complete = outcome in ("complete", "lasso")
    return Result(
        scope=scope.name,
        states=said["states"],
        transitions=said["transitions"],
        depth=said["depth"],
        seconds=said["seconds"],
        witnesses=reached,
        missing=scope.witnesses - reached if complete else frozenset(),
        fired=_names(translated.rules, said["fired"]),
        counterexample=found,
        complete=complete,
    )


def _names(numbered: dict[str, int], noted: str) -> frozenset[str]:
    """Those whose bits are set in a number as it is printed."""
    bits = int(noted, 16)
    return frozenset(name for name, i in numbered.items() if bits >> i & 1)


def _way(translated: Program, said: Json) -> Iterator[Action]:
    """The actions that a compiled search names by number."""
    kinds = get_args(Action)
    for code, argument in said["way"][1:]:
        kind = kinds[code]
        given: list[Any] = []
        for f in fields(kind):
            if f.name == "id":
                given.append(translated.requests[argument])
            else:
                given.append(bool(argument) if f.type in (bool, "bool") else argument)
        yield kind(*given)


def _again(search: Search, translated: Program, said: Json) -> Counterexample:
    """The counterexample as the readable form finds it on the same way. Raises Untranslatable if
    it has no objection there.
    """
    way = list(_way(translated, said))
    search.origin = [(0, None), *enumerate(way)]
    s = beginning(search.scope, search.semantics)
    outer, Engines.after_rule = Engines.after_rule, search.after_rule
    objection: Violation | None = None
    done = 0
    try:
        for action in way:
            s = search.successor(s, action)[1]
            done += 1
    except Violation as e:
        objection = e
    finally:
        Engines.after_rule = outer
    if objection is None or done < len(way) - 1:
        names = ", ".join(map(str, way))
        raise Untranslatable(f"the compiled and the readable form differ after: {names}")
    return search.counterexample(objection, done, way[-1])


def _lasso(search: Search, translated: Program, said: Json) -> Lasso:
    """The cycle that was found, if the readable form goes round it too."""
    catalogue()
    way = list(_way(translated, said))
    repeats = said["repeats"]
    s = beginning(search.scope, search.semantics)
    keys = [search.identity.key(s)[0]]
    outer, Engines.after_rule = Engines.after_rule, None
    try:
        for action in way:
            key, s, _ = search.successor(s, action)
            keys.append(key)
    finally:
        Engines.after_rule = outer
    if keys[-1] != keys[-1 - repeats]:
        raise Untranslatable("the compiled and the readable form differ in a cycle")
    named = tuple(search.named(way))
    return Lasso(SERVED, CATALOGUE[SERVED].sentence, None, named, repeats)
