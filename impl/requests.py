"""A request as an object: while it waits, and for what never changes while it runs."""

from dataclasses import InitVar, dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from nullblock.impl.arrays import Ints, Tokens
from nullblock.impl.prefix_cache import ROOT, Extra

NO_EOS = int(np.iinfo(np.int64).min)
"""No token is called that."""


def _no_names() -> Ints:
    return np.empty(0, np.int64)


@dataclass(slots=True, eq=False)
class Request:
    """What the client asked for, and how far it has come.

    While it runs, its row of the running list knows `tokens`, `names` and what is in flight, and
    those here are out of date.

    Raises ValueError for parameters that contradict each other, OverflowError for a token of more
    than 64 bits.
    """

    id: str
    prompt: InitVar[ArrayLike]
    """Token ids; they are copied."""
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

    tokens: Tokens = field(init=False, repr=False)
    """Prompt and output."""
    num_prompt_tokens: int = field(init=False)
    names: Ints = field(init=False, repr=False, default_factory=_no_names)
    """Of its full blocks, in the prefix cache; it holds the last one."""
    num_preemptions: int = field(init=False, default=0)
    num_output_placeholders: int = field(init=False, default=0)
    """Tokens in flight that it will take, where they are counted (UPD-17)."""
    num_discarded: int = field(init=False, default=0)
    """Tokens in flight that it will not take: a reset came in between (UPD-18)."""
    is_running: bool = field(init=False, default=False)

    def __post_init__(self, prompt: ArrayLike) -> None:
        if self.max_tokens < 1 or not 0 <= self.min_tokens <= self.max_tokens:
            raise ValueError("max_tokens is at least 1 and min_tokens between 0 and max_tokens")
        if not NO_EOS <= self.eos <= np.iinfo(np.int64).max:
            raise OverflowError(f"eos {self.eos} has more than 64 bits")
        self.tokens = np.array(prompt, np.int64).reshape(-1)
        self.num_prompt_tokens = len(self.tokens)

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
