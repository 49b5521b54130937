"""KV events: streams that the real engine published, judged by the law of such streams."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from nullblock.conformance.ledger.digest import ROOT
from nullblock.conformance.ledger.rows import Cell, Detail, Fact, Fall, few
from nullblock.conformance.ledger.sources.base import Record, Source
from nullblock.conformance.ledger.words import Word, counted
from nullblock.spec.catalogue import catalogue

ENGINE = "streams"
FOLDER = "tests/conformance/data/kv_events"
COMMAND = f"nullblock import kv-events --no-connector {FOLDER}/full.msgpack"
BY_NUMBER = "evicted"
"""In this one blocks are evicted by number, as a KV connector may do."""
KNOWN = {"session.msgpack": ("EVENT-12", "streaming sessions (upstream 49377)")}
"""Streams in which the real engine breaks a law, and by what."""


class Stream(Record, frozen=True):
    """What was found of one recording."""

    name: str
    verdict: str
    breaks: str
    """The law that is broken; empty for none."""
    events: int
    judged: dict[str, int]
    """How often each law was judged."""


class Streams(Record, frozen=True):
    """What was found of all of them."""

    streams: tuple[Stream, ...]


def gather() -> Streams:
    """Judge the recordings that the tests have. Seconds."""
    return Streams(tuple(map(judged, sorted((ROOT / FOLDER).glob("*.msgpack")))))


def judged(path: Path) -> Stream:
    """The verdict on one recording."""
    from nullblock.conformance.kv_events import Options, check
    from nullblock.spec.kv_events import Premises

    with path.open("rb") as stream:
        options = Options(Premises(no_connector=path.stem != BY_NUMBER))
        v = check(path.name, stream, options)
    breaks = str(v.first.rule) if v.first else ""
    times = dict(sorted(v.evidence.judged.items()))
    return Stream(path.name, v.verdict, breaks, v.evidence.events, times)


def broken(found: Streams) -> Iterator[str]:
    """Streams that break a law, but for those that are known to."""
    for s in found.streams:
        known, _ = KNOWN.get(s.name, ("", ""))
        # There is no better verdict than INCONCLUSIVE: a stream confirms nothing.
        if s.breaks != known or s.verdict != ("VIOLATION" if known else "INCONCLUSIVE"):
            yield f"stream {s.name} is {s.verdict} {s.breaks}".rstrip()
    there = {s.name for s in found.streams}
    yield from (f"stream {name} is not recorded" for name in KNOWN if name not in there)
    if len(there) <= len(KNOWN):
        yield "no true stream of KV events is recorded"


def falls(found: Streams) -> Iterator[Fall]:
    """The laws that the real engine breaks."""
    yield from (Fall(s.breaks, KNOWN[s.name][1]) for s in found.streams if s.name in KNOWN)


def cells(found: Streams) -> Iterator[Cell]:
    """A cell for each law that was judged."""
    times: Counter[str] = Counter()
    true = [s for s in found.streams if s.name not in KNOWN]
    for stream in true:
        times.update(stream.judged)
    wrong = list(broken(found))
    for s in catalogue():
        if s.kind == "clause" and times[s.id]:
            facts = tuple(
                Fact(x.name, f"{x.judged[s.id]:,} times in {x.events:,} events")
                for x in true
                if s.id in x.judged
            )
            says = (
                "Streams that the real vLLM 0.22.1 published, recorded from its scheduler: each "
                "event was judged by the law, and none breaks it. One more stream is known to "
                "break one: it stands under what that law falls under.",
            )
            shown = Detail(f"{s.id}: in recorded streams", says, facts, "stream: how often judged")
            yield Cell(
                *(s.id, ENGINE, Word.REFUTED if wrong else Word.NOT_REFUTED, COMMAND, shown),
                extent=counted(times[s.id], "judgement"),
                because=few(wrong),
            )


FILES = ("spec/kv_events/*.py", "conformance/kv_events/*.py")
SOURCE = Source("streams", Streams, FILES, gather, cells, broken, falls=falls)
