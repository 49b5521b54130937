"""What every engine said of every mutant, as it is kept: a file for each engine, under `results/`.

A result belongs to the text that was mutated; another text makes it stale.
"""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from nullblock.spec.mutation.generate import Mutant, digest

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
    """What is kept of an engine for the text as it is: nothing, if it is stale."""
    kept = load(engine, folder)
    return Results(engine, _digest(engine)) if kept.stale else kept


def _digest(engine: str) -> str:
    """Of the text that an engine's answers depend on."""
    return digest(statements=engine not in COMPARING)


def every(folder: Path = FOLDER) -> Iterator[Results]:
    """All engines."""
    return (load(engine, folder) for engine in ENGINES)
