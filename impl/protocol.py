"""What every backend of the fast engine does, so that nobody has to ask which one it is.

`nullblock.impl.Scheduler` keeps its state in NumPy, `nullblock.impl.device.Scheduler` on a device;
both decide the same.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from numpy.typing import ArrayLike

from nullblock.impl.picture import Picture
from nullblock.impl.requests import Request
from nullblock.impl.step import Outputs, Step
from nullblock.spec.facts import Config
from nullblock.spec.profiles import Semantics


class Engine(Protocol):
    """Scheduling of one full-attention group.

    In NumPy any number of steps may be in flight; a device schedules synchronously, one at most.
    """

    config: Config
    semantics: Semantics

    @property
    def requests(self) -> Mapping[str, Request]:
        """Everybody alive, by id, in order of arrival."""
        ...

    @property
    def step(self) -> Step | None:
        """The oldest step in flight."""
        ...

    @property
    def rejected(self) -> Sequence[tuple[str, str]]:
        """Refused at arrival, and not reported yet: ids and reasons (LIFE-2)."""
        ...

    @property
    def finished(self) -> Sequence[str]:
        """Ended, and not yet told to the worker."""
        ...

    @property
    def pause_state(self) -> int:
        """UNPAUSED, PAUSED_NEW or PAUSED_ALL; it may be set between any two calls (LIFE-16)."""
        ...

    @pause_state.setter
    def pause_state(self, state: int) -> None: ...

    def schedule(self) -> Step:
        """Decide one step: running requests first, then admissions.

        Raises RuntimeError for more steps in flight than there may be, AssertionError where vLLM
        0.22.1 does, and OverflowError for what does not fit the numbers of this backend.
        """
        ...

    def update_from_output(self, sampled: ArrayLike) -> Outputs:
        """Take in one token for each scheduled request, in the order of the oldest step in flight.

        Raises IndexError if no step is in flight, ValueError for another number of tokens,
        AssertionError where vLLM 0.22.1 does.
        """
        ...

    def add_request(self, request: Request) -> None:
        """Queue a request, or note its rejection (LIFE-2).

        Raises ValueError if its id belongs to one that is alive, OverflowError for what does not
        fit the numbers of this backend.
        """
        ...

    def finish_requests(self, ids: list[str]) -> list[str]:
        """End requests from outside, in this order; those that were alive (LIFE-4, LIFE-5)."""
        ...

    def reset_prefix_cache(self, reset_running: bool = False) -> bool:
        """Empty the cache; it cannot be while blocks are held. Whether it was done (LIFE-10).

        With `reset_running` all running requests are preempted first (LIFE-3).
        """
        ...

    def evict_blocks(self, blocks: list[int]) -> None:
        """Take blocks out of the cache; whoever holds them keeps holding them (HASH-13).

        Raises ValueError for a block that there is not.
        """
        ...

    def num_unfinished(self) -> int:
        """Requests that there is work for, under the pause state (LIFE-16)."""
        ...

    def num_tokens(self, request: Request) -> int:
        """Prompt and output of a request that is alive, wherever it is."""
        ...

    def picture(self, pool: bool = True) -> Picture:
        """The whole state, copied; without the block pool if that is not asked for."""
        ...
