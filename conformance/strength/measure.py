"""How many of the known mutants a trace would have rejected, and which not."""

import json
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from subprocess import TimeoutExpired
from typing import Literal

from nullblock.conformance.strength.draft_mutants import DRAFT_MUTANTS
from nullblock.conformance.strength.feature_mutants import SESSION_MUTANTS, of_features
from nullblock.conformance.strength.mutants import MUTANTS, Mutant
from nullblock.conformance.strength.plant import ask, planted
from nullblock.conformance.strength.same import unrun
from nullblock.conformance.trace.records import Header
from nullblock.spec.catalogue import catalogue
from nullblock.spec.profiles import Semantics

WORKER = "nullblock.conformance.strength.worker"
PATIENCE = 30
"""How many times as long as the rules themselves a mutant may take."""
LEAST_SECONDS = 120.0
TURNS = frozenset({"SESS-6", "SESS-7"})
"""Rules that fire where a turn of a session ends."""

Said = Literal["rejected", "not noticed", "no answer", "the same"]
"""The same: by the semantics of the trace nothing that the mutant changes is ever run."""


@dataclass(frozen=True, slots=True)
class Notice:
    """What a trace says about one mutant."""

    mutant: Mutant
    said: Said
    step: int = 0
    """Where it was rejected, with the line inside its file; 0 where it was not."""
    line: int = 0
    rule: str = ""
    """The statement that the trace showed to be broken: where the mutant first decides otherwise,
    which need not be the statement that it changes. Empty where the engine raised."""
    what: str = ""
    """The decision that it would have made otherwise; or why there was none."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A trace, and the semantics by which it conforms."""

    trace: Path
    profile: str | None
    """None: the one in its header."""
    settings: tuple[str, ...] = ()
    raised: bool = False
    """It ends with an exception that the rules explain: a rule is tried there, and does not
    fire."""
    semantics: Semantics | None = None
    """None: it is not told, and every mutant may show."""
    label: str = ""
    """What that is called."""

    def arguments(self) -> str:
        """What the worker is told."""
        return json.dumps(
            {"trace": str(self.trace), "profile": self.profile, "settings": self.settings}
        )


def mutants_for(header: Header | None, fired: Collection[str] = frozenset()) -> tuple[Mutant, ...]:
    """Those that are asked of a trace: the ones about a feature only where it is on.

    ``fired``: the rules that fired, which tell whether there were sessions.
    """
    if header is None:
        return MUTANTS
    drafts = DRAFT_MUTANTS if header.config.num_spec_tokens else ()
    sessions = SESSION_MUTANTS if TURNS.intersection(fired) else ()
    return MUTANTS + drafts + of_features(header) + sessions


def measure(
    asked: Asked,
    fired: Mapping[str, int],
    seconds: float = 0.0,
    progress: Callable[[Notice], None] | None = None,
    mutants: Sequence[Mutant] = MUTANTS,
) -> list[Notice]:
    """What a trace that conforms says about each mutant, in the order of the catalogue. One whose
    text decides nothing in it is not asked.

    Args:
        fired: how often each rule fired while the trace was judged.
        seconds: how long that took.
        progress: called with each answer, as it comes.
    """
    limit = max(LEAST_SECONDS, PATIENCE * seconds)

    def one(mutant: Mutant) -> Notice:
        found = _without_asking(mutant, asked, fired) or _judge(mutant, asked, fired, limit)
        if progress is not None:
            progress(found)
        return found

    with ThreadPoolExecutor(min(2, os.cpu_count() or 1)) as pool:
        return list(pool.map(one, mutants))


def _without_asking(mutant: Mutant, asked: Asked, fired: Mapping[str, int]) -> Notice | None:
    """What is said of a mutant that cannot show; None: it may."""
    if asked.semantics is not None and (off := unrun(mutant, asked.semantics)):
        values = ", ".join(f"{n}={str(getattr(asked.semantics, n)).lower()}" for n in off)
        return Notice(mutant, "the same", what=f"{asked.label} ({values}) never runs its text")
    if not mutant.needs or fired.get(mutant.needs) or asked.raised:
        return None
    return Notice(mutant, "not noticed", what="; ".join(_why(mutant, fired)))


def _judge(mutant: Mutant, asked: Asked, fired: Mapping[str, int], limit: float) -> Notice:
    try:
        with planted(mutant) as folder:
            done = ask(folder, "-m", WORKER, asked.arguments(), seconds=limit)
    except TimeoutExpired:
        return Notice(mutant, "no answer", what=f"it went on for more than {limit:,.0f} seconds")
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        # The machine itself came apart: no engine can have run by this text.
        last = (done.stderr.strip().splitlines() or ["nothing said"])[-1]
        return Notice(mutant, "rejected", rule=mutant.rule, what=f"its text fails: {last[:120]}")
    first = answer["first"]
    if answer["verdict"] == "VIOLATION" and first is not None:
        return Notice(mutant, "rejected", **first)
    return Notice(mutant, "not noticed", what="; ".join(_why(mutant, fired)))


def _why(mutant: Mutant, fired: Mapping[str, int]) -> Iterator[str]:
    """Why nothing in the trace came out otherwise."""
    kinds = {statement.id: statement.kind for statement in catalogue()}
    if kinds.get(mutant.rule) == "rule" and not fired.get(mutant.rule):
        yield f"this trace never exercises {mutant.rule}"
    if mutant.takes:
        yield f"this trace never shows {mutant.takes}"
    elif mutant.rule:
        yield f"nothing in this trace depends on {mutant.rule}"
