"""The block pool as a strip: reference counts, contents, holders, places in the free queue."""

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass

from nullblock.conformance.page.html import Element, el

ONE_BY_ONE = 256
"""Pools up to this size are shown block by block; larger ones by runs of blocks alike."""


@dataclass(frozen=True, slots=True)
class Block:
    """What is shown of a block."""

    id: int
    ref_cnt: int
    chain: int | None
    """The number of the content that a lookup finds it by."""
    holders: tuple[str, ...]
    place: int | None
    """Place in the free queue, from 0; None: it is not free."""


@dataclass(frozen=True, slots=True)
class Run:
    """Blocks next to one another that are alike, or a single one."""

    first: Block
    last: Block
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
            parts.append("by " + " ".join(self.first.holders[:3]))
            parts[-1] += f" +{more}" if more > 0 else ""
        if one and self.first.place is not None:
            parts.append(f"free #{self.first.place}")
        return " ".join(parts)


def runs(blocks: Sequence[Block], about: Container[int]) -> Iterator[Run]:
    """The blocks, those alike and next to one another put together in a large pool."""
    start: Block | None = None
    last: Block | None = None
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


def _continues(last: Block, block: Block, about: Container[int]) -> bool:
    alike = (last.ref_cnt, last.chain is None, last.holders) == (
        *(block.ref_cnt, block.chain is None),
        block.holders,
    )
    return alike and block.id == last.id + 1 and block.id not in about and last.id not in about


def strip(shown: Sequence[Run]) -> Element:
    """The strip: one item a run."""
    items = (el("li", r.words, class_=f"{r.kind} about" if r.about else r.kind) for r in shown)
    return el("ol", *items, class_="pool")


def legend(about: str) -> Element:
    """What the colours mean; `about`: what the framed blocks are."""
    return el(
        "ul",
        *(el("li", el("span", word, class_=kind)) for kind, word in _LEGEND.items()),
        el("li", el("span", about, class_="about")),
        class_="legend pool",
    )


_LEGEND = {
    "free": "free, no content",
    "cached": "free, content cached",
    "held": "held once",
    "shared": "shared",
}
EXPLAINED = (
    "ref: tables that hold it; chain: the content that a lookup finds it by; free #n: place in "
    "the free queue"
)
"""The words of the strip."""
