"""Whether a message fits the mirror that it came to; nothing is written here."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nullblock.impl.arrays import Ints, Part
from nullblock.impl.workers.errors import Diverged, OutOfTurn
from nullblock.impl.workers.layout import Decision, Header, Turnover

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
    scheduled = np.ones(len(computed), np.int64)
    if header.num_odd:
        scheduled[decision.odd] = decision.odd_tokens
    if len(computed) and int((tokens - computed - scheduled).min()) < 0:
        raise _diverged(header, "there are fewer tokens than are scheduled")
    _check_totals(mirror, decision, before, computed, tokens)
    _check_blocks(mirror, decision, before)
    return Plan(stay, gone, over, places, scheduled, computed)


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
    if int(row.max()) >= mirror.config.max_num_seqs:
        raise _diverged(header, f"no more than {mirror.config.max_num_seqs} run")
    running = {mirror.ids[place] for place in np.arange(mirror.count)[stay].tolist()}
    waiting = mirror.params.keys() - running.union(over)
    for id, known in zip(turnover.ids, turnover.entered.known.tolist(), strict=True):
        if id in running or known != (id in waiting):
            raise _diverged(header, f"{id!r} enters and is not where it was")


def _check_totals(
    mirror: "Mirror", decision: Decision, before: Part, computed: Ints, tokens: Ints
) -> None:
    """Raises Diverged if the sums over all who are scheduled are not what the mirror knows."""
    header = decision.header
    total = int(np.add.reduce(computed))
    output = int(np.add.reduce(tokens)) - int(np.add.reduce(mirror.num_prompt[before]))
    if decision.turnover is not None:
        entered = decision.turnover.entered
        total += int(entered.num_computed.sum(dtype=np.int64))
        output += int(entered.num_tokens.sum(dtype=np.int64))
        output -= int(entered.num_prompt.sum(dtype=np.int64))
    if total != header.total_computed:
        raise _diverged(header, f"{total} tokens were computed, not {header.total_computed}")
    if output != header.total_output:
        raise _diverged(header, f"{output} tokens were sampled, not {header.total_output}")


def _check_blocks(mirror: "Mirror", decision: Decision, before: Part) -> None:
    """Raises Diverged if there are no such blocks, or somebody would hold more than there are."""
    header, blocks, most = decision.header, decision.blocks, mirror.config.num_blocks
    if not header.num_blocks:
        return
    if not 0 < int(blocks.min()) <= int(blocks.max()) < most:
        raise _diverged(header, f"there are the blocks 1 to {most - 1}")
    held = mirror.num_blocks[before][decision.grown] + decision.grown_by
    if decision.turnover is not None:
        held = np.append(held, decision.turnover.entered.num_blocks)
    if int(held.max()) >= most:
        raise _diverged(header, f"there are the blocks 1 to {most - 1}")
