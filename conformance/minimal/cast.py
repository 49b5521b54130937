"""The requests of a planted scenario, and what they do to the pool.

Each is about two blocks long. Some end with their first token and leave blocks behind, cached and
not; some stay and grow by a block; some share their first blocks, some have nothing in common.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from nullblock.conformance.minimal.document import Document
from nullblock.conformance.trace.records import TraceConfig

STEPS_AFTER = 4
"""Steps after the last arrival in which a request may grow, end, be preempted, come back."""
POOLS = (4, 6, 10)
"""Sizes of the pool, the null block included."""
WAITS = (1, 0, 3)
"""Steps between two arrivals."""
OTHER = 1_000_000
"""Where the tokens begin of a prompt that shares nothing."""


@dataclass(frozen=True, slots=True)
class Role:
    """What a request is there for."""

    blocks: int
    """Full blocks of its prompt."""
    rest: int
    """Tokens behind them."""
    stays: bool
    """Whether it grows by a block and more; else its first token is its last."""
    shares: bool
    """Whether its prompt begins as that of the others that share."""
    aborted: bool = False
    """Whether it is aborted before the next one comes."""


FILLS = Role(2, 1, stays=False, shares=True)
HOLDS = Role(2, 0, stays=True, shares=True)
HITS = Role(3, 1, stays=True, shares=True)
TAKES = Role(2, 0, stays=True, shares=False)
PASSES = Role(1, 1, stays=False, shares=False)
LEAVES = Role(2, 1, stays=True, shares=True, aborted=True)
CAST = (HOLDS, FILLS, TAKES, HITS, PASSES, LEAVES)


@dataclass(frozen=True, slots=True)
class Scene:
    """Who comes, and what to."""

    roles: tuple[Role, ...]
    waits: tuple[int, ...]
    """Steps after each of them but the last."""
    pool: int
    """Blocks, the null block included."""
    short: bool
    """Whether the tokens of a step are two blocks at most."""


def scenes() -> Iterator[Scene]:
    """Of one request, then of two."""
    for role in CAST:
        for pool, short in product(POOLS, (False, True)):
            yield Scene((role,), (), pool, short)
    for pool, short in product(POOLS, (False, True)):
        for pair in product(CAST, repeat=2):
            for wait in WAITS:
                yield Scene(pair, (wait,), pool, short)


def add(role: Role, number: int, c: TraceConfig) -> Document:
    """The arrival of a request, the first one with number 0."""
    start = 0 if role.shares else OTHER * (number + 1)
    prompt = {"range": [start, start + role.blocks * c.block_size + role.rest]}
    most = 2 * c.block_size + 2 if role.stays else 1
    return {"op": "add", "id": f"p{number}", "prompt": prompt, "max_tokens": most}
