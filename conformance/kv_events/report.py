"""A verdict on KV events for people, for programs, and for CI servers."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from nullblock.conformance.kv_events.verdict import Evidence, First, Verdict
from nullblock.conformance.verdicts import STYLE, Case, junit_report, one_line
from nullblock.spec.catalogue import order
from nullblock.spec.kv_events import NEVER_TOLD

_ABSENT = (
    "after a parent that was not cached any more: a KV connector evicted it (--no-connector "
    "calls that a violation)"
)


def document(v: Verdict) -> dict[str, Any]:
    """A verdict as JSON."""
    evidence = asdict(v.evidence)
    for name in ("media", "fields", "unknown"):
        evidence[name] = dict(sorted(evidence[name].items()))
    laws = v.evidence.judged
    evidence["judged"] = {id: laws[id] for id in sorted(laws, key=order)}
    first = v.first and {**asdict(v.first), "story": "\n".join(v.first.story)}
    return {
        "stream": v.stream,
        "verdict": v.verdict,
        "evidence": evidence,
        "first": first,
        "missing": v.missing,
        "never_told": list(NEVER_TOLD),
    }


def screen(v: Verdict) -> RenderableType:
    """A verdict with its evidence, and what it cannot rest on."""
    parts: list[RenderableType] = [
        Text.assemble((v.verdict, STYLE[v.verdict]), f"  {one_line(v.stream)}"),
    ]
    if v.first is not None:
        if v.verdict == "VIOLATION":
            parts.append(Text(f"  {v.first.place}", style="bold"))
        parts += [Text(f"  {line}") for line in v.first.story]
        parts += [Text(f"  next: {line}") for line in v.first.next]
        return Group(*parts)
    parts.append(Text("  nothing in it is against the law; what a stream leaves open is below"))
    parts += [Text(f"  {line}") for line in counts(v.evidence)]
    laws = v.evidence.judged
    judged = ", ".join(f"{id} {laws[id]:,}" for id in sorted(laws, key=order))
    parts.append(Text(f"  judged: {judged or 'nothing'}"))
    parts += [Text(f"  not known: {what}") for what in v.missing]
    parts += [Text(f"  never told: {what}") for what in NEVER_TOLD]
    return Group(*parts)


def counts(e: Evidence) -> list[str]:
    """The evidence in a few lines; what did not occur is left out."""
    seconds = ""
    if e.first_ts is not None and e.last_ts is not None and e.first_ts <= e.last_ts:
        seconds = f" in {e.last_ts - e.first_ts:,.1f} s by the server's clock"
    lines = [
        f"{e.batches:,} batches of {_some(e.publishers, 'publisher')}, {e.events:,} events: "
        f"{e.stored:,} stored, {e.removed:,} removed, {e.cleared:,} cleared{seconds}",
        f"{e.blocks:,} blocks stored in {_some(e.groups, 'group')} over {e.tokens:,} tokens, "
        f"{e.distinct:,} of them with new content",
        f"at most {e.peak_cached:,} blocks cached at once; {e.cached:,} at the end",
    ]
    if e.duplicates:
        lines.append(
            f"{_some(e.duplicates, 'block')} stored while the same content was cached: up to "
            f"{e.most_copies} copies, each with a removal of its own"
        )
    for number, noun, words in (
        (e.skipped_blocks, "block", "passed over in what was announced (windows, states)"),
        (e.absent_parents, "event", _ABSENT),
        (e.orphans, "cached block", "left without a cached parent: as above"),
        (e.unknown_removals, "removal", "of what was stored before the stream began"),
        (e.repeated_batches, "batch", "sent again, and counted once"),
        (e.restarts, "restart", "with an empty cache and numbers from 0 on"),
        (e.gaps, "gap", f"with {e.lost_batches:,} batches lost"),
    ):
        if number:
            lines.append(f"{_some(number, noun)} {words}")
    if e.media:
        lines.append(f"not judged, events of other media: {_listed(e.media)}")
    if e.fields:
        lines.append(f"not judged, fields: {_listed(e.fields)}")
    if e.unknown:
        lines.append(f"not judged, unknown events: {_listed(e.unknown)}")
    return lines


def _some(number: int, noun: str) -> str:
    plural = "es" if noun.endswith("ch") else "s"
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}{plural}"


def _listed(numbers: dict[str, int]) -> str:
    return ", ".join(f"{name} {number:,}" for name, number in sorted(numbers.items()))


def junit(verdicts: Sequence[Verdict]) -> bytes:
    """All verdicts as a JUnit report."""
    return junit_report("nullblock import kv-events", [_case(v) for v in verdicts])


def _case(v: Verdict) -> Case:
    return Case(
        classname="nullblock.kv-events",
        name=v.stream,
        verdict=v.verdict,
        message=_message(v.first) if v.first else "nothing in it is against the law",
        text="\n".join(_said(v)),
        out="\n".join([v.verdict, *counts(v.evidence)]),
        seconds=v.seconds,
    )


def _message(first: First) -> str:
    """What is wrong and where, where nothing else is shown."""
    place = f"{first.place}: " if first.place else ""
    if first.rule is None:
        return f"{place}{first.what}"
    sides = f"the law says {first.expected}, the stream says {first.actual} ({first.rule})"
    return f"{place}{first.what}: {sides}"


def _said(v: Verdict) -> list[str]:
    if v.first is None:
        return [f"not known: {what}" for what in v.missing]
    place = [v.first.place] if v.first.place and v.verdict == "VIOLATION" else []
    return [*place, *v.first.story, *(f"next: {line}" for line in v.first.next)]
