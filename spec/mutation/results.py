"""What every engine said of every mutant, as it is kept: a file for each engine, under `results/`.

A result belongs to the text that was mutated; another text makes it stale. What the prover said of
a mutant belongs to less: to the rules that the mutant changes, to what they use, and to all
statements. A rule that is edited leaves the other rules' results as they are.
"""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from nullblock.spec.mutation.generate import Defect, Mutant, by_id, digest
from nullblock.spec.mutation.proving import basis, concerned
from nullblock.spec.zoo.specimens import SPECIMENS

Json = dict[str, Any]
Engine = Literal["explorer", "prover", "lockstep", "traces"]
ENGINES: tuple[Engine, ...] = get_args(Engine)
COMPARING = frozenset({"lockstep", "traces"})
"""Engines that compare decisions, whatever the statements say."""
FOLDER = Path(__file__).parent / "results"
UNNOTICED: Json = {}


@dataclass(slots=True)
class Results:
    """What one engine said."""

    engine: str
    digest: str
    said: dict[str, Json] = field(default_factory=dict)
    """By the mutant's ID. `by` names what noticed it; absent: nothing did."""

    @property
    def stale(self) -> bool:
        """Whether the text is another by now."""
        if self.engine == "prover":
            return any(not _is_of_this_text(id, said) for id, said in self.said.items())
        return self.digest != _digest(self.engine)

    def noticed(self, m: Mutant) -> bool | None:
        """Whether the engine notices a mutant; None if it was not asked."""
        return "by" in self.said[m.id] if m.id in self.said else None

    def save(self, folder: Path = FOLDER) -> None:
        """Write the file, a line a mutant."""
        path = folder / f"{self.engine}.json"
        lines = ",\n".join(
            f"  {json.dumps(id)}: {json.dumps(self.said[id])}" for id in sorted(self.said)
        )
        text = f'{{"digest": "{self.digest}", "mutants": {{\n{lines}\n}}}}\n'
        made = path.with_suffix(".new")
        made.write_text(text)
        os.replace(made, path)


def load(engine: str, folder: Path = FOLDER) -> Results:
    """What is kept of an engine."""
    path = folder / f"{engine}.json"
    if not path.exists():
        return Results(engine, _digest(engine))
    kept = json.loads(path.read_text())
    return Results(engine, kept["digest"], kept["mutants"])


def current(engine: str, folder: Path = FOLDER) -> Results:
    """What is kept of an engine for the text as it is, without what is stale."""
    kept = load(engine, folder)
    if not kept.stale:
        return kept
    if engine != "prover":
        return Results(engine, _digest(engine))
    still = {id: said for id, said in kept.said.items() if _is_of_this_text(id, said)}
    return Results(engine, _digest(engine), still)


def _is_of_this_text(id: str, said: Json) -> bool:
    """Whether the prover would be asked the same today; False of a mutant that is no more."""
    planted = {s.id: s for s in SPECIMENS}
    defect: Defect | None = by_id().get(id) or planted.get(id)
    return defect is not None and said.get("of") == basis(tuple(concerned(defect)))


def _digest(engine: str) -> str:
    """Of the text that an engine's answers depend on."""
    return digest(statements=engine not in COMPARING)


def every(folder: Path = FOLDER) -> Iterator[Results]:
    """All engines."""
    return (load(engine, folder) for engine in ENGINES)
