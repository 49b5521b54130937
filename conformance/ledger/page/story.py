"""A counterexample, action by action: what changed, the requests, the block pool."""

from collections.abc import Iterator

from nullblock.conformance.ledger.told import Beat, Told
from nullblock.conformance.page import chart, pool
from nullblock.conformance.page.html import Child, Element, el, items
from nullblock.spec.explorer.frame import BlockFrame, Frame, RequestFrame

NAMES = {"RUNNING": "running", "WAITING": "waiting", "PREEMPTED": "waiting, preempted"}
OWN = ("guard", "promise")
"""What breaks where no statement does: the text contradicts itself."""


def draw(told: Told) -> Iterator[Child]:
    """The whole story."""
    found = charted(told)
    if found.cells:
        label = f"{len(found.cells)} requests in {len(told.beats)} actions"
        fault = None if told.repeats else found.steps[-1]
        svg = chart.draw(*(found, list(found.cells), label), fault=fault, every=1)
        yield el("figure", el("div", svg, class_="wide"), chart.legend())
    yield pool.legend("changed by the action")
    carried = [b.frame for b in told.beats]
    before: list[Frame | None] = [None, *carried]
    shown = (_beat(b, was, told) for b, was in zip(told.beats, before, strict=False))
    yield el("ol", *shown, class_="beats")
    if told.repeats:
        last = len(told.beats)
        which = f"Actions {last - told.repeats + 1} to {last} lead"
        which = which if told.repeats > 1 else f"Action {last} leads"
        yield el("p", f"{which} back to the same state, so it goes on like this for ever.")
    after = f" after rule {told.rule}" if told.rule else ""
    what = told.breaks if told.breaks in OWN else f"{told.breaks} is broken{after}"
    yield el(
        "section",
        el("h4", what),
        el("p", told.sentence),
        items(list(told.values)) if told.values else None,
        class_="card trace",
    )
    yield el("p", f"In the pool: {pool.EXPLAINED}.", class_="dim")


def _beat(beat: Beat, was: Frame | None, told: Told) -> Element:
    frame = beat.frame
    requests = [*frame.running, *frame.waiting]
    known = {b.id: b for b in was.blocks} if was is not None else {}
    changed = {b.id for b in frame.blocks if b.id in known and _seen(known[b.id]) != _seen(b)}
    shown = [pool.Block(b.id, b.ref, b.hash, b.owners, b.place) for b in frame.blocks]
    hashed = {b.id for b in frame.blocks if b.hash is not None}
    rows = (_request(r, told.block_size, hashed) for r in requests)
    return el(
        "li",
        el("h4", beat.action),
        items(list(beat.changes)) if beat.changes else None,
        el("table", el("tbody", *rows), class_="requests") if requests else None,
        pool.strip(list(pool.runs(shown, changed))),
        el("p", _free(frame.free), class_="dim"),
    )


def _seen(b: BlockFrame) -> tuple[object, ...]:
    """What makes a block another to look at: moving up in the free queue does not."""
    return b.ref, b.hash, b.owners, b.place is None


def _free(free: tuple[BlockFrame, ...]) -> str:
    order = " ".join(str(b.id) for b in free)
    return f"given out next: {order}" if free else "no block is free"


def _request(r: RequestFrame, size: int, hashed: set[int]) -> Element:
    """A row: the blocks of each group, a pip for each slot, filled where the token is computed."""
    cells: list[Child] = []
    for table in r.tables:
        if cells:
            cells.append(" | ")
        for i, block in enumerate(table):
            slots = range(i * size, (i + 1) * size)
            kind = "cached" if block in hashed else "held"
            cells.append(_slots(str(block), r, slots, kind))
        rest = range(len(table) * size, r.tokens)
        if rest:
            cells.append(_slots("no block", r, rest, "none"))
    flying = f", {r.flying} in flight" if r.flying else ""
    return el(
        "tr",
        el("th", r.id, scope="row"),
        el("td", NAMES.get(r.status, "leaving")),
        el("td", f"{r.computed} of {r.tokens} tokens computed{flying}"),
        el("td", *cells),
    )


def _slots(name: str, r: RequestFrame, slots: range, kind: str) -> Element:
    marks = "".join("●" if p < r.computed else "○" if p < r.tokens else "·" for p in slots)
    return el("span", f"{name} {marks}", class_=f"slots {kind}")


def charted(told: Told) -> chart.Chart[str]:
    """What each request did in each action."""
    found: chart.Chart[str] = chart.Chart(list(range(1, len(told.beats) + 1)))
    was: dict[str, RequestFrame] = {}
    for step, beat in enumerate(told.beats, start=1):
        now = {r.id: r for r in (*beat.frame.running, *beat.frame.waiting)}
        moves = beat.action in ("step", "schedule")
        for r in now | was:
            kind = _kind(was.get(r), now.get(r), moves)
            found.put(r, step, kind, _words(now.get(r)))
        was = now
    return found


def _words(r: RequestFrame | None) -> str:
    if r is None:
        return "gone"
    return f"{NAMES.get(r.status, 'leaving')}, {r.computed} of {r.tokens} tokens computed"


def _kind(was: RequestFrame | None, now: RequestFrame | None, moves: bool) -> str:
    """The letter of a cell: what an action made of a request."""
    if now is None:
        return "f"
    if now.status != "RUNNING":
        return "x" if was is not None and was.status == "RUNNING" else "w"
    if was is None or was.status != "RUNNING":
        return "r" if was is not None and was.status == "PREEMPTED" else "n"
    if not moves or now.computed == was.computed:
        return "s"
    return "d" if now.computed == was.computed + 1 and was.computed >= was.prompt - 1 else "p"
