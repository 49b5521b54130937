"""Whether a message fits the mirror that it came to; nothing is written here."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nullblock.impl.arrays import Ints, Part
from nullblock.impl.workers.errors import Diverged, OutOfTurn
from nullblock.impl.workers.layout import Decision, Header, Turnover, Words

if TYPE_CHECKING:
    from nullblock.impl.workers.mirror import Mirror

AGAIN = "start scheduler and workers again"


@dataclass(slots=True)
class Plan:
    """What a message does to a mirror. Places are indices of its columns."""

    stay: Part
    """Before: the places of those who stay."""
    gone: list[int]
    """Before: the places of the others, ascending."""
    over: list[str]
    """The ids of those who have ended, wherever they were."""
    places: Part
    """After: of those who ran before and are scheduled."""
    num_scheduled: Ints
    """Tokens of each of these."""
    num_computed: Ints
    """Before the step."""
    remaining: Ints
    """Tokens that are left uncomputed by it."""
    grows: Ints
    """Which of these get blocks."""
    held: Ints
    """Blocks that each of those holds after it."""
    longest: int
    """The most of those."""


def plan(mirror: "Mirror", decision: Decision) -> Plan:
    """What is to be done for a message. Raises OutOfTurn or Diverged if it does not fit."""
    header, turnover = decision.header, decision.turnover
    _in_turn(mirror, header.step)
    stay: Part = slice(0, mirror.count)
    gone, over = list[int](), list[str]()
    if turnover is not None:
        stay, gone, over = _leaving(mirror, header, turnover)
        _check_entering(mirror, header, turnover, stay, over)
    if mirror.count - len(gone) != header.num_stay:
        raise _diverged(header, f"{mirror.count - len(gone)} requests go on running")
    before, places = stay, _first(header.num_stay)
    if decision.scheduled is not None:
        places = decision.scheduled.nonzero()[0]
        before = np.arange(mirror.count)[stay][places]
    computed, tokens = mirror.num_computed[before].copy(), mirror.num_tokens[before]
    remaining = tokens - computed
    scheduled = np.empty(len(computed), np.int64)
    scheduled.fill(1)
    if header.num_odd:
        scheduled[decision.odd] = decision.odd_tokens
    remaining -= scheduled
    if len(computed) and int(np.minimum.reduce(remaining)) < 0:
        raise _diverged(header, "there are fewer tokens than are scheduled")
    _check_total(mirror, decision, computed + tokens, before)
    growth = _growth(mirror, decision, before)
    return Plan(stay, gone, over, places, scheduled, computed, remaining, *growth)


def _first(count: int) -> Part:
    return slice(0, count)


def _diverged(header: Header, what: str) -> Diverged:
    return Diverged(f"step {header.step}: by what this worker knows {what}: {AGAIN}")


def _in_turn(mirror: "Mirror", step: int) -> None:
    """Raises OutOfTurn unless this is the message that comes next."""
    if step == mirror.step:
        return
    if step < mirror.step:
        raise OutOfTurn(f"the message of step {step} came again: step {mirror.step} is next")
    last = "" if step == mirror.step + 1 else f" to {step - 1}"
    raise OutOfTurn(
        f"the message of step {step} came, and nothing of step {mirror.step}{last}: {AGAIN}"
    )


def _leaving(
    mirror: "Mirror", header: Header, turnover: Turnover
) -> tuple[Part, list[int], list[str]]:
    """Places of those who stay and of those who leave, and the ids of those who have ended."""
    stay: Part = slice(0, mirror.count)
    gone, ended = list[int](), list[str]()
    if len(turnover.ended) or len(turnover.put_back):
        where = {row: place for place, row in enumerate(mirror.row[: mirror.count].tolist())}
        gone = [
            where.get(row, -1) for row in (*turnover.ended.tolist(), *turnover.put_back.tolist())
        ]
        if -1 in gone:
            raise _diverged(header, "somebody leaves who does not run")
        ended = [mirror.ids[place] for place in gone[: len(turnover.ended)]]
        gone.sort()
        stay = np.delete(np.arange(mirror.count), gone)
    if turnover.gone:
        waiting = mirror.params.keys() - set(mirror.ids)
        waiting.update(mirror.ids[place] for place in gone)
        if not waiting.difference(ended).issuperset(turnover.gone):
            raise _diverged(header, "somebody ends who does not wait")
    return stay, gone, ended + turnover.gone


def _check_entering(
    mirror: "Mirror", header: Header, turnover: Turnover, stay: Part, over: list[str]
) -> None:
    """Raises Diverged if rows or ids of those who enter are taken, or unknown to the worker."""
    row = turnover.entered.row
    if not len(row):
        return
    if np.isin(row, mirror.row[: mirror.count][stay]).any():
        raise _diverged(header, "somebody enters a row that is not free")
    if int(row.max()) >= mirror.num_rows:
        raise _diverged(header, f"there are {mirror.num_rows} rows, and {int(row.max())} is none")
    running = {mirror.ids[place] for place in np.arange(mirror.count)[stay].tolist()}
    waiting = mirror.params.keys() - running.union(over)
    for id, known in zip(turnover.ids, turnover.entered.known.tolist(), strict=True):
        if id in running or known != (id in waiting):
            raise _diverged(header, f"{id!r} enters and is not where it was")


def _check_total(mirror: "Mirror", decision: Decision, known: Ints, before: Part) -> None:
    """Raises Diverged if the sum over all who are scheduled is not what the mirror makes of it;
    `known`: computed tokens and tokens of those who ran before.
    """
    total = int(np.add.reduce(known - mirror.num_prompt[before]))
    if decision.turnover is not None:
        entered = decision.turnover.entered
        total += int(entered.num_computed.sum(dtype=np.int64))
        total += int(entered.num_tokens.sum(dtype=np.int64))
        total -= int(entered.num_prompt.sum(dtype=np.int64))
    if total != decision.header.total:
        raise _diverged(
            decision.header,
            f"{total} tokens were computed and sampled, not {decision.header.total}",
        )


def _growth(mirror: "Mirror", decision: Decision, before: Part) -> tuple[Ints, Ints, int]:
    """Of those who ran before: who gets blocks, how many each then holds, and the most.

    Raises Diverged if there are no such blocks, or not as many.
    """
    header, turnover = decision.header, decision.turnover
    longest = 0
    if decision.all_differ:
        grows = decision.grown.astype(np.int64)
        held: Ints = mirror.num_blocks[before][grows] + 1
    else:
        grows, counts = np.unique(decision.grown.astype(np.int64), return_counts=True)
        held = mirror.num_blocks[before][grows] + counts
    if header.num_grown:
        _there(mirror, header, decision.blocks)
        longest = int(np.maximum.reduce(held))
    if turnover is not None and len(turnover.blocks):
        _there(mirror, header, turnover.blocks)
        longest = max(longest, int(turnover.entered.num_blocks.max()))
    if longest >= mirror.config.num_blocks:
        raise _diverged(header, f"there are {mirror.config.num_blocks} blocks, not {longest}")
    return grows, held, longest


def _there(mirror: "Mirror", header: Header, blocks: Words) -> None:
    """Raises Diverged for the null block, and for blocks that there are not."""
    last = mirror.config.num_blocks - 1
    # What is less than 1 is a large number without a sign.
    if int(np.maximum.reduce(blocks - np.uint32(1))) >= last:
        raise _diverged(header, f"there are the blocks 1 to {last}")
