"""The scheduler whose state is on a device: the host posts letters, launches kernels, and reads.

It decides nothing. What it knows of requests (who is alive, whose row is whose) it was told by the
log, and it needs that only to speak of them by their ids.
"""

import secrets

import numpy as np
import torch
from numpy.typing import ArrayLike

from nullblock.impl.arrays import Ints, Tokens
from nullblock.impl.device.letters import MOST_TOKEN, check
from nullblock.impl.device.picture import portray
from nullblock.impl.device.places import Place, place
from nullblock.impl.device.resident import Resident
from nullblock.impl.device.ties import Ties
from nullblock.impl.known import refuse_unknown
from nullblock.impl.picture import Picture
from nullblock.impl.prefix_cache import Extra
from nullblock.impl.requests import Request
from nullblock.impl.step import Outputs, Step
from nullblock.kernels.control.exchange import Rings
from nullblock.spec.facts import Config
from nullblock.spec.fields import PAUSED_NEW, UNPAUSED
from nullblock.spec.rejection import why_unservable

MOST_BLOCK_SIZE = 1 << 16
"""Tokens; keys take a power of a secret for each."""


class Scheduler:
    """Synchronous scheduling of one full-attention group, with one step in flight at most.

    `device`: `cuda`, `interpreter` or `twins`. `num_rows` and `row_tokens`: how many requests may
    be alive, and how long they may be, before the state is copied into larger arrays.

    Raises ValueError for asynchronous scheduling, and for numbers that are too large for 32 bits;
    `NoSuchDevice` where the device is not to be had.
    """

    def __init__(
        self,
        config: Config,
        device: str | Place = "cuda",
        *,
        num_rows: int = 16,
        row_tokens: int = 64,
        rings: Rings | None = None,
        seed: int | None = None,
    ) -> None:
        refuse_unknown(config.semantics)
        if config.async_scheduling:
            raise ValueError("this engine schedules synchronously: async_scheduling=False")
        if config.block_size > MOST_BLOCK_SIZE:
            raise ValueError(f"block_size is more than {MOST_BLOCK_SIZE}")
        if config.semantics.outputs_owed_once and not config.semantics.frames_match_request:
            raise ValueError("counts outputs in flight only with frames_match_request")
        self.config, self.semantics = config, config.semantics
        seed = secrets.randbits(256) if seed is None else seed
        self.resident = Resident(
            config,
            place(device) if isinstance(device, str) else device,
            num_rows,
            row_tokens,
            rings or Rings(),
            seed,
        )
        self._requests: dict[str, Request] = {}
        self._rejected: list[tuple[str, str]] = []
        self._finished: list[str] = []
        self._step: Step | None = None
        self._pause_state = UNPAUSED
        self._ties = Ties()
        self._extras: dict[Extra, int] = {(): 0}
        """The numbers of adapters and salts; it grows with the different ones that there are."""
        self._ended_in_flight: dict[str, int] = {}
        """Rows of those who ended while a step was in flight, by id."""

    # Steps ---------------------------------------------------------------------------------------

    def schedule(self) -> Step:
        """Decide one step: running requests first, then admissions.

        Raises RuntimeError while another step is in flight, and if a kernel reports a fault;
        OverflowError where vLLM 0.22.1 schedules less than no tokens.
        """
        if self._step is not None:
            raise RuntimeError("a step is in flight: update_from_output() comes first")
        self._step = step = self.resident.schedule()
        self.hear_step(step)
        return step

    def hear_step(self, step: Step) -> None:
        """Take note of a step that was read."""
        self._finished = []
        self._ended_in_flight = {}

    def update_from_output(self, sampled: ArrayLike) -> Outputs:
        """Take in one token for each scheduled request, in the order of the step in flight; what
        is given for a chunk is ignored (UPD-2, UPD-3).

        Raises IndexError if no step is in flight, ValueError for another number of tokens or for
        what is no token, RuntimeError if a kernel reports a fault.
        """
        step = self._step
        if step is None:
            raise IndexError("no step is in flight")
        tokens: Tokens = np.asarray(sampled, np.int64)
        if tokens.shape != (len(step.ids),):
            raise ValueError(f"{tokens.shape} tokens for {len(step.ids)} scheduled requests")
        taken = tokens[step.samples]
        if len(taken) and not 0 <= int(taken.min()) <= int(taken.max()) <= MOST_TOKEN:
            raise ValueError(f"a sampled token is not one of 0 to {MOST_TOKEN}")
        self._step = None
        outputs = self.resident.update(_as_given(step, tokens), _length(step))
        self.hear_outputs(outputs, self.resident.ended())
        return outputs

    def hear_outputs(self, outputs: Outputs, ended: list[Request]) -> None:
        """Take note of outputs that were read, and tell in them who was rejected.

        `ended`: whom the tokens ended; some may have been ended from outside before that was read.
        """
        for request in ended:
            if self._requests.get(request.id) is request:
                self._forget(request.id)
        outputs.rejected, self._rejected = self._rejected, []

    # Between steps, and with one in flight -------------------------------------------------------

    def add_request(self, request: Request) -> None:
        """Queue a request, or note its rejection (LIFE-2).

        Raises ValueError if its id belongs to one that is alive, OverflowError for a token that
        does not fit 32 bits.
        """
        if request.id in self._requests:
            raise ValueError(f"a request {request.id!r} is alive: use another id")
        check(request)
        if self.semantics.reject_unservable:
            why = why_unservable(self.config, request.num_prompt_tokens, request.max_tokens)
            if why is not None:
                self._rejected.append((request.id, why))
                return
        self.resident.make_room_for(request)
        takes_over = None
        if not self.semantics.frames_match_request:
            takes_over = self._ended_in_flight.pop(request.id, None)
        self._requests[request.id] = request
        extra = self._number(request.extras[0]), self._number(request.extras[1])
        self.resident.arrive(request, self._tie(request), extra, takes_over)

    def _number(self, extra: Extra) -> int:
        return self._extras.setdefault(extra, len(self._extras))

    def _tie(self, request: Request) -> int:
        """Its number in the order of ids, if anybody looks at it."""
        if self.config.policy != "priority":
            return 0
        if not self._ties.add(request.id):
            alive = [other for other in self._requests.values() if other is not request]
            self.resident.set_ties({other: self._ties[other.id] for other in alive})
        return self._ties[request.id]

    def finish_requests(self, ids: list[str]) -> list[str]:
        """End requests from outside, in this order; those that were alive (LIFE-4, LIFE-5)."""
        ended = [id for id in dict.fromkeys(ids) if id in self._requests]
        self.resident.make_room_for_letters(len(ended))
        for id in ended:
            self._ended_in_flight[id] = self.resident.end(self._requests[id])
            self._forget(id)
        return ended

    def _forget(self, id: str) -> None:
        """A request is over (LIFE-6)."""
        del self._requests[id]
        self._finished.append(id)
        if self.config.policy == "priority":
            self._ties.remove(id)

    def reset_prefix_cache(self, reset_running: bool = False) -> bool:
        """Empty the cache; it cannot be while blocks are held. Whether it was done (LIFE-10).

        With `reset_running` all running requests are preempted first, the last one first, so that
        they wait in the order in which they ran (LIFE-3).
        """
        return self.resident.reset(reset_running)

    def evict_blocks(self, blocks: list[int]) -> None:
        """Take blocks out of the cache; whoever holds them keeps holding them (HASH-13).

        Raises ValueError for a block that there is not.
        """
        for block in blocks:
            if not 0 <= block < self.config.num_blocks:
                raise ValueError(f"no block {block}: there are {self.config.num_blocks}")
        self.resident.evict(sorted(set(blocks)))

    # What there is -------------------------------------------------------------------------------

    @property
    def requests(self) -> dict[str, Request]:
        """Everybody alive, by id, in order of arrival."""
        return self._requests

    @property
    def step(self) -> Step | None:
        """The step in flight."""
        return self._step

    @property
    def rejected(self) -> list[tuple[str, str]]:
        """Refused at arrival, and not reported yet: ids and reasons (LIFE-2)."""
        return self._rejected

    @property
    def finished(self) -> list[str]:
        """Ended, and not yet told to the worker."""
        return self._finished

    @property
    def pause_state(self) -> int:
        """UNPAUSED, PAUSED_NEW or PAUSED_ALL (LIFE-7)."""
        return self._pause_state

    @pause_state.setter
    def pause_state(self, state: int) -> None:
        self._pause_state = state
        self.resident.pause(state)

    def num_unfinished(self) -> int:
        """Requests that there is work for, under the pause state (LIFE-16)."""
        if self._pause_state == PAUSED_NEW:
            return self.resident.num_running()
        return len(self._requests) if self._pause_state == UNPAUSED else 0

    def num_tokens(self, request: Request) -> int:
        """Prompt and output of a request that is alive, wherever it is."""
        return self.resident.num_tokens(request)

    def picture(self, pool: bool = True) -> Picture:
        """The whole state, copied; without the block pool if that is not asked for."""
        owed = self._step if self.semantics.outputs_owed_once else None
        return portray(self.resident, list(self._requests.values()), owed, pool)


def _as_given(step: Step, tokens: Tokens) -> torch.Tensor:
    """Tokens as kernels take them; whatever was given for a chunk, they get 0."""
    return torch.from_numpy(np.where(step.samples, tokens, 0).astype(np.int32))


def _length(step: Step) -> int:
    """The most tokens that a request has which samples in this step; 0 if none does."""
    lengths: Ints = (step.num_computed_tokens + step.num_scheduled_tokens)[step.samples]
    return int(lengths.max()) if len(lengths) else 0
