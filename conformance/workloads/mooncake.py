"""The request traces of Mooncake (Qin et al., FAST'25; Apache-2.0).

One JSON object a line: ``timestamp`` in milliseconds, ``input_length`` and ``output_length`` in
tokens, and ``hash_ids``, one for each 512 tokens of the input; the last one is usually partial.
An id stands for 512 tokens and all tokens before them: equal ids at one place, equal prefixes.
Prompts themselves are not part of the trace; synthetic ones with the same sharing stand for them.
"""

import itertools
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from nullblock.conformance.consecutive import runs
from nullblock.conformance.workloads.content import MAX_ID, Content
from nullblock.conformance.workloads.session import Session, Turn, scaled
from nullblock.conformance.workloads.source import Line, lines

TOKENS_PER_ID = 512
CHECKED_IDS = 2**18
"""Ids whose predecessor is checked: a file that is no tree shows it early."""
_ROW = '{"timestamp": ms, "input_length": n, "output_length": n, "hash_ids": [...]}'


@dataclass(frozen=True, slots=True)
class MooncakeRequest:
    """One line of the trace, its input divided by a scale."""

    arrival: float
    """Seconds since the trace began."""
    input_length: int
    output_length: int
    hash_ids: tuple[int, ...]
    tokens_per_id: int

    def prompt(self) -> list[int]:
        """Synthetic tokens: the same for the same id, different for different ones.

        They are numbers without a vocabulary: no model reads them.
        """
        size = self.tokens_per_id
        blocks = (range(id * size, (id + 1) * size) for id in self.hash_ids)
        return list(itertools.chain.from_iterable(blocks))[: self.input_length]


def read_mooncake(path: Path, scale: int = 1) -> Iterator[MooncakeRequest]:
    """The requests of a trace file (plain, gzip or zstd), in order of arrival.

    Args:
        scale: divides input lengths and the tokens that an id stands for. It divides 512, so that
            shared prefixes stay shared. Output lengths stay as they are.

    Raises:
        ValueError: ``scale`` is impossible.
        WorkloadError: a line is not one of such a trace.
        OSError: the file cannot be read.
    """
    if scale < 1 or TOKENS_PER_ID % scale:
        raise ValueError(f"a scale of {scale}: it has to divide {TOKENS_PER_ID}")
    for line in lines(path):
        yield _request(line, scale)


def sessions(rows: Iterable[Line], scale: int = 1) -> Iterator[Session]:
    """Each row as a session of one turn; outputs are divided by the scale as well.

    Raises :class:`WorkloadError` for rows that are none or stand in no order of time.
    """
    before: dict[int, tuple[int | None, int]] = {}
    latest = 0.0
    for row in rows:
        one = _request(row, scale)
        if one.arrival < latest:
            what = f"arrives at {one.arrival:g} s, the row before at {latest:g} s"
            raise row.error(what, "sort the rows by timestamp")
        latest = one.arrival
        _check_tree(row, one.hash_ids, before)
        turn = Turn(
            Content(one.input_length, one.tokens_per_id, tuple(runs(one.hash_ids))),
            scaled(one.output_length, scale),
        )
        yield Session((turn,), one.arrival)


def _check_tree(
    row: Line, ids: tuple[int, ...], before: dict[int, tuple[int | None, int]]
) -> None:
    """Ids stand for whole prefixes only if each has one predecessor."""
    for previous, id in zip((None, *ids), ids, strict=False):
        known = before.get(id)
        if known is None:
            if len(before) < CHECKED_IDS:
                before[id] = (previous, row.number)
        elif known[0] != previous:
            there, here = (
                "begins a prompt" if one is None else f"follows {one}"
                for one in (known[0], previous)
            )
            raise row.error(
                f"hash id {id} {here}, in line {known[1]} it {there}",
                "an id stands for 512 tokens and all before them: chain them",
            )


def _request(row: Line, scale: int) -> MooncakeRequest:
    try:
        fields = json.loads(row.text)
        timestamp, ids = fields["timestamp"], fields["hash_ids"]
        tokens_in, tokens_out = fields["input_length"], fields["output_length"]
    except KeyError as error:
        raise row.error(f"{error.args[0]} is missing", f"a row is {_ROW}") from None
    except (ValueError, TypeError, RecursionError):
        raise row.error("no row of a Mooncake trace", f"a row is {_ROW}") from None
    if type(timestamp) not in (int, float) or not 0 <= timestamp < 2**53:
        raise row.error("timestamp is no time", "milliseconds since the trace began")
    if type(tokens_in) is not int or tokens_in < 1 or type(tokens_out) is not int:
        raise row.error("a length is no number of tokens", f"a row is {_ROW}")
    if not 0 <= tokens_out < 2**31 or tokens_in >= 2**31:
        raise row.error("a length is out of range", "at least 0, and below 2**31")
    if not isinstance(ids, list) or not all(type(i) is int and 0 <= i < MAX_ID for i in ids):
        raise row.error("hash_ids is no list of ids", "whole numbers from 0, below 2**40")
    if len(ids) != -(-tokens_in // TOKENS_PER_ID):
        what = f"{len(ids)} hash_ids for {tokens_in} tokens"
        raise row.error(what, f"one for each {TOKENS_PER_ID} tokens, the last may be partial")
    return MooncakeRequest(
        arrival=timestamp / 1000,
        input_length=scaled(tokens_in, scale),
        output_length=max(1, tokens_out),
        hash_ids=tuple(ids),
        tokens_per_id=TOKENS_PER_ID // scale,
    )
