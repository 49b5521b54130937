"""A verdict for people, for programs, and for CI servers."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from msgspec import UNSET
from rich.console import Group, RenderableType
from rich.text import Text

from nullblock.conformance.checker.explanation import when
from nullblock.conformance.checker.verdict import First, Verdict
from nullblock.conformance.minimal.document import written
from nullblock.conformance.verdicts import STYLE, Case, first_of, junit_report, one_line
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
        "unseen": v.unseen,
        "raised": v.raised and asdict(v.raised),
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
    head = Text.assemble((v.verdict, STYLE[v.verdict]), f"  {one_line(v.trace)}")
    parts: list[RenderableType] = [head]
    if v.profile:
        parts.append(_line(f"profile {v.profile}: {rests_on(v)}"))
    parts += [_line(line) for line in v.ending()]
    if v.first is not None and v.verdict == "VIOLATION":
        parts.append(_line(f"line {v.first.line} of {v.first.file}", style="bold"))
    if v.first is not None:
        parts += [_line(line) for line in v.first.story]
    if v.scenario is not None:
        parts.append(_line(f"scenario: {v.scenario.note}"))
    parts += [_line(what) for what in _not_known(v)]
    parts += [_line(what) for what in _not_checked(v)]
    if v.verdict == "CONFORMS":
        parts.append(_exercised(v))
    return Group(*parts)


def _line(text: str, style: str = "") -> Text:
    """A line below the head: a trace's own strings are shown, and not obeyed."""
    return Text(f"  {one_line(text)}", style=style)


def _not_known(v: Verdict) -> list[str]:
    return [f"not known: {what}" for what in first_of(v.missing)]


def _not_checked(v: Verdict) -> list[str]:
    return [f"not checked, for the trace does not tell: {what}" for what in v.unseen]


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
        "GROUP": known is None or not known.is_plain,
    }
    rules = (s.id for s in catalogue() if s.kind == "rule" and s.id not in v.rules)
    return [rule for rule in rules if on.get(rule.partition("-")[0], True)]


def junit(verdicts: Sequence[Verdict]) -> bytes:
    """All verdicts as a JUnit report."""
    return junit_report("nullblock check", [_case(v) for v in verdicts])


def _message(v: Verdict) -> str:
    """What is wrong or missing, where nothing else is shown."""
    first = v.first
    if first is None:
        more = f", and {len(v.missing) - 1:,} more" if len(v.missing) > 1 else ""
        return f"not known: {v.missing[0]}{more}" if v.missing else ""
    if first.mismatch is None:
        return "\n".join(first.story)
    scheduled = v.replay.steps if v.replay is not None else first.step
    message = f"{when(first.step, scheduled)}: {first.mismatch.told}"
    return message if first.rule is None else message + _both_sides(first)


def _both_sides(first: First) -> str:
    e = first.explanation
    ours, theirs = (e.expected, e.recorded) if e else (first.expected, first.actual)
    return f": the rules say {ours}, the trace says {theirs} ({first.rule})"


def _case(v: Verdict) -> Case:
    profile = f"profile {v.profile}: " if v.profile else ""
    out = f"{v.verdict}: {profile}{rests_on(v)}"
    out += "".join(f"\n{one_line(line)}" for line in v.ending())
    text = list(v.first.story) if v.first else _not_known(v)
    if v.first is not None and v.verdict == "VIOLATION":
        text.insert(0, f"line {v.first.line} of {v.first.file}")
    if v.scenario is not None:
        out += f"\nscenario: {v.scenario.note}"
        if v.scenario.document is not None:
            out += f"\n{written(v.scenario.document)}"
    out += "".join(f"\n{what}" for what in _not_checked(v))
    return Case(
        classname="nullblock.check",
        name=v.trace,
        verdict=v.verdict,
        message=_message(v),
        text="\n".join(map(one_line, text)),
        out=out,
        place={"file": v.first.file, "line": str(v.first.line)}
        if v.first is not None and v.first.line
        else {},
        seconds=v.seconds,
    )
