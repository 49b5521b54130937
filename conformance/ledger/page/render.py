"""The page: what it comes to, how to read it, the engines, the matrices, what it rests on."""

import re
from collections.abc import Iterator

from nullblock.conformance.ledger.groups import EXHIBITS
from nullblock.conformance.ledger.judge import Ledger
from nullblock.conformance.ledger.page import matrix
from nullblock.conformance.ledger.page.overview import overview
from nullblock.conformance.ledger.page.panels import Panels, command, slug
from nullblock.conformance.ledger.page.style import LOOKS
from nullblock.conformance.ledger.rows import Engine
from nullblock.conformance.ledger.summary import not_shown, sentences
from nullblock.conformance.ledger.words import MEANING, SHOWN, Word
from nullblock.conformance.page.html import Child, Element, document, el, items
from nullblock.conformance.page.style import STYLE


def render(ledger: Ledger) -> bytes:
    """The page of a ledger."""
    panels = Panels()
    content = list(_parts(ledger, panels))
    return document("nullblock ledger: what is known", STYLE + LOOKS, *content, *panels.drawn)


def _parts(ledger: Ledger, panels: Panels) -> Iterator[Child]:
    yield el("h1", "What is known")
    yield el(
        "p",
        "nullblock is a specification of what a paged KV-cache scheduler does in one step. This "
        "page says, for each of its statements, which engine showed what, how strongly, and how "
        "to see it again. It is generated from recorded results; nothing on it was typed.",
        class_="lead",
    )
    yield _banner(ledger)
    yield el("ul", *(el("li", *_tile(s)) for s in sentences(ledger)), class_="tiles")
    yield el("h2", "How to read a cell")
    yield el("dl", *(_word(w) for w in Word if w in SHOWN), class_="words")
    yield el(
        "p",
        "Nothing weaker than a proof for any size is called proved. Every cell opens: the "
        "obligations of the proof, the scopes that were searched, or the counterexample, and one "
        "command that makes it again.",
    )
    yield el("h2", "At a glance")
    yield from overview(ledger)
    yield el("h2", "The engines")
    yield el("div", *map(_engine, ledger.engines), class_="engines")
    yield el("h2", "Statements × engines", id="matrix")
    yield from matrix.matrices(ledger, panels)
    for kind, about in EXHIBITS.items():
        found = [x for x in ledger.exhibits if x.kind == kind]
        if found:
            yield el("h2", about.title, id=f"{kind}s")
            yield matrix.exhibits(found, about, panels)
            yield command(about.command)
    if "mutants" in ledger.records:
        yield el("h2", "Mutants × engines: who notices a planted defect", id="mutants")
        yield el(
            "p",
            "An engine that never objects shows nothing. So one line of the specification is "
            "changed, and each engine runs on the result.",
        )
        yield matrix.mutants(ledger.records["mutants"])
        yield command("make pytest T=tests/mutants")
    if "systematic" in ledger.records:
        yield el("h2", "Mutants generated from the text", id="systematic")
        yield el(
            "p",
            "Every guard dropped, every write skipped, every comparison weakened, every order "
            "turned round, one at a time. Not every engine is asked about every one.",
        )
        yield matrix.systematic(ledger.records["systematic"])
        yield from matrix.survivors(ledger.records["systematic"])
        yield command("nullblock mutate")
    yield el("h2", "What all of it rests on")
    yield items(list(RESTS))
    yield command("nullblock ledger --refresh")


RESTS = (
    "One text: the rules that are proved are the rules that the explorer searches, that judge a "
    "recorded run, and that are compared with the real engine. There is no second copy to drift.",
    "Proofs are of one full-attention group, synchronous and asynchronous, with drafts, and any "
    "number of steps in flight. Several groups, encoder inputs, streaming sessions and KV "
    "connectors are searched in scopes and compared in lockstep, not proved.",
    "The normative profile is what ought to be, and every claim is about it; vllm-0.22.1 is what "
    "that release does, and what differs stands under departures.",
    "A digest of the text goes with each result. When the text changes, the cells that rest on it "
    "turn stale until the engines have run again, and nullblock ledger ends with exit code 1.",
)


def _banner(ledger: Ledger) -> Element:
    if not ledger.shortfalls:
        text = "All that is claimed is shown, of the text as it stands."
        return el("p", text, class_="banner good", role="status")
    return el(
        "div",
        el("p", el("b", not_shown(ledger) + ":")),
        items(list(ledger.shortfalls)),
        class_="banner bad",
        role="alert",
    )


NUMBER = re.compile(r"[0-9,]+(?: of [0-9,]+)?")


def _tile(sentence: str) -> Iterator[Child]:
    """A sentence with its first number large."""
    found = NUMBER.match(sentence)
    if found is not None:
        yield el("b", found.group())
    yield sentence[found.end() if found else 0 :]


def _word(word: Word) -> Element:
    label = {Word.EXHAUSTIVE: "exhaustive to scope S", Word.NOT_REFUTED: "not refuted in N runs"}
    name = el("span", label.get(word, word.value), class_=f"word {slug(word.value)}")
    return el("div", el("dt", name), el("dd", MEANING[word]))


def _engine(e: Engine) -> Element:
    return el(
        "section",
        el("h3", e.title),
        el("p", e.does),
        el("p", el("b", "It rests on this: "), e.rests),
        el("p", el("b", "It cannot show: "), e.cannot),
        command(e.command),
        class_="card",
    )
