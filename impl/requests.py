"""A request as an object: while it waits, and for what never changes while it runs."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from nullblock.impl.prefix_cache import Chain, Extra

Tokens = NDArray[np.int64]
NO_EOS = np.iinfo(np.int64).min
"""No token is called that."""


@dataclass(slots=True, eq=False)
class Request:
    """What the client asked for, and how far it has come."""

    id: str
    tokens: Tokens
    """Prompt and output. While the request runs its seat has them, and these are out of date."""
    num_prompt_tokens: int
    max_tokens: int
    min_tokens: int = 0
    priority: int = 0
    arrival_time: float = 0.0
    eos: int = NO_EOS
    stop: frozenset[int] = frozenset()
    skip_reading_prefix_cache: bool = False
    extra_first: Extra = ()
    """What the first block's content has besides tokens, and then the others'."""
    extra_rest: Extra = ()
    chains: list[Chain] = field(default_factory=list)
    """Of all full blocks of its tokens."""
    num_preemptions: int = 0
    num_output_placeholders: int = 0
    """Tokens in flight that it will take, where they are counted (UPD-17)."""
    seat: int | None = None
    """None: it waits."""

    @property
    def num_tokens(self) -> int:
        """Prompt and output, of a request that waits."""
        return len(self.tokens)

    def __lt__(self, other: "Request") -> bool:
        """Whether this one comes first in a PRIORITY queue (WAIT-1)."""
        mine = (self.priority, self.arrival_time, self.id)
        return mine < (other.priority, other.arrival_time, other.id)
