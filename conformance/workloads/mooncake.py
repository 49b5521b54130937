"""The request traces of Mooncake (Qin et al., FAST'25; Apache-2.0).

One JSON object a line: ``timestamp`` in milliseconds, ``input_length`` and ``output_length`` in
tokens, and ``hash_ids``, one for each 512 tokens of the input; the last one is usually partial.
An id stands for 512 tokens and all tokens before them: equal ids at one place, equal prefixes.
Prompts themselves are not part of the trace; synthetic ones with the same sharing stand for them.
"""

import gzip
import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

TOKENS_PER_ID = 512


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
    """The requests of a trace file (plain or gzip), in order of arrival.

    Args:
        scale: divides input lengths and the tokens that an id stands for. It divides 512, so that
            shared prefixes stay shared. Output lengths stay as they are.

    Raises:
        ValueError: a line is not one of such a trace, with its number; ``scale`` is impossible.
        OSError: the file cannot be read.
    """
    if scale < 1 or TOKENS_PER_ID % scale:
        raise ValueError(f"a scale of {scale}: it has to divide {TOKENS_PER_ID}")
    with path.open("rb") as raw:
        magic = raw.read(2)
    opened = gzip.open(path, "rb") if magic == b"\x1f\x8b" else path.open("rb")
    with opened as lines:
        for number, line in enumerate(lines, start=1):
            try:
                yield _request(json.loads(line), scale)
            except (KeyError, TypeError, ValueError) as error:
                raise ValueError(f"{path}: line {number}: {error!r}") from None


def _request(fields: dict[str, object], scale: int) -> MooncakeRequest:
    timestamp, ids = fields["timestamp"], fields["hash_ids"]
    tokens_in, tokens_out = fields["input_length"], fields["output_length"]
    if not (isinstance(timestamp, int | float) and isinstance(ids, list)):
        raise TypeError("timestamp is a number and hash_ids a list")
    if not (isinstance(tokens_in, int) and isinstance(tokens_out, int)):
        raise TypeError("input_length and output_length are whole numbers")
    if len(ids) != -(-tokens_in // TOKENS_PER_ID) or not all(type(id) is int for id in ids):
        raise ValueError(f"{len(ids)} hash_ids for {tokens_in} tokens")
    return MooncakeRequest(
        arrival=timestamp / 1000,
        input_length=-(-tokens_in // scale),
        output_length=max(1, tokens_out),
        hash_ids=tuple(ids),
        tokens_per_id=TOKENS_PER_ID // scale,
    )
