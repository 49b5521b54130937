"""A request as an object: while it waits, and for what never changes while it runs."""

from dataclasses import dataclass, field

import numpy as np

from nullblock.impl.arrays import Ints, Tokens
from nullblock.impl.prefix_cache import ROOT, Extra

NO_EOS = int(np.iinfo(np.int64).min)
"""No token is called that."""


def _none() -> Ints:
    return np.empty(0, np.int64)


@dataclass(slots=True, eq=False)
class Request:
    """What the client asked for, and how far it has come.

    While it runs, its row of the running list knows `tokens`, `names` and the placeholders, and
    those here are out of date.
    """

    id: str
    tokens: Tokens
    """Prompt and output."""
    num_prompt_tokens: int
    max_tokens: int
    """Output tokens, at most."""
    min_tokens: int = 0
    """Output tokens below which it does not stop."""
    priority: int = 0
    """Smaller is served first; only the PRIORITY policy looks at it."""
    arrival_time: float = 0.0
    """Any unit: only its order counts."""
    eos: int = NO_EOS
    stop: frozenset[int] = frozenset()
    skip_reading_prefix_cache: bool = False
    extras: tuple[Extra, Extra] = ((), ())
    """What the first block's content has besides tokens, and then the others' (HASH-1)."""
    names: Ints = field(default_factory=_none)
    """Of its full blocks, in the prefix cache; it holds the last one."""
    num_preemptions: int = 0
    num_output_placeholders: int = 0
    """Tokens in flight that it will take, where they are counted (UPD-17)."""
    is_running: bool = False

    @property
    def num_tokens(self) -> int:
        """Prompt and output, of a request that waits."""
        return len(self.tokens)

    @property
    def last_name(self) -> int:
        """The name that it holds; ROOT: none."""
        return int(self.names[-1]) if len(self.names) else ROOT

    def __lt__(self, other: "Request") -> bool:
        """Whether this one comes first in a PRIORITY queue (WAIT-1)."""
        mine = (self.priority, self.arrival_time, self.id)
        return mine < (other.priority, other.arrival_time, other.id)
