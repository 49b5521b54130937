"""What every engine said of every mutant, as it is kept: a file for each engine, under `results/`.

A result belongs to the text that was mutated. Where the text changes, what was said of a mutant
whose own functions are as they were is kept, as said of an earlier text, until the engine is
asked again; what was said of others is forgotten. What the prover said of a mutant belongs to
less than the text: to the rules that the mutant changes, to what they use, and to all statements.
A rule that is edited leaves the other rules' results as they are.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from nullblock.spec.catalogue import is_gone
from nullblock.spec.mutation.generate import Defect, by_id, digest, written
from nullblock.spec.mutation.proving import basis, concerned
from nullblock.spec.zoo.specimens import SPECIMENS

Json = dict[str, Any]
Engine = Literal["explorer", "prover", "lockstep", "traces"]
ENGINES: tuple[Engine, ...] = get_args(Engine)
COMPARING = frozenset({"lockstep", "traces"})
"""Engines that compare decisions, whatever the statements say."""
FOLDER = Path(__file__).parent / "results"


@dataclass(slots=True)
class Results:
    """What one engine said, by the mutant's ID. `by` names what noticed it; if absent, nothing."""

    engine: str
    now: dict[str, Json] = field(default_factory=dict)
    """Of the text as it is."""
    earlier: dict[str, Json] = field(default_factory=dict)
    """Of an earlier text, in which the mutant's own functions were the same."""
    over: frozenset[str] = frozenset()
    """The scenarios that an engine was asked over which runs some: whom it did not notice it has
    not noticed in any of these.
    """

    @property
    def said(self) -> dict[str, Json]:
        """The last that was said of each."""
        return self.earlier | self.now

    @property
    def stale(self) -> bool:
        """Whether some of it was said of an earlier text."""
        return not self.earlier.keys() <= self.now.keys()

    def last(self, id: str) -> Json | None:
        """The last that was said of one; None if the engine was not asked."""
        return self.now.get(id, self.earlier.get(id))

    def noticed(self, m: Defect) -> bool | None:
        """Whether the engine notices a mutant; None if it was not asked."""
        said = self.last(m.id)
        return None if said is None else "by" in said

    def save(self, folder: Path = FOLDER) -> None:
        """Write the file, a line a mutant."""
        path = folder / f"{self.engine}.json"
        earlier = {id: said for id, said in self.earlier.items() if id not in self.now}
        every = (_functions(id, said) or () for id, said in (earlier | self.now).items())
        texts = {name: written().get(name, "") for some in every for name in some}
        text = (
            f'{{"digest": "{_digest(self.engine)}", "functions": {{\n{_lines(texts)}\n}}, '
            f'"mutants": {{\n{_lines(self.now)}\n}}, "earlier": {{\n{_lines(earlier)}\n}}'
        )
        text += f', "over": {json.dumps(sorted(self.over))}}}\n' if self.over else "}\n"
        made = path.with_suffix(".new")
        made.write_text(text)
        os.replace(made, path)


def _lines(some: Mapping[str, Any]) -> str:
    return ",\n".join(f"  {json.dumps(key)}: {json.dumps(some[key])}" for key in sorted(some))


def load(engine: str, folder: Path = FOLDER) -> Results:
    """What is kept of an engine, as far as it says something of the text as it is."""
    path = folder / f"{engine}.json"
    if not path.exists():
        return Results(engine)
    kept = json.loads(path.read_text())
    same = {name for name, text in kept["functions"].items() if written().get(name, "") == text}
    now, earlier = kept["mutants"], kept["earlier"]
    if engine == "prover":
        now = {id: said for id, said in now.items() if _is_of_this_text(id, said)}
    elif kept["digest"] != _digest(engine):
        now = {}
    old = {i: said for i, said in (earlier | kept["mutants"]).items() if i not in now}
    needed = {id: _functions(id, said) for id, said in old.items()}
    still = (id for id, names in needed.items() if names is not None and names <= same)
    return Results(engine, now, {id: old[id] for id in still}, frozenset(kept.get("over", ())))


def _defect(id: str) -> Defect | None:
    return by_id().get(id) or {s.id: s for s in SPECIMENS}.get(id)


def _functions(id: str, said: Json) -> frozenset[str] | None:
    """The functions that decide which mutants an answer is about; None if one is no more, or the
    statement that noticed it.
    """
    if is_gone(id.removeprefix("only ")) or is_gone(said.get("by", "")):
        return None
    ids = () if id.startswith("departure.") else said["of"] if id.startswith("only ") else (id,)
    some = [_defect(i) for i in ids]
    if any(d is None for d in some):
        return None
    return frozenset().union(*(d.functions for d in some if d is not None))


def _is_of_this_text(id: str, said: Json) -> bool:
    """Whether the prover would be asked the same today; False of a mutant that is no more."""
    defect = _defect(id)
    return defect is not None and said.get("of") == basis(tuple(concerned(defect)))


def _digest(engine: str) -> str:
    """Of the text that an engine's answers depend on."""
    return digest(statements=engine not in COMPARING)
