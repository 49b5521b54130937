"""The page: one article a trace."""

import json
from collections.abc import Iterator, Sequence

from msgspec import UNSET, to_builtins

from nullblock.conformance.checker.explanation import Explanation, describe, when
from nullblock.conformance.checker.page import pool, steps
from nullblock.conformance.checker.report import never_exercised
from nullblock.conformance.checker.verdict import First, Verdict
from nullblock.conformance.minimal.document import written
from nullblock.conformance.page.html import Child, Element, document, el, items, join, table
from nullblock.conformance.page.style import STYLE
from nullblock.conformance.strength.measure import Notice
from nullblock.conformance.strength.report import summary
from nullblock.conformance.trace.records import Header
from nullblock.spec.catalogue import catalogue


def render(verdicts: Sequence[Verdict], notices: Sequence[Sequence[Notice]] = ()) -> bytes:
    """The page of some verdicts, with their strength where that was measured."""
    strong = [*notices, *([()] * (len(verdicts) - len(notices)))]
    worst = ", ".join(dict.fromkeys(v.verdict for v in verdicts))
    articles = (_article(v, n) for v, n in zip(verdicts, strong, strict=True))
    return document(f"nullblock check: {worst}", STYLE, *articles)


def _article(v: Verdict, notices: Sequence[Notice]) -> Element:
    return el("article", *_parts(v, notices))


def _parts(v: Verdict, notices: Sequence[Notice]) -> Iterator[Child]:
    yield el("h1", el("span", v.verdict, class_=f"verdict {v.verdict}"), f" {v.trace}")
    yield el("p", _basis(v), class_="dim")
    if ending := v.ending():
        yield el("h2", "How the run ended")
        yield items(list(ending))
    e = v.first.explanation if v.first else None
    if v.first is not None and e is not None:
        yield from _fault(v.first, e, v)
    elif v.first is not None:
        yield from _damage(v.first)
    if v.missing:
        yield el("h2", "What is not known")
        yield el("p", "It would decide, and the trace does not tell it, or it is out of scope:")
        yield items(list(v.missing))
    if v.unseen:
        yield el("h2", "What this verdict does not see")
        yield el("p", "the trace could tell it, and does not; so it was not checked")
        yield items(list(v.unseen))
    about = [q.id for q in e.requests] if e is not None else []
    chart = steps.draw(v, about)
    if chart is not None:
        yield join(el("h2", "Requests by step"), chart)
    if v.replay is not None and v.verdict != "MALFORMED":
        blocks = {b.id for b in e.blocks} if e is not None else set()
        where = "at the wrong decision" if e is not None else "where the trace was left"
        yield join(el("h2", f"The block pool {where}"), pool.draw(v.replay, blocks))
    if v.first is not None and e is not None:
        yield from _scenario(v)
    if notices:
        yield from _strength(notices)
    if v.rules:
        yield from _evidence(v)


def _basis(v: Verdict) -> str:
    text = f"profile {v.profile}: " if v.profile else ""
    text += f"{v.steps:,} steps decided again, {v.decisions:,} decisions compared"
    text += f", from step {v.began_after + 1:,} of the recording on" if v.began_after else ""
    if v.replay is not None:
        engine = v.replay.header.engine
        text += f". Recorded from {engine.name} {engine.version}"
    return text


def _fault(first: First, e: Explanation, v: Verdict) -> Iterator[Child]:
    step = when(first.step, v.replay.steps) if v.replay is not None else f"step {first.step}"
    what = first.mismatch.told if first.mismatch is not None else first.what
    yield el("h2", f"The first wrong decision: {step}, {what}")
    yield el("p", f"line {first.line} of {first.file}", class_="dim")
    sides = (("rules", f"The rules of {v.profile} say", e.expected),) + (
        ("trace", "The trace says", e.recorded),
    )
    cards = (
        el("section", el("h3", title), el("p", value, class_="value"), class_=f"card {side}")
        for side, title, value in sides
    )
    yield el("div", *cards, class_="sides")
    if e.sentence:
        yield _rule(first, e)
    if e.because:
        yield el("h2", "What decided")
        yield items(list(e.because), ordered=True)
    yield el("h2", "What to do next")
    yield items(list(e.next), ordered=True)
    yield el("h2", "The state around it")
    yield el("p", e.totals)
    lines: list[Child] = [q.text for q in e.requests]
    lines += [describe(b) for b in e.blocks]
    if lines:
        yield items(lines)
    if v.replay is not None:
        yield from _recorded(v.replay.header)
    rows: list[list[Child]] = [[str(line), what] for line, what in e.before]
    yield table(["line", "record"], rows, "The last lines before it")


def _rule(first: First, e: Explanation) -> Element:
    return el(
        "section",
        el("h3", str(first.rule)),
        el("p", e.sentence),
        el("p", e.note) if e.note else None,
        el("p", f"Source in vLLM: {e.source}", class_="dim") if e.source else None,
        class_="card",
    )


def _recorded(header: Header) -> Iterator[Child]:
    """Who decided, with which settings, and how requests are found in the server's log."""
    engine = {"engine": f"{header.engine.name} {header.engine.version}"}
    for name in ("commit", "scheduler"):
        told = getattr(header.engine, name)
        engine[name] = "not recorded" if told is UNSET else told
    values = engine | {n: json.dumps(x) for n, x in to_builtins(header.config).items()}
    rows: list[list[Child]] = [[name, value] for name, value in values.items()]
    yield el(
        "details",
        el("summary", "The engine and its settings, as recorded"),
        table(["setting", "value"], rows, "Compare them with those of the server"),
    )
    yield el(
        "p",
        "Requests have numbers here: their own ids are told where NULLBLOCK_TRACE_NAMES=1 is set "
        "while recording.",
        class_="dim",
    )


def _damage(first: First) -> Iterator[Child]:
    yield el("h2", "The trace is damaged")
    yield items([*first.story, f"line {first.line} of {first.file}", f"remedy: {first.expected}"])


def _scenario(v: Verdict) -> Iterator[Child]:
    yield el("h2", "A minimal scenario that shows the same")
    if v.scenario is None or v.scenario.document is None:
        yield el("p", v.scenario.note if v.scenario is not None else "it was not asked for")
        return
    base, *settings = (part.strip() for part in v.profile.split(","))
    options = "".join(f" --set {s}" for s in settings)
    yield el("p", v.scenario.note)
    yield el(
        "p",
        "Save it as fault.json; the last decision that this prints is the rules' own: ",
        el("code", f"nullblock run --profile {base}{options} fault.json"),
    )
    yield el("pre", el("code", written(v.scenario.document)), class_="copy", tabindex="0")


def _strength(notices: Sequence[Notice]) -> Iterator[Child]:
    yield el("h2", f"Strength: {summary(notices)}")
    rows: list[list[Child]] = [
        [
            n.mutant.name,
            n.mutant.defect,
            n.said,
            f"step {n.step}" if n.step else "",
            n.rule,
            n.what,
        ]
        for n in notices
    ]
    head = ["mutant", "the defect", "this trace", "where", "by", "what came out, or why nothing"]
    yield table(head, rows, "Defects of the rules, planted one by one")


def _evidence(v: Verdict) -> Iterator[Child]:
    rules = [s for s in catalogue() if s.kind == "rule"]
    rows: list[list[Child]] = [
        [s.id, f"{v.rules[s.id]:,}", s.sentence] for s in rules if s.id in v.rules
    ]
    never = never_exercised(v)
    yield el("h2", "What the verdict rests on")
    yield el(
        "details",
        el("summary", f"{len(rows)} of {len(rules)} rules had a part in it"),
        table(["rule", "times", "sentence"], rows, "How often each rule decided"),
        open="" if v.verdict == "CONFORMS" else None,
    )
    if never:
        yield el("p", f"never exercised: {', '.join(never)}", class_="dim")
