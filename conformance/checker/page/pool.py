"""The block pool by the rules, as a strip: reference counts, chain numbers, holders."""

from collections.abc import Container, Iterator
from dataclasses import dataclass

from nullblock.conformance.checker import views
from nullblock.conformance.checker.explanation import BlockView
from nullblock.conformance.checker.page.html import Element, el
from nullblock.conformance.checker.replay import Replay

ONE_BY_ONE = 256
"""Pools up to this size are shown block by block; larger ones by runs of blocks alike."""
MOST_BLOCKS, MOST_ITEMS = 2**16, 400


@dataclass(frozen=True, slots=True)
class Run:
    """Blocks next to one another that are alike, or a single one."""

    first: BlockView
    last: BlockView
    about: bool

    @property
    def kind(self) -> str:
        """How it is drawn."""
        if self.first.ref_cnt > 1:
            return "shared"
        if self.first.ref_cnt:
            return "held"
        return "cached" if self.first.chain is not None else "free"

    @property
    def words(self) -> str:
        """Which blocks, and what is known of them."""
        one = self.first.id == self.last.id
        name = str(self.first.id) if one else f"{self.first.id}–{self.last.id}"
        parts = [name, f"ref {self.first.ref_cnt}"]
        if self.first.chain is not None:
            parts.append(f"chain {self.first.chain}" + ("" if one else f"…{self.last.chain}"))
        if self.first.holders:
            more = len(self.first.holders) - 3
            parts.append("by " + " ".join(f"r{r}" for r in self.first.holders[:3]))
            parts[-1] += f" +{more}" if more > 0 else ""
        if one and self.first.place is not None:
            parts.append(f"free #{self.first.place}")
        return " ".join(parts)


def runs(blocks: list[BlockView], about: Container[int]) -> Iterator[Run]:
    """The blocks, those alike and next to one another put together in a large pool."""
    start: BlockView | None = None
    last: BlockView | None = None
    for block in blocks:
        if start is not None and last is not None and not _continues(last, block, about):
            yield Run(start, last, start.id in about)
            start = None
        start, last = start or block, block
        if len(blocks) <= ONE_BY_ONE:
            yield Run(block, block, block.id in about)
            start = None
    if start is not None and last is not None:
        yield Run(start, last, start.id in about)


def _continues(last: BlockView, block: BlockView, about: Container[int]) -> bool:
    alike = (last.ref_cnt, last.chain is None, last.holders) == (
        *(block.ref_cnt, block.chain is None),
        block.holders,
    )
    return alike and block.id == last.id + 1 and block.id not in about and last.id not in about


def draw(replay: Replay, about: set[int]) -> Element:
    """The strip as a figure."""
    usable = replay.k.usable
    ids = range(1, usable + 1) if usable <= MOST_BLOCKS else sorted(about)
    found = list(runs(views.blocks(replay, ids), about))
    shown = found[:MOST_ITEMS] + [run for run in found[MOST_ITEMS:] if run.about]
    strip = el(
        "ol",
        *(el("li", r.words, class_=f"{r.kind} about" if r.about else r.kind) for r in shown),
        class_="pool",
    )
    note = (
        f"{usable:,} blocks by the rules, {replay.s.nfree:,} of them free; ref: tables that hold "
        "it; chain: the content that a lookup finds it by; free #n: place in the free queue"
    )
    if len(shown) < len(found):
        note += f"; {len(found) - len(shown):,} runs of blocks are left out"
    if usable > MOST_BLOCKS:
        note += f"; only those that the verdict is about: the pool has more than {MOST_BLOCKS:,}"
    legend = el(
        "ul",
        *(el("li", el("span", word, class_=kind)) for kind, word in _LEGEND.items()),
        class_="legend pool",
    )
    return el("figure", legend, strip, el("figcaption", note))


_LEGEND = {
    "free": "free, no content",
    "cached": "free, content cached",
    "held": "held once",
    "shared": "shared",
    "about": "in the decision",
}
