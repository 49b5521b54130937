"""The block pool by the rules, where the trace was left."""

from collections.abc import Iterable

from nullblock.conformance.checker import views
from nullblock.conformance.checker.explanation import BlockView
from nullblock.conformance.checker.replay import Replay
from nullblock.conformance.page.html import Element, el
from nullblock.conformance.page.pool import EXPLAINED, Block, legend, runs, strip

MOST_BLOCKS, MOST_ITEMS = 2**16, 400


def blocks(found: Iterable[BlockView]) -> list[Block]:
    """Blocks of a replay, as they are shown: its requests are numbers."""
    return [
        Block(b.id, b.ref_cnt, b.chain, tuple(f"r{r}" for r in b.holders), b.place) for b in found
    ]


def draw(replay: Replay, about: set[int]) -> Element:
    """The strip as a figure."""
    usable = replay.k.usable
    ids = replay.k.pool if usable <= MOST_BLOCKS else sorted(about)
    found = list(runs(blocks(views.blocks(replay, ids)), about))
    shown = found[:MOST_ITEMS] + [run for run in found[MOST_ITEMS:] if run.about]
    note = f"{usable:,} blocks by the rules, {replay.s.nfree:,} of them free; {EXPLAINED}"
    if len(shown) < len(found):
        note += f"; {len(found) - len(shown):,} runs of blocks are left out"
    if usable > MOST_BLOCKS:
        note += f"; only those that the verdict is about: the pool has more than {MOST_BLOCKS:,}"
    return el("figure", legend("in the decision"), strip(shown), el("figcaption", note))
