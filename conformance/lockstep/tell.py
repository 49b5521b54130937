"""A departure in words: what a developer reads in a terminal."""

from collections.abc import Iterator
from pathlib import Path

from nullblock.conformance.checker.explanation import Explanation, describe
from nullblock.conformance.lockstep.beside import Subject, in_words
from nullblock.conformance.lockstep.hunt import Departure
from nullblock.conformance.minimal.document import written


def tell(
    departure: Departure, subject: Subject, label: str, path: Path | None, commands: list[str]
) -> Iterator[str]:
    """Line by line: the decision, the rule, what decided, the scenario, how to see it again.

    Args:
        label: what the semantics is called.
        path: where the scenario is kept.
        commands: that show it again.
    """
    why = departure.why
    yield f"{subject.name} departs from {label}" + (f" at {why.rule}" if why.rule else "")
    yield ""
    yield f"  step {why.step}: {why.what}"
    if why.explanation is not None:
        yield f"  the rules say: {why.expected}"
        yield f"  {subject.short} says: {why.recorded}"
    if departure.raised:
        yield f"  {subject.short} raises {departure.raised}"
    if why.rule is not None:
        yield f"  {why.rule}: {why.sentence} (nullblock rules {why.rule})"
    if why.source:
        yield f"  source: {why.source}"
    if why.explanation is not None:
        yield from (f"  {line}" for line in _explained(why.explanation))
    yield f"  first difference: {in_words(departure.difference, subject)}"
    yield ""
    yield f"  the scenario ({_size(departure)}):"
    yield from (f"    {line}" for line in written(departure.document).splitlines())
    yield ""
    if path is not None:
        yield f"  kept in {path}"
    yield from (f"  {command}" for command in commands)


def _explained(e: Explanation) -> Iterator[str]:
    yield from (f"because: {line}" for line in e.because)
    if e.totals:
        yield e.totals
    yield from (request.text for request in e.requests if " is not known" not in request.text)
    yield from (describe(block) for block in e.blocks)
    if e.variants:
        yield f"the rules decide alike with {'; '.join(e.variants)}: is another profile meant?"
    for d in e.like:
        yield f"it looks like the known departure {d.name} (upstream {d.upstream}): {d.story}"


def _size(departure: Departure) -> str:
    requests = sum(event["op"] == "add" for event in departure.document["events"])
    events = len(departure.document["events"])
    before = len(departure.found_in["events"])
    return f"{_many(requests, 'request')}, {_many(events, 'event')} of {before}"


def _many(n: int, what: str) -> str:
    return f"{n:,} {what}" + "s" * (n != 1)
