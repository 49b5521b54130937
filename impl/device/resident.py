"""The state on a device, and all that a host does with it: it posts, launches, and reads.

A step is a fixed sequence of launches, `launch_schedule` and `launch_update`, each of which takes
everything that it needs from the device. Around them stands what a host does that reads every
step: letters are posted and taken at once, records are read as soon as they are written, and
there is always room for one request more.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

import torch

from nullblock.impl.device.growth import copy_exchange, grown
from nullblock.impl.device.letters import Postbox
from nullblock.impl.device.places import Place
from nullblock.impl.device.reading import Reader
from nullblock.impl.device.rows import Rows
from nullblock.impl.requests import Request
from nullblock.impl.step import Outputs, Step
from nullblock.kernels.control.evict import evict_blocks
from nullblock.kernels.control.exchange import NUM_TAKEN, Rings, new_exchange
from nullblock.kernels.control.intake import intake
from nullblock.kernels.control.reset import reset_prefix_cache
from nullblock.kernels.control.schedule import schedule
from nullblock.kernels.control.sizes import Sizes
from nullblock.kernels.control.state import new_state
from nullblock.kernels.control.tell import tell
from nullblock.kernels.control.update import update
from nullblock.kernels.control.words import NUM_RUNNING, RESET_DONE
from nullblock.spec.facts import Config

MOST_TOKENS = 1 << 27
"""More tokens than a request on a device can have: limits beyond are this one."""
LANES = 1024
"""Blocks that a kernel works on at once, at most."""


def sizes_of(config: Config, num_rows: int, row_tokens: int, stop_width: int) -> Sizes:
    """What kernels are compiled for. Raises ValueError for what does not fit 32 bits.

    No more requests run than there are rows: where all rows run nobody waits.
    """
    semantics = config.semantics
    return Sizes(
        num_blocks=config.num_blocks,
        block_size=config.block_size,
        max_num_seqs=min(config.max_num_seqs, num_rows),
        max_model_len=min(config.max_model_len, MOST_TOKENS),
        max_num_scheduled_tokens=config.max_num_scheduled_tokens,
        num_rows=num_rows,
        row_tokens=row_tokens,
        stop_width=stop_width,
        long_prefill_token_threshold=config.long_prefill_token_threshold,
        enable_chunked_prefill=config.enable_chunked_prefill,
        enable_prefix_caching=config.enable_prefix_caching,
        scheduler_reserve_full_isl=config.scheduler_reserve_full_isl,
        priority=config.policy == "priority",
        withdraw_uncaches=semantics.withdraw_uncaches,
        victim_shifts_index=semantics.victim_shifts_index,
        victim_by_id=semantics.victim_by_id,
        length_before_min_tokens=semantics.length_before_min_tokens,
        freed_unhashed_first=semantics.freed_unhashed_first,
        lanes=max(16, min(LANES, 1 << (config.num_blocks - 1).bit_length())),
    )


class Full(RuntimeError):
    """There is no room, and none can be made."""


class Resident:
    """One engine's state, mailbox and log."""

    def __init__(
        self, config: Config, place: Place, num_rows: int, row_tokens: int, rings: Rings, seed: int
    ) -> None:
        self.sizes = sizes_of(config, num_rows, row_tokens, stop_width=4)
        self.place, self.rings, self._seed = place, rings, seed
        self.rows = Rows(num_rows)
        self.num_steps = 0
        """Steps launched: whoever launches counts."""
        self.fixed = False
        """Whether everything has to stay where it is, and letters are taken by steps alone."""
        self.state = new_state(self.sizes, place.device, seed)
        self.exchange = new_exchange(self.sizes, rings, place.device)
        self._most = config.max_num_seqs
        self._connect(posted=0)
        self._taken = 0

    def _connect(self, posted: int) -> None:
        """Hold the host's ends of mailbox and log."""
        self.postbox = Postbox(self.exchange.mail, self.sizes, posted)
        self.reader = Reader(self.state, self.exchange, self.rings, self.rows)

    # What a step is made of: nothing here waits, or depends on what was decided ------------------

    def launch_schedule(self) -> None:
        """Take letters, decide a step, and tell of it."""
        kernels, state, exchange = self.place.kernels, self.state, self.exchange
        intake(state, exchange, self.rings, kernels)
        schedule(state, kernels)
        tell(state, exchange, self.rings, kernels)

    def launch_update(self, sampled: torch.Tensor) -> None:
        """Take in tokens, int32 [max_num_seqs], that are on the device."""
        update(self.state, self.exchange, self.rings, sampled, self.place.kernels)

    # What a host does that reads every step ------------------------------------------------------

    def schedule(self) -> Step:
        """Decide a step, read it, and use rows again that it tells of."""
        self.launch_schedule()
        self.num_steps += 1
        return self.read_step(self.num_steps)

    def read_step(self, number: int) -> Step:
        """Read what a step decided: of each the next one. Rows that it tells of are used again."""
        step = self.reader.step(number)
        for row in self.reader.told(number):
            self.rows.give_back(row)
        self._taken = self.reader.num_letters(number)
        return step

    def update(self, sampled: torch.Tensor, longest: int) -> Outputs:
        """Take in tokens, int32 [max_num_seqs], and read what comes of them.

        `longest`: the most tokens that a request has which takes one.
        """
        self.take_letters()  # who ended since the step was decided gets no token
        self._make_room(tokens=longest + 1)
        padded = torch.zeros(self.sizes.max_num_seqs, dtype=torch.int32)
        padded[: len(sampled)] = sampled
        self.launch_update(padded.to(self.place.device))
        return self.reader.outputs(self.num_steps)

    def ended(self) -> list[Request]:
        """Whom the tokens of the last update ended."""
        return self.reader.ended(self.num_steps)

    def make_room_for(self, request: Request) -> None:
        """See that a request can arrive. Raises Full if it cannot, and nothing may move: then its
        row has to have room for all that it may become.
        """
        self._make_room(
            rows=0 if self.rows.num_free else len(self.rows) + 1,
            tokens=self.longest(request) if self.fixed else request.num_prompt_tokens + 1,
            stops=len(request.stop),
        )
        self.make_room_for_letters(1)

    def longest(self, request: Request) -> int:
        """The tokens that a request may come to, and one more: it may be preempted with its last
        one in flight.
        """
        prompt = request.num_prompt_tokens
        return max(prompt, min(prompt + request.max_tokens, self.sizes.max_model_len)) + 1

    def fix(self, requests: Iterable[Request]) -> None:
        """From now on everything stays where it is; there is room for these requests."""
        self.take_letters()
        self._make_room(tokens=max(map(self.longest, requests), default=0))
        self.fixed = True

    def make_room_for_letters(self, n: int) -> None:
        """See that n letters have a place, if there are so many places.

        Raises Full if they have none, and the device may not be asked to take some.
        """
        size = self.postbox.size
        if self._waiting + n <= size:
            return
        if not self.fixed:
            self.take_letters()
        if self.fixed or self._waiting:
            raise Full(f"{self._waiting} letters wait, of {size}: collect() steps that took some")

    @property
    def _waiting(self) -> int:
        """Letters whose places are the device's: it has not said that it took them."""
        return self.postbox.posted - self._taken

    def arrive(
        self, request: Request, tie: int, extra: tuple[int, int], takes_over: int | None
    ) -> None:
        """Post an arrival that there is room for; see `Postbox.arrival`."""
        self.postbox.arrival(request, self.rows.take(request), tie, extra, takes_over)

    def end(self, request: Request) -> int:
        """Post the end of a request; its row."""
        row = self.rows.of(request)
        self.make_room_for_letters(1)
        self.postbox.end(row)
        return row

    def pause(self, state: int) -> None:
        """Post a pause state."""
        self.make_room_for_letters(1)
        self.postbox.pause(state)

    def take_letters(self) -> None:
        """Let the device take what was posted, so that its state says all that the host knows.

        Waits for the device: until it has taken them, it reads letters where the host wrote them.
        """
        if self._waiting:
            intake(self.state, self.exchange, self.rings, self.place.kernels)
            self._taken = int(self.exchange.progress[NUM_TAKEN.value])

    def reset(self, reset_running: bool) -> bool:
        """Empty the prefix cache; whether it was done."""
        self.take_letters()
        reset_prefix_cache(self.state, reset_running, self.place.kernels)
        return bool(self.state.word(RESET_DONE))

    def evict(self, blocks: list[int]) -> None:
        """Take these out of the prefix cache."""
        self.take_letters()
        chosen = torch.tensor(blocks, dtype=torch.int32, device=self.place.device)
        evict_blocks(self.state, chosen, self.place.kernels)

    def set_ties(self, ties: Mapping[Request, int]) -> None:
        """Number requests in the order of their ids, anew."""
        self.take_letters()
        rows = torch.tensor([self.rows.of(request) for request in ties])
        numbers = torch.tensor(list(ties.values()), dtype=torch.int64)
        self.state.arrays.requests.tie[rows.to(self.place.device)] = numbers.to(self.place.device)

    def num_running(self) -> int:
        """How many run."""
        self.take_letters()
        return self.state.word(NUM_RUNNING)

    def num_tokens(self, request: Request) -> int:
        """Prompt and output of a request that is alive."""
        self.take_letters()
        return int(self.state.arrays.requests.num_tokens[self.rows.of(request)])

    # Room ----------------------------------------------------------------------------------------

    def _make_room(self, rows: int = 0, tokens: int = 0, stops: int = 0) -> None:
        """See that there are so many rows, tokens of a row and stop ids; see `growth.py`.

        Raises Full if there are not, and nothing may move.
        """
        now = self.sizes
        if rows <= now.num_rows and tokens <= now.row_tokens and stops <= now.stop_width:
            return
        if self.fixed:
            raise Full(f"no room for {rows} rows, {tokens} tokens in one and {stops} stop ids")
        num_rows = max(rows, now.num_rows * (2 if rows > now.num_rows else 1))
        self._grow(
            replace(
                now,
                num_rows=num_rows,
                max_num_seqs=min(self._most, num_rows),
                row_tokens=max(tokens, now.row_tokens * (2 if tokens > now.row_tokens else 1)),
                stop_width=max(stops, now.stop_width),
            )
        )

    def _grow(self, sizes: Sizes) -> None:
        self.take_letters()
        self.rows.add(sizes.num_rows - self.sizes.num_rows)
        self.state = grown(self.state, sizes, self._seed)
        before, self.exchange = self.exchange, new_exchange(sizes, self.rings, self.place.device)
        self.sizes = sizes
        copy_exchange(before, self.exchange)
        self._connect(self.postbox.posted)
