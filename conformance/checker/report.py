"""A verdict for people, for programs, and for CI servers."""

from collections.abc import Sequence
from typing import Any

from msgspec import UNSET
from rich.console import Group, RenderableType
from rich.text import Text

from nullblock.conformance.checker.verdict import Verdict
from nullblock.conformance.minimal.document import written
from nullblock.conformance.verdicts import STYLE, Case, junit_report
from nullblock.spec.catalogue import catalogue


def document(v: Verdict) -> dict[str, Any]:
    """A verdict as JSON."""
    first = v.first and {
        "file": v.first.file,
        "line": v.first.line,
        "step": v.first.step,
        "rule": v.first.rule,
        "raised": (v.first.mismatch.raised or None) if v.first.mismatch else None,
        "what": v.first.what,
        "expected": v.first.expected,
        "actual": v.first.actual,
        "story": "\n".join(v.first.story),
        "request": v.first.mismatch.request if v.first.mismatch else None,
        "explanation": v.first.explanation.document() if v.first.explanation else None,
    }
    found = {
        "trace": v.trace,
        "verdict": v.verdict,
        "profile": v.profile,
        "steps": v.steps,
        "began_after": v.began_after,
        "decisions": v.decisions,
        "rules": dict(sorted(v.rules.items())),
        "first": first,
        "missing": v.missing,
    }
    if v.scenario is not None:
        found["scenario"] = {"document": v.scenario.document, "note": v.scenario.note}
    return found


def rests_on(v: Verdict) -> str:
    """How much was judged, and from where on, if not from the beginning."""
    since = f", from step {v.began_after + 1:,} of the recording on" if v.began_after else ""
    return f"{v.steps:,} steps, {v.decisions:,} decisions compared{since}"


def screen(v: Verdict) -> RenderableType:
    """A verdict with its evidence, or with the reason why there is none."""
    head = Text.assemble((v.verdict, STYLE[v.verdict]), f"  {v.trace}")
    parts: list[RenderableType] = [head]
    if v.profile:
        parts.append(Text(f"  profile {v.profile}: {rests_on(v)}"))
    if v.first is not None and v.verdict == "VIOLATION":
        parts.append(Text(f"  line {v.first.line} of {v.first.file}", style="bold"))
    if v.first is not None:
        parts += [Text(f"  {line}") for line in v.first.story]
    if v.scenario is not None:
        parts.append(Text(f"  scenario: {v.scenario.note}"))
    parts += [Text(f"  not known: {what}") for what in v.missing]
    if v.verdict == "CONFORMS":
        parts.append(_exercised(v))
    return Group(*parts)


def _exercised(v: Verdict) -> RenderableType:
    """How often each rule decided, and which never did: a verdict says nothing about those."""
    rules = [s for s in catalogue() if s.kind == "rule"]
    lines = [
        Text(f"  {s.id:<10} {v.rules[s.id]:>9,}  {s.sentence}", no_wrap=True, overflow="ellipsis")
        for s in rules
        if s.id in v.rules
    ]
    never = never_exercised(v)
    if never:
        lines.append(Text(f"  never exercised: {', '.join(never)}"))
    return Group(*lines)


def never_exercised(v: Verdict) -> list[str]:
    """Rules that had no part in a verdict, of those that the trace's configuration can use."""
    known = v.replay.header.config if v.replay is not None else None
    on = {
        "REMOTE": False,  # no trace of a connector is judged
        "SESS": any(rule.startswith("SESS-") for rule in v.rules),
        "DRAFT": known is None or bool(known.num_spec_tokens),
        "ENC": known is None or known.encoder is not UNSET,
        "GROUP": known is None or bool(known.groups),
    }
    rules = (s.id for s in catalogue() if s.kind == "rule" and s.id not in v.rules)
    return [rule for rule in rules if on.get(rule.partition("-")[0], True)]


def junit(verdicts: Sequence[Verdict]) -> bytes:
    """All verdicts as a JUnit report."""
    return junit_report("nullblock check", [_case(v) for v in verdicts])


def _case(v: Verdict) -> Case:
    out = f"{v.verdict}: {rests_on(v)}"
    if v.scenario is not None:
        out += f"\nscenario: {v.scenario.note}"
        if v.scenario.document is not None:
            out += f"\n{written(v.scenario.document)}"
    return Case(
        classname=f"nullblock.{v.profile or 'check'}",
        name=v.trace,
        verdict=v.verdict,
        message=v.first.story[0] if v.first else "; ".join(v.missing),
        text="\n".join(v.first.story if v.first else v.missing),
        out=out,
        place={"file": v.first.file, "line": str(v.first.line)}
        if v.first is not None and v.first.line
        else {},
    )
