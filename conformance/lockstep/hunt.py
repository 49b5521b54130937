"""Looks for a scenario in which an engine departs from the rules, and makes it small."""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from nullblock.conformance.compare import Difference
from nullblock.conformance.engine import Feature
from nullblock.conformance.errors import InputError
from nullblock.conformance.lockstep import reach
from nullblock.conformance.lockstep.beside import Document, Hangs, Ran, Refused, Subject, run
from nullblock.conformance.lockstep.explain import Why, explain
from nullblock.conformance.lockstep.families import Family
from nullblock.conformance.lockstep.shrink import shrink
from nullblock.spec.profiles import Semantics

TRIES, TRIES_THAT_HANG = 1200, 12
"""Scenarios that are tried to make one smaller, in all or as far as the engine hangs in them."""
MOST_REFUSED = 50
"""Scenarios that an engine may refuse before it counts as one that cannot be asked."""
SIZE = 30
"""Groups of events in a scenario."""
SECONDS = 10.0
"""After which an engine counts as hanging."""
PATIENCE = 0.5
"""Seconds after which an engine counts as hanging, in a scenario that is being made smaller."""


@dataclass(frozen=True, slots=True)
class Departure:
    """An engine departs from the rules, and this is a small scenario that shows it."""

    document: Document
    difference: Difference
    why: Why
    found_in: Document
    """The scenario in which it was found."""
    raised: str = ""


@dataclass(slots=True)
class Hunt:
    """What a family came to."""

    seed: str
    scenarios: int = 0
    steps: int = 0
    reached: Counter[str] = field(default_factory=Counter)
    """In how many scenarios each case was met; nothing where the engine hides its pool."""
    departure: Departure | None = None
    refused: Counter[str] = field(default_factory=Counter)
    """Configurations that the engine does not take, by what it says."""


def hunt(
    subject: Subject, family: Family, semantics: Semantics, label: str, seed: int, steps: int
) -> Hunt:
    """Run a family's scenarios until there are enough steps, or one departs.

    Raises :class:`InputError` for a subject that cannot be asked at all.
    """
    done = Hunt(f"{seed}:{family.name}")
    while done.steps < steps and done.departure is None:
        number = done.scenarios + done.refused.total()
        document = scenario_of(subject, family, f"{done.seed}:{number}")
        try:
            ran = run(document, subject, semantics, SECONDS)
        except Refused as refusal:
            done.refused[refusal.what] += 1
            if done.refused.total() >= MOST_REFUSED:
                raise
            continue
        done.scenarios += 1
        done.steps += max(1, ran.num_steps)
        if ran.difference is not None:
            done.departure = departure(document, ran, subject, semantics, label)
        elif subject.shows == "full":
            done.reached.update(reach.reached(document, ran.rules))
    return done


def scenario_of(subject: Subject, family: Family, seed: str) -> Document:
    """The scenario of that seed: what the family asks for and the subject does."""
    features, wanted = family.of(subject.features), family.needs & subject.features
    if not subject.is_synchronous:
        features |= {Feature.async_scheduling}
        wanted |= {Feature.async_scheduling}
    return family.seeded(seed, SIZE, features, wanted)


def departure(
    document: Document, ran: Ran, subject: Subject, semantics: Semantics, label: str
) -> Departure:
    """The departure that a scenario shows, in a small scenario."""

    def differs(candidate: Document) -> bool:
        try:
            tried = run(candidate, subject, semantics, PATIENCE)
        except InputError:
            return False
        return tried.difference is not None

    small = shrink(document, differs, TRIES_THAT_HANG if _hangs(ran) else TRIES)
    for candidate in _renamed(small):
        if differs(candidate):
            small = candidate
            break
    last = run(small, subject, semantics, PATIENCE)
    if last.difference is None:
        # It decides otherwise each time: what was seen first is told as it was.
        small, last = document, ran
    assert last.difference is not None
    why = explain(small, last, subject, semantics, label)
    return Departure(small, last.difference, why, document, last.raised)


def _hangs(ran: Ran) -> bool:
    return ran.raised.startswith(Hangs.__name__)


def _renamed(document: Document) -> Iterator[Document]:
    """The scenario with its requests called 0, 1, 2 …, as a trace numbers them."""
    ids = dict.fromkeys(e["id"] for e in document["events"] if e["op"] == "add")
    names = {id: str(n) for n, id in enumerate(ids)}
    if all(id == name for id, name in names.items()):
        return
    copied: Document = json.loads(json.dumps(document))
    for event in copied["events"]:
        if event["op"] == "add":
            event["id"] = names[event["id"]]
        elif event["op"] == "abort" and event["ids"] is not None:
            event["ids"] = [names.get(id, id) for id in event["ids"]]
        elif event["op"] == "draft":
            event["tokens"] = {names.get(id, id): t for id, t in event["tokens"].items()}
    yield copied
